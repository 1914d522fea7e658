"""Bring the tool to the target, and stay there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.tasks.cell import Cell
from twinloop.tasks.place import nearness_lost, start_at_rest, target_radius_m
from twinloop.tasks.protocol import TASKS, Judgement, Start
from twinloop.tasks.truth import Truth

HOLD_S = 0.1


@TASKS.register("reach")
class Reach:
    """Success: the tool's centre stays within the sphere that marks the target."""

    roles = ("target", "tool")
    phases = ("approach", "inside")
    failures = ("not_reached",)
    time_limit_s = 4.0
    memory = 1
    text = "Reach the target."

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._radius_m = target_radius_m(cell)

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """The joints at home, the target where the draw puts it."""
        return start_at_rest(self._cell, values, len(seeds))

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """`memory` holds how long the tool has been inside."""
        inside = tool_to_target_m(truth) < self._radius_m
        inside_s = np.where(inside, memory[:, 0] + self._cell.dt_s, 0.0)
        return Judgement(
            phase=inside.astype(np.int64),
            success=inside_s > HOLD_S - 1e-9,
            failed=np.zeros_like(inside),
            reason=np.zeros(len(inside), dtype=np.int64),
            memory=inside_s[:, None],
        )

    def reward(self, truth: Truth) -> Array:
        """For the tool's way to the target."""
        return -nearness_lost(tool_to_target_m(truth))


def tool_to_target_m(truth: Truth) -> Array:
    """From the tool to the target's centre: (N,)."""
    away = truth.tool_position - truth.target_position
    return np.asarray(np.sqrt((away * away).sum(axis=1)))
