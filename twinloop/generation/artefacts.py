"""Simulation artefacts: found in the trace of one episode and recorded as events.

- penetration: bodies overlap deeper than soft contact explains
- tunnelling: the object is inside or below the table top, or moved further in one step than its speed allows
- jitter: the object keeps reversing at speed, from one control step to the next, while nothing holds it
- energy: an object far from the robot gains energy, or moves faster than a robot could throw it
- the engine detects a non-finite state; see `diverged_event`
"""

from __future__ import annotations

import json

import numpy as np

from twinloop.episode import Array, Event
from twinloop.tasks import Cell, Truth

DEEP_M, DEEP_FRACTION = 0.003, 0.08
"""Overlap is deep beyond the larger of a length and a fraction of the object's size."""

SUNK_M = 0.005
JUMP_M = 0.02
REVERSAL_M_S = 0.05
REVERSALS = 5
GAIN_J_KG = 0.3
ALONE_M = 0.15
"""A tool this far from the object's centre cannot have touched it between two control steps."""

FLUNG_M_S = 4.0

KIND = "artefact"
COLUMNS = 16
"""Numbers a trace holds per control step; see `trace_row`."""


def trace_row(truth: Truth, object_inertia_m2: Array, judged_phase: Array) -> Array:
    """Trace of one control step, from which events and artefacts are found: (N, COLUMNS)."""
    row = np.empty((len(judged_phase), COLUMNS))
    row[:, 0] = judged_phase
    row[:, 1] = truth.robot_object.touching
    row[:, 2] = truth.object_table.touching
    row[:, 3] = truth.robot_object.depth_m
    row[:, 4] = truth.object_table.depth_m
    row[:, 5] = truth.robot_table.depth_m
    row[:, 6:9] = truth.object_position
    row[:, 9:12] = truth.object_velocity[:, :3]
    spin = truth.object_velocity[:, 3:]
    terms = object_inertia_m2 * spin * spin
    row[:, 12] = 0.5 * (terms[:, 0] + terms[:, 1] + terms[:, 2])
    row[:, 13] = truth.table_height_m
    away = truth.tool_position - truth.object_position
    row[:, 14] = away[:, 0] * away[:, 0] + away[:, 1] * away[:, 1] + away[:, 2] * away[:, 2]
    row[:, 15] = truth.robot_table.touching
    return row


def find_artefacts(cell: Cell, trace: Array, time_s: Array, gravity_m_s2: float) -> list[Event]:
    """The artefacts in a trace (T, COLUMNS), each reported once, at its first occurrence."""
    events = []
    depth_m = trace[:, 3:6].max(axis=1)
    deep_m = max(DEEP_M, DEEP_FRACTION * _object_size_m(cell))
    if (depth_m > deep_m).any():
        first = int(np.argmax(depth_m > deep_m))
        pair = ("robot object", "object table", "robot table")[int(np.argmax(trace[first, 3:6]))]
        detail = f"penetration {pair} {1000 * float(depth_m.max()):.1f} mm"
        events.append(Event(float(time_s[first]), KIND, detail))
    if cell.object_qpos is not None:
        events += _object_artefacts(cell, trace, time_s, gravity_m_s2)
    return events


def diverged_event(time_s: float, qpos: Array, qvel: Array, ctrl: Array) -> Event:
    """The event of a simulation that diverged, with its last finite state."""
    state = {"qpos": qpos.tolist(), "qvel": qvel.tolist(), "ctrl": ctrl.tolist()}
    return Event(time_s, KIND, f"non-finite state after {json.dumps(state)}")


def _object_artefacts(cell: Cell, trace: Array, time_s: Array, gravity_m_s2: float) -> list[Event]:
    events = []
    place, velocity = trace[:, 6:9], trace[:, 9:12]
    dt_s = cell.dt_s
    sunk = (place[:, 2] < trace[:, 13] - SUNK_M) & _over_table(cell, place)
    moved_m = np.linalg.norm(np.diff(place, axis=0), axis=1)
    speed_m_s = np.linalg.norm(velocity, axis=1)
    explained_m = 2.0 * dt_s * np.maximum(speed_m_s[1:], speed_m_s[:-1]) + JUMP_M
    tunnelled = np.flatnonzero(sunk)
    jumped = np.flatnonzero(moved_m > explained_m)
    if len(tunnelled):
        events.append(Event(float(time_s[tunnelled[0]]), KIND, "tunnelling object in the table"))
    elif len(jumped):
        detail = f"tunnelling object moved {1000 * float(moved_m[jumped[0]]):.0f} mm in one step"
        events.append(Event(float(time_s[jumped[0]]), KIND, detail))
    free = trace[:, 1] == 0.0
    if "tool" in cell.twin.roles:
        free &= trace[:, 14] > ALONE_M * ALONE_M
    alone = free[1:] & free[:-1]
    opposed = (velocity[1:] * velocity[:-1]).sum(axis=1) < 0.0
    slower = np.minimum(speed_m_s[1:], speed_m_s[:-1])
    reversals = np.flatnonzero(alone & opposed & (slower > REVERSAL_M_S))
    if len(reversals) >= REVERSALS:
        detail = f"jitter {len(reversals)} reversals"
        events.append(Event(float(time_s[reversals[0]]), KIND, detail))
    energy_j_kg = gravity_m_s2 * place[:, 2] + 0.5 * speed_m_s * speed_m_s + trace[:, 12]
    gained = np.where(alone, np.maximum(np.diff(energy_j_kg), 0.0), 0.0)
    total = float(gained.sum())
    flung = np.flatnonzero(speed_m_s > FLUNG_M_S)
    if len(flung) and "tool" in cell.twin.roles:
        detail = f"energy object at {float(speed_m_s[flung[0]]):.1f} m/s"
        events.append(Event(float(time_s[flung[0]]), KIND, detail))
    elif total > GAIN_J_KG:
        detail = f"energy {total:.2f} J/kg from nowhere"
        events.append(Event(float(time_s[int(np.argmax(gained))]), KIND, detail))
    return events


def _object_size_m(cell: Cell) -> float:
    """The nominal size of the object, 0 when there is none."""
    return float(cell.twin.parameter("object_size_m").nominal) if cell.twin.has("object_size_m") else 0.0


def _over_table(cell: Cell, place: Array) -> Array:
    """Whether the points (T, 3) lie over the table's collision geom."""
    if "table" not in cell.twin.roles:
        return np.zeros(len(place), dtype=bool)
    model = cell.model
    body = model.body(cell.twin.role("table")).id
    inside = np.zeros(len(place), dtype=bool)
    for geom in np.flatnonzero(np.asarray(model.geom_bodyid) == body):
        if model.geom_contype[geom] or model.geom_conaffinity[geom]:
            centre, size = np.asarray(model.geom_pos[geom]), np.asarray(model.geom_size[geom])
            inside |= (np.abs(place[:, :2] - centre[:2]) < size[:2]).all(axis=1)
    return inside
