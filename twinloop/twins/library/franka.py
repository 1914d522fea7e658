"""Franka Panda cells: picking a cube and placing it, pushing a block to a goal, and reaching for a point."""

from __future__ import annotations

import math

from twinloop.episode import Camera
from twinloop.twins.appearance import appearance_parameters
from twinloop.twins.declare import joint_parameters, servo_parameters
from twinloop.twins.hardware import (
    encoder_parameters,
    latency_parameters,
    lens_parameters,
    load_parameters,
    object_pose_parameters,
    sensor_parameters,
)
from twinloop.twins.human import demonstrator_parameters
from twinloop.twins.library.objects import (
    FACE_GEOMS,
    contact_parameters,
    face_parameters,
    object_parameters,
    table_height_parameter,
)
from twinloop.twins.library.registry import TWINS, read_files
from twinloop.twins.parameter import Parameter, Target, model_parameter
from twinloop.twins.scene import scene_parameters, target_parameters
from twinloop.twins.twin import Twin

JOINTS = tuple(f"joint{number}" for number in range(1, 8))
FINGERS = ("finger_joint1", "finger_joint2")
LINKS = (*(f"link{number}" for number in range(1, 8)), "hand", "left_finger", "right_finger")
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
        description="Franka Panda, 6 cm block, push onto a disc",
    )


@TWINS.register("franka_reach")
def make_franka_reach() -> Twin:
    """A Panda brings its tool to a sphere in the air."""
    files = read_files("franka_reach.xml", "panda.xml")
    bare = Twin("franka_reach", files.pop("franka_reach.xml").decode(), assets=files)
    model = bare.compile_as_written()
    return Twin(
        "franka_reach",
        bare.mjcf,
        assets=files,
        parameters=(
            *joint_parameters(model, JOINTS),
            *servo_parameters(model, [*JOINTS, "gripper"]),
            _gravity_compensation(),
            table_height_parameter(),
            *target_parameters(in_the_air=True),
            *latency_parameters(),
            *encoder_parameters(JOINTS),
            *load_parameters(JOINTS),
            *sensor_parameters(model),
            *demonstrator_parameters(lifts=False),
            *appearance_parameters(lights=3),
            *lens_parameters(),
        ),
        control_hz=50.0,
        cameras=(Camera("front", 128, 128), Camera("wrist", 128, 128)),
        home={**READY, **dict.fromkeys(FINGERS, 0.0)},
        roles={"target": "target", "table": "table", "tool": "tool", "gripper": "gripper"},
        robot="franka_panda",
        task="reach",
        description="Franka Panda, bring the tool to a sphere in the air",
    )


def _make(
    name: str,
    *,
    task: str,
    fingers_m: float,
    object_size_m: float,
    size_bounds_m: tuple[float, float],
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
            *contact_parameters(model, FACE_GEOMS),
            *face_parameters(),
            *object_parameters(model, ("object", *FACE_GEOMS), object_size_m, size_bounds_m),
            *joint_parameters(model, JOINTS),
            *servo_parameters(model, [*JOINTS, "gripper"]),
            _gravity_compensation(),
            table_height_parameter(),
            *scene_parameters(len(DISTRACTORS), occluder=True),
            *latency_parameters(),
            *encoder_parameters(JOINTS),
            *load_parameters(JOINTS),
            *sensor_parameters(model),
            *object_pose_parameters(),
            *demonstrator_parameters(),
            *appearance_parameters(lights=3),
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


def _gravity_compensation() -> Parameter:
    return model_parameter(
        "gravity_compensation",
        1.0,
        (0.0, 1.5),
        "1",
        "actuation",
        "fraction of the arm's weight that the controller compensates",
        Target("body_gravcomp", LINKS),
    )
