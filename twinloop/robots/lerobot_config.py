"""`lerobot:CONFIG.yaml`: a robot of LeRobot, in LeRobot's own words, and how its joints are those of the twin.

    serial: my_arm
    rate_hz: 30
    robot: {type: so101_follower, port: /dev/ttyACM0, id: my_arm}
    teleop: {type: so101_leader, port: /dev/ttyACM1, id: my_leader}
    joints:
      shoulder_pan: {low: -1.9, high: 1.9, speed_per_s: 2.0}
      shoulder_lift: {sign: -1, zero: 0.3, low: -1.7, high: 1.7, speed_per_s: 2.0}
      gripper: {reads: range_0_100, ends: [-0.17, 1.75], low: -0.17, high: 1.75, speed_per_s: 2.0}

LeRobot's own numbers are degrees, or parts of a calibrated range. Here is said what they are in the twin's rad or m.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.robots.protocol import Limits
from twinloop.yaml_models import load_model

MAX_JOINTS = 128
SPANS = {"range_0_100": (0.0, 100.0), "range_m100_100": (-100.0, 100.0)}
"""What LeRobot reads at the lower and the upper end of a joint's calibrated range."""
NORMS = {"degrees": "deg", "range_0_100": "range_0_100", "range_m100_100": "range_m100_100"}
"""`reads` by the name that LeRobot gives a motor's normalization."""
SLACK = 1.0
"""In LeRobot's units: a limit this far beyond the calibrated range is still in it."""

HINTS = {
    "serial": "serial: NAME, which robot of its kind this is",
    "robot": "robot: {type: so101_follower, port: /dev/ttyACM0, id: my_arm}, as lerobot-record's --robot.* options",
    "joints": "joints: {shoulder_pan: {low: -1.9, high: 1.9, speed_per_s: 2.0}, ...} in the order of the action",
    "low": "low and high: the range of the joint's commands, rad or m",
    "high": "low and high: the range of the joint's commands, rad or m",
    "speed_per_s": "speed_per_s: how fast its command may change, rad/s or m/s; .inf without a limit",
}

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LeRobotJoint(_Part):
    """What LeRobot's number of a joint means: position = zero + sign * angle, or between the two `ends` of a range.

    `key` is LeRobot's name of it, default `JOINT.pos`. `zero` is where the twin's joint is when LeRobot reads 0, and `ends` where it is
    at the lower and upper end of the calibrated range, in `unit`; so are the limits.
    """

    key: _Text | None = None
    reads: Literal["deg", "rad", "m", "range_0_100", "range_m100_100"] = "deg"
    unit: Literal["rad", "m"] = "rad"
    sign: Literal[1, -1] = 1
    zero: _Finite = 0.0
    ends: tuple[_Finite, _Finite] | None = None
    low: _Finite
    high: _Finite
    speed_per_s: float

    @model_validator(mode="after")
    def _known(self) -> LeRobotJoint:
        if (self.reads in SPANS) != (self.ends is not None):
            raise ValueError(
                "a range needs `ends`, the joint's positions at its lower and upper end, and nothing else has them"
            )
        if self.ends is not None and (self.ends[0] == self.ends[1] or self.zero != 0.0 or self.sign != 1):
            raise ValueError(
                "`ends` are two positions, the first at the lower end; they need neither zero nor sign"
            )
        if self.reads in ("deg", "rad", "m") and self.unit != {"deg": "rad"}.get(self.reads, self.reads):
            raise ValueError(f"what reads in {self.reads} cannot be in {self.unit}")
        return self

    @property
    def line(self) -> tuple[float, float]:
        """Slope and offset: position = slope * LeRobot's number + offset."""
        if self.ends is not None:
            low, high = SPANS[self.reads]
            slope = (self.ends[1] - self.ends[0]) / (high - low)
            return slope, self.ends[0] - slope * low
        return self.sign * (math.pi / 180.0 if self.reads == "deg" else 1.0), self.zero


class LeRobotConfig(_Part):
    """A robot of LeRobot; `address` is where a bridge for it runs already, `standin` says that it is simulated."""

    serial: _Text
    robot: dict[str, Any]
    teleop: dict[str, Any] | None = None
    joints: dict[_Text, LeRobotJoint] = Field(min_length=1, max_length=MAX_JOINTS)
    rate_hz: float = Field(default=30.0, gt=0.0, le=1000.0, allow_inf_nan=False)
    address: _Text | None = None
    site: _Text | None = None
    twin: _Text | None = None
    task: str = ""
    time_limit_s: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    standin: bool = False
    engine: _Text | None = None

    @model_validator(mode="after")
    def _possible(self) -> LeRobotConfig:
        if not isinstance(self.robot.get("type"), str):
            raise ValueError("robot needs LeRobot's type, such as robot: {type: so101_follower}")
        if len(set(self.keys)) < len(self.joints):
            raise ValueError("two joints have the same key")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """LeRobot's names of the joints, in the order of the action."""
        return tuple(joint.key or f"{name}.pos" for name, joint in self.joints.items())

    @property
    def limits(self) -> Limits:
        """Limits of the action, in rad or m."""
        parts = tuple(self.joints.values())
        return Limits(
            tuple(part.low for part in parts),
            tuple(part.high for part in parts),
            tuple(part.speed_per_s for part in parts),
        )

    def to_twin(self, values: Array) -> Array:
        """LeRobot's numbers (J,) as positions of the twin's joints, rad or m."""
        slope, offset = np.array([joint.line for joint in self.joints.values()]).T
        return np.asarray(slope * np.asarray(values, np.float64) + offset)

    def to_lerobot(self, positions: Array) -> Array:
        """Positions of the twin's joints (J,) as LeRobot's numbers."""
        slope, offset = np.array([joint.line for joint in self.joints.values()]).T
        return np.asarray((np.asarray(positions, np.float64) - offset) / slope)


def load_lerobot_config(file: str | Path) -> LeRobotConfig:
    """Read the config of a robot of LeRobot.

    Args:
        file: The YAML file.

    Returns:
        The config.

    Raises:
        MapError: A key or value is wrong; the message names it.
        RobotError: Limits contradict each other.
    """
    remedy = "a robot's config: lerobot:CONFIG.yaml, see docs/how-to/lerobot-robots.md"
    config = load_model(LeRobotConfig, file, remedy=remedy, hints=HINTS, kind="robot's config")
    assert config.limits
    return config


def check_calibration(config: LeRobotConfig, facts: object) -> None:
    """Compare a config with what LeRobot says of its own units and calibration.

    Args:
        config: The config.
        facts: `norms` and `spans` by key, as the bridge tells them; what it does not know is not checked.

    Raises:
        RobotError: A joint reads in another unit, or its limits are beyond its calibrated range.
    """
    told = facts if isinstance(facts, dict) else {}
    norms, spans = (part if isinstance(part, dict) else {} for part in (told.get("norms"), told.get("spans")))
    for (name, joint), key in zip(config.joints.items(), config.keys, strict=True):
        norm = NORMS.get(str(norms.get(key)))
        if norm is not None and norm != joint.reads:
            raise RobotError(
                f"LeRobot reads joint {name} in another unit",
                got=norm,
                expected=f"reads: {joint.reads}, as the config says",
                remedy="correct `reads`, or set use_degrees in `robot`",
            )
        span = spans.get(key)
        if not (
            isinstance(span, list) and len(span) == 2 and all(isinstance(end, (int, float)) for end in span)
        ):
            continue
        slope, offset = joint.line
        wanted = sorted((end - offset) / slope for end in (joint.low, joint.high))
        if wanted[0] < span[0] - SLACK or wanted[1] > span[1] + SLACK:
            reach = sorted(slope * end + offset for end in span)
            raise RobotError(
                f"the limits of joint {name} are beyond its calibrated range",
                got=f"{joint.low:g} to {joint.high:g} {joint.unit}",
                expected=f"within {reach[0]:.3f} to {reach[1]:.3f} {joint.unit}",
                remedy="narrow low and high, correct sign and zero, or calibrate again: lerobot-calibrate",
            )
