"""Parameters derived from a compiled model, with the model's own values as nominal."""

from __future__ import annotations

import re
from collections.abc import Sequence

import mujoco
import numpy as np

from twinloop.twins.parameter import Parameter, Target, model_parameter

_MOVING = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


def to_identifier(name: str) -> str:
    """A name of the model as part of a parameter's name: lower case letters, digits and _."""
    cleaned = re.sub(r"\W+", "_", name).strip("_").lower()
    return cleaned if cleaned[:1].isalpha() else f"part_{cleaned}"


# fmt: off
def joint_parameters(model: mujoco.MjModel, joints: Sequence[str]) -> tuple[Parameter, ...]:
    """Friction, damping and rotor inertia of each named hinge or slide joint."""
    made: list[Parameter] = []
    for name in joints:
        joint = model.joint(name)
        dof = int(model.jnt_dofadr[joint.id])
        turning = int(model.jnt_type[joint.id]) == int(mujoco.mjtJoint.mjJNT_HINGE)
        force, viscous, inertia = ("N·m", "N·m·s/rad", "kg·m²") if turning else ("N", "N·s/m", "kg")
        suffixes = ("nm", "nms_rad", "kgm2") if turning else ("n", "ns_m", "kg")
        weight = max(float(model.dof_M0[dof]), 1e-5)
        limit = _force_limit(model, joint.id) or 50.0 * weight
        rows = (
            ("friction", "dof_frictionloss", suffixes[0], force, 0.5 * limit, "dry friction"),
            ("damping", "dof_damping", suffixes[1], viscous, 20.0 * weight, "viscous friction"),
            ("armature", "dof_armature", suffixes[2], inertia, 2.0 * weight, "rotor inertia behind the gear"),
        )
        for quantity, field, suffix, unit, reach, text in rows:
            nominal = float(getattr(model, field)[dof])
            made.append(
                model_parameter(
                    f"{to_identifier(name)}_{quantity}_{suffix}", nominal, (0.0, _round_up(max(reach, 10.0 * nominal))), unit, "actuation",
                    f"{text} of {name}", Target(field, (name,)),
                )
            )
    return tuple(made)


def joint_scales(joints: Sequence[str]) -> tuple[Parameter, ...]:
    """One scale each for friction, damping and rotor inertia of all the named joints, where their drives are of one kind."""
    rows = (
        ("joint_friction_scale", "dof_frictionloss", 20.0, "dry friction of all joints"),
        ("joint_damping_scale", "dof_damping", 5.0, "viscous friction of all joints"),
        ("joint_armature_scale", "dof_armature", 5.0, "rotor inertia of all joints"),
    )
    return tuple(
        model_parameter(name, 1.0, (0.05, high), "1", "actuation", text, Target(field, tuple(joints), rule="scale"))
        for name, field, high, text in rows
    )


def servo_parameters(model: mujoco.MjModel, actuators: Sequence[str]) -> tuple[Parameter, ...]:
    """Gains and force limit of each position servo, scales for all of them at once, strength of other actuators."""
    made: list[Parameter] = []
    servos = [name for name in actuators if is_position_servo(model, name)]
    made += [_gain_scale(name) for name in actuators if name not in servos]
    for name in servos:
        index = model.actuator(name).id
        turning = is_rotary(model, index)
        units = ("N·m/rad", "N·m·s/rad", "N·m") if turning else ("N/m", "N·s/m", "N")
        suffixes = ("nm_rad", "nms_rad", "nm") if turning else ("n_m", "ns_m", "n")
        stiffness = float(model.actuator_gainprm[index, 0])
        damping = abs(float(model.actuator_biasprm[index, 2]))
        made += [
            model_parameter(
                f"{to_identifier(name)}_stiffness_{suffixes[0]}", stiffness, (0.05 * stiffness, 10.0 * stiffness), units[0], "actuation",
                f"position gain of {name}", Target("actuator_gainprm", (name,), (0,)), Target("actuator_biasprm", (name,), (1,), factor=-1.0),
            ),
            model_parameter(
                f"{to_identifier(name)}_servo_damping_{suffixes[1]}", damping, (0.0, max(10.0 * damping, stiffness)), units[1], "actuation",
                f"velocity gain of {name}", Target("actuator_biasprm", (name,), (2,), factor=-1.0),
            ),
        ]
        if model.actuator_forcelimited[index]:
            limit = float(model.actuator_forcerange[index, 1])
            made.append(
                model_parameter(
                    f"{to_identifier(name)}_force_limit_{suffixes[2]}", limit, (0.02 * limit, 3.0 * limit), units[2], "actuation",
                    f"force limit of {name}", Target("actuator_forcerange", (name,), (0,), factor=-1.0), Target("actuator_forcerange", (name,), (1,)),
                )
            )
    if servos:
        made += _servo_scales(model, tuple(servos))
    return tuple(made)


def back_emf_parameters(model: mujoco.MjModel, actuators: Sequence[str]) -> tuple[Parameter, ...]:
    """Back-EMF damping of each motor; a servo that is switched off has none."""
    made: list[Parameter] = []
    for name in actuators:
        nominal = float(model.actuator_damping[model.actuator(name).id])
        made.append(
            model_parameter(
                f"{to_identifier(name)}_back_emf_nms_rad", nominal, (0.0, _round_up(10.0 * nominal)), "N·m·s/rad", "actuation",
                f"torque that {name} loses per speed to its back-EMF", Target("actuator_damping", (name,)),
            )
        )
    return tuple(made)


def body_parameters(model: mujoco.MjModel, body: str, name: str | None = None) -> tuple[Parameter, ...]:
    """Mass of one body, and friction of its geoms."""
    index = model.body(body).id
    prefix = to_identifier(name or body)
    mass = float(model.body_mass[index])
    geoms = tuple(
        model.geom(int(g)).name
        for g in np.flatnonzero(model.geom_bodyid == index)
        if model.geom(int(g)).name and (model.geom_contype[g] or model.geom_conaffinity[g])
    )
    made = [
        model_parameter(
            f"{prefix}_mass_kg", mass, (0.1 * mass, 20.0 * mass), "kg", "object",
            f"mass of {body}; the inertia follows", Target("body_mass", (body,)), Target("body_inertia", (body,), rule="scale", reference=mass),
        )
    ]
    if geoms:
        friction = float(model.geom_friction[model.geom(geoms[0]).id, 0])
        made.append(
            model_parameter(
                f"{prefix}_friction", friction, (0.01, max(2.0, 2.0 * friction)), "1", "contact",
                f"sliding friction of {body}", Target("geom_friction", geoms, (0,)),
            )
        )
    return tuple(made)
# fmt: on


def moving_joints(model: mujoco.MjModel) -> list[str]:
    """Names of all hinge and slide joints, in the model's order."""
    return [model.joint(index).name for index in range(model.njnt) if int(model.jnt_type[index]) in _MOVING]


def _servo_scales(model: mujoco.MjModel, servos: tuple[str, ...]) -> list[Parameter]:
    """One scale for all gains of a kind; a kind that no servo has is left out."""

    def scale(name: str, high: float, text: str, targets: tuple[Target, ...]) -> Parameter:
        return model_parameter(name, 1.0, (0.05, high), "1", "actuation", text, *targets)

    indices = {name: model.actuator(name).id for name in servos}
    damped = tuple(name for name in servos if model.actuator_biasprm[indices[name], 2] != 0.0)
    limited = tuple(name for name in servos if model.actuator_forcelimited[indices[name]])
    stiffness = (
        Target("actuator_gainprm", servos, (0,), "scale"),
        Target("actuator_biasprm", servos, (1,), "scale"),
    )
    made = [scale("servo_stiffness_scale", 5.0, "all position gains", stiffness)]
    if damped:
        damping = (Target("actuator_biasprm", damped, (2,), "scale"),)
        made.append(scale("servo_damping_scale", 5.0, "all velocity gains", damping))
    if limited:
        forces = (Target("actuator_forcerange", limited, (), "scale"),)
        made.append(scale("force_limit_scale", 3.0, "all force limits", forces))
    return made


def _gain_scale(name: str) -> Parameter:
    """Output scale of an actuator that is not a position servo."""
    return model_parameter(
        f"{to_identifier(name)}_gain_scale",
        1.0,
        (0.05, 5.0),
        "1",
        "actuation",
        f"output of {name} relative to the model's",
        Target("actuator_gainprm", (name,), (0,), "scale"),
    )


def is_position_servo(model: mujoco.MjModel, name: str) -> bool:
    """Whether an actuator pulls its joint to the commanded position."""
    index = model.actuator(name).id
    gain, bias = float(model.actuator_gainprm[index, 0]), float(model.actuator_biasprm[index, 1])
    return gain > 0.0 and bool(np.isclose(gain, -bias))


def is_rotary(model: mujoco.MjModel, actuator: int) -> bool:
    """Whether an actuator drives a hinge, so that its position is an angle."""
    if model.actuator_trntype[actuator] != mujoco.mjtTrn.mjTRN_JOINT:
        return False
    joint = int(model.actuator_trnid[actuator, 0])
    return int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_HINGE)


def _force_limit(model: mujoco.MjModel, joint: int) -> float | None:
    for index in range(model.nu):
        drives = model.actuator_trntype[index] == mujoco.mjtTrn.mjTRN_JOINT
        if drives and model.actuator_trnid[index, 0] == joint and model.actuator_forcelimited[index]:
            return float(model.actuator_forcerange[index, 1])
    return None


def _round_up(value: float) -> float:
    """The next number with one significant digit, so that bounds read as choices and not as measurements."""
    magnitude = 10.0 ** np.floor(np.log10(value))
    return float(f"{np.ceil(value / magnitude) * magnitude:.6g}")
