"""Trials in a twin for tests in which success is not the point."""

from contextlib import contextmanager

import pytest

from twinloop.tasks.pick_and_place import PickAndPlace


@contextmanager
def shorten_trials(time_limit_s=1.0):
    """Pick-and-place trials end after `time_limit_s`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PickAndPlace, "time_limit_s", time_limit_s)
        yield
