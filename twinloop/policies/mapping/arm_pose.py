"""Poses of a frame of the robot in its base, from joint positions and back, by the twin's kinematics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation as Turn

from twinloop.episode import Array
from twinloop.experts.kinematics import Arm, step_towards
from twinloop.tasks import make_cell
from twinloop.twins import Twin

MAX_ITERATIONS = 60
POSITION_TOLERANCE_M = 1e-5
ROTATION_TOLERANCE_RAD = 1e-4
"""A pose is reached when it is this near; finer than any arm's repeatability."""

PATIENCE = 8
"""Iterations without progress after which a goal counts as out of reach: it is then as near as it gets."""

PROGRESS = 0.98
"""An error that shrinks by less than this factor is no progress."""

LONGEST_STEP_RAD = 0.4
"""Of a joint in one iteration: beyond it the Jacobian says little."""

DAMPING = 0.01
DAMPING_PER_ERROR = 0.2
"""Damping of the least squares: small near the goal, so that it converges; larger far from it, where the arm may be singular."""


@dataclass(frozen=True)
class Solved:
    """Joint positions (n, joints) with what is left of the way to each goal: metres (n,) and rad (n,)."""

    joints: Array
    position_error_m: Array
    rotation_error_rad: Array


class ArmPose:
    """Kinematics of one frame of a twin's robot; `actuators` are the places of its joints in the twin's action."""

    def __init__(self, twin: Twin, frame: str = "tool") -> None:
        cell = make_cell(twin)
        self._arm = Arm(cell, frame)
        self.actuators = self._arm.actuators
        self.names = tuple(cell.actuators[place] for place in self.actuators)
        root = cell.model.body(cell.robot_root) if cell.robot_root else None
        self._base_place = np.zeros(3) if root is None else np.array(root.pos, np.float64)
        self._base = np.eye(3) if root is None else Turn.from_quat(root.quat, scalar_first=True).as_matrix()

    def forward(self, joints: Array) -> tuple[Array, Array]:
        """Find where the frame is.

        Args:
            joints: Positions (n, joints), rad or m.

        Returns:
            Positions (n, 3) in m and rotation matrices (n, 3, 3), in the robot's base.
        """
        pose = self._arm.tool_pose(np.asarray(joints, np.float64))
        world = np.stack([pose.x, pose.y, pose.z], axis=2)
        return _rotate(self._base.T, pose.place - self._base_place), _compose(self._base.T, world)

    def inverse(self, start: Array, positions: Array, rotations: Array | None) -> Solved:
        """Find joint positions that bring the frame to each goal, or as near as it gets, by damped least squares.

        Each row is solved by itself from its start, which it stays near to where the goal leaves a choice.

        Args:
            start: Joint positions (n, joints) to begin from.
            positions: Goals (n, 3), m, in the robot's base.
            rotations: Goals (n, 3, 3) in the robot's base; None: any orientation will do.

        Returns:
            Joint positions within their limits, and the errors that are left.
        """
        joints = np.clip(np.asarray(start, np.float64), self._arm.low, self._arm.high)
        goal = _rotate(self._base, np.asarray(positions, np.float64)) + self._base_place
        turned = None if rotations is None else _compose(self._base, np.asarray(rotations, np.float64))
        best, errors = joints.copy(), np.full((len(joints), 2), np.inf)
        left, waited = np.arange(len(joints)), np.zeros(len(joints), np.int64)
        for iteration in range(MAX_ITERATIONS + 1):
            jacobian, error = self._error(joints[left], goal[left], None if turned is None else turned[left])
            size = np.stack(
                [np.linalg.norm(error[:, :3], axis=1), np.linalg.norm(error[:, 3:], axis=1)], axis=1
            )
            nearer = size.sum(axis=1) < errors[left].sum(axis=1)
            progress = size.sum(axis=1) < PROGRESS * errors[left].sum(axis=1)
            waited[left] = np.where(progress, 0, waited[left] + 1)
            best[left[nearer]], errors[left[nearer]] = joints[left[nearer]], size[nearer]
            open_ = (size > (POSITION_TOLERANCE_M, ROTATION_TOLERANCE_RAD)).any(axis=1)
            open_ &= waited[left] < PATIENCE
            if iteration == MAX_ITERATIONS or not open_.any():
                break
            left, jacobian, error, size = left[open_], jacobian[open_], error[open_], size[open_]
            joints[left] = self._step(joints[left], jacobian, error, size)
        return Solved(best, errors[:, 0], errors[:, 1])

    def _error(self, joints: Array, goal: Array, turned: Array | None) -> tuple[Array, Array]:
        """The Jacobian (n, 6, joints) and the pose error (n, 6) in the world; rows of rotation are zero where it does not matter."""
        pose, jacobian = self._arm.tool_jacobian(joints)
        error = np.zeros((len(joints), 6))
        error[:, :3] = goal - pose.place
        if turned is None:
            jacobian[:, 3:] = 0.0
        else:
            now = np.stack([pose.x, pose.y, pose.z], axis=2)
            error[:, 3:] = Turn.from_matrix(turned @ now.transpose(0, 2, 1)).as_rotvec()
        return jacobian, error

    def _step(self, joints: Array, jacobian: Array, error: Array, size: Array) -> Array:
        damping = DAMPING + DAMPING_PER_ERROR * np.minimum(size.sum(axis=1), 1.0)
        scale = (1.0 / damping)[:, None, None]
        step = step_towards(jacobian * scale, error * scale[:, :, 0], np.zeros_like(joints), 1.0)
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, LONGEST_STEP_RAD / np.maximum(longest, LONGEST_STEP_RAD))
        return np.asarray(np.clip(joints + step, self._arm.low, self._arm.high))


def _rotate(matrix: Array, vectors: Array) -> Array:
    """One rotation of many vectors (n, 3), elementwise: each row has the same bits in any batch."""
    return np.asarray((matrix[None] * vectors[:, None, :]).sum(axis=2))


def _compose(matrix: Array, matrices: Array) -> Array:
    return np.asarray((matrix[None, :, :, None] * matrices[:, None, :, :]).sum(axis=2))
