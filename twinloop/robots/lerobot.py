"""Any object with LeRobot's robot methods as a robot: connect, get_observation, send_action, disconnect.

LeRobot's observations are flat: `{"shoulder_pan.pos": 12.5, ..., "front": frame}`. Numbers become one signal, in the
order of the action; arrays of three dimensions are frames. LeRobot itself is not imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from twinloop.episode import Array, Camera, Signal
from twinloop.errors import RobotError, RobotGone
from twinloop.robots.protocol import Description, Limits, Observation, validate_action

_LOST = (ConnectionError, TimeoutError, OSError)


class LeRobotMethods(Protocol):
    """The part of LeRobot's Robot class that is used."""

    def connect(self) -> None:
        """Connect to the robot."""

    def get_observation(self) -> Mapping[str, Any]:
        """Numbers and frames by name."""

    def send_action(self, action: dict[str, Any]) -> Mapping[str, Any]:
        """Send a command; returns what was sent."""

    def disconnect(self) -> None:
        """Disconnect from the robot."""


class LeRobotArm:
    """A LeRobot robot behind our protocol.

    `elements` are the keys of the action, in order; the same keys of an observation become `observation.state`, and
    other numbers of an observation `observation.extra`. `unit` is that of the positions: LeRobot's drivers use degrees
    or percent unless configured otherwise, so there is no default.
    """

    def __init__(
        self,
        robot: LeRobotMethods,
        elements: Sequence[str],
        *,
        unit: str,
        low: Sequence[float],
        high: Sequence[float],
        speed_per_s: Sequence[float],
        rate_hz: float = 30.0,
        robot_type: str = "unknown",
        serial: str = "unknown",
        site: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._robot, self._elements, self._clock = robot, tuple(elements), clock
        self._started_s = 0.0
        self._base: dict[str, Any] = {
            "robot_type": robot_type,
            "serial": serial,
            "rate_hz": rate_hz,
            "site": site,
        }
        self._action = Signal("action", (len(self._elements),), (unit,), elements=self._elements)
        self._limits = Limits(tuple(low), tuple(high), tuple(speed_per_s))
        self._extra: tuple[str, ...] = ()
        self._description: Description | None = None

    @property
    def description(self) -> Description:
        """What the robot declared at its first observation."""
        if self._description is None:
            raise RobotError("the robot is not connected yet", remedy="call connect() first")
        return self._description

    def connect(self) -> None:
        """Connect, and take one observation to learn the cameras and further signals."""
        try:
            self._robot.connect()
            seen = self._robot.get_observation()
        except _LOST as error:
            raise RobotGone(f"the robot cannot be reached ({error})") from error
        self._started_s = self._clock()
        if missing := [name for name in self._elements if name not in seen]:
            raise RobotError(
                "the robot does not report every element of its action",
                got=f"no {', '.join(missing)}",
                available=list(seen),
            )
        self._extra = tuple(n for n, v in seen.items() if n not in self._elements and np.ndim(v) == 0)
        images = {name: np.shape(value) for name, value in seen.items() if np.ndim(value) == 3}
        signals = [
            Signal("observation.state", self._action.shape, self._action.units, elements=self._elements)
        ]
        if self._extra:
            signals.append(
                Signal("observation.extra", (len(self._extra),), ("unknown",), elements=self._extra)
            )
        self._description = Description(
            signals=tuple(signals),
            action=self._action,
            limits=self._limits,
            cameras=tuple(Camera(name, shape[0], shape[1]) for name, shape in images.items()),
            **self._base,
        )

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """One LeRobot observation, with the time of the request."""
        time_s = self._clock() - self._started_s
        try:
            seen = self._robot.get_observation()
            signals = {"observation.state": np.array([float(seen[n]) for n in self._elements], np.float32)}
            if self._extra:
                signals["observation.extra"] = np.array([float(seen[n]) for n in self._extra], np.float32)
            return Observation(time_s, signals, {name: np.asarray(seen[name]) for name in cameras})
        except _LOST as error:
            raise RobotGone(f"the robot does not answer ({error})") from error
        except KeyError as error:
            raise RobotError(f"the robot no longer reports {error}") from error

    def act(self, action: Array) -> Array:
        """Send a command; returns it as clipped by LeRobot's own safety limits."""
        command = validate_action(self.description, action).tolist()
        targets = dict(zip(self._elements, command, strict=True))
        try:
            sent = self._robot.send_action(targets)
        except _LOST as error:
            raise RobotGone(f"the robot does not answer ({error})") from error
        return np.array([float((sent or targets).get(name, targets[name])) for name in self._elements])

    def close(self) -> None:
        """Disconnect."""
        if self._description is not None:
            try:
                self._robot.disconnect()
            except _LOST as error:
                raise RobotGone(f"the connection was lost while disconnecting ({error})") from error
