"""The protocol for robots: what a robot does and declares, and the registry of robots by scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from twinloop.episode import Array, Camera, Event, Outcome, Schema, Signal
from twinloop.errors import RobotError, WrongUse
from twinloop.plugins import Registry


@dataclass(frozen=True)
class Limits:
    """Limits per element of the action; a command beyond them is clipped before it is sent.

    Args:
        low: Lower end of the range, in the action's unit.
        high: Upper end of the range.
        speed_per_s: How fast the command may change, in units per second of the robot's clock; infinite where nothing limits it.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    speed_per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.speed_per_s):
            raise RobotError(
                "limits of different lengths", got=(len(self.low), len(self.high), len(self.speed_per_s))
            )
        if any(math.isnan(number) for number in (*self.low, *self.high, *self.speed_per_s)):
            raise RobotError(
                "a limit is not a number", got=self, expected="numbers; infinite without a limit"
            )
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise RobotError("a lower limit is above the upper one", got=f"{self.low} and {self.high}")
        if math.inf in self.low or -math.inf in self.high:
            raise RobotError("a range has no finite number in it", got=f"{self.low} to {self.high}")
        if any(speed < 0 for speed in self.speed_per_s):
            raise RobotError(
                "a speed limit is negative", got=self.speed_per_s, expected="0 or more, in units per second"
            )


@dataclass(frozen=True)
class Description:
    """A robot's signals with units, its action and limits, its cameras and its control rate.

    A policy acts on a robot whose signals and action have the names, elements, units and shapes that it learned from: declare
    them as the twin does (`observation.state` with elements `JOINT.pos`, `action` with `JOINT.target` ...).

    Args:
        robot_type: The kind of robot, such as `so101`.
        serial: Which robot of its kind; goes into every recording.
        signals: What `observe` returns.
        action: What `act` takes.
        limits: Limits of the action.
        rate_hz: Control rate.
        cameras: Cameras whose frames can be requested.
        site: Where the robot stands; goes into every recording.
        twin: Name or folder of its twin.
        twin_hash: Content hash of that twin, if it must be the same.
        task: Name of the task; default: the twin's.
        time_limit_s: Time limit of an episode; default: that of the task in the twin.
        standin: The robot is simulated; its recordings are never called real.
        lockstep: Time passes only when a command is sent, one control step for each.
        independent_episodes: What happens in an episode follows from its number and the commands alone, whatever the robot did before.
        judges: A robot that sets scenes by itself also says which trials succeed; else a person beside it does.
        engine: What simulates a stand-in.
        software: Versions that go into every recording.
        position_signal: The signal with the robot's position in the elements and units of the action: where the first command
            starts from, and what the robot holds when commands stop.
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
    time_limit_s: float | None = None
    standin: bool = False
    lockstep: bool = False
    independent_episodes: bool = False
    judges: bool = True
    engine: str | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    position_signal: str = "observation.state"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise RobotError(
                "a robot's control rate cannot be used", got=self.rate_hz, expected="a rate above 0 Hz"
            )
        if len(self.limits.low) != self.action.size:
            raise RobotError(
                "limits do not fit the action",
                got=len(self.limits.low),
                expected=f"{self.action.size} of each",
            )

    def schema(self, cameras: tuple[str, ...] = ()) -> Schema:
        """The schema of a recording of this robot: every signal, the action, and the named cameras."""
        every = Schema((*self.signals, self.action), self.rate_hz, self.cameras, self.robot_type)
        return replace(every, cameras=tuple(every.camera(name) for name in cameras))


@dataclass(frozen=True)
class Observation:
    """Readings at one time of the robot's clock.

    Args:
        time_s: Time of the readings by the robot's own clock, never going back.
        signals: An array for each declared signal, in its shape and unit.
        frames: A frame (height, width, 3) uint8 for each requested camera.
    """

    time_s: float
    signals: Mapping[str, Array]
    frames: Mapping[str, Array] = field(default_factory=dict)


class Robot(Protocol):
    """A robot arm with its sensors. `observe` and `act` raise `RobotGone` when the connection is lost.

    When commands stop during a recording, a watchdog's thread calls `observe` and `act` to hold the robot; the two are never
    called at the same time.
    """

    @property
    def description(self) -> Description:
        """The robot's description; known once it is connected."""

    def connect(self) -> None:
        """Connect; can be called again after `close` or after a lost connection."""

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras."""

    def act(self, action: Array) -> Array:
        """Send a command; returns what was sent after limits."""

    def close(self) -> None:
        """Disconnect; the robot holds its position."""


@runtime_checkable
class TrialSupervisor(Protocol):
    """Supervises trials on a robot: sets the scene, demonstrates, and judges the outcome."""

    def prepare(self, number: int) -> None:
        """Move robot and scene to the start of episode `number`."""

    def steer(self) -> Array:
        """The current command of a person at a leader arm."""

    def judge(self, over: bool = False) -> Outcome:
        """The outcome so far, unknown while undecided; once the episode is `over`, success or failure."""


class Stoppable(Protocol):
    """A robot that can be stopped from any thread until a person resets it, such as a `SafetyEnvelope`."""

    stopped: str | None
    """Why it is stopped."""

    def stop(self, reason: str, by: str) -> None:
        """Bring the robot to a hold, and refuse every further command."""

    def reset(self, by: str, reason: str) -> None:
        """Let it move again, after the person `by` has looked at it."""


@runtime_checkable
class AttendingSupervisor(TrialSupervisor, Protocol):
    """A supervisor who is a person: may stop the robot at any moment, and says more of a trial than its outcome.

    `check` and `judge` raise `TrialVoid` for a trial that says nothing; `prepare` raises `TrialSkipped` for a scene that is left
    out, and `TrialsPaused` when the person leaves.
    """

    def attach(self, robot: Stoppable) -> None:
        """A trial begins on this robot, which the person may stop at any moment."""

    def check(self) -> None:
        """Called before every command."""

    def remarks(self) -> tuple[Event, ...]:
        """Events about the trial that has just ended: who judged it, where things lay, how it failed, notes."""


class SupervisedRobot(Robot, TrialSupervisor, Protocol):
    """A robot that supervises its own trials."""


@runtime_checkable
class Replicable(Protocol):
    """A simulated robot that can be started more than once."""

    def replicate(self) -> SupervisedRobot:
        """Another one like it, not yet connected."""


@runtime_checkable
class Placeable(Protocol):
    """A simulated robot that sets the scene that it is asked for."""

    def place(self, number: int, values: Mapping[str, float]) -> None:
        """Begin episode `number` with things where these values of the twin's parameters say."""


AnyRobot = TypeVar("AnyRobot", bound=Robot)

ROBOTS: Registry[Callable[[str], Robot]] = Registry("robot", "robots")
"""By scheme, a function of what follows the colon: `standin:severe` is `ROBOTS.get("standin")("severe")`."""


def open_robot(url: str) -> Robot:
    """Open the robot at an address.

    Args:
        url: "standin:NAME", "standin:FILE.yaml", "python:FILE.py", "ros2:CONFIG.yaml", "lerobot:CONFIG.yaml", "unix:PATH", "tcp:HOST:PORT", or a plug-in's scheme.

    Returns:
        The robot, not yet connected.

    Raises:
        UnknownName: No robot is registered for the scheme.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise WrongUse(
            "a robot's address needs a scheme", got=url, expected="SCHEME:ADDRESS", available=ROBOTS.names(),
            remedy="for example standin:mild or tcp:127.0.0.1:4750",
        )  # fmt: skip
    return ROBOTS.get(scheme)(rest)


@contextmanager
def connected(robot: AnyRobot) -> Iterator[AnyRobot]:
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
    values = np.asarray(action, dtype=np.float64)
    if values.shape != description.action.shape or not np.isfinite(values).all():
        raise RobotError(
            "this action cannot be sent",
            got=f"shape {values.shape}"
            if values.shape != description.action.shape
            else "numbers that are not finite",
            expected=f"{description.action.shape} finite numbers: {', '.join(description.action.elements)}",
        )
    return values


def read_position(description: Description, observation: Observation) -> Array:
    """Where the robot is, as a command would say it: float64 of the action's shape.

    Args:
        description: The robot's description, which names the signal.
        observation: Readings of the robot.

    Returns:
        The position.

    Raises:
        RobotError: The signal is missing, has another shape or unit than the action, or is not finite.
    """
    name, action = description.position_signal, description.action
    reading = observation.signals.get(name)
    if reading is None or np.shape(reading) != action.shape:
        raise RobotError(
            "the robot does not report where it is, so its speed cannot be limited",
            got=f"no {name}" if reading is None else f"{name} of shape {np.shape(reading)}",
            expected=f"a signal with the {action.size} elements of the action",
            remedy="observe it, and name it in the Description: position_signal",
        )
    for signal in description.signals:
        if signal.name == name and _list_units(signal) != _list_units(action):
            raise RobotError(
                f"{name} and the action have different units",
                got=f"{', '.join(signal.units)} and {', '.join(action.units)}",
                remedy="report the position in the units of the action",
            )
    position = np.asarray(reading, np.float64)
    if not np.isfinite(position).all():
        raise RobotError(
            "the robot's reading of its position is not finite",
            got=f"{name} {position.tolist()}",
            remedy="check the encoders and the bus",
        )
    return position


def _list_units(signal: Signal) -> tuple[str, ...]:
    return signal.units if len(signal.units) == signal.size else signal.units * signal.size
