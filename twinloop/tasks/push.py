"""Push the object along the table onto the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.tasks.cell import Cell
from twinloop.tasks.place import (
    REST_M_S,
    distance_to_target_m,
    fell_off,
    nearness_lost,
    speed_m_s,
    start_at_rest,
    target_radius_m,
    tool_to_object_m,
)
from twinloop.tasks.protocol import TASKS, Judgement, Start, first_true
from twinloop.tasks.truth import Truth

HOLD_S = 0.1
INSIDE = 0.6
"""Fraction of the disc's radius within which the object's centre must end: well inside, not at the rim."""


@TASKS.register("push")
class Push:
    """Success: touched, then at rest with its centre well inside the target disc."""

    roles = ("object", "target", "tool", "table")
    phases = ("approach", "contact", "transport", "release")
    failures = ("object_lost", "never_touched", "missed_target", "not_at_rest")
    time_limit_s = 14.0
    memory = 2
    text = "Push the object onto the target."

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._radius_m = INSIDE * target_radius_m(cell)

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """Object and target where the draw puts them."""
        return start_at_rest(self._cell, values, len(seeds))

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """`memory` holds whether the object was touched, and how long it has been in place."""
        touching = truth.robot_object.touching
        touched = (memory[:, 0] > 0.0) | touching
        near = distance_to_target_m(truth) < self._radius_m
        slow = speed_m_s(truth.object_velocity) < REST_M_S
        in_place_s = np.where(touched & near & slow, memory[:, 1] + self._cell.dt_s, 0.0)
        lost = fell_off(truth)
        phase = np.where(touched & ~touching, 3, np.where(touching & ~slow, 2, np.where(touching, 1, 0)))
        return Judgement(
            phase=phase,
            success=in_place_s > HOLD_S - 1e-9,
            failed=lost,
            reason=first_true(lost, ~touched, ~near),
            memory=np.stack([touched, in_place_s], axis=-1).astype(np.float64),
        )

    def reward(self, truth: Truth) -> Array:
        """Half for the tool's way to the object, half for the object's way to the target."""
        return -0.5 * nearness_lost(tool_to_object_m(truth)) - 0.5 * nearness_lost(
            distance_to_target_m(truth)
        )
