"""What is wrong with a user's robot model: findings with remedies, each a pure function of the file or of the twin made from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from twinloop.engines.stability import find_unstable_servos
from twinloop.errors import InvalidTwin
from twinloop.tasks import make_cell
from twinloop.twins import Twin
from twinloop.twins.declare import is_position_servo
from twinloop.twins.meshes import count_faces
from twinloop.twins.urdf import impossible_inertias
from twinloop.twins.user_model import read_model

TURN = 2.0 * np.pi + 0.1
"""Limits of joints in radians hardly exceed one turn; limits of all joints within so many degrees are radians."""
TURNS_RAD = 40.0
"""Six turns: a limit beyond is in degrees, not in radians."""
HEAVY_FACES = 20_000
"""Images of 128 x 128 a second on one core without a graphics card: 420 with 1,000 faces, 100 with 20,000, 9 with 580,000."""

Angle = Literal["radian", "degree"]


@dataclass(frozen=True)
class ModelFinding:
    """One thing that is wrong with a model, or likely to be, and what to do about it.

    `check` is one of angles, names, inertias, actuators, stability and meshes. `option` of `twinloop init` mends it, if one does;
    `joints` are those concerned.
    """

    check: str
    found: str
    remedy: str
    option: str = ""
    joints: tuple[str, ...] = ()


def check_model(
    path: str | Path,
    twin: Twin,
    *,
    angle: Angle | None = None,
    asset_folders: Sequence[str | Path] = (),
) -> tuple[ModelFinding, ...]:
    """Look for what usually is wrong with a robot model.

    Args:
        path: The MJCF or URDF file.
        twin: The twin that `make_twin_from_model` made from it; what its options have mended is not found again.
        angle: The unit of angles that was chosen for the file, if any.
        asset_folders: Further folders that the model may take files from.

    Returns:
        The findings; none if nothing was found.
    """
    file = Path(path)
    spec, _, _ = read_model(file, angle, asset_folders)
    angles = () if angle else _check_angles(spec)
    names, inertias = _check_names(spec), _check_inertias(file)
    actuators, stability, meshes = _check_actuators(twin), _check_stability(twin), _check_meshes(twin)
    return (*angles, *names, *inertias, *actuators, *stability, *meshes)


def _check_angles(spec: mujoco.MjSpec) -> Iterator[ModelFinding]:
    """Joint limits that only make sense in the other unit."""
    limits = {
        joint.name or "joint": float(np.abs(joint.range).max())
        for joint in spec.joints
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE and joint.range[0] < joint.range[1]
    }
    if not limits:
        return
    if spec.compiler.degree and max(limits.values()) <= TURN:
        yield ModelFinding(
            "angles",
            f"all joint limits are within ±{max(limits.values()):.3g} degrees: they look like radians",
            'write <compiler angle="radian"/> into the model',
            "--angle radian",
            tuple(limits),
        )
    beyond = [name for name, limit in limits.items() if limit > TURNS_RAD]
    if not spec.compiler.degree and beyond:
        yield ModelFinding(
            "angles",
            f"limits of {_list(beyond)} are up to {max(limits.values()):.3g} radians: they look like degrees",
            'write <compiler angle="degree"/> into the model',
            "--angle degree",
            tuple(beyond),
        )


def _check_names(spec: mujoco.MjSpec) -> Iterator[ModelFinding]:
    """Joints without a name."""
    moving = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    nameless = [k + 1 for k, joint in enumerate(spec.joints) if not joint.name and joint.type in moving]
    if nameless:
        yield ModelFinding(
            "names",
            f"{len(nameless)} joint{'s have' if len(nameless) > 1 else ' has'} no name; here "
            f"{_list([f'joint_{number}' for number in nameless])}",
            "name them in the model as your robot's logs do",
        )


def _check_inertias(file: Path) -> Iterator[ModelFinding]:
    """Links of a URDF whose inertia no body can have; MuJoCo makes a ball's of it."""
    impossible = impossible_inertias(file) if file.suffix == ".urdf" else []
    if impossible:
        yield ModelFinding(
            "inertias",
            f"no body can have the inertia of {_list(impossible)}: one axis exceeds the sum of the others; "
            "their mean is used for all three",
            "correct <inertia> in the model, from CAD or the data sheet",
        )


def _check_actuators(twin: Twin) -> Iterator[ModelFinding]:
    """Actuators that do not follow a position, and joints that nothing drives."""
    model = twin.make_model()
    names = [model.actuator(index).name for index in range(model.nu)]
    on_joint = np.asarray(model.actuator_trntype) == mujoco.mjtTrn.mjTRN_JOINT
    others = [
        index for index, name in enumerate(names) if on_joint[index] and not is_position_servo(model, name)
    ]
    if others:
        joints = tuple(model.joint(int(model.actuator_trnid[index, 0])).name for index in others)
        yield ModelFinding(
            "actuators",
            f"{_list([names[index] for index in others])}: no position servo, commands are forces or torques",
            "if your robot takes positions, use <position kp=... kv=...>",
            "--servos",
            joints,
        )


def _check_stability(twin: Twin) -> Iterator[ModelFinding]:
    """Servos whose simulation diverges or never settles, and actuators that nothing can command."""
    try:
        unstable = find_unstable_servos(make_cell(twin))
    except InvalidTwin as error:
        yield ModelFinding(
            "actuators", error.what, "drive a joint, or a fixed tendon over at most two joints, or remove it"
        )
        return
    if unstable:
        others = f"; so do {_list([one.joint for one in unstable[1:]])}" if unstable[1:] else ""
        yield ModelFinding(
            "stability",
            f"{unstable[0]}{others}",
            'lower kp, raise kv, the joint\'s armature or damping, or use <option timestep="0.001" '
            'integrator="implicitfast"/>',
            "--servos",
            tuple(one.joint for one in unstable),
        )


def _check_meshes(twin: Twin) -> Iterator[ModelFinding]:
    """Meshes with so many faces that rendering takes most of the time."""
    faces = count_faces(twin.patch.model)
    total = sum(faces.values())
    if total > HEAVY_FACES:
        most = [f"{name} {count:,}" for name, count in faces.items()]
        yield ModelFinding(
            "meshes",
            f"meshes with {total:,} faces ({_list(most, 3)}): images take long to render",
            "use lighter meshes, or boxes and capsules",
            "--light-meshes",
        )


def _list(names: Sequence[str], shown: int = 6) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
