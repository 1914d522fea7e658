"""A driver that `twinloop init --driver` writes runs at once, on a loopback, and fits the policies of its twin."""

import subprocess
import sys

import pytest

from tests.terminal import run_command, twinloop, twinloop_json
from twinloop.errors import RobotError, WrongUse
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema
from twinloop.policies.act import require_robot
from twinloop.robots import open_robot
from twinloop.robots.driver_template import write_driver
from twinloop.testing.policies import ProportionalPolicy
from twinloop.testing.robots import check_robot
from twinloop.twins import load_twin


@pytest.mark.parametrize("name", ["so101", "franka_pick_place", "servo_pendulum"])
def test_a_driver_follows_the_protocol_and_fits_policies_of_its_twin(tmp_path, name):
    twin = load_twin(name)
    driver, _ = write_driver(tmp_path / "driver", twin)
    robot = open_robot(f"python:{driver}")
    check_robot(robot)
    assert "observation.effort" in driver.read_text(), "it names what else the twin records"
    assert robot.description.standin and robot.description.rate_hz == twin.control_hz
    schema = episode_schema(Job(twin, twin.task or "excite", "waypoints"))
    require_robot(ProportionalPolicy(schema, [0.0] * robot.description.action.size), robot.description)


def test_the_test_of_a_driver_passes_on_the_loopback(tmp_path):
    _, test = write_driver(tmp_path / "driver", load_twin("servo_pendulum"))
    pytest_on = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(pytest_on, cwd=test.parent, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_workspace_with_a_driver_records_at_once(tmp_path):
    twinloop("init", "bench", "--twin", "servo_pendulum", "--driver", cwd=tmp_path)
    (driver,) = (tmp_path / "bench/driver").glob("[!t]*_robot.py")
    words = (
        "record",
        "--robot",
        f"python:{driver}",
        "--excite",
        "prbs",
        "--episodes",
        "1",
        "--seconds",
        "0.3",
    )
    made = twinloop_json(*words, "--out", "data/loopback", cwd=tmp_path / "bench")
    assert (made["episodes"], made["standin"]) == (1, True)
    assert "--model FILE or --twin NAME" in twinloop("init", "x", "--driver", cwd=tmp_path, code=2)


PLAIN = """
import runpy

make = runpy.run_path("driver/servo_pendulum_robot.py")["make_robot"]


class Plain:
    def __init__(self, robot):
        self.connect, self.observe, self.act, self.close = robot.connect, robot.observe, robot.act, robot.close
        self.robot = robot

    @property
    def description(self):
        return self.robot.description


def make_robot():
    return Plain(make())
"""


def test_an_excitation_asks_nobody_where_a_trial_needs_a_person(tmp_path):
    twinloop("init", "bench", "--twin", "servo_pendulum", "--driver", cwd=tmp_path)
    bench = tmp_path / "bench"
    (bench / "plain.py").write_text(PLAIN)
    words = ("record", "--robot", "python:plain.py", "--episodes", "1", "--seconds", "0.3")
    assert twinloop_json(*words, "--excite", "prbs", "--out", "data/excited", cwd=bench)["episodes"] == 1
    _, _, refused = run_command(*words, "--excite", "prbs", "--attend", "--out", "data/attended", cwd=bench)
    assert "there is no terminal to ask them" in " ".join(refused.split())


def test_a_file_that_is_no_driver_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="is not a file"):
        open_robot(f"python:{tmp_path / 'none.py'}")
    file = tmp_path / "a.py"
    file.write_text("import nothing_like_this")
    with pytest.raises(RobotError, match="cannot be imported; got No module named 'nothing_like_this'"):
        open_robot(f"python:{file}")
    file.write_text("")
    with pytest.raises(RobotError, match="has no function make_robot"):
        open_robot(f"python:{file}")
    with pytest.raises(WrongUse, match="nothing to drive"):
        write_driver(tmp_path / "driver", load_twin("cube_toss"))
    with pytest.raises(WrongUse, match="exists already"):
        write_driver(tmp_path, load_twin("so101"))
