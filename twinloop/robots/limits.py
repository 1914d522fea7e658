"""Range and speed of a command: what every robot limits, and what a stand-in applies of its own."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.robots.protocol import Limits


def limit_command(limits: Limits, target: Array, last: Array, rate_hz: float) -> Array:
    """The command nearest to a target that the limits allow after the last command.

    Commands stay in the range. A robot that starts outside of it is brought back at the speed limit, without a jump.

    Args:
        limits: Range and speed per element.
        target: Where to go, finite, (elements,).
        last: The last command or, at the start, the position of the robot.
        rate_hz: Control rate.

    Returns:
        The command, (elements,).
    """
    reach = np.asarray(limits.speed_per_s, np.float64) / rate_hz
    return np.asarray(np.clip(np.clip(target, limits.low, limits.high), last - reach, last + reach))
