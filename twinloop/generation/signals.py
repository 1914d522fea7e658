"""Which signals an episode records, and how a control step becomes one row of numbers.

The action is a position target per actuator, gripper included: the very command the servos get and what teleoperated
recordings of real arms hold, so that a policy learned from it needs no inverse kinematics and fits every engine.
Signals called `simulation.*` are the truth, which no real recording has; never feed them to a policy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinloop.episode import Array, Schema, Signal
from twinloop.experts.reading import Reading, name_signals
from twinloop.tasks import Cell, Truth


def make_schema(cell: Cell, cameras: tuple[str, ...]) -> Schema:
    """The schema of every episode in this cell."""
    twin = cell.twin
    declared = Schema(_signals(cell), twin.control_hz, twin.cameras, twin.robot or "unknown")
    return replace(declared, cameras=tuple(declared.camera(name) for name in cameras))


def _signals(cell: Cell) -> tuple[Signal, ...]:
    signals = [*cell.observed_actuators(), *(group.signal for group in cell.sensors), *cell.observed_scene()]
    if cell.object_qpos is not None:
        pose = ("object.x", "object.y", "object.z", "object.qw", "object.qx", "object.qy", "object.qz")
        forces = ("robot_object.deepest_force", "object_table.deepest_force")
        signals += [
            Signal("simulation.object", (7,), ("m",) * 3 + ("1",) * 4, elements=pose),
            Signal("simulation.contact", (2,), ("N",), elements=forces),
        ]
    if cell.actuators:
        signals.append(cell.actuator_signal("action", "target", "rad", "m"))
    return tuple(signals)


def row_parts(cell: Cell, truth: Truth, reading: Reading, action: Array) -> list[Array]:
    """One control step of all environments, in the order of the schema's signals: (N, size) each."""
    parts = list(name_signals(cell, reading).values())
    if cell.object_qpos is not None:
        parts += [truth.object_position, truth.object_quat]
        parts += [truth.robot_object.force_n[:, None], truth.object_table.force_n[:, None]]
    if cell.actuators:
        parts.append(action)
    return parts


def split_row(schema: Schema, rows: Array) -> dict[str, Array]:
    """Recorded rows (T, width) as one array per signal."""
    ends = np.cumsum([signal.size for signal in schema.signals])
    return {
        signal.name: rows[:, int(end) - signal.size : int(end)]
        for signal, end in zip(schema.signals, ends, strict=True)
    }
