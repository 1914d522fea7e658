"""Limits: a robot that is never sent a command outside its range or faster than it may change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.robots.protocol import Description, Observation, Robot, validate_action

Array = NDArray[Any]


class LimitedRobot:
    """Wraps a robot; commands are clipped to its declared limits, and what was sent is returned.

    The speed limit holds from one command to the next, and for the first one from the reading `start_signal`.
    `clipped` counts commands that had to be changed.
    """

    def __init__(self, robot: Robot, start_signal: str = "observation.state") -> None:
        self._robot = robot
        self._start_signal = start_signal
        self._last: Array | None = None
        self.clipped = 0

    @property
    def description(self) -> Description:
        """The robot's."""
        return self._robot.description

    def connect(self) -> None:
        """Reach the robot; the first command is limited from where it is."""
        self._robot.connect()
        self._last = None

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings."""
        return self._robot.observe(cameras)

    def restart(self) -> None:
        """Forget the last command, after the robot was moved by somebody else."""
        self._last = None

    def act(self, action: Array) -> Array:
        """Send the nearest command that keeps the limits."""
        description = self._robot.description
        asked = validate_action(description, action)
        limits = description.limits
        if self._last is None:
            start = self._robot.observe().signals.get(self._start_signal)
            fits = start is not None and np.shape(start) == asked.shape
            self._last = np.asarray(start, np.float64) if fits else asked
        reach = np.asarray(limits.speed_per_s) / description.rate_hz
        sent = np.clip(asked, self._last - reach, self._last + reach)
        sent = np.clip(sent, limits.low, limits.high)
        self.clipped += int(not np.array_equal(sent, asked))
        self._last = np.asarray(self._robot.act(sent), np.float64)
        return self._last

    def close(self) -> None:
        """Let go of the robot."""
        self._robot.close()
