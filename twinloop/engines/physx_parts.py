"""MuJoCo's shapes and frames as PhysX's."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import sapien
from sapien import physx

from twinloop.engines.multibody import Shape
from twinloop.episode import Array


def make_shape(shape: Shape, material: Any) -> Any:
    """A shape of PhysX with this material, at its place in the body."""
    pose, along_z = make_pose(shape.place, shape.quat), make_pose(shape.place, _times(shape.quat, _Z_TO_X))
    size = np.asarray(shape.size, np.float32)
    if shape.kind == "box":
        made = physx.PhysxCollisionShapeBox(size, material)
    elif shape.kind == "sphere":
        made = physx.PhysxCollisionShapeSphere(float(size[0]), material)
    elif shape.kind in ("capsule", "cylinder"):
        kind = (
            physx.PhysxCollisionShapeCapsule if shape.kind == "capsule" else physx.PhysxCollisionShapeCylinder
        )
        made, pose = kind(float(size[0]), float(size[1]), material), along_z
    else:
        made = physx.PhysxCollisionShapeConvexMesh(
            np.asarray(shape.points, np.float32), np.ones(3, np.float32), material
        )
    made.local_pose = pose
    return made


def make_pose(place: Array, quat: Array) -> Any:
    """A pose of SAPIEN."""
    return sapien.Pose(np.asarray(place, np.float32), np.asarray(quat, np.float32))


def _times(first: Array, second: Array) -> Array:
    made = np.empty(4)
    mujoco.mju_mulQuat(made, np.asarray(first, np.float64), np.asarray(second, np.float64))
    return made


def in_site(model: mujoco.MjModel, site: int, frame: Any, carried: Array) -> tuple[Array, Array]:
    """Force and torque at a site, in its frame, of what the joint with this frame in the body carries."""
    force, torque, inverse = np.empty(3), np.empty(3), np.empty(4)
    joint = np.asarray(frame.q, np.float64)
    mujoco.mju_rotVecQuat(force, carried[:3], joint)
    mujoco.mju_rotVecQuat(torque, carried[3:], joint)
    reach = np.asarray(model.site_pos[site]) - np.asarray(frame.p, np.float64)
    torque -= np.cross(reach, force)
    mujoco.mju_negQuat(inverse, np.asarray(model.site_quat[site]))
    turned = np.empty(3), np.empty(3)
    mujoco.mju_rotVecQuat(turned[0], force, inverse)
    mujoco.mju_rotVecQuat(turned[1], torque, inverse)
    return turned


_Z_TO_X = np.array([np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0])
"""Turns PhysX's axis of capsules and cylinders, x, onto MuJoCo's, z."""


def turn_from_x(axis: Array) -> Array:
    """The quaternion that turns x onto an axis."""
    made, target = np.empty(4), np.asarray(axis, np.float64) / np.linalg.norm(axis)
    turn = np.cross([1.0, 0.0, 0.0], target)
    angle = float(np.arctan2(np.linalg.norm(turn), target[0]))
    turn = turn / np.linalg.norm(turn) if np.linalg.norm(turn) > 1e-12 else np.array([0.0, 0.0, 1.0])
    mujoco.mju_axisAngle2Quat(made, turn, angle)
    return made
