"""Corrections of an interface map: one convention at a time, with the line that changes."""

from __future__ import annotations

from typing import Any

import pytest

from twinloop.policies.conventions.corrections import find_corrections
from twinloop.policies.mapping.interface_map import InterfaceMap

JOINTS = ["pan", "lift", "grip"]
GIVEN: dict[str, Any] = {
    "policy": "python:mine:Policy",
    "inputs": {
        "state": {"from": "observation.state", "elements": [f"{j}.pos" for j in JOINTS]},
        "tool": {"parts": [{"pose": "tool", "rotation": "quaternion_xyzw"}]},
        "left": {"camera": "left"},
        "right": {"camera": "right", "range": [0, 1]},
    },
    "actions": [
        {"elements": ["pan.target", "lift.target"]},
        {"gripper": "grip.target", "open": 0.0, "closed": 1.0},
    ],
}
UNITS = {f"{joint}.{what}": "rad" for joint in JOINTS for what in ("pos", "target")}


@pytest.fixture
def given() -> InterfaceMap:
    return InterfaceMap.model_validate(GIVEN)


def _changes(given: InterfaceMap, fault: str) -> list[tuple[str, ...]]:
    return [one.changes for one in find_corrections(given, UNITS, 50.0) if one.fault == fault]


def test_degrees_are_tried_in_readings_in_commands_and_in_both(given: InterfaceMap) -> None:
    state, pan = "inputs.state.unit: (none) -> deg", "actions.0.unit: (none) -> deg"
    assert _changes(given, "degrees for radians") == [(pan,), (state,), (state, pan)]


def test_a_gripper_is_turned_round_by_exchanging_open_and_closed(given: InterfaceMap) -> None:
    assert _changes(given, "gripper polarity") == [
        ("actions.1.open: 0 -> 1", "actions.1.closed: 1 -> 0"),
    ]


def test_a_joint_is_turned_round_in_its_reading_and_its_command_together(given: InterfaceMap) -> None:
    together = ("inputs.state.sign: 1 -> [-1, 1, 1]", "actions.0.sign: 1 -> [-1, 1]")
    assert together in _changes(given, "sign")


def test_cameras_are_exchanged_and_their_pixels_scaled_and_reversed(given: InterfaceMap) -> None:
    assert _changes(given, "swapped cameras") == [
        ("inputs.left.camera: left -> right", "inputs.right.camera: right -> left")
    ]
    both = ("inputs.left.channels: rgb -> bgr", "inputs.right.channels: rgb -> bgr")
    assert both in _changes(given, "BGR for RGB")
    assert ("inputs.right.range: [0, 1] -> (none)",) in _changes(given, "image scale")


def test_a_quaternion_in_a_part_of_a_vector_is_reordered(given: InterfaceMap) -> None:
    (change,) = _changes(given, "quaternion order")
    assert change == ("inputs.tool.parts.0.rotation: quaternion_xyzw -> quaternion_wxyz",)


def test_a_quaternion_of_a_signal_is_reordered_by_its_elements() -> None:
    elements = ["object.x", "object.qw", "object.qx", "object.qy", "object.qz"]
    given = InterfaceMap.model_validate(
        GIVEN | {"inputs": {"object": {"from": "simulation.object", "elements": elements}}}
    )
    (found,) = [one for one in find_corrections(given, {}, 50.0) if one.fault == "quaternion order"]
    part: Any = found.interface_map.inputs["object"]
    assert part.elements == ("object.x", "object.qx", "object.qy", "object.qz", "object.qw")


def test_rates_and_offsets_are_tried_from_those_of_the_map_on(given: InterfaceMap) -> None:
    slower = given.model_copy(update={"rate_hz": 10.0, "chunk_offset": 2})
    rates = {
        one.interface_map.rate_hz for one in find_corrections(slower, UNITS, 50.0) if one.fault == "rate"
    }
    assert 50.0 in rates and 10.0 not in rates
    assert ("chunk_offset: 2 -> 0",) in _changes(slower, "chunk offset")


def test_a_correction_changes_nothing_else_and_says_whether_the_policy_is_asked_again(
    given: InterfaceMap,
) -> None:
    for one in find_corrections(given, UNITS, 50.0):
        changed = {line.partition(".")[0].partition(":")[0] for line in one.changes}
        before, after = given.model_dump(), one.interface_map.model_dump()
        assert {key for key in before if before[key] != after[key]} == changed
        assert one.asks_again == ("inputs" in changed)
