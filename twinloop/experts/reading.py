"""Sensor readings at one control step, one row per environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from twinloop.episode import Array
from twinloop.tasks import Cell, Truth


@dataclass(frozen=True)
class Reading:
    """Readings of N environments, with the delay and errors of the hardware.

    `position`, `velocity` and `effort` are per actuator. The object's pose is the perceived one: its position (N, 3), and
    its orientation as the first two columns of the rotation matrix (N, 6), which unlike angles and quaternions have
    neither jumps nor two names for one orientation. `time_s` (N,) is the time in each episode. `sensors` (N, channels)
    holds the axes of `Cell.sensors`; None where a robot does not report them. `frames` (N, height, width, 3) by camera are
    for experts that use cameras (`twinloop.experts.ImageExpert`), black for environments that need none in this step.
    """

    time_s: Array
    position: Array
    velocity: Array
    effort: Array
    object_position: Array
    object_columns: Array
    target_position: Array
    sensors: Array | None = None
    frames: Mapping[str, Array] = field(default_factory=dict)


def ideal_reading(truth: Truth) -> Reading:
    """The reading of ideal sensors."""
    return Reading(
        time_s=truth.time_s,
        position=truth.position,
        velocity=truth.velocity,
        effort=truth.effort,
        object_position=truth.object_position,
        object_columns=rotation_columns(truth.object_quat),
        target_position=truth.target_position,
        sensors=truth.sensors,
    )


def name_signals(cell: Cell, reading: Reading) -> dict[str, Array]:
    """A reading by the names under which it is recorded, (N, size) each: everything that an expert sees, except frames."""
    signals: dict[str, Array] = {}
    if cell.actuators:
        signals["observation.state"] = reading.position
        signals["observation.velocity"] = reading.velocity
        signals["observation.effort"] = reading.effort
    if cell.sensors and reading.sensors is not None:
        ends = np.cumsum([len(group.elements) for group in cell.sensors])[:-1]
        parts = np.split(reading.sensors, ends, axis=1)
        signals |= {group.signal.name: part for group, part in zip(cell.sensors, parts, strict=True)}
    scene = []
    if cell.object_qpos is not None:
        scene += [reading.object_position, reading.object_columns]
    if cell.target_mocap is not None:
        scene.append(reading.target_position)
    if scene:
        signals["observation.environment_state"] = np.concatenate(scene, axis=1)
    return signals


def rotation_columns(quat: Array) -> Array:
    """First two columns of the rotation matrices of quaternions (N, 4), one after the other: (N, 6)."""
    w, x, y, z = quat[:, 0], quat[:, 1], quat[:, 2], quat[:, 3]
    columns = np.empty((len(quat), 6))
    columns[:, 0] = 1.0 - 2.0 * (y * y + z * z)
    columns[:, 1] = 2.0 * (x * y + w * z)
    columns[:, 2] = 2.0 * (x * z - w * y)
    columns[:, 3] = 2.0 * (x * y - w * z)
    columns[:, 4] = 1.0 - 2.0 * (x * x + z * z)
    columns[:, 5] = 2.0 * (y * z + w * x)
    return columns
