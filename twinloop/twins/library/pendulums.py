"""Twins of public recordings of driven pendulums: torque or volts go in, and one joint may have no motor at all."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco

from twinloop.episode import Camera
from twinloop.twins.appearance import appearance_parameters
from twinloop.twins.declare import joint_parameters, to_identifier
from twinloop.twins.hardware import encoder_parameters, latency_parameters, lens_parameters
from twinloop.twins.library.registry import TWINS, read_files
from twinloop.twins.parameter import Parameter, Target, model_parameter
from twinloop.twins.twin import Twin


# fmt: off
@TWINS.register("double_pendulum")
def make_double_pendulum() -> Twin:
    """Two links with a motor at each joint."""
    model, joints = _compiled("double_pendulum"), ("shoulder", "elbow")
    return _make(
        "double_pendulum",
        (
            *_link_parameters(model, "upper"),
            *_link_parameters(model, "lower"),
            model_parameter(
                "elbow_rotor_kgm2", 6.2872e-5, (0.0, 1e-3), "kg·m²", "actuation",
                "inertia of the elbow's rotor before its gear of 6; it also turns with the upper link", Target("tendon_armature", ("elbow_rotor",)),
            ),
            *joint_parameters(model, joints),
            *(_torque_scale(joint) for joint in joints),
            *latency_parameters(),
            *encoder_parameters(joints),
        ),
        control_hz=500.0,
        home={"shoulder": 0.0, "elbow": 0.0},
        description="DFKI double pendulum, design C.1: links of 0.2 and 0.3 m, torque in",
    )


@TWINS.register("furuta_pendulum")
def make_furuta_pendulum() -> Twin:
    """A motor turns an arm about the vertical; a free pendulum hangs from its end."""
    model = _compiled("furuta_pendulum")
    return _make(
        "furuta_pendulum",
        (
            model_parameter(
                "arm_inertia_kgm2", 5.7198e-5, (5e-6, 1e-3), "kg·m²", "object",
                "inertia of arm, hub and rotor about the motor's axis", Target("body_inertia", ("arm",)),
            ),
            model_parameter(
                "arm_length_m", 0.085, (0.05, 0.12), "m", "object",
                "from the motor's axis to the pendulum", Target("body_pos", ("pendulum",), (0,)),
            ),
            *_link_parameters(model, "pendulum", (0, 1)),
            *_motor_parameters("theta", 8.4, 0.042, "N·m"),
            *joint_parameters(model, ("theta", "alpha")),
            model_parameter(
                "theta_stiffness_nm_rad", 0.0, (0.0, 0.01), "N·m/rad", "actuation",
                "pull of the cable towards theta = 0", Target("jnt_stiffness", ("theta",)),
            ),
            *latency_parameters(),
            *encoder_parameters(("theta",), encoder_quantum_rad=0.003068),
        ),
        control_hz=250.0,
        home={"theta": 0.0, "alpha": 0.0},
        description="Quanser Qube: rotary inverted pendulum, volts in",
    )


@TWINS.register("cart_pole")
def make_cart_pole() -> Twin:
    """A motor drives a cart along a rail; a free pole hangs from it."""
    model = _compiled("cart_pole")
    return _make(
        "cart_pole",
        (
            model_parameter("cart_mass_kg", 0.38, (0.1, 2.0), "kg", "object", "mass of the cart, its rotor left out", Target("body_mass", ("cart",))),
            *_link_parameters(model, "pole", (0, 1)),
            *_motor_parameters("x", 2.6, 0.00767, "N"),
            *joint_parameters(model, ("x", "theta")),
            *latency_parameters(),
        ),
        control_hz=250.0,
        home={"x": 0.0, "theta": 0.0},
        description="Quanser linear servo with a short pole, volts in",
    )


def _compiled(name: str) -> mujoco.MjModel:
    return Twin(name, read_files(f"{name}.xml")[f"{name}.xml"].decode()).compile_as_written()


def _make(
    name: str,
    parameters: tuple[Parameter, ...],
    *,
    control_hz: float,
    home: Mapping[str, float],
    description: str,
) -> Twin:
    return Twin(
        name,
        read_files(f"{name}.xml")[f"{name}.xml"].decode(),
        parameters=(*parameters, *appearance_parameters(lights=1), *lens_parameters(moving=False)),
        control_hz=control_hz,
        cameras=(Camera("front", 128, 128),),
        home=home,
        roles={"tool": "tool"},
        robot=name,
        task="excite",
        description=description,
    )


def _link_parameters(
    model: mujoco.MjModel, body: str, axes: tuple[int, ...] = ()
) -> tuple[Parameter, Parameter, Parameter]:
    """Mass, centre and inertia of a link that hangs from its joint; `axes` are those that its inertia is about."""
    link = model.body(body)
    mass, center, inertia = float(link.mass[0]), -float(link.ipos[2]), float(link.inertia[0])
    return (
        model_parameter(f"{body}_mass_kg", mass, (0.1 * mass, 5.0 * mass), "kg", "object", f"mass of the {body} link", Target("body_mass", (body,))),
        model_parameter(
            f"{body}_center_m", center, (0.2 * center, 3.0 * center), "m", "object",
            f"from the joint to the centre of mass of the {body} link", Target("body_ipos", (body,), (2,), factor=-1.0),
        ),
        model_parameter(
            f"{body}_inertia_kgm2", inertia, (0.02 * inertia, 10.0 * inertia), "kg·m²", "object",
            f"inertia of the {body} link about its centre of mass, across it", Target("body_inertia", (body,), axes),
        ),
    )


def _motor_parameters(
    actuator: str, resistance: float, constant: float, force: str
) -> tuple[Parameter, Parameter, Parameter]:
    """A DC motor: force = k (volts - k speed) / R, so that k also brakes."""
    name = (actuator,)

    def gain(reference: float, power: float) -> Target:
        return Target("actuator_gainprm", name, (0,), "scale", reference=reference, power=power)

    def back_emf(reference: float, power: float) -> Target:
        return Target("actuator_biasprm", name, (2,), "scale", reference=reference, power=power)

    return (
        model_parameter(
            f"{actuator}_resistance_ohm", resistance, (0.2 * resistance, 5.0 * resistance), "Ω", "actuation",
            "resistance of the winding; force and back-EMF fall with it", gain(resistance, -1.0), back_emf(resistance, -1.0),
        ),
        model_parameter(
            f"{actuator}_motor_constant_vs_rad", constant, (0.2 * constant, 5.0 * constant), "V·s/rad", "actuation",
            "torque per ampere, and volts per speed of back-EMF", gain(constant, 1.0), back_emf(constant, 2.0),
        ),
        model_parameter(
            f"{to_identifier(actuator)}_push_{'nm' if force == 'N·m' else 'n'}", 0.0, (-0.02, 0.02) if force == "N·m" else (-5.0, 5.0), force, "actuation",
            "what pushes one way without volts: a cable, or a base that is not level", Target("actuator_biasprm", name, (0,)),
        ),
    )


def _torque_scale(actuator: str) -> Parameter:
    return model_parameter(
        f"{actuator}_torque_scale", 1.0, (0.3, 3.0), "1", "actuation",
        f"torque of {actuator} relative to what was commanded", Target("actuator_gainprm", (actuator,), (0,), "scale"),
    )
# fmt: on
