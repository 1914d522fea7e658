"""Pick the object up and put it down on the target."""

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
"""The object must lie on the target, let go and at rest, for this long."""


@TASKS.register("pick_and_place")
class PickAndPlace:
    """Success: lifted once, then let go and at rest with its centre on the target disc."""

    roles = ("object", "target", "tool", "gripper", "table")
    phases = ("approach", "contact", "transport", "release")
    failures = (
        "object_lost",
        "never_touched",
        "never_lifted",
        "not_released",
        "missed_target",
        "not_at_rest",
    )
    time_limit_s = 12.0
    memory = 3
    text = "Pick up the object and place it on the target."

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._radius_m = target_radius_m(cell)

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """Object and target where the draw puts them."""
        return start_at_rest(self._cell, values, len(seeds))

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """`memory` holds whether the object was touched, whether it was lifted, and how long it has been in place."""
        touching = truth.robot_object.touching
        held = touching & ~truth.object_table.touching
        touched = (memory[:, 0] > 0.0) | touching
        lifted = (memory[:, 1] > 0.0) | held
        near = distance_to_target_m(truth) < self._radius_m
        resting = (speed_m_s(truth.object_velocity) < REST_M_S) & truth.object_table.touching
        in_place = lifted & ~touching & near & resting
        in_place_s = np.where(in_place, memory[:, 2] + self._cell.dt_s, 0.0)
        lost = fell_off(truth)
        released = lifted & ~touching
        phase = np.where(released, 3, np.where(held, 2, np.where(touching, 1, 0)))
        return Judgement(
            phase=phase,
            success=in_place_s > HOLD_S - 1e-9,
            failed=lost,
            reason=first_true(lost, ~touched, ~lifted, touching, ~near),
            memory=np.stack([touched, lifted, in_place_s], axis=-1).astype(np.float64),
        )

    def reward(self, truth: Truth) -> Array:
        """0.3 for the tool's way to the object, 0.2 for lifting it, 0.5 for its way to the target."""
        away_m = distance_to_target_m(truth)
        held = truth.robot_object.touching & ~truth.object_table.touching
        raised = held | (away_m < self._radius_m)
        return (
            -0.3 * nearness_lost(tool_to_object_m(truth))
            - 0.2 * (~raised).astype(np.float64)
            - 0.5 * nearness_lost(away_m)
        )
