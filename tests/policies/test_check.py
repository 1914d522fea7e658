"""A map with one wrong convention: the check names it, with the line to change; of a right map it names nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.policies.tracker import RIGHT_MAP, Tracker, record_tracker, right_map
from twinloop.datasets.reader import Dataset
from twinloop.errors import WrongUse
from twinloop.policies.conventions.check import InterfaceCheck, check_interface
from twinloop.policies.mapping.interface_map import InterfaceMap
from twinloop.records import load_record

ROWS = 64
ORDER = ["elbow.target", "pan.target", "lift.target"]
FAULTS: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "degrees for radians": ("degrees for radians", ("actions", 0, "unit"), "deg"),
    "degrees of readings": ("degrees for radians", ("inputs", "state", "unit"), ["deg", "deg", "deg", "m"]),
    "order of joints": ("order of joints", ("actions", 0, "elements"), ORDER),
    "sign": ("sign", ("actions", 0, "sign"), [1.0, -1.0, 1.0]),
    "gripper polarity": (
        "gripper polarity",
        ("actions", 1),
        {**RIGHT_MAP["actions"][1], "open": 0.0, "closed": 1.0},
    ),
    "relative": ("relative taken for absolute", ("actions", 0, "relative_to"), "reading"),
    "quaternion order": (
        "quaternion order",
        ("inputs", "object", "elements"),
        ["object.qx", "object.qy", "object.qz", "object.qw"],
    ),
    "swapped cameras": (
        "swapped cameras",
        ("inputs",),
        {**RIGHT_MAP["inputs"], "left": {"camera": "right"}, "right": {"camera": "left"}},
    ),
    "bgr": ("BGR for RGB", ("inputs", "left", "channels"), "bgr"),
    "image scale": ("image scale", ("inputs", "left", "range"), [0.0, 1.0]),
    "chunk offset": ("chunk offset", ("chunk_offset",), 4),
    "rate": ("rate", ("rate_hz",), 25.0),
    "normalisation": ("normalisation", ("actions", 0, "scale"), [1.3, 0.7, 1.6]),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return record_tracker(tmp_path_factory.mktemp("tracker") / "data")


def _with(place: tuple[Any, ...], value: Any) -> InterfaceMap:
    content = copy.deepcopy(RIGHT_MAP)
    found: Any = content
    for step in place[:-1]:
        found = found[step]
    found[place[-1]] = value
    return InterfaceMap.model_validate(content)


@pytest.mark.parametrize("name", FAULTS)
def test_one_wrong_convention_is_named_with_the_line_to_change(recorded: Dataset, name: str) -> None:
    fault, place, value = FAULTS[name]
    check = check_interface(Tracker(), _with(place, value), recorded, rows=ROWS)
    assert check.found is not None and check.found.fault == fault, check
    assert check.found.changes[0].startswith(str(place[0]))
    assert check.found.gain.low > 0.1 and check.found.error < check.error


def test_two_wrong_conventions_are_named_together_and_the_corrected_map_is_right(
    recorded: Dataset, tmp_path: Any
) -> None:
    content = copy.deepcopy(RIGHT_MAP)
    content["actions"][0] |= {"unit": "deg", "elements": ORDER}
    check = check_interface(Tracker(), InterfaceMap.model_validate(content), recorded, rows=ROWS)
    found, corrected = check.found, load_record(InterfaceCheck, check.save(tmp_path)).corrected
    assert corrected is not None and corrected == check.corrected
    assert check_interface(Tracker(), corrected, recorded, rows=ROWS).found is None
    assert found is not None and {found.fault, found.with_fault} == {"degrees for radians", "order of joints"}
    assert found.error < 0.1 and len(found.changes) == 2


def test_what_is_never_moved_is_left_out(recorded: Dataset, tmp_path: Any) -> None:
    still = record_tracker(tmp_path / "still", gripper=False)
    check = check_interface(Tracker(), _with(("actions", 0, "unit"), "deg"), still, rows=ROWS)
    assert "gripper.target" not in check.elements and not check.follows
    assert check.found is not None and check.found.fault == "degrees for radians"


def test_of_a_right_map_nothing_is_named(recorded: Dataset) -> None:
    for seed in range(3):
        check = check_interface(Tracker(seed=seed), right_map(), recorded, rows=ROWS, seed=seed)
        assert check.found is None and check.error < 0.2, check


@pytest.fixture(scope="module")
def hardly_looked(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return record_tracker(tmp_path_factory.mktemp("hardly") / "data", 48, 30, seed=3, looks=HARDLY)


HARDLY = 0.2
"""Images move the goal by at most a sixth of what the quaternion does, and by less than the policy's own error."""


@pytest.mark.parametrize("name", ["swapped cameras", "bgr", "image scale"])
def test_a_fault_that_hardly_moves_the_actions_is_named_by_what_they_are_nearer_to(
    hardly_looked: Dataset, name: str
) -> None:
    fault, place, value = FAULTS[name]
    policy = Tracker(error=0.1, looks=HARDLY)
    check = check_interface(policy, _with(place, value), hardly_looked, rows=ROWS)
    assert check.found is not None and check.found.fault == fault, check
    assert (way := check.found.way) is None or (way.low > 0.5 and 0.6 < way.value < 1.4), way
    assert way is not None or name != "bgr", "the error of the actions alone does not say it"


def test_of_a_right_map_no_weak_fault_is_named(hardly_looked: Dataset) -> None:
    check = check_interface(Tracker(error=0.1, looks=HARDLY), right_map(), hardly_looked, rows=ROWS)
    assert check.found is None, check
    blind = Tracker(error=0.1, looks=0.0, drawn=True)
    check = check_interface(blind, _with(*FAULTS["bgr"][1:]), hardly_looked, rows=ROWS)
    assert check.found is None, "a policy that does not look cannot be wrong about what it sees"


def test_a_policy_that_does_not_follow_the_recordings_is_not_explained(recorded: Dataset) -> None:
    check = check_interface(Tracker(error=2.0), right_map(), recorded, rows=ROWS)
    assert check.found is None and check.error > 0.5


def test_a_few_episodes_tell_nothing(tmp_path: Any) -> None:
    with pytest.raises(WrongUse, match="too few recorded episodes"):
        check_interface(Tracker(), right_map(), record_tracker(tmp_path / "few", episodes=3))
