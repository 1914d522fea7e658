"""Bumps: short shifts of an expert's path, so that the data covers recovery.

A bump lasts a third of a second and moves the commanded path by up to 4 cm (times the noise scale) in a random
direction. What is recorded as the action is what was commanded, bump included; what follows the bump is recovery.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.protocol import Setup
from twinloop.imperfect.noise import draw_normal, draw_uniform

BUMP_M = 0.02
BUMP_S = 0.3
BETWEEN_S = 1.5


class Bumps:
    """Offsets of N paths over a whole episode, from each episode's own seed."""

    def __init__(self, setup: Setup) -> None:
        self._noise = setup.noise
        self._rows = np.arange(setup.count)
        dt_s = setup.cell.dt_s
        self._length = max(2, round(BUMP_S / dt_s))
        self._spacing = max(self._length + 1, round(BETWEEN_S / dt_s))
        self._bumps = -(-setup.steps // self._spacing)
        self._last = setup.steps - 1
        self._offsets = np.zeros((setup.count, setup.steps, 3) if setup.noise else (0, 0, 3), np.float32)
        swing = np.sin(np.linspace(0.0, np.pi, self._length)) ** 2
        self._shape = swing.astype(np.float32)

    def restart(self, ids: Array, seeds: Array) -> None:
        """Draw the bumps of new episodes."""
        if not self._noise:
            return
        when = draw_uniform(seeds, "bump_time", self._bumps, (1,))[:, :, 0]
        size = draw_normal(seeds, "bump", self._bumps, (3,)) * np.float32(self._noise * BUMP_M)
        size = np.clip(size, -2.0 * self._noise * BUMP_M, 2.0 * self._noise * BUMP_M)
        steps = self._offsets.shape[1]
        self._offsets[ids] = 0.0
        for bump in range(self._bumps):
            first = bump * self._spacing + (when[bump] * (self._spacing - self._length)).astype(np.int64)
            for k in range(self._length):
                at = first + k
                inside = at < steps
                self._offsets[ids[inside], at[inside]] = self._shape[k] * size[bump][inside]

    def offset(self, step: Array) -> Array | float:
        """How far each path is moved now: (N, 3), or nothing at all."""
        return self._offsets[self._rows, np.minimum(step, self._last)] if self._noise else 0.0
