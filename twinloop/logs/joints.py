"""The joints of a twin that help to interpret a log: names, ranges, and forward kinematics of the tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.tasks import Cell, make_cell
from twinloop.tasks.joint_names import JointNames, find_joint_names
from twinloop.twins.twin import Twin

ToolPoses = Callable[[tuple[str, ...], Array], tuple[Array, Array]]
"""Maps names and positions (n, names) to tool positions (n, 3) in m and quaternions (n, 4), w first."""


@dataclass(frozen=True)
class Joints:
    """What a robot commands and reads, in order; `ranges` are in `units` (rad or m), infinite if unlimited.

    `known` decides which of them a name in a log means.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    units: tuple[str, ...] = ()
    known: JointNames = field(default=JointNames(()), compare=False)
    poses: ToolPoses | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", ("rad",) * len(self.names))
        if self.known.names != self.names:
            everything = {len(self.names): tuple(range(len(self.names)))}
            object.__setattr__(self, "known", JointNames(self.names, orders=everything))

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        """Return the index of the joint called `name`, whatever its spelling."""
        return self.known.find(name)

    def select(self, numbers: Sequence[int]) -> Joints:
        """Return some of the joints, in this order."""
        return replace(
            self,
            names=tuple(self.names[i] for i in numbers),
            ranges=tuple(self.ranges[i] for i in numbers),
            units=tuple(self.units[i] for i in numbers),
        )

    def tool_poses(self, values: Array) -> tuple[Array, Array] | None:
        """Return positions and quaternions of the tool for joint positions (n, joints); None without a tool."""
        return self.poses(self.names, values) if self.poses is not None else None


def load_joints(name_or_path: str | Path) -> Joints:
    """Load the joints of a built-in twin or of a twin's folder."""
    from twinloop.twins.load import load_twin

    return find_joints(load_twin(name_or_path))


def find_joints(twin: Twin) -> Joints:
    """Find what a twin commands and reads: its actuators, and joints that no actuator drives alone."""
    cell = make_cell(twin)
    known = find_joint_names(cell)
    readings = [_reading(cell, place, name) for place, name in enumerate(known.names)]
    return Joints(
        known.names,
        tuple(limits for limits, _ in readings),
        tuple(unit for _, unit in readings),
        known,
        _make_poses(cell) if "tool" in twin.roles else None,
    )


def _reading(cell: Cell, place: int, name: str) -> tuple[tuple[float, float], str]:
    """Return the range and unit of an actuator's position, or of a joint's."""
    model = cell.model
    if place >= len(cell.actuators):
        joint = model.joint(name).id
        turns = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
        return _limits(cell, [joint], [1.0]), "rad" if turns else "m"
    addresses = np.asarray(model.jnt_qposadr)
    joints = [int(np.flatnonzero(addresses == address)[0]) for address in cell.qpos_addresses[place]]
    return _limits(cell, joints, cell.weights[place].tolist()), "rad" if cell.turning[place] else "m"


def _limits(cell: Cell, joints: Sequence[int], weights: Sequence[float]) -> tuple[float, float]:
    """Return the range of a weighted sum of joints."""
    low = high = 0.0
    for joint, weight in zip(joints, weights, strict=True):
        if not weight:
            continue
        if not cell.model.jnt_limited[joint]:
            return -np.inf, np.inf
        ends = sorted(weight * float(end) for end in cell.model.jnt_range[joint])
        low, high = low + ends[0], high + ends[1]
    return low, high


def _make_poses(cell: Cell) -> ToolPoses:
    model = cell.model
    site = model.site(cell.twin.role("tool")).id
    known = find_joint_names(cell)
    # What drives several joints at once, such as fingers, does not move the tool.
    places = {
        known.names[place]: int(cell.qpos_addresses[place, 0])
        for place in range(len(cell.actuators))
        if cell.weights[place].tolist() == [1.0, 0.0]
    }
    places |= {name: int(model.joint(name).qposadr[0]) for name in known.names[len(cell.actuators) :]}

    def poses(names: tuple[str, ...], values: Array) -> tuple[Array, Array]:
        data = mujoco.MjData(model)
        positions, rotations = np.zeros((len(values), 3)), np.zeros((len(values), 4))
        columns = [i for i, name in enumerate(names) if name in places]
        addresses = [places[names[i]] for i in columns]
        for row, joints in enumerate(values):
            data.qpos[addresses] = joints[columns]
            mujoco.mj_kinematics(model, data)
            positions[row] = data.site_xpos[site]
            mujoco.mju_mat2Quat(rotations[row], data.site_xmat[site])
        return positions, rotations

    return poses
