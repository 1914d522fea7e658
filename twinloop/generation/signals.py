"""Which signals an episode records, and how a control step becomes one row of numbers.

The action is a position target per actuator, gripper included: the very command the servos get and what teleoperated
recordings of real arms hold, so that a policy learned from it needs no inverse kinematics and fits every engine.
Signals called `simulation.*` are the truth, which no real recording has; never feed them to a policy.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array, Schema, Signal
from twinloop.experts import Reading
from twinloop.tasks import Cell, Truth


def make_schema(cell: Cell, cameras: tuple[str, ...]) -> Schema:
    """The schema of every episode in this cell."""
    by_name = {camera.name: camera for camera in cell.twin.cameras}
    declared = Schema(
        _signals(cell), cell.twin.control_hz, tuple(by_name.values()), cell.twin.robot or "unknown"
    )
    return Schema(
        declared.signals,
        declared.rate_hz,
        tuple(declared.camera(name) for name in cameras),
        declared.robot_type,
    )


def _signals(cell: Cell) -> tuple[Signal, ...]:
    names = cell.actuators
    signals: list[Signal] = []

    def per_actuator(name: str, suffix: str, turning: str, sliding: str) -> Signal:
        units = tuple(turning if turns else sliding for turns in cell.turning)
        return Signal(name, (len(names),), units, elements=tuple(f"{n}.{suffix}" for n in names))

    if names:
        signals += [
            per_actuator("observation.state", "pos", "rad", "m"),
            per_actuator("observation.velocity", "vel", "rad/s", "m/s"),
            per_actuator("observation.effort", "effort", "N·m", "N"),
        ]
    signals += [group.signal for group in cell.sensors]
    if cell.object_qpos is not None:
        signals.append(_environment_state(cell))
        pose = ("object.x", "object.y", "object.z", "object.qw", "object.qx", "object.qy", "object.qz")
        signals.append(Signal("simulation.object", (7,), ("m",) * 3 + ("1",) * 4, elements=pose))
        forces = ("robot_object.deepest_force", "object_table.deepest_force")
        signals.append(Signal("simulation.contact", (2,), ("N",), elements=forces))
    if names:
        signals.append(per_actuator("action", "target", "rad", "m"))
    return tuple(signals)


def _environment_state(cell: Cell) -> Signal:
    """The object as perceived, then the target. Orientation is two columns of the rotation matrix: no jumps."""
    elements = [f"object.{axis}" for axis in "xyz"] + [f"object.r{row}{col}" for col in "12" for row in "123"]
    units = ["m"] * 3 + ["1"] * 6
    if cell.target_mocap is not None:
        elements += [f"target.{axis}" for axis in "xyz"]
        units += ["m"] * 3
    return Signal("observation.environment_state", (len(units),), tuple(units), elements=tuple(elements))


def row_parts(cell: Cell, truth: Truth, reading: Reading, action: Array) -> list[Array]:
    """One control step of all environments, in the order of the schema's signals: (N, size) each."""
    parts: list[Array] = []
    if cell.actuators:
        parts += [reading.position, reading.velocity, reading.effort]
    if cell.sensors:
        assert reading.sensors is not None
        parts.append(reading.sensors)
    if cell.object_qpos is not None:
        parts += [reading.object_position, reading.object_columns]
        if cell.target_mocap is not None:
            parts.append(reading.target_position)
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
