"""An object is thrown onto a table until it rests; no robot is involved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.imperfect.noise import draw_uniform
from twinloop.tasks.cell import Cell
from twinloop.tasks.place import REST_M_S, fell_off, speed_m_s, start_at_rest
from twinloop.tasks.protocol import TASKS, Judgement, Start, first_true
from twinloop.tasks.truth import Truth

HOLD_S = 0.1
SPEED_M_S = 1.2
SPIN_RAD_S = 8.0
HEIGHT_M = (0.05, 0.2)


@TASKS.register("toss")
class Toss:
    """Success: the object came to rest on the table."""

    roles = ("object", "table")
    phases = ("flight", "contact", "rest")
    failures = ("object_lost", "still_moving")
    time_limit_s = 3.0
    memory = 2
    text = "Toss the object onto the table."

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """A throw that follows from the seed: any orientation, up to 1.2 m/s and 8 rad/s about each axis.

        How hard and from how high people throw are parameters of the twin.
        """
        start = start_at_rest(self._cell, values, len(seeds))
        uniform = draw_uniform(seeds, "toss", 1, (10,))[0].astype(np.float64)
        at, dof = self._cell.object_qpos, self._cell.object_dof
        assert at is not None and dof is not None
        start.qpos[:, at + 2] += HEIGHT_M[0] + (HEIGHT_M[1] - HEIGHT_M[0]) * uniform[:, 0]
        start.qpos[:, at + 2] += self._number(values, "throw_height_m", 0.0)
        start.qpos[:, at + 3 : at + 7] = _any_orientation(uniform[:, 1:4])
        speed_m_s = SPEED_M_S * self._number(values, "throw_speed_scale", 1.0)
        spin_rad_s = SPIN_RAD_S * self._number(values, "throw_spin_scale", 1.0)
        start.qvel[:, dof : dof + 3] = speed_m_s[..., None] * (2.0 * uniform[:, 4:7] - 1.0)
        start.qvel[:, dof + 3 : dof + 6] = spin_rad_s[..., None] * (2.0 * uniform[:, 7:10] - 1.0)
        return start

    def _number(self, values: Mapping[str, Any], name: str, otherwise: float) -> Array:
        twin = self._cell.twin
        nominal = twin.parameter(name).nominal if twin.has(name) else otherwise
        return np.asarray(values.get(name, nominal), np.float64)

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """`memory` holds whether the table was touched, and how long the object has been at rest."""
        touched = (memory[:, 0] > 0.0) | truth.object_table.touching
        slow = touched & truth.object_table.touching & (speed_m_s(truth.object_velocity) < REST_M_S)
        rest_s = np.where(slow, memory[:, 1] + self._cell.dt_s, 0.0)
        lost = fell_off(truth)
        return Judgement(
            phase=np.where(slow, 2, np.where(touched, 1, 0)),
            success=rest_s > HOLD_S - 1e-9,
            failed=lost,
            reason=first_true(lost),
            memory=np.stack([touched, rest_s], axis=-1).astype(np.float64),
        )


def _any_orientation(uniform: Array) -> Array:
    """Uniformly distributed quaternions (n, 4) from uniform numbers (n, 3), after Shoemake."""
    # Contiguous columns: NumPy may take another code path, and another last bit, for strided ones.
    share, first, second = np.ascontiguousarray(uniform.T)
    a, b = np.sqrt(1.0 - share), np.sqrt(share)
    first, second = 2.0 * math.pi * first, 2.0 * math.pi * second
    return np.stack([a * np.sin(first), a * np.cos(first), b * np.sin(second), b * np.cos(second)], axis=-1)
