"""Kinematics of an arm, batched: where the tool is, its Jacobian, and joint steps that move it towards a pose.

Written with elementwise operations and per-matrix solves only: the result for one environment then has the same bits
whatever else is in the batch, which a matrix product over the whole batch would not promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import InvalidTwin, UnknownName
from twinloop.tasks import Cell


@dataclass(frozen=True)
class Pose:
    """Tool poses: place (N, 3) and the three columns of the rotation matrix, each (N, 3)."""

    place: Array
    x: Array
    y: Array
    z: Array


@dataclass(frozen=True)
class _Link:
    """A joint: the fixed transform from the previous joint's frame, then a turn or slide about `axis`."""

    actuator: int
    place: Array
    matrix: Array
    axis: Array
    slides: bool


class Arm:
    """The chain of actuated joints from the world to a frame of a cell, as the MJCF was written.

    Args:
        cell: The cell.
        frame: The role `tool`, or the name of a site or body.
    """

    def __init__(self, cell: Cell, frame: str = "tool") -> None:
        self._links, self._tool_place, self._tool_matrix = _chain(cell, frame)
        self.actuators = np.array([link.actuator for link in self._links], dtype=np.int64)
        self.low = cell.control_low[self.actuators]
        self.high = cell.control_high[self.actuators]

    def tool_pose(self, joints: Array) -> Pose:
        """Where the tool is when the arm's joints are at (N, joints)."""
        return self._walk(joints)[0]

    def tool_jacobian(self, joints: Array) -> tuple[Pose, Array]:
        """The pose, and the Jacobian (N, 6, joints): linear over angular velocity, in the world."""
        pose, anchors, axes = self._walk(joints)
        jacobian = np.zeros((len(joints), 6, len(self._links)))
        for k, link in enumerate(self._links):
            axis = axes[k]
            if link.slides:
                jacobian[:, :3, k] = axis
            else:
                jacobian[:, :3, k] = _cross(axis, pose.place - anchors[k])
                jacobian[:, 3:, k] = axis
        return pose, jacobian

    def _walk(self, joints: Array) -> tuple[Pose, list[Array], list[Array]]:
        count = len(joints)
        columns = np.ascontiguousarray(joints.T)
        cosines, sines = np.cos(columns), np.sin(columns)
        place = np.zeros((count, 3))
        frame = tuple(np.broadcast_to(np.eye(3)[k], (count, 3)) for k in range(3))
        anchors, axes = [], []
        for k, link in enumerate(self._links):
            place = place + _combine(frame, link.place)
            frame = tuple(_combine(frame, link.matrix[:, column]) for column in range(3))
            axis = _combine(frame, link.axis)
            anchors.append(place)
            axes.append(axis)
            if link.slides:
                place = place + axis * columns[k][:, None]
            else:
                frame = _turn(frame, link.axis, cosines[k][:, None], sines[k][:, None])
        place = place + _combine(frame, self._tool_place)
        x, y, z = (_combine(frame, self._tool_matrix[:, column]) for column in range(3))
        return Pose(place, x, y, z), anchors, axes


def step_towards(
    jacobian: Array, error: Array, preferred: Array, damping: float, weights: Array | None = None
) -> Array:
    """Damped least squares: joint steps (N, joints) that reduce a pose error (N, 6).

    Minimizes |W (J d - error)|^2 + damping^2 |d - preferred|^2, so that what the task leaves free, or what a singular
    arm cannot do, follows the preferred step.
    """
    if weights is not None:
        jacobian = jacobian * weights[:, None]
        error = error * weights
    transposed = jacobian.transpose(0, 2, 1)
    square = jacobian @ np.ascontiguousarray(transposed)
    diagonal = np.arange(square.shape[1])
    square[:, diagonal, diagonal] += damping * damping
    rest = error - (jacobian @ preferred[:, :, None])[:, :, 0]
    solved = np.linalg.solve(square, rest[:, :, None])
    return np.asarray(preferred + (transposed @ solved)[:, :, 0])


def turn_error(now: Pose, x: Array, y: Array, z: Array) -> Array:
    """The small rotation (N, 3) from the present orientation to the one with the given columns."""
    return 0.5 * (_cross(now.x, x) + _cross(now.y, y) + _cross(now.z, z))


def _find_frame(cell: Cell, frame: str) -> tuple[int, Array, Array]:
    """The body of a frame, and its place and rotation in that body."""
    model = cell.model
    name = cell.twin.role("tool") if frame == "tool" else frame
    sites = {model.site(i).name: i for i in range(model.nsite)}
    bodies = {model.body(i).name: i for i in range(1, model.nbody)}
    if name in sites:
        site = model.site(sites[name])
        return int(site.bodyid[0]), np.asarray(model.site_pos[site.id]), _matrix(np.asarray(site.quat))
    if name in bodies:
        return bodies[name], np.zeros(3), np.eye(3)
    raise UnknownName(f"frame of twin {cell.twin.name}", frame, {"tool", *sites, *bodies})


def _chain(cell: Cell, frame: str) -> tuple[list[_Link], Array, Array]:
    model = cell.model
    last, frame_place, frame_matrix = _find_frame(cell, frame)
    bodies = [last]
    while model.body_parentid[bodies[0]] != 0:
        bodies.insert(0, int(model.body_parentid[bodies[0]]))
    driven = {int(model.actuator_trnid[k, 0]): k for k in range(model.nu) if cell.weights[k, 1] == 0.0}
    links: list[_Link] = []
    place, matrix = np.zeros(3), np.eye(3)
    for body in bodies:
        place = place + matrix @ np.asarray(model.body_pos[body])
        matrix = matrix @ _matrix(np.asarray(model.body_quat[body]))
        first = int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])):
            if joint not in driven or np.any(model.jnt_pos[joint] != 0.0):
                raise InvalidTwin(
                    f"twin {cell.twin.name!r}: the arm cannot be solved at joint {model.joint(joint).name!r}",
                    expected="every joint up to the tool driven by an actuator, with its axis through the body's origin",
                )
            slides = bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE)
            links.append(_Link(driven[joint], place, matrix, np.array(model.jnt_axis[joint]), slides))
            place, matrix = np.zeros(3), np.eye(3)
    return links, place + matrix @ frame_place, matrix @ frame_matrix


def _matrix(quat: Array) -> Array:
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, quat)
    return flat.reshape(3, 3)


def _combine(frame: tuple[Array, ...], vector: Array) -> Array:
    """A constant vector (3,) of a frame's coordinates in the world, (N, 3); zeros and ones cost nothing."""
    total: Array | None = None
    for column, factor in zip(frame, vector, strict=True):
        if abs(factor) < 1e-15:
            continue
        term = column if factor == 1.0 else column * factor
        total = term if total is None else total + term
    return np.zeros_like(frame[0]) if total is None else total


def _turn(frame: tuple[Array, ...], axis: Array, cosine: Array, sine: Array) -> tuple[Array, ...]:
    """The frame turned about its own axis; cheap when the axis is one of x, y, z."""
    x, y, z = frame
    if axis[2] == 1.0:
        return cosine * x + sine * y, cosine * y - sine * x, z
    if axis[1] == 1.0:
        return cosine * x - sine * z, y, cosine * z + sine * x
    if axis[0] == 1.0:
        return x, cosine * y + sine * z, cosine * z - sine * y
    cross = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    square = cross @ cross
    return tuple(
        frame[k] + sine * _combine(frame, cross[:, k]) + (1.0 - cosine) * _combine(frame, square[:, k])
        for k in range(3)
    )


def _cross(a: Array, b: Array) -> Array:
    ax, ay, az = a[:, 0], a[:, 1], a[:, 2]
    bx, by, bz = b[:, 0], b[:, 1], b[:, 2]
    out = np.empty((len(a), 3))
    out[:, 0] = ay * bz - az * by
    out[:, 1] = az * bx - ax * bz
    out[:, 2] = ax * by - ay * bx
    return out
