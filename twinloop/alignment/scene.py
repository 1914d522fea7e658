"""Which parts of a twin show where a camera is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.alignment.frames import Moment
from twinloop.alignment.view import CameraView
from twinloop.episode import Array
from twinloop.errors import UnknownName, WrongUse

STILL_M = 2e-3
STILL_AXIS = 3e-3
"""What moves and turns less than this over a recording stands still."""
LOOKED_AT = 60


@dataclass(frozen=True)
class Parts:
    """Bodies by number: `rough` for comparing drawings with masks, `fine` for outlines; whether the robot carries the camera,
    and then what it carries `along` with it: what stays in place in the image."""

    rough: tuple[int, ...]
    fine: tuple[int, ...]
    carried: bool
    along: tuple[int, ...] = ()


def find_parts(view: CameraView, moments: Sequence[Moment], names: Sequence[str]) -> Parts:
    """Decide which bodies to look for.

    A camera that stands sees the robot, whose moving parts differ from the background. One that the robot carries sees the robot and
    everything that stands still in the twin. Objects that may lie anywhere tell nothing.

    Raises:
        UnknownName: The twin has no body of a given name.
        WrongUse: There is nothing to look for.
    """
    model = view.model
    moves, carried, along = _motion(view, moments)
    robot = _robot(view)
    if names:
        known = [model.body(i).name for i in range(model.nbody)]
        for name in names:
            if name not in known:
                raise UnknownName(f"body of twin {view.cell.twin.name!r}", name, known)
        chosen = tuple(int(model.body(name).id) for name in names)
        return Parts(chosen if carried else tuple(b for b in chosen if moves[b]) or chosen, chosen, carried)
    if carried:
        still = [
            b for b in range(model.nbody) if int(model.body_weldid[b]) == 0 and int(model.body_mocapid[b]) < 0
        ]
        every = tuple(sorted({*robot, *still}))
        return Parts(every, every, True, tuple(b for b in robot if along[b]))
    rough = tuple(b for b in robot if moves[b])
    if not rough:
        rough = tuple(robot)
    if not robot:
        raise WrongUse(
            f"twin {view.cell.twin.name!r} has no robot to look for", remedy="name bodies: --bodies NAME,..."
        )
    return Parts(rough, tuple(robot), False)


def _motion(view: CameraView, moments: Sequence[Moment]) -> tuple[Array, bool, Array]:
    """Which bodies move over a recording, whether the camera does, and which bodies do not move as seen from it."""
    model, data = view.model, mujoco.MjData(view.model)
    rows = np.unique(np.linspace(0, len(moments) - 1, LOOKED_AT).astype(int))
    place, turn, eye, seen = [], [], [], []
    for row in rows:
        data.qpos[:], data.mocap_pos[:] = moments[row].qpos, moments[row].mocap
        mujoco.mj_kinematics(model, data)
        own = data.xmat[view.body].reshape(3, 3)
        seen.append((data.xpos - data.xpos[view.body]) @ own)
        place.append(data.xpos.copy())
        turn.append(data.xmat.copy())
        eye.append(np.concatenate([data.xpos[view.body], data.xmat[view.body]]))
    moved = np.ptp(place, axis=0).max(axis=1) > STILL_M
    turned = np.ptp(turn, axis=0).max(axis=1) > STILL_AXIS
    along = np.ptp(seen, axis=0).max(axis=1) <= STILL_M
    return moved | turned, bool((np.ptp(eye, axis=0) > STILL_M).any()), along


def _robot(view: CameraView) -> list[int]:
    """Bodies of the kinematic trees that actuators move, or all hinged ones of a twin without actuators."""
    model, cell = view.model, view.cell
    if len(cell.actuators):
        driven = set(np.asarray(cell.qpos_addresses).ravel().tolist())
        joints = [j for j in range(model.njnt) if int(model.jnt_qposadr[j]) in driven]
    else:
        hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
        joints = [j for j in range(model.njnt) if int(model.jnt_type[j]) == hinge]
    roots = {int(model.body_rootid[model.jnt_bodyid[j]]) for j in joints}
    return [b for b in range(model.nbody) if int(model.body_rootid[b]) in roots and b != 0]
