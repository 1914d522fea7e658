"""Franka Panda cells: picking a cube and placing it, and pushing a block to a goal."""

from __future__ import annotations

import math

from twinloop.episode import Camera
from twinloop.twin.declare import joint_parameters, servo_parameters
from twinloop.twin.hardware import (
    encoder_parameters,
    force_parameters,
    latency_parameters,
    lens_parameters,
    object_pose_parameters,
)
from twinloop.twin.library.registry import TWINS, read_files
from twinloop.twin.parameter import Parameter, Target
from twinloop.twin.picture import picture_parameters
from twinloop.twin.scene import scene_parameters
from twinloop.twin.twin import Twin

JOINTS = tuple(f"joint{number}" for number in range(1, 8))
FINGERS = ("finger_joint1", "finger_joint2")
LINKS = (*(f"link{number}" for number in range(1, 8)), "hand", "left_finger", "right_finger")
FACES = ("front", "back", "left", "right", "top", "bottom")
DISTRACTORS = ("distractor_1", "distractor_2", "distractor_3")

READY = dict(
    zip(JOINTS, (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4), strict=True)
)
"""The "ready" pose of franka_ros and MoveIt."""


@TWINS.register("franka_pick_place")
def make_franka_pick_place() -> Twin:
    """A Panda picks a 4 cm cube and places it on a disc."""
    return _make(
        "franka_pick_place",
        task="pick_and_place",
        fingers_m=0.04,
        object_size_m=0.04,
        size_bounds_m=(0.02, 0.07),
        object_mass_kg=0.1,
        description="Franka Panda, 4 cm cube, pick and place on a disc",
    )


@TWINS.register("franka_push")
def make_franka_push() -> Twin:
    """A Panda with closed fingers pushes a block onto a disc."""
    return _make(
        "franka_push",
        task="push",
        fingers_m=0.0,
        object_size_m=0.06,
        size_bounds_m=(0.04, 0.1),
        object_mass_kg=0.2,
        description="Franka Panda, 6 cm block, push onto a disc",
    )


def _make(
    name: str,
    *,
    task: str,
    fingers_m: float,
    object_size_m: float,
    size_bounds_m: tuple[float, float],
    object_mass_kg: float,
    description: str,
) -> Twin:
    files = read_files(f"{name}.xml", "panda.xml", "cell.xml")
    bare = Twin(name, files.pop(f"{name}.xml").decode(), assets=files)
    model = bare.compile_as_written()
    return Twin(
        name,
        bare.mjcf,
        assets=files,
        parameters=(
            *contact_parameters(),
            *object_parameters(object_size_m, size_bounds_m, object_mass_kg),
            *joint_parameters(model, JOINTS),
            *servo_parameters(model, [*JOINTS, "gripper"]),
            _gravity_compensation(),
            _table_height(),
            *scene_parameters(len(DISTRACTORS)),
            *latency_parameters(),
            *encoder_parameters(JOINTS),
            *force_parameters(),
            *object_pose_parameters(),
            *picture_parameters(lights=3),
            *lens_parameters(),
        ),
        control_hz=50.0,
        cameras=(Camera("front", 128, 128), Camera("wrist", 128, 128)),
        home={**READY, **dict.fromkeys(FINGERS, fingers_m)},
        roles={
            "object": "object",
            "target": "target",
            "table": "table",
            "tool": "tool",
            "gripper": "gripper",
        },
        distractors=DISTRACTORS,
        robot="franka_panda",
        task=task,
        description=description,
    )


def contact_parameters() -> tuple[Parameter, ...]:
    """Friction and softness of the object, which count in every contact it has."""
    geoms = tuple(f"object_face_{face}" for face in FACES)

    def contact(
        name: str, nominal: float, low: float, high: float, unit: str, text: str, target: Target
    ) -> Parameter:
        return Parameter(name, nominal, (low, high), unit, "contact", "model", text, (target,))

    return (
        contact(
            "object_friction", 0.8, 0.02, 2.0, "1", "sliding friction", Target("geom_friction", geoms, (0,))
        ),
        contact(
            "object_torsional_friction_m",
            0.005,
            0.0,
            0.05,
            "m",
            "resistance to turning on the spot",
            Target("geom_friction", geoms, (1,)),
        ),
        contact(
            "contact_time_s",
            0.01,
            0.004,
            0.1,
            "s",
            "time in which a penetration decays (solref)",
            Target("geom_solref", geoms, (0,)),
        ),
        contact(
            "contact_damping_ratio",
            1.0,
            0.1,
            2.0,
            "1",
            "below one bounces (solref)",
            Target("geom_solref", geoms, (1,)),
        ),
        contact(
            "contact_impedance",
            0.95,
            0.3,
            0.989,
            "1",
            "hardness at first touch (solimp)",
            Target("geom_solimp", geoms, (0,)),
        ),
        contact(
            "contact_width_m",
            0.001,
            0.0001,
            0.01,
            "m",
            "depth over which contact hardens (solimp)",
            Target("geom_solimp", geoms, (2,)),
        ),
        *(
            contact(
                f"object_face_{face}_friction_scale",
                1.0,
                0.1,
                3.0,
                "1",
                f"friction of the {face} face relative to the others",
                Target("geom_friction", (f"object_face_{face}",), (0,), "scale"),
            )
            for face in FACES
        ),
    )


def object_parameters(
    size_m: float, size_bounds_m: tuple[float, float], mass_kg: float
) -> tuple[Parameter, ...]:
    """Mass, inertia, size and centre of mass of the object."""
    body = ("object",)
    geoms = ("object", *(f"object_face_{face}" for face in FACES))

    def scaled(field: str, objects: tuple[str, ...], reference: float, power: float = 1.0) -> Target:
        return Target(field, objects, rule="scale", reference=reference, power=power)

    return (
        Parameter(
            "object_mass_kg",
            mass_kg,
            (0.005, 3.0),
            "kg",
            "object",
            description="mass of the object; the inertia follows",
            targets=(Target("body_mass", body), scaled("body_inertia", body, mass_kg)),
        ),
        Parameter(
            "object_inertia_scale",
            1.0,
            (0.2, 3.0),
            "1",
            "object",
            description="inertia relative to a solid object",
            targets=(scaled("body_inertia", body, 1.0),),
        ),
        Parameter(
            "object_size_m",
            size_m,
            size_bounds_m,
            "m",
            "object",
            description="longest edge of the object; the other edges and the inertia follow",
            targets=(
                scaled("geom_size", geoms, size_m),
                scaled("geom_pos", geoms, size_m),
                scaled("body_inertia", body, size_m, 2.0),
            ),
        ),
        *(
            Parameter(
                f"object_center_{axis}_m",
                0.0,
                (-0.3 * size_m, 0.3 * size_m),
                "m",
                "object",
                description=f"centre of mass along the object's {axis}",
                targets=(Target("body_ipos", body, (index,)),),
            )
            for index, axis in enumerate("xyz")
        ),
    )


def _gravity_compensation() -> Parameter:
    return Parameter(
        "gravity_compensation",
        1.0,
        (0.0, 1.5),
        "1",
        "actuation",
        description="share of the arm's own weight that the controller carries",
        targets=(Target("body_gravcomp", LINKS),),
    )


def _table_height() -> Parameter:
    return Parameter(
        "table_height_m",
        0.0,
        (-0.05, 0.05),
        "m",
        "environment",
        description="table top above the robot's base",
        targets=(Target("body_pos", ("table",), (2,)),),
    )
