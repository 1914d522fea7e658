"""Where tool and elbow may be, through the kinematics of the twin; and how fast the tool may go where people are near."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.experts.kinematics import Arm
from twinloop.tasks import Cell

SAMPLES = 4000
"""Random positions of the joints that a proposed box encloses."""
MARGIN_M = 0.02


class Workspace:
    """Margins of tool and elbow to a box and to planes, and of the tool to its speed limit.

    Args:
        cell: The twin.
        joints: By actuator of the arm, the element of the command that moves it.
        scale: What a unit of each element is in rad or m, (A,).
        box: Lowest and highest corner, (2, 3), m.
        planes: Points and normals of planes, (P, 2, 3); tool and elbow stay on the side that the normal points to.
        elbow: A body or site of the twin.
        tool_speed_m_s: Speed limit of the tool; infinite without one.
        step_s: The control step.
    """

    def __init__(
        self,
        cell: Cell,
        joints: Sequence[int],
        scale: Array,
        *,
        box: Array | None,
        planes: Array,
        elbow: str | None,
        tool_speed_m_s: float,
        step_s: float,
    ) -> None:
        frames = ["tool"] if elbow is None else ["tool", elbow]
        self._arms = [Arm(cell, frame) for frame in frames]
        self._columns = [np.asarray(joints)[arm.actuators] for arm in self._arms]
        if any((columns < 0).any() for columns in self._columns):
            raise RobotError(
                f"the robot does not command every joint of twin {cell.twin.name!r} up to its tool",
                remedy="name the elements of the action after the joints of the twin",
            )
        self._scale, self._box = scale, box
        normals = planes[:, 1] / np.linalg.norm(planes[:, 1], axis=1, keepdims=True)
        self._normals, self._offsets = normals, (normals * planes[:, 0]).sum(axis=1)
        self._tool_speed_m_s, self._step_s = tool_speed_m_s, step_s

    def margins(self, positions: Array, before: Array) -> Array:
        """How far inside every limit commands are: (S, K, C) for positions (S, K, A) that follow each other after `before` (A,)."""
        count, tries, _ = positions.shape
        path = np.concatenate([np.broadcast_to(before, (1, tries, len(before))), positions])
        rows = (path * self._scale).reshape(-1, path.shape[-1])
        found = []
        for k, (arm, columns) in enumerate(zip(self._arms, self._columns, strict=True)):
            places = arm.tool_pose(np.ascontiguousarray(rows[:, columns])).place.reshape(count + 1, tries, 3)
            if k == 0 and np.isfinite(self._tool_speed_m_s):
                moved_m = np.linalg.norm(np.diff(places, axis=0), axis=-1)
                found.append((self._tool_speed_m_s * self._step_s - moved_m)[..., None])
            places = places[1:]
            if self._box is not None:
                found += [places - self._box[0], self._box[1] - places]
            if len(self._normals):
                found.append(places @ self._normals.T - self._offsets)
        return np.concatenate(found, axis=-1) if found else np.zeros((count, tries, 0))


def find_elbow(cell: Cell) -> str:
    """The body of the arm whose joint is nearest to the middle of the way from its base to its tool."""
    model, data = cell.model, mujoco.MjData(cell.model)
    mujoco.mj_forward(model, data)
    site = model.site(cell.twin.role("tool"))
    bodies: list[int] = []
    body = int(site.bodyid[0])
    while body != 0:
        bodies.insert(0, body)
        body = int(model.body_parentid[body])
    places = [*(data.xpos[body] for body in bodies), data.site_xpos[site.id]]
    way = np.cumsum([0.0, *np.linalg.norm(np.diff(places, axis=0), axis=1)])[:-1]
    middle = int(np.argmin(np.abs(way - 0.5 * way[-1])))
    return str(model.body(bodies[middle]).name)


def reachable_box(cell: Cell, elbow: str) -> tuple[list[float], list[float]]:
    """A box around everywhere that tool and elbow can be."""
    rng = np.random.default_rng(0)
    low = np.where(np.isfinite(cell.control_low), cell.control_low, -np.pi)
    high = np.where(np.isfinite(cell.control_high), cell.control_high, np.pi)
    joints = rng.uniform(low, high, (SAMPLES, len(low)))
    places = np.concatenate(
        [arm.tool_pose(joints[:, arm.actuators]).place for arm in (Arm(cell), Arm(cell, elbow))]
    )
    ends = places.min(axis=0) - MARGIN_M, places.max(axis=0) + MARGIN_M
    return tuple([round(float(value), 3) for value in end] for end in ends)  # type: ignore[return-value]


def table_height_m(cell: Cell) -> float:
    """The top of the table; without one, the floor."""
    if "table" not in cell.twin.roles:
        return 0.0
    model, data = cell.model, mujoco.MjData(cell.model)
    mujoco.mj_forward(model, data)
    body = int(model.body(cell.twin.role("table")).id)
    tops = [
        float(
            data.geom_xpos[geom][2] + (np.abs(data.geom_xmat[geom].reshape(3, 3)) @ model.geom_size[geom])[2]
        )
        for geom in range(model.ngeom)
        if model.geom_bodyid[geom] == body and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX
    ]
    return max(tops, default=0.0)
