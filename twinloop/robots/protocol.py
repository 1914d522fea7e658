"""The door for robots: what a robot must do and declare, and where robots are found by scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Camera, Outcome, Schema, Signal
from twinloop.errors import RobotError, WrongUse
from twinloop.plugins import Registry

Array = NDArray[Any]


@dataclass(frozen=True)
class Limits:
    """What a command must keep to, per element of the action: its range, and how fast it may change."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    speed_per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.speed_per_s):
            raise RobotError(
                "limits of different lengths", got=(len(self.low), len(self.high), len(self.speed_per_s))
            )
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise RobotError("a lower limit is above the upper one", got=f"{self.low} and {self.high}")


@dataclass(frozen=True)
class Description:
    """What a robot declares: its signals with units, its action and limits, its cameras and its rate.

    `standin` says that this is no real robot. `lockstep` says that time passes only when a command is sent: one control
    step for each. `site` and `serial` go into every recording.
    """

    robot_type: str
    serial: str
    signals: tuple[Signal, ...]
    action: Signal
    limits: Limits
    rate_hz: float
    cameras: tuple[Camera, ...] = ()
    site: str | None = None
    twin: str | None = None
    twin_hash: str | None = None
    task: str = ""
    standin: bool = False
    lockstep: bool = False
    engine: str | None = None
    software: Mapping[str, str] = field(default_factory=dict)

    def schema(self, cameras: tuple[str, ...] = ()) -> Schema:
        """What a recording of this robot declares: every signal, the action, and the named cameras."""
        every = Schema((*self.signals, self.action), self.rate_hz, self.cameras, self.robot_type)
        return Schema(
            every.signals, self.rate_hz, tuple(every.camera(name) for name in cameras), self.robot_type
        )


@dataclass(frozen=True)
class Observation:
    """What the robot says at one moment of its own clock: an array per declared signal, a frame per camera."""

    time_s: float
    signals: Mapping[str, Array]
    frames: Mapping[str, Array] = field(default_factory=dict)


class Robot(Protocol):
    """A robot arm with its sensors. `observe` and `act` raise `RobotGone` when the connection is lost."""

    @property
    def description(self) -> Description:
        """What the robot declares; known once it is connected."""

    def connect(self) -> None:
        """Reach the robot; a second call after `close` or after it was lost reaches it again."""

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras."""

    def act(self, action: Array) -> Array:
        """Send a command; returns what was sent after limits."""

    def close(self) -> None:
        """Let go of the robot; it holds where it is."""


@runtime_checkable
class TrialSupervisor(Protocol):
    """Whoever stands beside the robot: sets the scene, demonstrates, and says how an episode went."""

    def prepare(self, number: int) -> None:
        """Bring robot and scene to the start of episode `number`."""

    def steer(self) -> Array:
        """The command that a person with a leader arm gives now."""

    def judge(self, over: bool = False) -> Outcome:
        """How the episode went, as far as a person can see now; once it is `over` they must say yes or no."""


ROBOTS: Registry[Callable[[str], Robot]] = Registry("robot", "robots")
"""Scheme to a function of what follows the colon: `standin:severe` is `ROBOTS.get("standin")("severe")`."""


def open_robot(url: str) -> Robot:
    """Open the robot at an address.

    Args:
        url: "standin:NAME", "standin:FILE.yaml", "unix:PATH", "tcp:HOST:PORT", or a plug-in's scheme.

    Returns:
        The robot, not yet connected.

    Raises:
        UnknownName: No robot is registered for the scheme.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise WrongUse(
            "cannot tell which robot", got=url, expected="SCHEME:ADDRESS", available=ROBOTS.names(),
            remedy="for example standin:mild or tcp:127.0.0.1:4750",
        )  # fmt: skip
    return ROBOTS.get(scheme)(rest)


@contextmanager
def connected(robot: Robot) -> Iterator[Robot]:
    """Connect a robot for the length of a `with` block, and close it however the block ends.

    Args:
        robot: The robot.

    Yields:
        The same robot, connected.
    """
    robot.connect()
    try:
        yield robot
    finally:
        robot.close()


def validate_action(description: Description, action: Array) -> Array:
    """An action as finite float64 of the declared shape, or an error."""
    made = np.asarray(action, dtype=np.float64)
    if made.shape != description.action.shape or not np.isfinite(made).all():
        raise RobotError(
            "this action cannot be sent",
            got=f"shape {made.shape}"
            if made.shape != description.action.shape
            else "numbers that are not finite",
            expected=f"{description.action.shape} finite numbers: {', '.join(description.action.elements)}",
        )
    return made
