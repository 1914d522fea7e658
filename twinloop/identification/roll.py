"""Simulation one physics step at a time, for twins whose drives need something set before each of them."""

from __future__ import annotations

from typing import Any

import mujoco.batch
import numpy as np
from numpy.typing import NDArray

from twinloop.engines.drive import Drive

Array = NDArray[Any]


def roll_by_step(
    batch: mujoco.batch.Batch, drive: Drive, ids: Array, controls: Array, enabled: Array | None
) -> tuple[dict[str, Array], Array]:
    """States after each step for commands (environments, steps, actuators), and which environments broke.

    `enabled` (environments, steps) says when servos are on, always by default. The drive has been loaded.
    """
    count, steps = controls.shape[:2]
    qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
    positions = np.zeros((count, steps, qpos.shape[1]))
    speeds = np.zeros((count, steps, qvel.shape[1]))
    failed = np.zeros(count, dtype=bool)
    going = np.arange(count)
    for step in range(steps):
        on = None if enabled is None else enabled[going, step]
        drive.before_step(ids[going], controls[going, step], on)
        try:
            batch.step(ids[going], nstep=1)
        except mujoco.batch.SimulationError as error:
            failed |= np.isin(ids, error.ids)
            going = np.flatnonzero(~failed)
        positions[going, step], speeds[going, step] = qpos[ids[going]], qvel[ids[going]]
    return {"qpos": positions, "qvel": speeds}, failed | ~np.isfinite(positions).all(axis=(1, 2))
