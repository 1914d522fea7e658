"""`ros2:CONFIG.yaml`: which joints and cameras a robot has, and on which topics, in which quality of service.

    serial: arm-7
    rate_hz: 50
    joints:
      shoulder: {low: -1.9, high: 1.9, speed_per_s: 2.0}
      elbow: {ros: joint_2, low: -1.7, high: 1.7, speed_per_s: 2.0}
    command: {topic: /arm_controller/joint_trajectory}
    cameras:
      front: {topic: /front/image_raw, height: 480, width: 640}

Positions are in rad or m, as ROS has them.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from twinloop.episode import Camera, Signal
from twinloop.errors import InvalidEpisode, UnknownName, WrongUse
from twinloop.robots.protocol import Description, Limits
from twinloop.yaml_models import load_model

MAX_JOINTS = 128
MAX_SIDE = 4096
"""Most pixels along a side of an image."""
DOMAIN = "ROS_DOMAIN_ID"
"""Environment variable with the domain, as for any ROS 2 node; the config's own `domain_id` goes before it."""
MAX_DOMAIN = 232
FRAME_AGE = "observation.frame_age"
"""Signal with the age of each camera's frame, s: the stamp of the readings minus that of the frame."""

_TOPIC = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]{1,253}")

HINTS = {
    "serial": "serial: NAME, which robot of its kind this is",
    "rate_hz": "rate_hz: the control rate, such as 50",
    "joints": "joints: {NAME: {low: -1.9, high: 1.9, speed_per_s: 2.0}, ...} in the order of the action",
    "command": "command: {topic: /arm_controller/joint_trajectory}",
    "low": "low and high: the range of the joint's commands, rad or m",
    "high": "low and high: the range of the joint's commands, rad or m",
    "speed_per_s": "speed_per_s: how fast its command may change, rad/s or m/s; .inf without a limit",
    "topic": "topic: the full name, as `ros2 topic list` prints it",
}


def _require_topic(name: str) -> str:
    if len(name) > 255 or not _TOPIC.fullmatch(name):
        raise ValueError("a topic's full name, such as /joint_states")
    return name


def _require_host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError("the name or address of a network interface or host")
    return name


_Topic = Annotated[str, AfterValidator(_require_topic)]
_Host = Annotated[str, AfterValidator(_require_host)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Seconds = Annotated[float, Field(gt=0.0, le=3600.0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Qos(_Part):
    """Quality of service of one topic; the defaults match every publisher."""

    reliability: Literal["best_effort", "reliable"] = "best_effort"
    durability: Literal["volatile", "transient_local"] = "volatile"
    depth: int = Field(default=10, ge=1, le=1000)


COMMAND_QOS = Qos(reliability="reliable", depth=1)
"""Of commands: a controller gets each one, and none that is older than the newest."""


class JointPart(_Part):
    """A joint: its name in ROS, if that is another one, and the limits of its commands."""

    ros: _Text | None = None
    unit: Literal["rad", "m"] = "rad"
    low: float
    high: float
    speed_per_s: float


class StatePart(_Part):
    """Where `sensor_msgs/msg/JointState` comes from, and what of it is recorded beside the positions."""

    topic: _Topic = "/joint_states"
    velocity: bool = False
    effort: bool = False
    max_age_s: _Seconds = 0.5
    qos: Qos = Qos()


class CommandPart(_Part):
    """Where commands go; a trajectory has one point, to be reached after `reach_s` (default: one control step)."""

    topic: _Topic
    type: Literal["JointTrajectory", "Float64MultiArray"] = "JointTrajectory"
    reach_s: _Seconds | None = None
    qos: Qos = COMMAND_QOS

    @model_validator(mode="after")
    def _only_of_trajectories(self) -> CommandPart:
        if self.reach_s is not None and self.type != "JointTrajectory":
            raise ValueError("reach_s is a part of trajectories; a Float64MultiArray has no time")
        return self


class CameraPart(_Part):
    """Where a camera's `sensor_msgs/msg/Image` comes from; rgb8, bgr8, rgba8, bgra8 or mono8."""

    topic: _Topic
    height: int = Field(ge=1, le=MAX_SIDE)
    width: int = Field(ge=1, le=MAX_SIDE)
    max_age_s: _Seconds = 1.0
    qos: Qos = Qos(depth=1)


class SignalPart(_Part):
    """A further signal, from `std_msgs/msg/Float64MultiArray`: an object's pose, a force sensor."""

    topic: _Topic
    elements: tuple[_Text, ...] = Field(min_length=1, max_length=MAX_JOINTS)
    units: tuple[_Text, ...] = Field(min_length=1, max_length=MAX_JOINTS)
    max_age_s: _Seconds = 0.5
    qos: Qos = Qos()


class Ros2Config(_Part):
    """A robot that speaks ROS 2; `standin` says that it is simulated, by which `engine`, and is never called real."""

    serial: _Text
    rate_hz: float = Field(gt=0.0, le=10_000.0, allow_inf_nan=False)
    joints: dict[_Text, JointPart] = Field(min_length=1, max_length=MAX_JOINTS)
    command: CommandPart
    state: StatePart = StatePart()
    cameras: dict[_Text, CameraPart] = Field(default={}, max_length=16)
    signals: dict[_Text, SignalPart] = Field(default={}, max_length=64)
    robot_type: _Text = "unknown"
    site: _Text | None = None
    twin: _Text | None = None
    task: str = ""
    time_limit_s: _Seconds | None = None
    standin: bool = False
    engine: _Text | None = None
    domain_id: int | None = Field(default=None, ge=0, le=MAX_DOMAIN)
    interface: _Host | None = None
    peers: tuple[_Host, ...] = Field(default=(), max_length=64)
    connect_s: _Seconds = 10.0

    @property
    def ros_joints(self) -> tuple[str, ...]:
        """The joints' names in ROS, in the order of the action."""
        return tuple(part.ros or name for name, part in self.joints.items())

    @model_validator(mode="after")
    def _no_name_twice(self) -> Ros2Config:
        if len(set(self.ros_joints)) < len(self.joints):
            raise ValueError("two joints have the same name in ROS")
        return self

    def describe(self, software: dict[str, str]) -> Description:
        """The robot's description."""
        names, parts = tuple(self.joints), tuple(self.joints.values())
        units = tuple(part.unit for part in parts)

        def signal(name: str, suffix: str, per: dict[str, str]) -> Signal:
            elements = tuple(f"{joint}.{suffix}" for joint in names)
            return Signal(name, (len(names),), tuple(per[unit] for unit in units), elements=elements)

        same = {"rad": "rad", "m": "m"}
        signals = [signal("observation.state", "pos", same)]
        if self.state.velocity:
            signals.append(signal("observation.velocity", "vel", {"rad": "rad/s", "m": "m/s"}))
        if self.state.effort:
            signals.append(signal("observation.effort", "effort", {"rad": "N·m", "m": "N"}))
        signals += [
            Signal(name, (len(part.elements),), part.units, elements=part.elements)
            for name, part in self.signals.items()
        ]
        if self.cameras:
            signals.append(
                Signal(FRAME_AGE, (len(self.cameras),), ("s",), elements=tuple(sorted(self.cameras)))
            )
        cameras = tuple(Camera(name, part.height, part.width) for name, part in self.cameras.items())
        return Description(
            robot_type=self.robot_type,
            serial=self.serial,
            signals=tuple(signals),
            action=signal("action", "target", same),
            limits=Limits(
                tuple(part.low for part in parts),
                tuple(part.high for part in parts),
                tuple(part.speed_per_s for part in parts),
            ),
            rate_hz=self.rate_hz,
            cameras=cameras,
            site=self.site,
            twin=self.twin,
            task=self.task,
            time_limit_s=self.time_limit_s,
            standin=self.standin,
            engine=self.engine,
            software=software,
        )

    def find_domain(self) -> int:
        """The ROS 2 domain: the config's own, else that of the environment, else 0."""
        if self.domain_id is not None:
            return self.domain_id
        text = os.environ.get(DOMAIN, "0")
        if not (text.isascii() and text.isdigit() and int(text) <= MAX_DOMAIN):
            raise WrongUse(f"{DOMAIN} is not a domain", got=text, expected=f"0 to {MAX_DOMAIN}")
        return int(text)


def load_config(file: str | Path) -> Ros2Config:
    """Read the config of a robot that speaks ROS 2.

    Args:
        file: The YAML file.

    Returns:
        The config, which describes a robot that is possible.

    Raises:
        MapError: A key or value is wrong; the message names it.
        RobotError: Limits contradict each other.
        WrongUse: A signal has a name or unit that no signal can have.
    """
    remedy = "a robot's config: ros2:CONFIG.yaml, see docs/how-to/ros2.md"
    config = load_model(Ros2Config, file, remedy=remedy, hints=HINTS, kind="robot's config")
    try:
        config.describe({})
        config.find_domain()
    except (InvalidEpisode, UnknownName) as error:
        raise WrongUse(f"{Path(file).name}: {error.what}", remedy=error.remedy) from error
    if any(not math.isfinite(end) for part in config.joints.values() for end in (part.low, part.high)):
        raise WrongUse(f"{Path(file).name}: a joint's range is not finite", expected="low and high")
    return config
