"""Signals of a robot cell: the same in a recording as in generated data."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array, Signal
from twinloop.experts.reading import Reading, name_signals
from twinloop.robots.protocol import Description, Limits, Observation
from twinloop.tasks import Cell
from twinloop.version import __version__

TURNING_RAD_S = 4.0
"""Speed limit of the target of a revolute joint; grippers and prismatic joints have none."""


def list_signals(cell: Cell) -> tuple[Signal, ...]:
    """The observed signals of this cell."""
    return (*cell.observed_actuators(), *cell.observed_scene())


def describe_cell(cell: Cell, *, serial: str, lockstep: bool, engine: str = "bullet") -> Description:
    """The description of a stand-in for this cell."""
    twin = cell.twin
    turning = cell.turning & (np.arange(len(cell.actuators)) != cell.gripper)
    return Description(
        robot_type=twin.robot or "unknown",
        serial=serial,
        signals=list_signals(cell),
        action=cell.actuator_signal("action", "target", "rad", "m"),
        limits=Limits(
            tuple(cell.control_low.tolist()),
            tuple(cell.control_high.tolist()),
            tuple(TURNING_RAD_S if turns else float("inf") for turns in turning.tolist()),
        ),
        rate_hz=twin.control_hz,
        cameras=twin.cameras,
        site="stand-in",
        twin=twin.name,
        twin_hash=twin.content_hash,
        task=twin.task,
        standin=True,
        lockstep=lockstep,
        engine=f"{engine} stand-in",
        software={"twinloop": __version__},
    )


def make_signals(cell: Cell, reading: Reading) -> dict[str, Array]:
    """One reading as an array per declared signal."""
    declared = {signal.name for signal in list_signals(cell)}
    return {
        name: np.asarray(values[0], dtype=np.float32)
        for name, values in name_signals(cell, reading).items()
        if name in declared
    }


def make_reading(cell: Cell, observation: Observation) -> Reading:
    """An observation as the reading that experts take; parts that the robot does not report are zeros."""
    signals = {name: np.asarray(values, np.float64) for name, values in observation.signals.items()}
    still = np.zeros(len(cell.actuators))
    elements = [element for signal in cell.observed_scene() for element in signal.elements]
    seen = signals.get("observation.environment_state", np.zeros(len(elements)))
    pose = seen[:9] if cell.object_qpos is not None else np.zeros(9)
    target = seen[-3:] if cell.target_mocap is not None and len(seen) == len(elements) else np.zeros(3)
    return Reading(
        time_s=np.array([observation.time_s]),
        position=signals.get("observation.state", still)[None],
        velocity=signals.get("observation.velocity", still)[None],
        effort=signals.get("observation.effort", still)[None],
        object_position=pose[None, :3],
        object_columns=pose[None, 3:],
        target_position=target[None],
    )
