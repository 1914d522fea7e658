"""Twins of two public recordings: a servo that swings a weight, and a cube tossed onto a table."""

from __future__ import annotations

from twinloop.episode import Camera
from twinloop.twins.appearance import appearance_parameters
from twinloop.twins.declare import back_emf_parameters, joint_parameters
from twinloop.twins.hardware import (
    encoder_parameters,
    gear_parameters,
    latency_parameters,
    lens_parameters,
    object_pose_parameters,
)
from twinloop.twins.human import throw_parameters
from twinloop.twins.library.objects import FACE_GEOMS, contact_parameters, object_parameters
from twinloop.twins.library.registry import TWINS, read_files
from twinloop.twins.parameter import Target, model_parameter
from twinloop.twins.twin import Twin

NM_PER_RAD_PER_GAIN = 0.002877 * 0.7124
"""Torque per radian of error and unit of firmware gain; see servo_pendulum.xml."""


# fmt: off
@TWINS.register("servo_pendulum")
def make_servo_pendulum() -> Twin:
    """A Dynamixel XL330 swings a weight of 0.49 kg at 0.10 m."""
    mjcf = read_files("servo_pendulum.xml")["servo_pendulum.xml"].decode()
    model = Twin("servo_pendulum", mjcf).compile_as_written()
    motor = ("motor",)
    return Twin(
        "servo_pendulum",
        mjcf,
        parameters=(
            model_parameter("load_mass_kg", 0.49, (0.0, 2.0), "kg", "object", "the weight, taken as a point", Target("body_mass", ("pendulum",))),
            model_parameter(
                "load_distance_m", 0.10, (0.02, 0.3), "m", "object",
                "from the axis to the weight", Target("body_ipos", ("pendulum",), (2,), factor=-1.0),
            ),
            model_parameter(
                "firmware_gain", 400.0, (10.0, 2000.0), "1", "actuation",
                "position gain as the servo's firmware counts it", Target("actuator_gainprm", motor, (0,), factor=NM_PER_RAD_PER_GAIN), Target("actuator_biasprm", motor, (1,), factor=-NM_PER_RAD_PER_GAIN),
            ),
            model_parameter("supply_v", 7.4, (3.0, 14.0), "V", "actuation", "supply voltage: scales torque at a given duty", *_torque_targets(7.4)),
            model_parameter(
                "torque_scale", 1.0, (0.3, 3.0), "1", "actuation",
                "torque constant over resistance, relative to the identified motor", *_torque_targets(1.0),
            ),
            *joint_parameters(model, motor),
            *back_emf_parameters(model, motor),
            *gear_parameters(motor),
            *latency_parameters(),
            # The servo's encoder has 4096 steps per turn.
            *encoder_parameters(motor, encoder_quantum_rad=0.001534),
            *appearance_parameters(lights=1),
            *lens_parameters(moving=False),
        ),
        control_hz=200.0,
        cameras=(Camera("front", 128, 128),),
        home={"motor": 0.0},
        roles={"tool": "tool"},
        robot="servo_pendulum",
        task="excite",
        description="Dynamixel XL330 test bench, 0.49 kg at 0.10 m",
    )


@TWINS.register("cube_toss")
def make_cube_toss() -> Twin:
    """An acrylic cube of 10.48 cm falls and tumbles on a table."""
    mjcf = read_files("cube_toss.xml")["cube_toss.xml"].decode()
    model = Twin("cube_toss", mjcf).compile_as_written()
    geoms = ("object", *FACE_GEOMS)
    return Twin(
        "cube_toss",
        mjcf,
        parameters=(
            *contact_parameters(model, geoms),
            model_parameter(
                "object_face_friction_scale", 1.0, (0.3, 3.0), "1", "contact",
                "friction of a face that lies flat, relative to edges and corners", Target("geom_friction", FACE_GEOMS, (0,), "scale"),
            ),
            *object_parameters(model, geoms, 0.1048, (0.09, 0.12)),
            model_parameter(
                "gravity_m_s2", 9.81, (9.0, 10.5), "m/s²", "environment",
                "apparent gravity; a wrong length scale shows up here", Target("opt.gravity", index=(2,), factor=-1.0),
            ),
            *throw_parameters(),
            *object_pose_parameters(),
            *appearance_parameters(lights=1),
            *lens_parameters(moving=False),
        ),
        control_hz=148.0,
        cameras=(Camera("front", 128, 128),),
        roles={"object": "object", "table": "table"},
        robot="none",
        task="toss",
        description="acrylic cube tossed onto a table, as recorded by ContactNets",
    )
# fmt: on


def _torque_targets(reference: float) -> tuple[Target, ...]:
    motor = ("motor",)
    return (
        Target("actuator_gainprm", motor, (0,), "scale", reference=reference),
        Target("actuator_biasprm", motor, (1,), "scale", reference=reference),
        Target("actuator_forcerange", motor, (), "scale", reference=reference),
    )
