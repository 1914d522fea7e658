"""Whether a twin's simulation is stable: which joint diverges or never settles, when, and why."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.engines.protocol import EngineOptions
from twinloop.episode import Array
from twinloop.tasks import Cell

HOLD_S = 1.0
STEP = 0.02
"""Commanded away from home, rad or m, to see whether a joint settles there."""
RUNAWAY = 300.0
"""Speed in rad/s or m/s that no robot reaches."""
RESTLESS = 0.2
"""Root mean square speed in rad/s or m/s after `HOLD_S`, above which a servo has not settled."""


@dataclass(frozen=True)
class Instability:
    """A joint whose simulation diverges or never settles, the time when that shows, and the likely cause."""

    joint: str
    time_s: float
    reason: str

    def __str__(self) -> str:
        return f"joint {self.joint} {self.reason} (at {self.time_s:.3g} s)"


def find_unstable_servos(cell: Cell) -> list[Instability]:
    """Joints that do not come to rest when every servo is commanded a little away from home, worst first."""
    servos = _position_servos(cell)
    if not len(servos):
        return []
    model = cell.model
    qpos = np.array(model.qpos0)
    for joint, position in cell.twin.home.items():
        qpos[model.joint(joint).qposadr[0]] = position
    home = cell.positions(qpos[None])[0]
    command = np.where(np.isin(np.arange(model.nu), servos), home + STEP, 0.0)
    command = np.clip(command, cell.control_low, cell.control_high)
    dt_s = cell.twin.physics_dt_s
    controls = np.tile(command, (1, round(HOLD_S / dt_s), 1))
    engine = MujocoBatch(cell, 1, 1, (), EngineOptions(contacts=False, gear_friction=False))
    rolled = engine.roll(np.zeros(1, np.int64), {}, (qpos[None], np.zeros((1, model.nv))), controls)
    speeds = np.nan_to_num(rolled.qvel[0], nan=np.inf, posinf=np.inf, neginf=-np.inf)
    if (found := find_runaway(cell, speeds)) is not None:
        return [found]
    late = speeds[-len(speeds) // 4 :]
    restless = np.sqrt(np.mean(late**2, axis=0))
    made = []
    for servo in servos:
        dof = int(cell.dof_addresses[servo, 0])
        if restless[dof] > RESTLESS:
            reason = f"still moves at {restless[dof]:.2g} rad/s {HOLD_S:g} s after a step of {STEP:g}"
            name = model.joint(int(model.dof_jntid[dof])).name
            made.append((restless[dof], Instability(name, HOLD_S, reason + _cause(cell, int(servo)))))
    return [found for _, found in sorted(made, key=lambda pair: -pair[0])]


def find_runaway(cell: Cell, speeds: Array) -> Instability | None:
    """The first joint whose simulated speed (steps, nv) no robot reaches."""
    beyond = np.abs(speeds) > RUNAWAY
    if not beyond.any():
        return None
    step = int(np.flatnonzero(beyond.any(axis=1))[0])
    dof = int(np.argmax(np.abs(speeds[step])))
    name = cell.model.joint(int(cell.model.dof_jntid[dof])).name or f"dof {dof}"
    owners = np.flatnonzero(cell.dof_addresses[:, 0] == dof)
    cause = _cause(cell, int(owners[0])) if len(owners) else ""
    return Instability(name, step * cell.twin.physics_dt_s, f"runs away{cause}")


def _position_servos(cell: Cell) -> Array:
    """Actuators that hold a position."""
    model = cell.model
    return np.flatnonzero(
        (np.asarray(model.actuator_biastype) == mujoco.mjtBias.mjBIAS_AFFINE)
        & (np.asarray(model.actuator_biasprm)[:, 1] < 0.0)
    )


def _cause(cell: Cell, servo: int) -> str:
    """What of a servo makes its simulation unstable, if its gains and the time step do."""
    model = cell.twin.make_model()
    data = mujoco.MjData(model)
    for joint, position in cell.twin.home.items():
        data.qpos[model.joint(joint).qposadr[0]] = position
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    dof = int(cell.dof_addresses[servo, 0])
    # What the servo can move alone; other joints give way.
    moved = 1.0 / float(np.linalg.inv(inertia)[dof, dof])
    stiffness, damping = -np.asarray(model.actuator_biasprm)[servo, 1:3]
    damping += float(model.dof_damping[dof])
    dt_s = cell.twin.physics_dt_s
    natural = float(np.sqrt(max(stiffness, 0.0) / moved))
    if natural * dt_s > 1.0:
        return f": a gain of {stiffness:.3g} on an inertia of {moved:.2g} needs steps below {0.5 / natural:.1g} s, not {dt_s:g} s"
    if damping < 0.1 * 2.0 * natural * moved:
        return f": a gain of {stiffness:.3g} on an inertia of {moved:.2g} is hardly damped ({damping:.2g})"
    return ""
