"""Shared by tasks with an object and a target: initial state and success conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.tasks.cell import Cell
from twinloop.tasks.protocol import Start
from twinloop.tasks.truth import Truth
from twinloop.twins import initial_state

REST_M_S = 0.03
"""An object slower than this rests."""

OFF_TABLE_M = 0.03
"""An object this far below the table top has fallen off."""


FAR_M = 0.5
"""What is this far from its goal, or farther, gets the smallest dense reward."""


def start_at_rest(cell: Cell, values: Mapping[str, Any], count: int) -> Start:
    """Start episodes with the joints at home, object and target placed, and nothing moving.

    Args:
        cell: The cell of the task.
        values: Values of the scene's parameters, each a number or an array (count,), in the parameter's unit.
        count: Number of environments.

    Returns:
        The start of each environment.
    """
    state = initial_state(cell.twin, values, count)
    return Start(state.qpos, np.zeros((count, cell.model.nv)), state.ctrl, state.mocap_pos)


def target_radius_m(cell: Cell) -> float:
    """How far from the target's centre still counts: the radius of the disc that marks it."""
    body = cell.model.body(cell.twin.role("target"))
    return float(cell.model.geom_size[int(body.geomadr[0]), 0])


def distance_to_target_m(truth: Truth) -> Array:
    """From the object's centre to the target's, along the table: (N,)."""
    away = truth.object_position[:, :2] - truth.target_position[:, :2]
    return np.asarray(np.sqrt(away[:, 0] * away[:, 0] + away[:, 1] * away[:, 1]))


def tool_to_object_m(truth: Truth) -> Array:
    """From the tool to the object's centre: (N,)."""
    away = truth.tool_position - truth.object_position
    return np.asarray(np.sqrt((away * away).sum(axis=1)))


def nearness_lost(distance_m: Array) -> Array:
    """Distances as a part of a dense reward: 0 at the goal, 1 from `FAR_M` on."""
    return np.minimum(distance_m / FAR_M, 1.0)


def speed_m_s(velocity: Array) -> Array:
    """Length of the linear part of velocities (N, 6)."""
    x, y, z = velocity[:, 0], velocity[:, 1], velocity[:, 2]
    return np.asarray(np.sqrt(x * x + y * y + z * z))


def fell_off(truth: Truth) -> Array:
    """Whether the object is below the table top: (N,)."""
    return np.asarray(truth.object_position[:, 2] < truth.table_height_m - OFF_TABLE_M)
