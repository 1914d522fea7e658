"""What force-torque and inertial sensors make of the truth: noise, bias, an offset that warms up, a bias that walks.

A force-torque sensor is zeroed when it is switched on, cold. From then on its offset approaches `force_drift_n` with the
time constant `force_warm_up_s`; `force_age_s` is how long ago that was when the episode began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from twinloop.episode import Array
from twinloop.imperfect import bias, drift
from twinloop.tasks import Cell

Numbers = Mapping[str, Array]

NOISE = {
    "force": "force_noise_n",
    "torque": "torque_noise_nm",
    "gyro": "gyro_noise_rad_s",
    "gyro_drift": "gyro_drift_rad_s",
    "accelerometer": "accelerometer_noise_m_s2",
}
"""Streams of noise, and the parameter that each of them scales."""

_BIAS = {
    "force": "force_bias_n",
    "torque": "torque_bias_nm",
    "gyro": "gyro_bias_rad_s",
    "accelerometer": "accelerometer_bias_m_s2",
}
_WARMS = {"force": "force_drift_n", "torque": "torque_drift_nm"}
ERRORS = (*NOISE.values(), *_BIAS.values(), *_WARMS.values())
"""Every parameter that makes a reading wrong; without any of them, readings are exact."""


class SensorErrors:
    """The sensors of `count` environments; `walk_s` is how long a walk takes to reach its given deviation."""

    def __init__(self, cell: Cell, count: int, walk_s: float) -> None:
        self._groups, self._count, self._walk_s = cell.sensors, count, walk_s
        self._dt_s = cell.dt_s
        self._warmth = np.zeros(count)
        self._walk = np.zeros((count, self.width("gyro")))

    def width(self, stream: str) -> int:
        """Numbers per reading that a stream of noise is for; 0 where the cell has no such sensor."""
        kind = "gyro" if stream == "gyro_drift" else stream
        return sum(len(group.elements) for group in self._groups if group.kind == kind)

    def restart(self, ids: Array, number: Numbers) -> None:
        """New episodes in the environments `ids`."""
        self._walk[ids] = 0.0
        if "force_age_s" in number:
            self._warmth[ids] = -np.expm1(-number["force_age_s"][ids] / number["force_warm_up_s"][ids])

    def state(self) -> tuple[Array, Array]:
        """How warm the sensors are (N,), and how far their bias has walked (N, gyro axes)."""
        return self._warmth, self._walk

    def restore(self, which: Array, state: tuple[Array, Array]) -> None:
        """The environments `which` (N,) bool go back to an earlier `state`."""
        warmth, walk = state
        self._warmth = np.where(which, warmth, self._warmth)
        self._walk = np.where(which[:, None], walk, self._walk)

    def read(self, exact: Array, number: Numbers, noise: Callable[[str], Array | None]) -> Array:
        """Readings of all sensors, (N, channels), for exact ones; `noise` gives standard normals by stream."""
        readings = exact.copy()
        warmed = self._warmth
        start = 0
        for group in self._groups:
            end = start + len(group.elements)
            part = readings[:, start:end]
            if _BIAS[group.kind] in number:
                normal = noise(group.kind)
                deviation = number[NOISE[group.kind]] if normal is not None else 0.0
                error = bias.Bias(number[_BIAS[group.kind]], noise=deviation)
                part = bias.apply(error, part, self._dt_s, normal)
            if group.kind in _WARMS and _WARMS[group.kind] in number:
                warmed, part = self._warmed(number[_WARMS[group.kind]], number["force_warm_up_s"], part)
            if group.kind == "gyro" and "gyro_drift_rad_s" in number:
                part = self._walked(number["gyro_drift_rad_s"], part, noise("gyro_drift"))
            readings[:, start:end] = part
            start = end
        self._warmth = warmed
        return readings

    def _warmed(self, offset: Array, time_constant_s: Array, part: Array) -> tuple[Array, Array]:
        # One kelvin stands for the whole way from cold to warm.
        warming = drift.TemperatureDrift(
            offset, ambient_c=0.0, self_heating_k=1.0, zeroed_at_c=0.0, time_constant_s=time_constant_s
        )
        state, reading = drift.step_temperature(
            warming, drift.TemperatureState(self._warmth), part, self._dt_s
        )
        return state.temperature_c, reading

    def _walked(self, deviation: Array, part: Array, normal: Array | None) -> Array:
        if normal is None:
            return part
        walk = drift.RandomWalk(deviation / np.sqrt(self._walk_s))
        state, reading = drift.step_walk(walk, drift.WalkState(self._walk), part, self._dt_s, normal)
        self._walk = state.offset
        return reading
