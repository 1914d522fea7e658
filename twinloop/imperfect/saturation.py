"""Motor saturation: a torque limit, and the torque-speed line of the supply voltage.

In the driving quadrants the torque may not exceed min(limit, stall (1 - |speed| / no_load_speed)), and never falls below
zero; when braking, the voltage helps and only the limit holds. The two meet at the corner speed
no_load_speed (1 - limit / stall).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.imperfect.parameters import Array, Value, broadcast, check_field


@dataclass(frozen=True)
class Saturation:
    """Infinite values, the defaults, mean "no such limit"."""

    limit_nm: Value = np.inf
    stall_nm: Value = np.inf
    no_load_speed_rad_s: Value = np.inf

    def __post_init__(self) -> None:
        check_field(self, "limit_nm", at_least=0.0, infinite=True)
        check_field(self, "stall_nm", above=0.0, infinite=True)
        check_field(self, "no_load_speed_rad_s", above=0.0, infinite=True)


def corner_speed_rad_s(params: Saturation) -> Array:
    """Above this speed the supply limits the torque; below it, the limit does."""
    ratio = np.minimum(np.asarray(params.limit_nm) / np.asarray(params.stall_nm), 1.0)
    return np.asarray(params.no_load_speed_rad_s * (1.0 - ratio))


def driving_limit_nm(params: Saturation, speed_rad_s: Array) -> Array:
    """The largest torque in the direction of motion, at this speed in that direction: (N, ...)."""
    speed = np.asarray(speed_rad_s)
    fraction = np.maximum(
        1.0 - np.maximum(speed, 0.0) / broadcast(params.no_load_speed_rad_s, speed.shape), 0.0
    )
    stall = broadcast(params.stall_nm, speed.shape)
    # An infinite stall torque times nothing left at the no-load speed is nothing, not NaN.
    line = np.where(fraction > 0.0, stall * np.where(fraction > 0.0, fraction, 1.0), 0.0)
    return np.minimum(line, broadcast(params.limit_nm, speed.shape))


def apply(params: Saturation, torque_nm: Array, speed_rad_s: Array) -> Array:
    """The torque delivered (N, ...) when `torque_nm` (N, ...) is asked for at `speed_rad_s` (N, ...)."""
    speed = np.asarray(speed_rad_s)
    upper = driving_limit_nm(params, speed)
    lower = driving_limit_nm(params, -speed)
    return np.clip(torque_nm, -lower, upper)
