"""`--robot.type=twinloop`: a stand-in or twin of Twinloop in the place of a robot, for LeRobot's own commands.

    twinloop standin --reality mild --twin so101_pick_place --port 4750
    lerobot-record --robot.type=twinloop --robot.address=tcp:127.0.0.1:4750 --policy.path=... --dataset...

Joints are called and measured as on LeRobot's arms: `shoulder_pan.pos` in degrees, the gripper in per cent of its range. A new scene is set
whenever a person would set one: between the episodes of `lerobot-record`.
"""

import json
import logging
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from lerobot.robots import Robot, RobotConfig
from lerobot.teleoperators import Teleoperator, TeleoperatorConfig

from lerobot_robot_twinloop.client import LocalRobot, SocketRobot, open_client

DEFAULT_ADDRESS = "tcp:127.0.0.1:4750"
MAX_STEP_S = 0.2
"""Longest time between two observations that counts as control; LeRobot saves episodes in longer pauses."""
DEGREES = 180.0 / math.pi


@RobotConfig.register_subclass("twinloop")
@dataclass
class TwinloopRobotConfig(RobotConfig):
    """Which robot, in which words, and when a new scene is set."""

    # tcp:HOST:PORT or unix:PATH of a stand-in; with Twinloop in this environment also gym:twinloop/TWIN-v0, standin:NAME ...
    address: str = DEFAULT_ADDRESS
    # Cameras whose frames are observed; default: all that the robot has.
    views: list[str] | None = None
    # Signals whose elements are observed beside the joints, such as observation.environment_state.
    signals: list[str] = field(default_factory=list)
    # Joints in per cent of the range of their commands; all others that turn are in degrees.
    percent: list[str] = field(default_factory=lambda: ["gripper"])
    # By joint: LeRobot's degrees = sign * the robot's + offset_deg, as on an arm whose calibration has another zero.
    sign: dict[str, float] = field(default_factory=dict)
    offset_deg: dict[str, float] = field(default_factory=dict)
    # The first scene; each next one has the next number.
    first_scene: int = 0
    # dataset.episode_time_s and dataset.reset_time_s again, where somebody demonstrates: scenes are set in the middle of the reset time.
    episode_time_s: float = 0.0
    reset_time_s: float = 0.0
    # A file that gets one line of JSON per scene: its number, whether it was a success, and why not.
    outcomes: str | None = None


@TeleoperatorConfig.register_subclass("twinloop")
@dataclass
class TwinloopLeaderConfig(TeleoperatorConfig):
    """Whoever demonstrates on the robot at this address."""

    address: str = DEFAULT_ADDRESS


ROBOTS: dict[str, "TwinloopRobot"] = {}
"""The robot of this process at each address, which its leader asks."""


class Words:
    """LeRobot's words for a robot of Twinloop: names and units of its joints."""

    def __init__(self, description: dict, config: TwinloopRobotConfig) -> None:
        action, limits = description["action"], description["limits"]
        self.joints = [element.rpartition(".")[0] or element for element in action["elements"]]
        units = action["units"] * (len(self.joints) if len(action["units"]) == 1 else 1)
        for key in (*config.sign, *config.offset_deg):
            if key not in self.joints:
                raise ValueError(f"the robot has no joint {key!r}; there are {', '.join(self.joints)}")
        lines = []
        for k, (joint, unit) in enumerate(zip(self.joints, units, strict=True)):
            low, high = limits["low"][k], limits["high"][k]
            if joint in config.percent and low is not None and high is not None and high > low:
                lines.append((100.0 / (high - low), -100.0 * low / (high - low)))
            else:
                scale = DEGREES if unit == "rad" else 1.0
                lines.append((scale * config.sign.get(joint, 1.0), config.offset_deg.get(joint, 0.0)))
        self.slope, self.offset = np.array(lines, np.float64).T
        self.keys = [f"{joint}.pos" for joint in self.joints]

    def told(self, values: np.ndarray) -> dict[str, float]:
        """Positions of the robot's joints in LeRobot's words."""
        return dict(
            zip(self.keys, (self.slope * np.asarray(values, np.float64) + self.offset).tolist(), strict=True)
        )

    def heard(self, action: dict) -> np.ndarray:
        """LeRobot's action as positions of the robot's joints."""
        return (np.array([float(action[key]) for key in self.keys]) - self.offset) / self.slope


class TwinloopRobot(Robot):
    """A robot of Twinloop behind LeRobot's interface."""

    config_class, name = TwinloopRobotConfig, "twinloop"

    def __init__(self, config: TwinloopRobotConfig) -> None:
        super().__init__(config)
        self.config = config
        self.client: SocketRobot | LocalRobot | None = None
        self.words: Words | None = None
        self._ready = False
        self.scene = config.first_scene
        self._commanded, self._waiting, self._led = True, False, False
        self._control_s, self._last_s = 0.0, time.monotonic()
        self.cameras: dict = {}

    def _meet(self) -> dict:
        """What the robot declares; LeRobot asks for it before it connects."""
        if self.client is None:
            client = open_client(self.config.address)
            client.connect()
            self.client, self.words = client, Words(client.description, self.config)
            known = [camera["name"] for camera in client.description["cameras"]]
            if unknown := [name for name in self.config.views or () if name not in known]:
                raise ValueError(
                    f"the robot has no camera {unknown[0]!r}; there are {', '.join(known) or 'none'}"
                )
            # LeRobot starts a writer of images for robots with `cameras`; nothing else is asked of them.
            self.cameras = dict.fromkeys(known if self.config.views is None else self.config.views)
            ROBOTS[self.config.address] = self
        return self.client.description

    @property
    def observation_features(self) -> dict:
        """Joints, elements of further signals, cameras."""
        description = self._meet()
        elements = {signal["name"]: signal["elements"] for signal in description["signals"]}
        if unknown := [name for name in self.config.signals if not elements.get(name)]:
            raise ValueError(f"the robot has no signal {unknown[0]!r}; there are {', '.join(elements)}")
        more = [element for name in self.config.signals for element in elements[name]]
        sizes = {camera["name"]: (camera["height"], camera["width"], 3) for camera in description["cameras"]}
        numbers = dict.fromkeys([*self.words.keys, *more], float)
        return numbers | {name: sizes[name] for name in self.cameras}

    @property
    def action_features(self) -> dict:
        """Joints."""
        self._meet()
        return dict.fromkeys(self.words.keys, float)

    @property
    def is_connected(self) -> bool:
        """Whether scenes and commands are taken."""
        return self._ready

    @property
    def is_calibrated(self) -> bool:
        """Always: units come from the robot's description."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Connect and set the first scene."""
        self._meet()
        self._ready = True
        self._set_scene(self.scene)

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict:
        """The newest readings; sets the next scene where LeRobot waits for a person to do so."""
        self._notice_reset()
        seen = self.client.observe(list(self.cameras))
        told = self.words.told(seen.signals["observation.state"])
        for signal in self.client.description["signals"]:
            if signal["name"] in self.config.signals:
                told |= zip(signal["elements"], seen.signals[signal["name"]].ravel().tolist(), strict=True)
        self._commanded = False
        return told | seen.frames

    def send_action(self, action: dict) -> dict:
        """Send a command; what was sent after the robot's own limits."""
        self._commanded, self._waiting, self._led = True, self._waiting and self._led, False
        return self.words.told(self.client.act(self.words.heard(action)))

    def disconnect(self) -> None:
        """Judge the last scene and disconnect."""
        if self._ready:
            self._ready = False
            self._note_outcome()
        if self.client is not None:
            self.client.close()
            self.client = None
            ROBOTS.pop(self.config.address, None)

    def lead(self) -> dict:
        """What the leader arm commands; where a policy acts, LeRobot asks for it in its reset time only."""
        self._led = True
        if self.config.episode_time_s > 0.0:
            return self.words.told(self.client.steer())
        if not self._waiting:
            self._begin_next_scene()
        return self.words.told(self.client.observe([]).signals["observation.state"])

    def _notice_reset(self) -> None:
        """Whether LeRobot is in its reset time: it observes without commands or, where somebody demonstrates, by the clock."""
        now_s = time.monotonic()
        self._control_s += min(now_s - self._last_s, MAX_STEP_S)
        self._last_s = now_s
        if self.config.episode_time_s > 0.0:
            if self._control_s >= self.config.episode_time_s + 0.5 * self.config.reset_time_s:
                self._begin_next_scene()
                self._control_s = -0.5 * self.config.reset_time_s
        elif not self._commanded and not self._waiting:
            self._begin_next_scene()
        elif not self._commanded:
            time.sleep(1.0 / float(self.client.description["rate_hz"]))

    def _begin_next_scene(self) -> None:
        self._note_outcome()
        self.scene += 1
        self._set_scene(self.scene)
        self._waiting = True

    def _set_scene(self, number: int) -> None:
        self.client.prepare(number)
        self._commanded, self._control_s, self._last_s = True, 0.0, time.monotonic()

    def _note_outcome(self) -> None:
        try:
            success, failure = self.client.judge()
        except ConnectionError as error:
            logging.warning("scene %d was not judged (%s)", self.scene, error)
            return
        what = "success" if success else "unknown" if success is None else f"failure ({failure})"
        logging.info("scene %d: %s", self.scene, what)
        if self.config.outcomes is not None:
            with Path(self.config.outcomes).open("a") as lines:
                lines.write(json.dumps({"scene": self.scene, "success": success, "failure": failure}) + "\n")


class TwinloopLeader(Teleoperator):
    """The person at the leader arm of a stand-in."""

    config_class, name = TwinloopLeaderConfig, "twinloop"

    def __init__(self, config: TwinloopLeaderConfig) -> None:
        super().__init__(config)
        self.config, self._connected = config, False

    @property
    def action_features(self) -> dict:
        """The robot's joints."""
        return self._robot().action_features

    @property
    def feedback_features(self) -> dict:
        """None."""
        return {}

    @property
    def is_connected(self) -> bool:
        """Whether commands can be asked for."""
        return self._connected

    @property
    def is_calibrated(self) -> bool:
        """Always."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Nothing to do: the robot's connection is used."""
        self._connected = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_action(self) -> dict:
        """What is commanded now, in the robot's words."""
        return self._robot().lead()

    def send_feedback(self, feedback: dict) -> None:
        """Nothing to do."""

    def disconnect(self) -> None:
        """Nothing to do."""
        self._connected = False

    def _robot(self) -> TwinloopRobot:
        if self.config.address not in ROBOTS:
            raise ConnectionError(
                f"no robot of this process is at {self.config.address}; give --robot.type=twinloop the same address"
            )
        return ROBOTS[self.config.address]
