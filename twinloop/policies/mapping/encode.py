"""Our readings, frames and tasks as the inputs of a foreign policy, by its interface map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array, Schema, Signal
from twinloop.errors import MapError
from twinloop.policies.mapping.arm_pose import ArmPose
from twinloop.policies.mapping.elements import (
    STATE,
    bare,
    find_elements,
    find_signal,
    make_linear,
    spread,
)
from twinloop.policies.mapping.frames import convert_frames
from twinloop.policies.mapping.interface_map import (
    ConstantInput,
    ImageInput,
    InterfaceMap,
    LastActionInput,
    TextInput,
    VectorInput,
    VectorPart,
)
from twinloop.policies.mapping.rotations import SIZES, rotation_to_numbers
from twinloop.twins import Twin
from twinloop.yaml_models import nearest_name

Source = VectorPart | ConstantInput | LastActionInput


@dataclass(frozen=True)
class Observed:
    """What is known of n episodes: signals (n, H, size), frames (n, height, width, 3), task texts, last actions (n, P)."""

    signals: Mapping[str, Array]
    frames: Mapping[str, Array]
    tasks: Sequence[str]
    last_actions: Array


_Vector = Callable[[Observed], Array]


class InputEncoder:
    """The inputs of a map, resolved against the signals and cameras of our robot.

    `signals` and `cameras` are the names of what it needs.
    """

    def __init__(self, interface_map: InterfaceMap, schema: Schema, twin: Twin | None) -> None:
        self._schema, self._twin = schema, twin
        self._flatten = interface_map.flatten_history
        self._stacked = len(interface_map.history) > 1
        self.signals: set[str] = set()
        self._vectors: dict[str, list[_Vector]] = {}
        self._images: dict[str, ImageInput] = {}
        self._texts: dict[str, TextInput] = {}
        for name, given in interface_map.inputs.items():
            place = f"inputs.{name}"
            if isinstance(given, ImageInput):
                self._images[name] = self._require_camera(given, place)
            elif isinstance(given, TextInput):
                self._texts[name] = given
            elif isinstance(given, VectorInput):
                self._vectors[name] = [
                    self._resolve(part, f"{place}.parts.{i}") for i, part in enumerate(given.parts)
                ]
            else:
                self._vectors[name] = [self._resolve(given, place)]
        self.cameras = tuple(dict.fromkeys(image.camera for image in self._images.values()))

    def encode(self, observed: Observed) -> dict[str, Array | list[str]]:
        """Convert what was observed in n episodes.

        Args:
            observed: Signals, frames, tasks and last actions.

        Returns:
            By the policy's names: vectors (n, k), or (n, H, k) with history, float32; images as the map says; lists of n texts.
        """
        inputs: dict[str, Array | list[str]] = {}
        for name, parts in self._vectors.items():
            values = np.concatenate([part(observed) for part in parts], axis=2).astype(np.float32)
            if not self._stacked or self._flatten:
                values = values.reshape(len(values), -1)
            inputs[name] = values
        for name, image in self._images.items():
            inputs[name] = convert_frames(observed.frames[image.camera], image)
        for name, text in self._texts.items():
            inputs[name] = [text.text if text.text is not None else task for task in observed.tasks]
        return inputs

    def _require_camera(self, image: ImageInput, place: str) -> ImageInput:
        known = [camera.name for camera in self._schema.cameras]
        if image.camera not in known:
            raise MapError(f"{place}.camera: {nearest_name(image.camera, known)}")
        for field, values in (("mean", image.mean), ("std", image.std)):
            spread(values or (0.0,), 3, f"{place}.{field}")
        return image

    def _resolve(self, part: Source, place: str) -> _Vector:
        """What gives the numbers (n, H, k) of a part."""
        if isinstance(part, ConstantInput):
            constant = np.array(part.constant)
            return lambda observed: np.broadcast_to(constant, (*_rows(observed), len(constant)))
        if isinstance(part, LastActionInput):
            return lambda observed: np.repeat(observed.last_actions[:, None], _rows(observed)[1], axis=1)
        if part.pose is not None:
            return self._resolve_pose(part, place)
        signal = find_signal(self._schema, str(part.source), place)
        self.signals.add(signal.name)
        columns = find_elements(signal, part.elements, place)
        linear = make_linear(signal, columns, part.unit, part.sign, part.scale, part.offset, place)
        return lambda observed: linear.apply(
            np.asarray(observed.signals[signal.name], np.float64)[..., columns]
        )

    def _resolve_pose(self, part: VectorPart, place: str) -> _Vector:
        arm = make_arm(self._twin, str(part.pose), place)
        columns = find_arm_readings(arm, self._schema, place)
        self.signals.add(STATE)
        layout = part.rotation
        size = 3 + (SIZES[layout] if layout else 0)
        units = [*["m"] * 3, *["1"] * (size - 3)]
        pose = Signal("pose", (size,), tuple(units))
        wanted = [*spread(part.unit, 3, f"{place}.unit"), *units[3:]] if part.unit else units
        linear = make_linear(pose, range(size), wanted, part.sign, part.scale, part.offset, place)

        def read(observed: Observed) -> Array:
            joints = np.asarray(observed.signals[STATE], np.float64)[..., columns]
            positions, rotations = arm.forward(joints.reshape(-1, len(columns)))
            numbers = [positions] + ([rotation_to_numbers(rotations, layout)] if layout else [])
            return linear.apply(np.concatenate(numbers, axis=1).reshape(*joints.shape[:2], size))

        return read


def _rows(observed: Observed) -> tuple[int, int]:
    """Episodes and steps of history."""
    for values in observed.signals.values():
        return values.shape[0], values.shape[1]
    return len(observed.tasks), 1


def make_arm(twin: Twin | None, frame: str, place: str) -> ArmPose:
    """The kinematics of a frame; refuses a map with poses where no twin is known."""
    if twin is None:
        raise MapError(
            f"{place}: a pose needs the robot's twin",
            remedy="name it in the map, twin: NAME|FOLDER, or on the command line, --twin",
        )
    return ArmPose(twin, frame)


def find_arm_readings(arm: ArmPose, schema: Schema, place: str) -> list[int]:
    """The elements of `observation.state` that read the joints of an arm."""
    state = find_signal(schema, STATE, place)
    names = [bare(element) for element in state.elements]
    if missing := [name for name in arm.names if name not in names]:
        raise MapError(
            f"{place}: {STATE} has no reading of {', '.join(missing)}, joints of the twin",
            available=names,
            remedy="name the elements as the twin names its actuators",
        )
    return [names.index(name) for name in arm.names]
