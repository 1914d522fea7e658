"""Dry friction as a torque: what of the recorded effort opposes motion, once the twin's rigid bodies are accounted for.

The effort that moves the twin's bodies along the recorded motion, without friction, is inverse dynamics; friction is measured on
what the recorded effort has beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from twinloop.episode import Array, Episode
from twinloop.gap.replay import RecordingSet
from twinloop.identification.recording import Recording
from twinloop.measure.friction import measure_friction
from twinloop.measure.trace import Trace, slopes
from twinloop.tasks import Cell

EFFORTS = ("observation.effort", "observation.torque")
TORQUES = ("N·m", "N")


def effort_signal(episode: Episode, cell: Cell) -> str | None:
    """The recorded effort of every actuator, in newtons or newton metres."""
    for name in EFFORTS:
        if name in episode.signals:
            signal = episode.schema.signal(name)
            if signal.size == len(cell.actuators) and set(signal.units) <= set(TORQUES):
                return name
    return None


def dry_friction(
    cell: Cell, readable: RecordingSet, episodes: Sequence[Episode], channels: Sequence[int]
) -> Array:
    """Dry friction (recordings, channels) of joints; NaN where a joint hardly moves or no effort was recorded."""
    model = _frictionless(cell)
    data = mujoco.MjData(model)
    made = np.full((len(readable.recordings), len(channels)), np.nan)
    for row, (recording, origin) in enumerate(zip(readable.recordings, readable.origin, strict=True)):
        name = effort_signal(episodes[origin], cell)
        if name is None:
            continue
        effort = np.asarray(episodes[origin].signals[name], np.float64)
        needed = _inverse(model, data, recording)
        for place, channel in enumerate(channels):
            actuator = readable.channels[channel].actuator
            if actuator is None:
                continue
            dof = int(cell.dof_addresses[actuator, 0])
            speed, beyond = recording.qvel[:, dof], effort[:, actuator] - needed[:, dof]
            readings = recording.readings[:, channel]
            trace = Trace(
                cell.actuators[actuator], "", recording.time_s, readings, velocity=speed, effort=beyond
            )
            friction = measure_friction(trace)
            made[row, place] = np.nan if friction is None else friction.value
    return made


def _frictionless(cell: Cell) -> mujoco.MjModel:
    model = cell.twin.make_model()
    model.dof_frictionloss[:] = 0.0
    model.dof_damping[:] = 0.0
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    return model


def _inverse(model: mujoco.MjModel, data: mujoco.MjData, recording: Recording) -> Array:
    """The effort in every degree of freedom that makes the recorded motion, (T, nv)."""
    accelerations = np.stack([slopes(recording.time_s, column) for column in recording.qvel.T], axis=1)
    needed = np.empty_like(accelerations)
    for row in range(len(recording)):
        data.qpos[:], data.qvel[:], data.qacc[:] = (
            recording.qpos[row],
            recording.qvel[row],
            accelerations[row],
        )
        mujoco.mj_inverse(model, data)
        needed[row] = data.qfrc_inverse
    return needed
