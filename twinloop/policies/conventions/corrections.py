"""Corrections of an interface map: every single change that would undo one of the usual convention faults.

A policy that was trained on degrees, on another order of joints or on BGR images gives actions all the same; they are only wrong.
`find_corrections` lists the maps that differ from the given one by one such convention, each with the line that changes. Which of
them explains recorded actions is measured in `check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, get_args

from twinloop.policies.mapping.interface_map import (
    GripperAction,
    ImageInput,
    InterfaceMap,
    JointAction,
    PoseAction,
    RelativeTo,
    VectorInput,
    VectorPart,
)

Fault = Literal[
    "degrees for radians",
    "order of joints",
    "sign",
    "gripper polarity",
    "relative taken for absolute",
    "quaternion order",
    "swapped cameras",
    "BGR for RGB",
    "image scale",
    "chunk offset",
    "rate",
    "normalisation",
]
Place = tuple[str | int, ...]

MAX_CHUNK_OFFSET = 8
RATE_FACTORS = (0.2, 0.25, 0.4, 0.5, 2.0, 2.5, 4.0, 5.0)
"""A policy for 10 Hz on an arm of 50 Hz, for 30 on 15, and so on."""
IMAGE_RANGES: tuple[tuple[float, float] | None, ...] = (None, (0.0, 1.0), (-1.0, 1.0))
ANGLES = {"rad": "deg", "deg": "rad", "rad/s": "deg/s", "deg/s": "rad/s"}
WRITTEN_KEYS = {"value_range": "range"}
"""Keys that have another name in the YAML file."""
QUATERNIONS = {"quaternion_wxyz": "quaternion_xyzw", "quaternion_xyzw": "quaternion_wxyz"}


@dataclass(frozen=True)
class Correction:
    """One change of a map.

    - `fault`: what would have been wrong.
    - `changes`: the lines of the map that change, as "place: old -> new".
    - `interface_map`: the map with the change.
    - `asks_again`: whether the policy has to be asked again, because its inputs change.
    """

    fault: Fault
    changes: tuple[str, ...]
    interface_map: InterfaceMap
    asks_again: bool

    def followed_by(self, other: Correction) -> Correction:
        """Both changes; `other` is a correction of this one's map."""
        return replace(
            other, changes=(*self.changes, *other.changes), asks_again=self.asks_again or other.asks_again
        )


@dataclass(frozen=True)
class Edit:
    """A value of a map to replace: the place of the part, `()` for the map itself, and the key."""

    place: Place
    key: str
    value: Any


def find_corrections(given: InterfaceMap, units: Mapping[str, str], rate_hz: float) -> list[Correction]:
    """List the maps that differ from the given one by one convention.

    Args:
        given: The map as written.
        units: By element of our signals, its unit.
        rate_hz: The robot's control rate.

    Returns:
        The corrections, those that leave the policy's inputs alone first.
    """
    found = [
        *_angles(given, units),
        *_orders(given),
        *_signs(given),
        *_grippers(given),
        *_references(given),
        *_quaternions(given),
        *_cameras(given),
        *_offsets(given),
        *_rates(given, rate_hz),
    ]
    return sorted(found, key=lambda one: one.asks_again)


def correct(given: InterfaceMap, fault: Fault, edits: Sequence[Edit]) -> Correction:
    """Apply edits to a map."""
    content = given
    changes = []
    for edit in edits:
        old = getattr(_part(given, edit.place), edit.key) if edit.place else getattr(given, edit.key)
        where = ".".join(str(step) for step in (*edit.place, WRITTEN_KEYS.get(edit.key, edit.key)))
        changes.append(f"{where}: {_written(old)} -> {_written(edit.value)}")
        content = _replaced(content, edit)
    return Correction(fault, tuple(changes), content, any(edit.place[:1] == ("inputs",) for edit in edits))


def vector_parts(given: InterfaceMap) -> Iterator[tuple[Place, VectorPart]]:
    """Every part of the policy's input vectors, with its place in the map."""
    for name, one in given.inputs.items():
        if isinstance(one, VectorPart):
            yield ("inputs", name), one
        elif isinstance(one, VectorInput):
            for index, part in enumerate(one.parts):
                if isinstance(part, VectorPart):
                    yield ("inputs", name, "parts", index), part


def joint_actions(given: InterfaceMap) -> Iterator[tuple[Place, JointAction]]:
    """Every group of joints that the policy commands, with its place in the map."""
    for index, one in enumerate(given.actions):
        if isinstance(one, JointAction):
            yield ("actions", index), one


def _vectors(given: InterfaceMap) -> list[tuple[Place, VectorPart | JointAction]]:
    """Every group of named elements that goes to the policy or comes from it."""
    found: list[tuple[Place, VectorPart | JointAction]] = [*vector_parts(given), *joint_actions(given)]
    return [(place, part) for place, part in found if part.elements]


def _angles(given: InterfaceMap, units: Mapping[str, str]) -> Iterator[Correction]:
    """The other unit of angles: in each vector alone, and everywhere at once."""
    edits = []
    for place, part in _vectors(given):
        now = element_units(part, units)
        other = tuple(ANGLES.get(unit, unit) for unit in now)
        if other != now:
            edits.append(Edit(place, "unit", other[:1] if len(set(other)) == 1 else other))
    for edit in edits:
        yield correct(given, "degrees for radians", [edit])
    if len(edits) > 1:
        yield correct(given, "degrees for radians", edits)


def element_units(part: VectorPart | JointAction, units: Mapping[str, str]) -> tuple[str, ...]:
    """Unit of each element of a vector: the map's, else ours."""
    if len(part.unit) == 1:
        return part.unit * len(part.elements)
    return part.unit or tuple(units.get(element, "1") for element in part.elements)


def _orders(given: InterfaceMap) -> Iterator[Correction]:
    """Two elements exchanged, all reversed, or the last one first: in each vector alone, and alike in all of the same length."""
    vectors = _vectors(given)
    for size in {len(part.elements) for _, part in vectors}:
        alike = [(place, part) for place, part in vectors if len(part.elements) == size]
        for order in _permutations(size):
            edits = [Edit(place, "elements", tuple(part.elements[k] for k in order)) for place, part in alike]
            for edit in edits:
                yield correct(given, "order of joints", [edit])
            if len(edits) > 1:
                yield correct(given, "order of joints", edits)


def _permutations(size: int) -> list[tuple[int, ...]]:
    places = range(size)
    found = [tuple(reversed(places)), (size - 1, *range(size - 1)), (*range(1, size), 0)]
    for first, second in combinations(places, 2):
        swapped = list(places)
        swapped[first], swapped[second] = second, first
        found.append(tuple(swapped))
    return list(dict.fromkeys(order for order in found if order != tuple(places)))


def _signs(given: InterfaceMap) -> Iterator[Correction]:
    """One element turned round, or all of them: in each vector alone, and in readings and commands of the same joint."""
    vectors = _vectors(given)
    for place, part in vectors:
        signs = _long(part.sign, len(part.elements))
        if len(signs) > 1:
            yield correct(given, "sign", [Edit(place, "sign", tuple(-s for s in signs))])
        for index in range(len(signs)):
            yield correct(given, "sign", [Edit(place, "sign", _turned(signs, index))])
    for joint in dict.fromkeys(_joint(element) for _, part in vectors for element in part.elements):
        edits = [
            Edit(place, "sign", _turned(_long(part.sign, len(part.elements)), index))
            for place, part in vectors
            for index, element in enumerate(part.elements)
            if _joint(element) == joint
        ]
        if len(edits) > 1:
            yield correct(given, "sign", edits)


def _grippers(given: InterfaceMap) -> Iterator[Correction]:
    for index, one in enumerate(given.actions):
        if isinstance(one, GripperAction):
            place = ("actions", index)
            edits = [Edit(place, "open", one.closed), Edit(place, "closed", one.open)]
            yield correct(given, "gripper polarity", edits)


def _references(given: InterfaceMap) -> Iterator[Correction]:
    """Actions that are added to something else, all alike and each alone."""
    moving = [(i, one) for i, one in enumerate(given.actions) if isinstance(one, JointAction | PoseAction)]
    for other in get_args(RelativeTo):
        edits = [Edit(("actions", i), "relative_to", other) for i, one in moving if one.relative_to != other]
        for edit in edits:
            yield correct(given, "relative taken for absolute", [edit])
        if len(edits) > 1:
            yield correct(given, "relative taken for absolute", edits)


def _quaternions(given: InterfaceMap) -> Iterator[Correction]:
    poses: list[tuple[Place, Any]] = [
        *vector_parts(given),
        *((("actions", i), one) for i, one in enumerate(given.actions) if isinstance(one, PoseAction)),
    ]
    edits = [
        Edit(place, "rotation", QUATERNIONS[part.rotation])
        for place, part in poses
        if part.rotation in QUATERNIONS and not (isinstance(part, VectorPart) and part.pose is None)
    ]
    for edit in edits:
        yield correct(given, "quaternion order", [edit])
    if len(edits) > 1:
        yield correct(given, "quaternion order", edits)
    for place, part in vector_parts(given):
        named = [element.rpartition(".")[2] for element in part.elements]
        for first, last in ((["qw", "qx", "qy", "qz"], "qw"), (["qx", "qy", "qz", "qw"], "qx")):
            if at := _find(named, first):
                own = list(part.elements)
                start = at - 1
                run = own[start : start + 4]
                own[start : start + 4] = [*run[1:], run[0]] if last == "qw" else [run[3], *run[:3]]
                yield correct(given, "quaternion order", [Edit(place, "elements", tuple(own))])


def _cameras(given: InterfaceMap) -> Iterator[Correction]:
    """Cameras exchanged, channels reversed, and numbers of another range."""
    images = {name: one for name, one in given.inputs.items() if isinstance(one, ImageInput)}
    for (first, one), (second, two) in combinations(images.items(), 2):
        if one.camera != two.camera:
            edits = [
                Edit(("inputs", first), "camera", two.camera),
                Edit(("inputs", second), "camera", one.camera),
            ]
            yield correct(given, "swapped cameras", edits)
    reversed_ = {"rgb": "bgr", "bgr": "rgb"}
    yield from _everywhere(given, "BGR for RGB", images, lambda one: [("channels", reversed_[one.channels])])
    yield from _everywhere(
        given,
        "image scale",
        images,
        lambda one: [("value_range", other) for other in IMAGE_RANGES if other != one.value_range],
    )


def _everywhere(given: InterfaceMap, fault: Fault, images: Any, changes: Any) -> Iterator[Correction]:
    """The same change in all images, and, where there are several, in each alone."""
    per_image = {name: changes(one) for name, one in images.items()}
    for name, edits in per_image.items():
        for key, value in edits:
            yield correct(given, fault, [Edit(("inputs", name), key, value)])
    if len(per_image) > 1:
        for together in zip(*per_image.values(), strict=False):
            yield correct(
                given,
                fault,
                [Edit(("inputs", name), k, v) for name, (k, v) in zip(per_image, together, strict=True)],
            )


def _offsets(given: InterfaceMap) -> Iterator[Correction]:
    for other in range(MAX_CHUNK_OFFSET + 1):
        if other != given.chunk_offset:
            yield correct(given, "chunk offset", [Edit((), "chunk_offset", other)])


def _rates(given: InterfaceMap, rate_hz: float) -> Iterator[Correction]:
    now = given.rate_hz or rate_hz
    for factor in RATE_FACTORS:
        yield correct(given, "rate", [Edit((), "rate_hz", now * factor)])


def _part(given: InterfaceMap, place: Place) -> Any:
    """The part of a map at a place."""
    found: Any = given
    for step in place:
        found = getattr(found, step) if isinstance(step, str) and hasattr(found, step) else found[step]
    return found


def _replaced(found: Any, edit: Edit) -> Any:
    """A part of a map with one value replaced, along the edit's place."""
    if not edit.place:
        return found.model_copy(update={edit.key: edit.value})
    step, rest = edit.place[0], Edit(edit.place[1:], edit.key, edit.value)
    if isinstance(found, dict):
        return {name: _replaced(one, rest) if name == step else one for name, one in found.items()}
    if isinstance(found, tuple):
        return tuple(_replaced(one, rest) if index == step else one for index, one in enumerate(found))
    return found.model_copy(update={str(step): _replaced(getattr(found, str(step)), rest)})


def _written(value: Any) -> str:
    """A value as it stands in the YAML file."""
    if value is None or value == ():
        return "(none)"
    if isinstance(value, tuple) and len(value) == 1:
        return _written(value[0])
    if isinstance(value, tuple):
        return f"[{', '.join(_written(one) for one in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _long(signs: tuple[float, ...], size: int) -> tuple[float, ...]:
    return signs * size if len(signs) == 1 else signs


def _turned(signs: tuple[float, ...], index: int) -> tuple[float, ...]:
    return tuple(-sign if k == index else sign for k, sign in enumerate(signs))


def _joint(element: str) -> str:
    return element.rpartition(".")[0] or element


def _find(names: Sequence[str], run: Sequence[str]) -> int:
    """One more than the place where a run of names begins; 0 where there is none."""
    wanted = list(run)
    starts = (k for k in range(len(names) - len(wanted) + 1) if list(names[k : k + len(wanted)]) == wanted)
    return next((start + 1 for start in starts), 0)
