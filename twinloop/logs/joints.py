"""The joints of a twin that help to interpret a log: names, ranges, and forward kinematics of the tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinloop.episode import Array

if TYPE_CHECKING:
    from twinloop.twins.twin import Twin

ToolPoses = Callable[[Array], tuple[Array, Array]]
"""Maps joint positions (n, joints) to tool positions (n, 3) in m and quaternions (n, 4), w first."""


@dataclass(frozen=True)
class Joints:
    """Hinge and slide joints of a robot, in order; `ranges` are in `units` (rad or m), infinite if unlimited."""

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    units: tuple[str, ...] = ()
    tool_poses: ToolPoses | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", ("rad",) * len(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        """Return the index of the joint called `name`, whatever its spelling."""
        names = [normalize_name(known) for known in self.names]
        return names.index(normalize_name(name)) if normalize_name(name) in names else None

    def select(self, numbers: Sequence[int]) -> Joints:
        """Return some of the joints, in this order; forward kinematics is kept only for the first joints."""
        return replace(
            self,
            names=tuple(self.names[i] for i in numbers),
            ranges=tuple(self.ranges[i] for i in numbers),
            units=tuple(self.units[i] for i in numbers),
            tool_poses=self.tool_poses if list(numbers) == list(range(len(numbers))) else None,
        )


def normalize_name(name: str) -> str:
    """Normalize case, blanks and punctuation, so that `Shoulder-Pan` equals `shoulder_pan`."""
    return re.sub(r"\W|_", "", name.lower())


def load_joints(name_or_path: str | Path) -> Joints:
    """Load the joints of a built-in twin or of a twin's folder."""
    from twinloop.twins.load import load_twin

    return find_joints(load_twin(name_or_path))


def find_joints(twin: Twin) -> Joints:
    """Find the robot's joints: those with a home position, or else every hinge and slide."""
    import mujoco

    model = twin.make_model()
    kinds = {int(mujoco.mjtJoint.mjJNT_HINGE): "rad", int(mujoco.mjtJoint.mjJNT_SLIDE): "m"}
    numbers = [
        i
        for i in range(model.njnt)
        if int(model.jnt_type[i]) in kinds and (not twin.home or str(model.joint(i).name) in twin.home)
    ]
    return Joints(
        tuple(str(model.joint(i).name) for i in numbers),
        tuple(
            (float(model.jnt_range[i, 0]), float(model.jnt_range[i, 1]))
            if model.jnt_limited[i]
            else (-np.inf, np.inf)
            for i in numbers
        ),
        tuple(kinds[int(model.jnt_type[i])] for i in numbers),
        _tool_poses(twin, model, [int(model.jnt_qposadr[i]) for i in numbers]),
    )


def _tool_poses(twin: Twin, model: object, places: list[int]) -> ToolPoses | None:
    import mujoco

    if "tool" not in twin.roles:
        return None
    site = model.site(twin.role("tool")).id  # type: ignore[attr-defined]

    def poses(values: Array) -> tuple[Array, Array]:
        data = mujoco.MjData(model)
        positions, rotations = np.zeros((len(values), 3)), np.zeros((len(values), 4))
        for row, joints in enumerate(values):
            # A log may lack the last joints (fingers), which do not move the tool.
            data.qpos[places[: len(joints)]] = joints
            mujoco.mj_kinematics(model, data)
            positions[row] = data.site_xpos[site]
            mujoco.mju_mat2Quat(rotations[row], data.site_xmat[site])
        return positions, rotations

    return poses
