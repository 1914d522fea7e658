"""The guided joint check and `robot check`, on stand-ins that are wired wrongly in known ways."""

import numpy as np
import pytest

from tests.terminal import run_command
from twinloop.robots import Observation, SafetyEnvelope, connected, declared_limits, open_robot
from twinloop.robots.check import check_connected
from twinloop.robots.safety.joint_check import check_joints, home_pose
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

pytest.importorskip("pybullet")

ORDER = [0, 1, 2, 3, 4, 5]
NAMES = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]


class Miswired:
    """A robot whose readings have another order, sign, scale or zero; with `alike`, its commands have them as well."""

    def __init__(self, robot, order=ORDER, signs=(1,) * 6, offsets=(0.0,) * 6, alike=False):
        self._robot, self._order, self._alike = robot, list(order), alike
        self._signs, self._offsets = np.array(signs, float), np.array(offsets, float)

    description = property(lambda self: self._robot.description)

    def connect(self):
        self._robot.connect()

    def observe(self, cameras=()):
        seen = self._robot.observe(cameras)
        state = np.asarray(seen.signals["observation.state"], float)[self._order]
        state = self._signs * state + self._offsets
        return Observation(
            seen.time_s, {**seen.signals, "observation.state": state.astype(np.float32)}, seen.frames
        )

    def act(self, action):
        if not self._alike:
            return self._robot.act(action)
        true = np.empty(6)
        true[self._order] = self._signs * (np.asarray(action, float) - self._offsets)
        self._robot.act(true)
        return action

    def close(self):
        self._robot.close()


@pytest.fixture(scope="module")
def arm():
    with connected(open_robot("standin:mild@so101")) as robot:
        yield robot


def look(arm, known_pose=None, ask=None, **faults):
    """Problems by joint, of a stand-in at the start of an episode."""
    arm.prepare(3)
    robot = Miswired(arm, **faults)
    envelope = SafetyEnvelope(robot, declared_limits(robot.description))
    cell = make_cell(load_twin("so101"))
    found = check_joints(envelope, cell, known_pose=known_pose, ask=ask)
    assert [one.joint for one in found] == NAMES
    return {one.joint: one for one in found if one.problem}


def test_an_arm_that_is_wired_rightly_has_no_problem(arm):
    assert not look(arm)


def test_swapped_joints_wrong_signs_and_other_units_are_found_and_named(arm):
    found = look(arm, order=[0, 2, 1, 3, 4, 5], signs=(1, 1, 1, -1, 57.3, 1))
    assert set(found) == {"shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll"}
    assert found["shoulder_lift"].swapped_with == "elbow_flex"
    assert found["elbow_flex"].swapped_with == "shoulder_lift"
    assert found["wrist_flex"].wrong_sign and "wrong scale" in found["wrist_roll"].problem


def test_what_commands_and_readings_have_alike_is_found_in_a_known_pose_and_by_a_person(arm):
    """An offset of 17 degrees, and a joint that turns the other way: the robot agrees with itself."""
    arm.prepare(3)
    pose = np.asarray(arm.observe().signals["observation.state"], float)
    pose[0] = -pose[0]
    seventeen = np.array([0.0, 0.0, np.radians(17.0), 0.0, 0.0, 0.0])
    questions = []

    def ask(question):
        questions.append(question)
        return "shoulder_pan" not in question  # the only one that goes the other way

    faults = {"signs": (-1, 1, 1, 1, 1, 1), "offsets": seventeen}
    found = look(arm, known_pose=pose, ask=ask, alike=True, **faults)
    assert set(found) == {"shoulder_pan", "elbow_flex"}
    assert "otherwise than the twin" in found["shoulder_pan"].problem
    assert "+17." in found["elbow_flex"].problem or "+16." in found["elbow_flex"].problem
    assert found["elbow_flex"].offset == pytest.approx(np.radians(17.0), abs=0.02)
    assert "did the tool go about" in questions[0] and "as the robot sees it" in questions[0]


def test_the_home_pose_is_the_twins_in_the_robots_order(arm):
    twin = load_twin("so101")
    pose = home_pose(arm.description, make_cell(twin))
    assert pose[0] == pytest.approx(twin.home.get("shoulder_pan", 0.0)) and pose.shape == (6,)


class Clocked:
    """A robot on its own clock, whose joints follow half a step later; what it does wrong is said by its arguments."""

    def __init__(self, rate_hz=50.0, drift=1.0, grey=False, stale=False):
        from twinloop.testing.robots import FakeRobot

        self._fake, self._rate_hz, self._drift = FakeRobot(), rate_hz, drift
        self._grey, self._stale, self.now_s = grey, stale, 100.0

    @property
    def description(self):
        from dataclasses import replace

        return replace(self._fake.description, standin=True, lockstep=False, rate_hz=50.0)

    def connect(self):
        self._fake.connect()

    def observe(self, cameras=()):
        self.now_s += 0.001
        seen = self._fake.observe(cameras)
        stamp = np.floor(self.now_s * self._rate_hz) / self._rate_hz * self._drift
        frames = {n: f if self._grey else self.noise(f.shape) for n, f in seen.frames.items()}
        return Observation(0.0 if self._stale else stamp, seen.signals, frames)

    def noise(self, shape):
        return np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)

    def act(self, action):
        return self._fake.act(action)

    def close(self):
        self._fake.close()


def check(robot, **more):
    def sleep(seconds):
        robot.now_s += seconds

    def clock():
        return robot.now_s

    with connected(robot):
        envelope = SafetyEnvelope(robot, declared_limits(robot.description), clock=clock, sleep=sleep)
        return {line.what: line for line in check_connected(envelope, seconds=2.0, clock=clock, **more)}


def test_rates_jitter_clock_and_cameras_of_a_good_robot():
    lines = check(Clocked(), move=True)
    assert [line.what for line in lines.values() if line.state != "ok"] == ["safety limits"]
    assert lines["rate"].found.startswith("50.0 readings/s")
    assert {"jitter", "round trip", "clock", "camera front", "echo shoulder", "echo elbow"} <= set(lines)


@pytest.mark.parametrize(
    ("fault", "what", "found"),
    [
        ({"rate_hz": 10.0}, "rate", "10.0 readings/s, declared 50"),
        ({"drift": 1.05}, "clock", "ppm against this machine's"),
        ({"grey": True}, "camera front", "it shows nothing"),
        ({"stale": True}, "rate", "1 readings in 2 s"),
    ],
)
def test_what_is_wrong_with_a_robot_is_said(fault, what, found):
    line = check(Clocked(**fault))[what]
    assert line.state != "ok" and found in line.found and line.remedy


def test_the_commands_print_what_they_find(tmp_path):
    code, out, err = run_command("robot", "check", "standin:ideal@so101", "--seconds", "0.2", cwd=tmp_path)
    assert code == 0 and "in lockstep" in out and "only the declared range" in " ".join(out.split())
    code, out, err = run_command("robot", "joints", "standin:ideal@so101", cwd=tmp_path)
    assert code == 0 and out.count("ok") == 6, out + err
