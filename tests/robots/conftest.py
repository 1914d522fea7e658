"""Stand-ins for the tests: real server processes, in lockstep."""

from __future__ import annotations

import importlib.util

import pytest

from twinloop.robots import open_robot


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("pybullet") is None:
        for item in items:
            if "standin" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="needs Bullet: pip install 'twinloop[bullet]'"))


@pytest.fixture
def standin():
    """A function that starts a stand-in from the text of a reality, or by name, and ends it after the test."""
    opened = []

    def start(reality="ideal", twin=None):
        robot = open_robot(f"standin:{reality}" + (f"@{twin}" if twin else ""))
        opened.append(robot)
        robot.connect()
        return robot

    yield start
    for robot in opened:
        robot.close()


@pytest.fixture
def reality_file(tmp_path):
    """A function that writes a reality and returns its path."""

    def write(text, name="test_cell"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def shared_ideal():
    robot = open_robot("standin:ideal")
    robot.connect()
    yield robot
    robot.close()


@pytest.fixture
def ideal(shared_ideal):
    """A stand-in without effects at the start of episode 0, shared by tests that leave it running."""
    shared_ideal.prepare(0)
    return shared_ideal
