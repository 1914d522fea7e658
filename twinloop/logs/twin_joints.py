"""What a proposed map needs to know of a twin: its joints and how far they go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from twinloop.twin.load import load_twin


@dataclass(frozen=True)
class Joints:
    """Hinges and slides of a twin, in the model's order; an unlimited one has an infinite range."""

    joint_names: tuple[str, ...]
    joint_ranges: tuple[tuple[float, float], ...]


def load_twin_joints(name_or_path: str | Path) -> Joints:
    """The joints of a built-in twin or of one in a folder."""
    model = load_twin(name_or_path).make_model()
    kinds = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    numbers = [i for i in range(model.njnt) if int(model.jnt_type[i]) in kinds]
    return Joints(
        tuple(str(model.joint(i).name) for i in numbers),
        tuple(
            (float(model.jnt_range[i, 0]), float(model.jnt_range[i, 1]))
            if model.jnt_limited[i]
            else (-np.inf, np.inf)
            for i in numbers
        ),
    )
