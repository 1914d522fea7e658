"""Shared by the tests of the store."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def do_not_wait_for_the_disk():
    """The kernel outlives whatever a test kills, so waiting for the disk proves nothing here and only takes time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
