"""The LeRobot SO-101 follower arm: on its own, and picking a small cube and placing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import mujoco

from twinloop.episode import Camera
from twinloop.twins.appearance import appearance_parameters
from twinloop.twins.declare import joint_parameters, joint_scales, servo_parameters
from twinloop.twins.hardware import (
    encoder_parameters,
    gear_parameters,
    latency_parameters,
    lens_parameters,
    load_parameters,
    object_pose_parameters,
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
from twinloop.twins.scene import scene_parameters
from twinloop.twins.twin import Twin

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
HOME = dict(zip(JOINTS, (0.0, -0.5, 0.3, 1.4, 0.0, 0.6), strict=True))


ENCODER_STEP_RAD = 0.001534
"""The servo's encoder has 4096 steps per turn."""


@TWINS.register("so101")
def make_so101() -> Twin:
    """An SO-101 above a bare table: the arm of public recordings of its servos."""
    bare, model = _compile("so101", "so101_bare.xml")
    return _make(
        bare,
        (
            *joint_parameters(model, JOINTS),
            *servo_parameters(model, JOINTS),
            *joint_scales(JOINTS),
            # All six servos are of one kind, so their gears share one set of parameters.
            *gear_parameters(("servo",)),
            model_parameter(
                "table_height_m",
                -0.05,
                (-0.3, 0.05),
                "m",
                "environment",
                "table top above the robot's base",
                Target("body_pos", ("table",), (2,)),
            ),
            *latency_parameters(action_delay_s=0.02),
            *encoder_parameters(JOINTS, encoder_quantum_rad=ENCODER_STEP_RAD),
        ),
        roles={"table": "table", "tool": "tool", "gripper": "gripper"},
        task="excite",
        description="LeRobot SO-101 above a bare table",
    )


@TWINS.register("so101_pick_place")
def make_so101_pick_place() -> Twin:
    """An SO-101 picks a 2.5 cm cube and places it on a disc."""
    bare, model = _compile("so101_pick_place", "so101_pick_place.xml")
    return _make(
        bare,
        (
            *contact_parameters(model, FACE_GEOMS),
            *face_parameters(),
            *object_parameters(model, ("object", *FACE_GEOMS), 0.025, (0.012, 0.045)),
            *joint_parameters(model, JOINTS),
            *servo_parameters(model, JOINTS),
            table_height_parameter(),
            *scene_parameters(distractors=0, occluder=True),
            # Public recordings of the real arm follow their command 95 to 130 ms late.
            *latency_parameters(action_delay_s=0.1),
            *encoder_parameters(JOINTS, encoder_quantum_rad=ENCODER_STEP_RAD),
            *load_parameters(JOINTS),
            *object_pose_parameters(),
            *demonstrator_parameters(),
        ),
        roles={name: name for name in ("object", "target", "table", "tool", "gripper")},
        task="pick_and_place",
        description="LeRobot SO-101, 2.5 cm cube, pick and place on a disc",
    )


def _compile(name: str, file: str) -> tuple[Twin, mujoco.MjModel]:
    files = read_files(file, "so101.xml")
    bare = Twin(name, files.pop(file).decode(), assets=files)
    return bare, bare.compile_as_written()


def _make(
    bare: Twin, parameters: tuple[Parameter, ...], *, roles: Mapping[str, str], task: str, description: str
) -> Twin:
    return replace(
        bare,
        parameters=(*parameters, *appearance_parameters(lights=2), *lens_parameters()),
        control_hz=50.0,
        cameras=(Camera("front", 128, 128), Camera("wrist", 128, 128)),
        home=HOME,
        roles=roles,
        robot="so101",
        task=task,
        description=description,
    )
