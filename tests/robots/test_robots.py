"""Robots: the protocol, the envelope around one, LeRobot's methods."""

import numpy as np
import pytest

from twinloop.errors import RobotError, RobotGone, UnknownName, WrongUse
from twinloop.robots import LeRobotArm, SafetyEnvelope, connected, declared_limits, open_robot
from twinloop.testing.robots import FakeRobot, check_robot


def test_the_fake_keeps_the_protocol():
    check_robot(FakeRobot())


def enveloped(fake):
    return SafetyEnvelope(fake, declared_limits(fake.description))


def test_the_envelope_keeps_the_protocol():
    check_robot(enveloped(FakeRobot()))


def test_the_check_finds_a_robot_that_does_not_report_what_it_declares():
    class Silent(FakeRobot):
        def observe(self, cameras=()):
            seen = super().observe(cameras)
            return type(seen)(seen.time_s, {}, seen.frames)

    with pytest.raises(AssertionError, match="declared but not observed"):
        check_robot(Silent())


def test_an_unknown_scheme_names_the_ones_there_are():
    with pytest.raises(UnknownName, match="standin"):
        open_robot("standing:mild")
    with pytest.raises(WrongUse, match="SCHEME"):
        open_robot("mild")


def test_commands_keep_range_and_speed():
    fake = FakeRobot()
    robot = enveloped(fake)
    with connected(robot):
        first = robot.act(np.array([5.0, 0.1]))
        assert np.allclose(first, [0.5, 0.1])  # 10 rad/s at 20 Hz from zero
        for _ in range(5):
            last = robot.act(np.array([5.0, -5.0]))
        assert np.allclose(last, [1.0, -1.0])
        (limited,) = robot.take_interventions()
        assert (limited.kind, limited.count) == ("limited", 6)
        with pytest.raises(RobotError, match="finite"):
            robot.act(np.array([np.nan, 0.0]))
    assert all(np.abs(sent).max() <= 1.0 for sent in fake.sent)


class LeRobotLike:
    """What a LeRobot driver looks like from outside."""

    def __init__(self):
        self.places = {"pan.pos": 10.0, "lift.pos": -5.0}
        self.broken = False
        self.calls = []

    def connect(self):
        self.calls.append("connect")

    def get_observation(self):
        if self.broken:
            raise ConnectionError("no answer on the bus")
        return {**self.places, "current": 0.3, "front": np.zeros((8, 12, 3), np.uint8)}

    def send_action(self, action):
        self.places |= {name: min(value, 90.0) for name, value in action.items()}
        return dict(self.places)

    def disconnect(self):
        self.calls.append("disconnect")


def lerobot_arm(driver):
    ticks = iter(range(1000))
    return LeRobotArm(
        driver, ["pan.pos", "lift.pos"], unit="deg", low=(-90, -90), high=(90, 90), speed_per_s=(180, 180),
        clock=lambda: next(ticks) * 0.01,
    )  # fmt: skip


def test_a_lerobot_driver_becomes_a_robot():
    driver = LeRobotLike()
    arm = lerobot_arm(driver)
    with connected(arm):
        assert arm.description.action.units == ("deg",)
        assert [(c.name, c.height, c.width) for c in arm.description.cameras] == [("front", 8, 12)]
        assert np.allclose(arm.observe().signals["observation.state"], [10.0, -5.0])
        assert np.allclose(arm.observe().signals["observation.extra"], [0.3])
        assert np.allclose(arm.act(np.array([120.0, 0.0])), [90.0, 0.0])
    assert driver.calls == ["connect", "disconnect"]


def test_a_lerobot_driver_that_fails_is_a_robot_that_is_gone():
    driver = LeRobotLike()
    arm = lerobot_arm(driver)
    arm.connect()
    driver.broken = True
    with pytest.raises(RobotGone, match="bus"):
        arm.observe()
