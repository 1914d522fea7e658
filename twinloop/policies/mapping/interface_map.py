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

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from twinloop.errors import MapError
from twinloop.logs.map_values import Factors, MapPart, Names, Numbers, Units
from twinloop.yaml_models import load_model, parse_model, validate_model

MIN_CONFIDENCE = 0.9
"""A guess that is less certain than this is not used before a person confirms it."""

MAX_HISTORY = 1000
"""Steps back from now: maps also come from those who serve a policy."""

Rotation = Literal[
    "quaternion_wxyz", "quaternion_xyzw", "rotation_vector", "matrix_6d", "euler_xyz", "euler_zyx", "matrix"
]
"""Layouts of a rotation: 4, 4, 3, 6 (the first two columns), 3 (about the fixed axes x, y, z), 3 (about the fixed axes z, y, x), 9
(by rows) numbers; angles in rad."""

RelativeTo = Literal["nothing", "reading", "chunk_start", "previous"]
"""What an action is added to: nothing (absolute), the reading of its own step, the reading when the chunk was asked for, or
the action before it."""


def _require_ends_now(steps: tuple[int, ...]) -> tuple[int, ...]:
    if steps[-1] != 0 or list(steps) != sorted(set(steps)):
        raise ValueError("steps back from now, oldest first, the last is 0: for example [-2, -1, 0]")
    if steps[0] < -MAX_HISTORY:
        raise ValueError(f"no more than {MAX_HISTORY} steps back")
    return steps


Size = Annotated[int, Field(ge=1, le=4096)]


class _Guess(MapPart):
    confidence: float | None = Field(default=None, ge=0, le=1)
    because: str = ""


class VectorPart(_Guess):
    """Numbers of one signal: policy's = sign * scale * (ours in `unit`) + offset, element by element.

    `unit` is one for all elements or one for each; default: ours. `pose` gives, instead of a signal, the pose of a frame of the
    robot (`tool`, or a site or body of the twin) in the robot's base by the twin's kinematics: position in m, then `rotation`.
    """

    source: str | None = Field(default=None, alias="from")
    pose: str | None = None
    rotation: Rotation | None = "quaternion_wxyz"
    elements: Names = ()
    unit: Units = ()
    sign: Factors = (1.0,)
    scale: Factors = (1.0,)
    offset: Numbers = (0.0,)

    @model_validator(mode="after")
    def _one_kind(self) -> VectorPart:
        if (self.source is None) == (self.pose is None):
            raise ValueError("give either from (a signal) or pose (a frame of the robot)")
        return self


class ConstantInput(_Guess):
    """Always the same numbers, such as the velocity that a walking policy is to follow."""

    constant: Numbers


class LastActionInput(_Guess):
    """The policy's own last action, as it gave it; zeros at the start of an episode. Policies from RL often want it."""

    last_action: Literal[True]


class ImageInput(_Guess):
    """Frames of one camera as the policy wants them.

    `size` is height and width. With `fit: crop` the middle of the frame with the same proportions, with `pad` all of it with black
    bars, with `stretch` all of it distorted. Without `range`, `mean` and `std` pixels stay uint8 from 0 to 255; with `range` 0 and 255
    become its ends; `mean` and `std`, by colour in the order of `channels`, are taken off after that.
    """

    camera: str
    size: tuple[Size, Size] | None = None
    fit: Literal["crop", "pad", "stretch"] = "crop"
    channels: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["hwc", "chw"] = "hwc"
    value_range: tuple[float, float] | None = Field(default=None, alias="range")
    mean: Numbers | None = None
    std: Factors | None = None


class TextInput(_Guess):
    """Text: the task of the episode or scene, or always the same words."""

    task: Literal[True] | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> TextInput:
        if (self.task is None) == (self.text is None):
            raise ValueError("give either task: true or text")
        return self


def _keys(value: Any) -> Collection[str]:
    """The keys of a part, as a dictionary or as a value."""
    if isinstance(value, Mapping):
        return value.keys()
    return type(value).model_fields if isinstance(value, MapPart) else ()


def _kind_of_input(value: Any) -> str:
    keys = _keys(value)
    marks = {"camera": "image", "task": "text", "text": "text", "parts": "parts", "constant": "constant"}
    marks["last_action"] = "last_action"
    return next((kind for key, kind in marks.items() if key in keys), "signal")


VectorSource = Annotated[
    Annotated[VectorPart, Tag("signal")]
    | Annotated[ConstantInput, Tag("constant")]
    | Annotated[LastActionInput, Tag("last_action")],
    Discriminator(_kind_of_input),
]


class VectorInput(_Guess):
    """A vector put together from several parts, in their order."""

    parts: tuple[VectorSource, ...] = Field(min_length=1)


Input = Annotated[
    Annotated[VectorPart, Tag("signal")]
    | Annotated[ConstantInput, Tag("constant")]
    | Annotated[LastActionInput, Tag("last_action")]
    | Annotated[VectorInput, Tag("parts")]
    | Annotated[ImageInput, Tag("image")]
    | Annotated[TextInput, Tag("text")],
    Discriminator(_kind_of_input),
]


class JointAction(_Guess):
    """The next numbers of an action as commands of these joints: ours = (policy's - offset) / (sign * scale), in `unit`."""

    elements: Names = Field(min_length=1)
    unit: Units = ()
    relative_to: RelativeTo = "nothing"
    sign: Factors = (1.0,)
    scale: Factors = (1.0,)
    offset: Numbers = (0.0,)


class PoseAction(_Guess):
    """The next numbers of an action as a pose in the robot's base, which the twin's inverse kinematics turns into joints.

    `pose` is the frame that goes there: `tool`, or a site or body of the twin. First come the position in m times `scale`, then the
    rotation, its numbers times `rotation_scale` if it is a rotation vector or Euler angles; without `rotation` the tool keeps its
    orientation. A relative pose is added in the axes of the `base`, or in those of the `tool` itself.
    """

    pose: str
    rotation: Rotation | None = "quaternion_wxyz"
    relative_to: RelativeTo = "nothing"
    frame: Literal["base", "tool"] = "base"
    scale: Factors = (1.0,)
    rotation_scale: Factors = (1.0,)


class GripperAction(_Guess):
    """The next number of an action as the command of a gripper, given what it is when open and when closed.

    `opened` and `closed_at` are our commands for these two; default: the ends of the actuator's range in the twin, open at its upper
    end. With `threshold` (in the policy's numbers) the gripper is either open or closed.
    """

    gripper: str
    open: float
    closed: float
    threshold: float | None = None
    opened_at: float | None = None
    closed_at: float | None = None

    @model_validator(mode="after")
    def _differ(self) -> GripperAction:
        if self.open == self.closed:
            raise ValueError("open and closed must differ")
        return self


class HoldAction(_Guess):
    """Joints that the policy has no numbers for: they stay where they were when the episode began."""

    hold: Names = Field(min_length=1)


class IgnoredAction(_Guess):
    """Numbers of an action that this robot has no use for."""

    ignore: int = Field(ge=1, le=4096)


def _kind_of_action(value: Any) -> str:
    keys = _keys(value)
    return next((kind for kind in ("gripper", "pose", "hold", "ignore") if kind in keys), "joints")


Action = Annotated[
    Annotated[JointAction, Tag("joints")]
    | Annotated[PoseAction, Tag("pose")]
    | Annotated[GripperAction, Tag("gripper")]
    | Annotated[HoldAction, Tag("hold")]
    | Annotated[IgnoredAction, Tag("ignore")],
    Discriminator(_kind_of_action),
]


class InterfaceMap(MapPart):
    """Everything needed to let a foreign policy act on our robot.

    - `policy`: its address; a file in it may be given relative to the map.
    - `name`: what it is called; default: from the address.
    - `twin`: name or folder of the robot's twin.
    - `rate_hz`: rate of the policy's actions; default: the robot's. Chunks are resampled to the robot's rate.
    - `history`: steps of the policy, back from now, at which observations are wanted; the last is 0. With more than one, vectors have
      a first axis of steps; images are always the newest.
    - `flatten_history`: the steps one after the other in one vector instead.
    - `output`: which of the policy's outputs hold the actions, side by side; default: its only one, or `actions`.
    - `chunk_offset`: actions at the start of a chunk that are about the past.
    - `n_action_steps`: actions of a chunk, at the policy's rate, that are executed before the next chunk; default: all.
    """

    policy: str
    name: str | None = Field(default=None, pattern=r"^[^/@]+$")
    twin: str | None = None
    rate_hz: float | None = Field(default=None, ge=0.1, le=1e5)
    inputs: dict[str, Input] = Field(min_length=1)
    history: Annotated[tuple[int, ...], Field(min_length=1), AfterValidator(_require_ends_now)] = (0,)
    flatten_history: bool = False
    output: Names = ()
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

    def require_confirmed(self, name: str) -> None:
        """Refuse a map with guesses that are less certain than `MIN_CONFIDENCE`; `name` is what the error calls it."""
        if doubtful := self.doubtful():
            shown = "; ".join(
                f"{place} ({one.confidence:g}{f', {one.because}' if one.because else ''})"
                for place, one in list(doubtful.items())[:4]
            )
            raise MapError(
                f"{name} has {len(doubtful)} guesses that nobody has confirmed: {shown}",
                expected=f"confidence {MIN_CONFIDENCE:g} or more",
                remedy="check these lines, correct them and remove their confidence",
            )


def load_interface_map(source: str | Path) -> InterfaceMap:
    """Load an interface map from a YAML file.

    Args:
        source: The file.

    Returns:
        The map; a file that its policy names relative to the map has its whole path.

    Raises:
        MapError: The file cannot be read, or a key or unit is wrong; the message names the nearest right one.
    """
    found = load_model(
        InterfaceMap, source, remedy="twinloop policy map ADDRESS --propose writes one", hints=_MISSING
    )
    return found.model_copy(update={"policy": _beside(found.policy, Path(source).parent)})


def parse_interface_map(text: str, name: str = "map") -> InterfaceMap:
    """Parse an interface map from YAML text; an error names the key and the nearest valid one."""
    return parse_model(InterfaceMap, text, name, hints=_MISSING)


def read_declared_map(address: str, declared: object) -> InterfaceMap:
    """The map of a policy that declares one itself.

    Args:
        address: The policy's address.
        declared: The map as plain values, without `policy` and `twin`: where the policy is, and the robot, are the user's to say.

    Returns:
        The map.

    Raises:
        MapError: It is no map, or says what is not for it to say.
    """
    name = f"the interface map that {address} declares"
    if isinstance(declared, Mapping):
        if own := sorted({"policy", "twin"} & declared.keys()):
            raise MapError(
                f"{name} has {' and '.join(own)}", remedy="leave it out; name the robot's twin with --twin"
            )
        declared = {"policy": address, **declared}
    return validate_model(InterfaceMap, declared, name, hints=_MISSING)


def format_interface_map(interface_map: InterfaceMap) -> str:
    """Format an interface map as YAML.

    Args:
        interface_map: The map.

    Returns:
        The text of its file, without what is at its default.
    """
    return yaml.safe_dump(
        plain_interface_map(interface_map),
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=None,
    )


def plain_interface_map(interface_map: InterfaceMap) -> dict[str, Any]:
    """An interface map as the plain values of its file, without what is at its default."""
    content: dict[str, Any] = interface_map.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return content


def _beside(address: str, folder: Path) -> str:
    """An address with its file, if it names one that is beside the map, in full."""
    scheme, _, rest = address.partition(":")
    file, colon, inside = rest.partition(":")
    if not file or "//" in rest or Path(file).is_absolute() or not (folder / file).is_file():
        return address
    return f"{scheme}:{folder / file}{colon}{inside}"


_MISSING = {
    "policy": "the policy's address, such as openpi:ws://127.0.0.1:8000 or onnx:policy.onnx",
    "inputs": "by the policy's own names, what it is given, such as observation/state: {from: observation.state}",
    "actions": "what the numbers of an action mean, in their order, such as - {elements: [joint1.target], unit: rad}",
    "elements": "the joints that these numbers command, such as [joint1.target, joint2.target]",
    "open": "the policy's number for an open gripper",
    "closed": "the policy's number for a closed gripper",
}
