"""Which joint angles to record next: those whose frames would tell most about what is still unknown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import mujoco
import numpy as np

from twinloop.alignment.fit import normals_of
from twinloop.alignment.frames import Frame
from twinloop.alignment.outline import Outliner
from twinloop.alignment.view import CameraView, Unknown
from twinloop.episode import Array

CANDIDATES = 48
REACH_RAD = 0.9
"""How far from home candidates may be."""
POINTS = 120
SCATTER_PX = 1.0
CONTACT_M = -0.002


def propose_poses(
    view: CameraView,
    outliner: Outliner,
    bodies: Collection[int],
    unknowns: Sequence[Unknown],
    theta: Array,
    like: Frame,
    known: Array,
    *,
    count: int,
    seed: int,
) -> tuple[dict[str, float], ...]:
    """Joint angles by actuator, in the order in which to record them.

    Of random poses near home that touch nothing, each is the one that shrinks the volume of what is still possible most, given those
    before it (D-optimal design).

    Args:
        view: The camera.
        outliner: Draws the twin for this camera.
        bodies: The parts that are looked for.
        unknowns: What is unknown.
        theta: Where it is believed to be.
        like: A frame to take everything but the joints from.
        known: Information of the frames that there are already, (unknowns, unknowns).
        count: Number of poses.
        seed: Random seed of the candidates.
    """
    poses = _candidates(view, like, np.random.default_rng(seed))
    values = view.values(unknowns, theta)
    told = [_information(view, outliner, bodies, unknowns, theta, values, like, qpos) for qpos in poses]
    total = known + np.diag([one.prior**-2 for one in unknowns])
    chosen: list[int] = []
    for _ in range(min(count, len(poses))):
        gains = [
            -np.inf if i in chosen else float(np.linalg.slogdet(total + one)[1]) for i, one in enumerate(told)
        ]
        chosen.append(int(np.argmax(gains)))
        total = total + told[chosen[-1]]
    cell = view.cell
    positions = cell.positions(np.array([poses[i] for i in chosen]).reshape(len(chosen), -1))
    return tuple({cell.actuators[k]: round(float(row[k]), 3) for k in cell.arm} for row in positions)


def _candidates(view: CameraView, like: Frame, rng: np.random.Generator) -> list[Array]:
    """Poses near the one of a frame, within the joints' limits and without contacts of the robot that it has not."""
    cell, model = view.cell, view.model
    data = mujoco.MjData(model)
    low, high = cell.control_low[cell.arm], cell.control_high[cell.arm]
    start = cell.positions(like.qpos[None])[0][cell.arm]
    addresses = cell.qpos_addresses[cell.arm, 0]
    touching = _contacts(model, data, like.qpos)
    made = []
    for _ in range(4 * CANDIDATES):
        angles = np.clip(start + rng.uniform(-REACH_RAD, REACH_RAD, len(start)), low + 0.05, high - 0.05)
        qpos = like.qpos.copy()
        qpos[addresses] = angles
        if _contacts(model, data, qpos) <= touching:
            made.append(qpos)
        if len(made) == CANDIDATES:
            break
    return made


def _contacts(model: mujoco.MjModel, data: mujoco.MjData, qpos: Array) -> int:
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    return int((data.contact.dist < CONTACT_M).sum())


def _information(
    view: CameraView,
    outliner: Outliner,
    bodies: Collection[int],
    unknowns: Sequence[Unknown],
    theta: Array,
    values: dict[str, float],
    like: Frame,
    qpos: Array,
) -> Array:
    """What a frame of this pose would tell, (unknowns, unknowns)."""
    frame = Frame(like.episode, like.row, like.image, qpos, like.rate, like.mocap)
    pos, quat, fovy_rad = view.pose(values)
    rng = np.random.default_rng(0)
    outline = outliner.outline(qpos, like.mocap, pos, quat, fovy_rad, bodies, most=POINTS, rng=rng)
    spot, beside = view.project(values, frame, outline)
    if not len(spot):
        return np.zeros((len(unknowns), len(unknowns)))
    normal = normals_of(spot, beside, outline.outward)
    slope = np.nan_to_num(view.slopes(unknowns, theta, frame, outline, spot, normal))
    return np.asarray(slope.T @ slope / SCATTER_PX**2)
