"""Keep commands within a robot's range and speed, per time on the robot's clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone
from twinloop.robots.protocol import Description, Limits, Observation, Robot, read_position, validate_action


def limit_command(limits: Limits, target: Array, last: Array, rate_hz: float, part: float = 1.0) -> Array:
    """The command nearest to a target that the limits allow after the last command.

    Commands stay in the range. A robot that starts outside of it is brought back at the speed limit, without a jump.

    Args:
        limits: Range and speed per element.
        target: Where to go, finite, (elements,).
        last: The last command or, at the start, the position of the robot.
        rate_hz: Control rate.
        part: Part of a control step that has passed since the last command, 0 to 1.

    Returns:
        The command, (elements,).
    """
    reach = np.asarray(limits.speed_per_s, np.float64) / rate_hz
    reach[np.isfinite(reach)] *= part  # without a speed limit, also where no time has passed
    return np.asarray(np.clip(np.clip(target, limits.low, limits.high), last - reach, last + reach))


class LimitedRobot:
    """Wraps a robot: clips commands to its declared limits and returns what was sent.

    The speed limit holds per time on the robot's clock, and for the first command from the robot's position. Commands that
    come faster than the control rate share its reach; after a pause a command reaches as far as one control step allows, and
    no further. `clipped` counts commands that had to be changed.

    Args:
        robot: The robot.
        clock: This machine's clock, which tells how much time of the robot's has passed since it was last observed.
    """

    def __init__(self, robot: Robot, clock: Callable[[], float] = time.monotonic) -> None:
        self._robot, self._clock = robot, clock
        self.clipped = 0
        self.restart()

    @property
    def description(self) -> Description:
        """The wrapped robot's description."""
        return self._robot.description

    def connect(self) -> None:
        """Connect; the first command is limited relative to the robot's position."""
        self._robot.connect()
        self.restart()

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings."""
        observation = self._robot.observe(cameras)
        if not math.isfinite(observation.time_s):
            raise RobotError("the robot's clock gives no time", got=observation.time_s, expected="seconds")
        self._seen_s, self._received_s = observation.time_s, self._clock()
        return observation

    def restart(self) -> None:
        """Forget the last command, after something else has moved the robot."""
        self._last: Array | None = None
        self._sent_s = self._last_seen_s = self._seen_s = self._received_s = -math.inf

    def act(self, action: Array) -> Array:
        """Send the nearest command within the limits."""
        description = self._robot.description
        target = validate_action(description, action)
        part = 1.0
        if self._last is None:
            last = self._find_start(target)
        else:
            last = self._last
            part = 1.0 if description.lockstep else self._measure_part()
        sent = limit_command(description.limits, target, last, description.rate_hz, part)
        self.clipped += int(not np.array_equal(sent, target))
        return self._send(sent, last)

    def hold(self) -> Array:
        """Command the robot to stay where it is, or at its last command if its reading is not finite."""
        try:
            position = read_position(self._robot.description, self.observe())
        except RobotGone:
            raise
        except RobotError:
            if self._last is None:
                raise
            position = self._last
        return self._send(position, position)

    def close(self) -> None:
        """Disconnect from the robot."""
        self._robot.close()

    def _find_start(self, target: Array) -> Array:
        """The robot's position. A robot without a speed limit needs none."""
        observation = self.observe()
        if np.isinf(self._robot.description.limits.speed_per_s).all():
            return target
        return read_position(self._robot.description, observation)

    def _measure_part(self) -> float:
        """Part of a control step that has passed on the robot's clock since the last command, 0 to 1."""
        if self._seen_s == self._last_seen_s:
            self.observe()
        if self._seen_s < self._last_seen_s:
            raise RobotError(
                "the robot's clock went back",
                got=f"{self._seen_s:.3f} s after {self._last_seen_s:.3f} s",
                remedy="call restart() after something else has moved the robot",
            )
        return min(1.0, max(0.0, (self._now_s() - self._sent_s) * self._robot.description.rate_hz))

    def _now_s(self) -> float:
        """The robot's clock, read off this machine's since the last observation: a stall may lie in between."""
        return self._seen_s + (self._clock() - self._received_s)

    def _send(self, command: Array, last: Array) -> Array:
        self._sent_s, self._last_seen_s = self._now_s(), self._seen_s
        sent = np.asarray(self._robot.act(command), np.float64)
        if sent.shape != command.shape or not np.isfinite(sent).all():
            self._last = command
            raise RobotError(
                "the robot does not return the command it sent", got=sent.tolist(), expected="finite numbers"
            )
        # A robot's own limits hold it back: what it returns lies between the last command and this one.
        self._last = np.clip(sent, np.minimum(last, command), np.maximum(last, command))
        return sent
