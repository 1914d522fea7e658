"""The interface map: what the inputs and outputs of somebody else's policy mean. YAML on disk, frozen values here.

    policy: openpi:ws://127.0.0.1:8000
    inputs:
      observation/state: {from: observation.state, elements: [joint1.pos, joint2.pos], unit: deg}
      observation/image: {camera: front, size: [224, 224]}
      prompt: {task: true}
    actions:
      - {elements: [joint1.target, joint2.target], unit: deg}
      - {gripper: gripper.target, open: 1, closed: 0}
    n_action_steps: 8

Units, orders and conventions are those of the policy; Twinloop's own are known from the robot. A guess carries its `confidence`;
a map with guesses below `MIN_CONFIDENCE` is not used until somebody has looked at them and removed the line.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MIN_CONFIDENCE = 0.9
"""A guess that is less certain than this is not used before a person confirms it."""

Rotation = Literal[
    "quaternion_wxyz", "quaternion_xyzw", "rotation_vector", "matrix_6d", "euler_xyz", "euler_zyx", "matrix"
]
"""Layouts of a rotation: 4, 4, 3, 6 (the first two columns), 3 (extrinsic), 3 (extrinsic), 9 (by rows) numbers."""

RelativeTo = Literal["nothing", "reading", "chunk_start", "previous"]
"""What an action is added to: nothing (absolute), the reading of its own step, the reading when the chunk was asked for, or
the action before it."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_list), Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class _Guess(_Part):
    confidence: float | None = Field(default=None, ge=0, le=1)
    because: str = ""


class VectorPart(_Guess):
    """Numbers of one signal: policy's = sign * scale * (ours in `unit`) + offset, element by element.

    `pose` gives, instead of a signal, the pose of the tool by the twin's kinematics, position in metres and then `rotation`.
    """

    source: str | None = Field(default=None, alias="from")
    pose: str | None = None
    rotation: Rotation = "quaternion_wxyz"
    elements: Names = ()
    unit: str | None = None
    sign: Numbers = (1.0,)
    scale: Numbers = (1.0,)
    offset: Numbers = (0.0,)

    @model_validator(mode="after")
    def _one_kind(self) -> VectorPart:
        if (self.source is None) == (self.pose is None):
            raise ValueError("give either from (a signal) or pose (a frame of the robot)")
        return self


class ImageInput(_Guess):
    """Frames of one camera as the policy wants them."""

    camera: str
    size: tuple[int, int] | None = None
    fit: Literal["crop", "pad", "stretch"] = "crop"
    channels: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["hwc", "chw"] = "hwc"
    value_range: tuple[float, float] | None = Field(default=None, alias="range")
    mean: Numbers | None = None
    std: Numbers | None = None


class TextInput(_Guess):
    """Text: the task of the episode or scene, or always the same words."""

    task: Literal[True] | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> TextInput:
        if (self.task is None) == (self.text is None):
            raise ValueError("give either task: true or text")
        return self


class VectorInput(_Guess):
    """A vector put together from several parts, in their order."""

    parts: tuple[VectorPart, ...] = Field(min_length=1)


Input = VectorPart | VectorInput | ImageInput | TextInput


class JointAction(_Guess):
    """The next numbers of an action as commands of these joints: ours = (policy's - offset) / (sign * scale), in `unit`."""

    elements: Names = Field(min_length=1)
    unit: str | None = None
    relative_to: RelativeTo = "nothing"
    sign: Numbers = (1.0,)
    scale: Numbers = (1.0,)
    offset: Numbers = (0.0,)


class PoseAction(_Guess):
    """The next numbers of an action as a pose of the tool, which the twin's inverse kinematics turns into joints."""

    pose: str
    rotation: Rotation | None = "quaternion_wxyz"
    relative_to: RelativeTo = "nothing"
    frame: Literal["base", "tool"] = "base"
    scale: Numbers = (1.0,)


class GripperAction(_Guess):
    """The next number of an action as the command of a gripper, given what it is when open and when closed."""

    gripper: str
    open: float
    closed: float
    threshold: float | None = None


class IgnoredAction(_Guess):
    """Numbers of an action that this robot has no use for."""

    ignore: int = Field(ge=1)


Action = JointAction | PoseAction | GripperAction | IgnoredAction


class InterfaceMap(_Part):
    """Everything needed to let a foreign policy act on our robot.

    - `rate_hz`: rate of the policy's actions; default: the robot's.
    - `history`: steps back at which observations are wanted, the last is 0.
    - `output`: which of the policy's outputs holds the actions (T, A); default: its only one, or `actions`.
    - `chunk_offset`: actions at the start of a chunk that are about the past.
    """

    policy: str
    name: str | None = None
    twin: str | None = None
    robot_type: str = "unknown"
    rate_hz: float | None = Field(default=None, gt=0)
    inputs: dict[str, Input] = Field(min_length=1)
    history: tuple[int, ...] = (0,)
    output: str | None = None
    actions: tuple[Action, ...] = Field(min_length=1)
    chunk_offset: int = Field(default=0, ge=0)
    n_action_steps: int | None = Field(default=None, ge=1)

    def doubtful(self, min_confidence: float = MIN_CONFIDENCE) -> dict[str, _Guess]:
        """Guesses that nobody has confirmed, by their place in the map."""
        inputs: dict[str, _Guess] = {f"inputs.{name}": part for name, part in self.inputs.items()}
        for name, part in self.inputs.items():
            if isinstance(part, VectorInput):
                inputs |= {f"inputs.{name}.parts.{i}": one for i, one in enumerate(part.parts)}
        places = inputs | {f"actions.{i}": one for i, one in enumerate(self.actions)}
        return {
            place: one
            for place, one in places.items()
            if one.confidence is not None and one.confidence < min_confidence
        }
