"""LeRobot's own SO-101 follower and leader, unmodified, on simulated servos behind serial ports; and a robot of a LeRobot plug-in."""

import json
import math
import textwrap
import time

import numpy as np
import pytest
import yaml

from benchmarks.peers import lerobot
from tests.robots.feetech import NAMES, OFFSET, TORQUE, Bus, calibration
from twinloop.errors import RobotError, RobotGone, WrongUse
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import OperatorController
from twinloop.robots.lerobot_robot import PYTHON
from twinloop.robots.record import RecordingSpec, record
from twinloop.testing.robots import check_robot

pytestmark = pytest.mark.slow

STEP_RAD = 2 * math.pi / 4095
"""One step of the servo's encoder, as LeRobot counts it."""


@pytest.fixture(scope="module", autouse=True)
def environment():
    if reason := lerobot.install():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON, str(lerobot.VENV / "bin/python"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield patch


def write_config(folder, follower, leader=None, **more):
    """The config of an SO-101 whose zero and range are those of its calibration, and its calibration files."""
    for kind in ("follower", "leader"):
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / "arm.json").write_text(json.dumps(calibration()))
    joints = {name: {"low": -1.5, "high": 1.5, "speed_per_s": 20.0} for name in NAMES[:5]}
    joints["shoulder_lift"] |= {"sign": -1, "zero": 0.25}
    joints["gripper"] = {
        "reads": "range_0_100",
        "ends": [-0.1, 1.6],
        "low": -0.1,
        "high": 1.6,
        "speed_per_s": 20.0,
    }
    content = {"serial": "arm", "twin": "so101", "rate_hz": 30, "standin": True, "joints": joints}
    own = {"port": follower.port, "id": "arm", "calibration_dir": str(folder / "follower")}
    content["robot"] = {"type": "so101_follower", **own}
    if leader is not None:
        own = {"port": leader.port, "id": "arm", "calibration_dir": str(folder / "leader")}
        content["teleop"] = {"type": "so101_leader", **own}
    file = folder / "arm.yaml"
    file.write_text(yaml.safe_dump(content | more, sort_keys=False))
    return f"lerobot:{file}"


def test_lerobots_own_arm_moves_in_the_twins_units_and_follows_its_leader(tmp_path):
    with Bus() as follower, Bus(hand=lambda time_s: 2050 + 200 * math.sin(2 * time_s)) as leader:
        robot = open_robot(write_config(tmp_path, follower, leader))
        with connected(robot):
            description = robot.description
            assert description.robot_type == "so101_follower" and description.software["lerobot"] == "0.4.4"
            assert description.action.elements == tuple(f"{name}.target" for name in NAMES)
            target = np.array([0.3, -0.2, 0.5, -0.6, 0.1, 1.0])
            sent = robot.act(target)
            assert np.abs(sent - target).max() < 1e-9
            time.sleep(0.5)
            seen = robot.observe().signals["observation.state"]
            assert np.abs(seen[:5] - target[:5]).max() < 2 * STEP_RAD and abs(seen[5] - 1.0) < 0.01
            steps = {name: follower.servos[k + 1].position for k, name in enumerate(NAMES)}
            assert steps["shoulder_pan"] == pytest.approx(2050 + 0.3 / STEP_RAD, abs=2)
            assert steps["shoulder_lift"] == pytest.approx(2050 + 0.45 / STEP_RAD, abs=2), "sign and zero"
            assert steps["gripper"] == pytest.approx(800 + 2500 * 1.1 / 1.7, abs=2)
            data = record(
                robot,
                OperatorController(robot, "person-1"),
                tmp_path / "out",
                RecordingSpec(1, 2.0, judged=False),
            )
        assert not any(servo.memory[TORQUE] for servo in follower.servos.values()), "LeRobot let go of it"
        assert type(robot).__name__ == "LedRobot" and not hasattr(robot, "judge"), "a person judges"
        check_robot(robot)
    episode = data.episode(0)
    state, action = episode["observation.state"], episode["action"]
    assert len(episode) > 10 and action[:, 0].std() > 0.05, "the leader moved"
    assert np.abs(state[2:, 0] - action[1:-1, 0]).max() < 0.2, "and the follower after it"
    assert episode.provenance.software["robot.lerobot"] == "0.4.4"


def test_what_lerobot_says_of_its_arm_is_compared_with_the_config(tmp_path):
    with Bus() as follower:
        wide = {name: {"low": -3.0, "high": 3.0, "speed_per_s": 5.0} for name in NAMES[:5]}
        gripper = {"reads": "range_0_100", "ends": [0.0, 1.6], "low": 0.0, "high": 1.6, "speed_per_s": 5.0}
        robot = open_robot(write_config(tmp_path, follower, joints=wide | {"gripper": gripper}))
        with pytest.raises(
            RobotError, match="limits of joint shoulder_pan are beyond its calibrated range"
        ) as caught:
            robot.connect()
        assert "expected within -1.918 to 1.918 rad" in str(caught.value)
        address = write_config(tmp_path, follower)
        (tmp_path / "arm.yaml").write_text(
            (tmp_path / "arm.yaml").read_text().replace("id: arm\n", "id: arm\n  use_degrees: false\n")
        )
        with pytest.raises(
            RobotError, match="joint shoulder_pan in another unit; got range_m100_100; expected reads: deg"
        ):
            open_robot(address).connect()
        follower.servos[3].set(OFFSET, 7)
        with pytest.raises(WrongUse, match="the robot is not calibrated") as caught:
            open_robot(write_config(tmp_path, follower)).connect()
        assert "lerobot-calibrate --robot.type=so101_follower" in str(caught.value)
        with pytest.raises(WrongUse, match="robot of the config is not what LeRobot takes") as caught:
            open_robot(write_config(tmp_path, follower, robot={"type": "so202_follower"})).connect()
        assert "so101_follower" in caught.value.remedy


def test_an_arm_that_is_unplugged_is_gone_and_comes_back(tmp_path):
    with Bus() as follower:
        follower.cut.set()
        with pytest.raises(WrongUse, match="cannot be served: FeetechMotorsBus motor check failed on port"):
            open_robot(write_config(tmp_path, follower)).connect()
        follower.cut.clear()
        robot = open_robot(write_config(tmp_path, follower))
        with connected(robot):
            robot.observe()
            follower.cut.set()
            with pytest.raises(RobotGone, match="LeRobot says: Failed to sync read 'Present_Position'"):
                robot.observe()
            with pytest.raises(RobotGone):
                robot.connect()
            follower.cut.clear()
            robot.connect()
            assert robot.observe().signals["observation.state"].shape == (6,)


PLUGIN = """
from dataclasses import dataclass, field
import numpy as np
from lerobot.robots import Robot, RobotConfig

@RobotConfig.register_subclass("two_wheels")
@dataclass
class TwoWheelsConfig(RobotConfig):
    reach: float = 1.0
    broken: bool = False

class TwoWheels(Robot):
    config_class, name = TwoWheelsConfig, "two_wheels"
    def __init__(self, config):
        super().__init__(config)
        self.config, self.at, self.open = config, np.zeros(2), False
    observation_features = {"left.pos": float, "right.pos": float, "battery": float, "eye": (6, 8, 3)}
    action_features = {"left.pos": float, "right.pos": float}
    is_calibrated = True
    @property
    def is_connected(self): return self.open
    def connect(self, calibrate=True): self.open = True
    def disconnect(self): self.open = False
    def calibrate(self): raise AssertionError("nobody asked for it")
    def configure(self): pass
    def get_observation(self):
        if self.config.broken:
            raise RuntimeError("a wheel came off")
        frame = np.full((6, 8, 3), 7, np.uint8)
        return {"left.pos": self.at[0], "right.pos": self.at[1], "battery": 11.5, "eye": frame}
    def send_action(self, action):
        self.at = np.clip([action["left.pos"], action["right.pos"]], -self.config.reach, self.config.reach)
        return {"left.pos": float(self.at[0]), "right.pos": float(self.at[1])}
"""


def test_a_robot_of_a_plug_in_with_a_camera_and_further_numbers(tmp_path, environment):
    """A robot that LeRobot knows from a package called lerobot_robot_*; what its driver raises is told."""
    package, made = tmp_path / "lerobot_robot_two_wheels", tmp_path / "lerobot_robot_two_wheels-1.0.dist-info"
    package.mkdir()
    made.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(PLUGIN))
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: lerobot_robot_two_wheels\nVersion: 1.0\n")
    limits = {"reads": "m", "unit": "m", "low": -2.0, "high": 2.0, "speed_per_s": 50.0}
    content = {
        "serial": "wheels-1",
        "joints": {"right": limits, "left": {**limits, "sign": -1}},
        "robot": {"type": "two_wheels", "reach": 1.5, "calibration_dir": str(tmp_path)},
    }
    file = tmp_path / "wheels.yaml"
    with environment.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        robot = open_robot(f"lerobot:{file}")
        check_robot(robot)
        with connected(robot):
            assert robot.act(np.array([1.0, 2.0])).tolist() == [1.0, 1.5], "as the robot's own limit left it"
            seen = robot.observe(("eye",))
            assert seen.signals["observation.state"].tolist() == [1.0, 1.5]
            assert seen.signals["observation.extra"].tolist() == [11.5]
            assert seen.frames["eye"].shape == (6, 8, 3) and seen.frames["eye"].max() == 7
            with pytest.raises(RobotError, match="has no camera 'nose'"):
                robot.observe(("nose",))
        content["robot"]["broken"] = True
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        with (
            connected(open_robot(f"lerobot:{file}")) as broken,
            pytest.raises(RobotError, match="a wheel came off"),
        ):
            broken.observe()
