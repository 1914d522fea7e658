"""What to record against points lost to each dimension, and where simulation can or cannot replace it.

One entry per gap dimension. `simulation` says what is cheaper in simulation; `required` why real data is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "demonstrations",
    "excitation",
    "contact runs",
    "sensor logs",
    "participants",
    "camera episodes",
    "measuring",
    "nothing",
]


@dataclass(frozen=True)
class Remedy:
    """What to record against points lost to one dimension; `command` where nothing is recorded."""

    kind: Kind
    what: str
    simulation: str
    required: str | None
    command: str = ""


REMEDIES = {
    "contact": Remedy(
        "contact runs",
        "press, push and lift the object at several forces, with force readings",
        "no: force-regulated contact is what the simulation gets wrong here, so more of it teaches the same error",
        "force-regulated contact: friction and stiffness of these surfaces are only in real force readings",
    ),
    "actuation": Remedy(
        "excitation",
        "run a designed motion in free air, several times",
        "afterwards: once the drives are identified, simulated episodes of the calibrated twin are nearly free",
        "friction, backlash and gains of this robot's drives are only in its own readings",
    ),
    "latency": Remedy(
        "excitation",
        "run a designed motion in free air, with time stamps of command and reading",
        "afterwards: once the delay is known, simulate it (`action_delay_s`, `observation_delay_s`)",
        "the delay of this network and controller can only be measured on them",
    ),
    "sensing": Remedy(
        "sensor logs",
        "record every sensor at rest, warm and cold, and through one slow motion",
        "afterwards: noise, bias and drift that are known can be simulated",
        "noise and drift of these sensors are only in their own readings",
    ),
    "visual": Remedy(
        "camera episodes",
        "record with cameras at different light, backgrounds and camera places",
        "yes, in part: light, texture and lens can be randomized first; real frames are for checking that it is wide enough",
        None,
    ),
    "camera pose": Remedy(
        "nothing",
        "move the camera back, or train again with the camera where it was found; no robot is needed",
        "yes, first: the measured pose is a value of the twin's parameters",
        None,
        "twinloop anchor IDENTIFICATION --diagnosis FOLDER --out anchored.yaml",
    ),
    "lens": Remedy(
        "nothing",
        "train again with the measured lens, or calibrate the camera; no robot is needed",
        "yes, first: distortion and vignetting are values of the twin's parameters",
        None,
        "twinloop anchor IDENTIFICATION --diagnosis FOLDER --out anchored.yaml",
    ),
    "light and colour": Remedy(
        "camera episodes",
        "record at the different lights that the robot works in",
        "yes: measured exposure, balance and saturation can be randomized; real frames are for checking that it is wide enough",
        None,
    ),
    "texture and background": Remedy(
        "camera episodes",
        "record with the backgrounds that the robot meets",
        "yes: the real table can be put on the twin, and textures can be randomized around it",
        None,
    ),
    "blur and noise": Remedy(
        "nothing",
        "clean and focus the lens, or train again with the measured blur and noise; no robot is needed",
        "yes, first: blur and noise are values of the twin's parameters",
        None,
        "twinloop anchor IDENTIFICATION --diagnosis FOLDER --out anchored.yaml",
    ),
    "occlusion and clutter": Remedy(
        "camera episodes",
        "take away what covers the lens, and record with the things that stand on the table",
        "yes, in part: distractors can be simulated; what they look like is only in real frames",
        None,
    ),
    "object": Remedy(
        "measuring",
        "weigh and measure each object, then record demonstrations with each",
        "yes: mass and size that are measured can be simulated",
        None,
    ),
    "environment": Remedy(
        "demonstrations",
        "record demonstrations over positions, clutter and light that the robot meets",
        "yes: places that the twin can set are nearly free to simulate; real episodes are for checking",
        None,
    ),
    "human": Remedy(
        "participants",
        "record more people, each with consent",
        "no: a model of these people would have to be made from such recordings",
        "how people reach, wait and react is only in recordings of people",
    ),
    "numerics": Remedy(
        "nothing",
        "halve the physics time step and generate again; no robot is needed",
        "only simulation: the simulator itself causes this loss",
        None,
        "twinloop check DATASET --time-step 8",
    ),
}

IDENTIFIED = Remedy(
    "nothing",
    "its parameters are identified; generate with the calibrated twin and train again, no robot is needed",
    "yes, first: the calibrated twin has it already",
    None,
    "twinloop generate anchored.yaml --out DATASET  # what `twinloop anchor` wrote",
)
"""Against points lost to a dimension whose parameters are identified."""

EXCITED = {"latency": "action_delay_s,observation_delay_s"}
"""Parameters to design a motion for, by dimension; of the others `twinloop twin show` lists them."""

SETTABLE = {
    "object.x": "object_offset_x_m",
    "object.y": "object_offset_y_m",
    "object.distance": "object_offset_x_m",
    "object.yaw": "object_yaw_rad",
    "object.z": "table_height_m",
    "target.x": "target_offset_x_m",
    "target.y": "target_offset_y_m",
    "target.z": "table_height_m",
    "light": "light_intensity",
}
"""The parameter of a twin that sets a region's variable; draws are parameters themselves."""
