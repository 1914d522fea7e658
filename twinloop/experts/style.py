"""The style of a demonstrator: speed, height, pauses and tremor, from the twin's parameters."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.protocol import Setup
from twinloop.imperfect.noise import draw_uniform

TREMOR_HZ = (8.0, 12.0)


class Style:
    """What the `demonstrator_*` parameters say for each of N environments; a twin without them is neutral."""

    def __init__(self, setup: Setup) -> None:
        self._parameters, self._count, self._dt_s = setup.style, setup.count, setup.cell.dt_s
        self._rate_hz = np.zeros((setup.count, 3))
        self._phase = np.zeros((setup.count, 3))

    def restart(self, ids: Array, seeds: Array) -> None:
        """Draw how the hands of new episodes shake: a frequency and a phase for each axis."""
        uniform = draw_uniform(seeds, "tremor", 1, (3, 2))[0].astype(np.float64)
        self._rate_hz[ids] = TREMOR_HZ[0] + (TREMOR_HZ[1] - TREMOR_HZ[0]) * uniform[..., 0]
        self._phase[ids] = 2.0 * np.pi * uniform[..., 1]

    @property
    def speed(self) -> Array:
        """What speeds are multiplied by, (N,)."""
        return self._value("demonstrator_speed_scale", 1.0)

    @property
    def lift_m(self) -> Array:
        """How much higher than usual the tool travels, (N,)."""
        return self._value("demonstrator_lift_m", 0.0)

    @property
    def pause_s(self) -> Array:
        """How long to wait before each movement, (N,)."""
        return self._value("demonstrator_pause_s", 0.0)

    def tremor(self, step: Array) -> Array:
        """How far the hands are off their paths at each environment's control step, (N, 3)."""
        angle = 2.0 * np.pi * self._rate_hz * (step * self._dt_s)[:, None] + self._phase
        return np.asarray(self._value("demonstrator_tremor_m", 0.0)[:, None] * np.sin(angle))

    def _value(self, name: str, neutral: float) -> Array:
        return self._parameters[name] if name in self._parameters else np.full(self._count, neutral)
