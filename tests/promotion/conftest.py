"""Policies that differ, and an empty database of MLflow: both take seconds to make."""

import shutil
from dataclasses import replace

import pytest

from tests.learning.examples import TINY, point


@pytest.fixture(scope="session")
def policies(tmp_path_factory):
    """Three policies that differ."""
    from twinloop.learning.train import train

    root = tmp_path_factory.mktemp("policies")
    data = point(root / "data")
    config = replace(TINY, recipe="real-only", steps=1)
    return [train(real=data, out=root / f"p{k}", config=replace(config, seed=k)) for k in range(3)]


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A database without anything in it."""
    from twinloop.learning.tracking import DATABASE
    from twinloop.promotion.registry import PolicyRegistry

    folder = tmp_path_factory.mktemp("empty")
    assert PolicyRegistry(folder).versions() == []
    return folder / DATABASE


def make(folder, empty):
    """A registry in a folder."""
    from twinloop.learning.tracking import DATABASE
    from twinloop.promotion.registry import PolicyRegistry

    folder.mkdir(exist_ok=True)
    shutil.copyfile(empty, folder / DATABASE)
    return PolicyRegistry(folder)
