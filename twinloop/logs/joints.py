"""What a twin tells about a log: its joints, how far they go, and where they put the tool."""

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
"""Joint positions (n, joints) to the tool's positions (n, 3) in m and quaternions (n, 4), w first."""


@dataclass(frozen=True)
class Joints:
    """Hinges and slides of a robot in its order. `ranges` are in `units` (rad or m); an unlimited one is infinite."""

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
        """The number of the joint called `name`, whatever its spelling."""
        spelt = [plain(known) for known in self.names]
        return spelt.index(plain(name)) if plain(name) in spelt else None

    def only(self, numbers: Sequence[int]) -> Joints:
        """Some of the joints, in the order given; where the tool is can be said for the first ones only."""
        return replace(
            self,
            names=tuple(self.names[i] for i in numbers),
            ranges=tuple(self.ranges[i] for i in numbers),
            units=tuple(self.units[i] for i in numbers),
            tool_poses=self.tool_poses if list(numbers) == list(range(len(numbers))) else None,
        )


def plain(name: str) -> str:
    """A name without case, blanks and signs, so that `Shoulder-Pan` is `shoulder_pan`."""
    return re.sub(r"\W|_", "", name.lower())


def load_joints(name_or_path: str | Path) -> Joints:
    """The joints of a built-in twin or of one in a folder."""
    from twinloop.twins.load import load_twin

    return joints_of(load_twin(name_or_path))


def joints_of(twin: Twin) -> Joints:
    """The robot's joints: those with a home, or else every hinge and slide; what lies on the table has none."""
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
        positions, turns = np.zeros((len(values), 3)), np.zeros((len(values), 4))
        for row, joints in enumerate(values):
            # A log may lack the last joints (fingers), which do not move the tool.
            data.qpos[places[: len(joints)]] = joints
            mujoco.mj_kinematics(model, data)
            positions[row] = data.site_xpos[site]
            mujoco.mju_mat2Quat(turns[row], data.site_xmat[site])
        return positions, turns

    return poses
