"""Clip commands to a robot's position and speed limits."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.robots.protocol import Description, Observation, Robot, validate_action


class LimitedRobot:
    """Wraps a robot: clips commands to its declared limits and returns what was sent.

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
        """The wrapped robot's description."""
        return self._robot.description

    def connect(self) -> None:
        """Connect; the first command is limited relative to the robot's position."""
        self._robot.connect()
        self._last = None

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings."""
        return self._robot.observe(cameras)

    def restart(self) -> None:
        """Forget the last command, after something else has moved the robot."""
        self._last = None

    def act(self, action: Array) -> Array:
        """Send the nearest command within the limits."""
        description = self._robot.description
        target = validate_action(description, action)
        limits = description.limits
        if self._last is None:
            start = self._robot.observe().signals.get(self._start_signal)
            fits = start is not None and np.shape(start) == target.shape
            self._last = np.asarray(start, np.float64) if fits else target
        reach = np.asarray(limits.speed_per_s) / description.rate_hz
        sent = np.clip(target, self._last - reach, self._last + reach)
        sent = np.clip(sent, limits.low, limits.high)
        self.clipped += int(not np.array_equal(sent, target))
        self._last = np.asarray(self._robot.act(sent), np.float64)
        return self._last

    def close(self) -> None:
        """Disconnect from the robot."""
        self._robot.close()
