"""One rule for names: what a log calls a joint is found in the twin, or is not; ingest and identify agree."""

import numpy as np
import pytest

from tests.tasks.foreign_arms import MODELS, PANDA_JOINTS, SO101, UR5E, UR5E_JOINTS, make_arm
from twinloop.episode import Schema, Signal, make_episode
from twinloop.errors import MapError, WrongUse
from twinloop.generation.open_loop import replay_actions
from twinloop.generation.videos import reconstruct_states
from twinloop.identification.recording import find_channels, read_recording
from twinloop.logs.twin_check import TwinCheck
from twinloop.tasks import make_cell
from twinloop.tasks.joint_names import JointNames, bare_name, find_joint_names


@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    return {name: make_arm(name, folder) for name in MODELS}


def recorded(elements, size, units=("rad",)):
    """An episode with these elements in state and action: a small motion of each."""
    names = ("observation.state", "action")
    schema = Schema(
        tuple(Signal(name, (size,), tuple(units), "float64", tuple(elements)) for name in names), 50.0
    )
    time_s = np.arange(50) / 50
    motion = 0.01 * (1 + np.sin(time_s[:, None] + np.arange(size)))
    return make_episode(schema, time_s, {"observation.state": motion, "action": motion})


@pytest.mark.parametrize("arm", MODELS)
def test_what_a_twin_records_itself_fits_it(arms, arm):
    cell = make_cell(arms[arm])
    own = cell.observed_actuators()[0]
    for elements in (own.elements, ()):
        episode = recorded(elements, own.size, own.units)
        check = TwinCheck(arms[arm])
        check.check(episode, "run")
        assert check.notes == []
        channels = find_channels(cell, episode)
        assert [channel.actuator for channel in channels] == list(range(own.size))
        commands = read_recording(cell, episode, channels).commands
        np.testing.assert_array_equal(commands, episode["action"])


FOREIGN = {
    "joints as ROS names them": ("ur5e_2f85", UR5E_JOINTS, UR5E),
    "another order and spelling": ("ur5e_2f85", ("Wrist-1.pos", "elbow.pos"), ("wrist_1", "elbow")),
    "a prefix that all share": ("panda", tuple(f"panda_{j}" for j in PANDA_JOINTS), PANDA_JOINTS),
    "a prefix, and a gripper without it": (
        "so101",
        (*(f"main_{name}" for name in SO101[:5]), "gripper"),
        SO101,
    ),
    "numbered axes": ("panda", tuple(f"J{i}" for i in range(1, 8)), PANDA_JOINTS),
    "commands": ("so101", tuple(f"target_{name}" for name in SO101), SO101),
    "fingers of a linkage": ("ur5e_2f85", ("left_driver_joint", "elbow"), ("left_driver_joint", "elbow")),
    "shorter names": ("yam", ("base", "hand_roll_joint"), ("base_yaw", "hand_roll")),
    "motors called after joints": ("yam", ("hand_roll_joint", "base_yaw_motor"), ("hand_roll", "base_yaw")),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_names_of_others_mean_the_same_joints_to_ingest_and_identify(arms, case):
    arm, elements, expected = FOREIGN[case]
    cell = make_cell(arms[arm])
    known = find_joint_names(cell)
    wanted = [known.find(name) for name in expected]
    assert None not in wanted
    assert list(known.match(elements, len(elements))) == wanted
    check = TwinCheck(arms[arm])
    check.check(recorded(elements, len(elements)), "run")
    assert check.notes == []
    names = [channel.name for channel in find_channels(cell, recorded(elements, len(elements)))]
    assert names == [known.names[place] for place in wanted]


@pytest.mark.parametrize(
    ("arm", "elements", "remedy"),
    [
        (
            "so101",
            ("Rotation", "Pitch", "Elbow", "Wrist_Pitch", "Wrist_Roll", "Jaw"),
            "elements: [shoulder_pan",
        ),
        ("panda", tuple(f"joint{i}" for i in range(7)), "elements: [joint1"),
        ("yam", tuple(f"q{i}" for i in range(6)), "elements: [base_yaw"),
        ("ur5e_2f85", ("a", "b", "c"), "name its joints as the twin does"),
    ],
)
def test_names_that_the_twin_does_not_have_are_refused_with_the_line_to_write(arms, arm, elements, remedy):
    with pytest.raises(MapError, match="does not have the joints of the twin") as refused:
        TwinCheck(arms[arm]).check(recorded(elements, len(elements)), "run")
    assert remedy in refused.value.remedy


def test_a_number_of_elements_that_is_no_order_of_the_twin_is_refused_with_those_that_are(arms):
    with pytest.raises(
        MapError, match=r"got 9 elements without names; expected 6 \(shoulder_pan_joint, .*, or 7 \(.*, or 14"
    ):
        TwinCheck(arms["ur5e_2f85"]).check(recorded((), 9), "run")


def test_extra_channels_beside_all_joints_are_noted(arms):
    check = TwinCheck(arms["so101"])
    check.check(recorded((*SO101, "left_wheel", "right_wheel"), 8), "run")
    (note, _) = check.notes
    assert "no joint called left_wheel, right_wheel" in note


def test_words_that_several_joints_share_match_none_of_them():
    names = JointNames(("wrist_yaw", "wrist_roll", "base_yaw"))
    assert names.match(("wrist", "base"), 2) == (None, 2)
    assert names.match(("yaw", "base_2"), 2) == (None, None)


def test_ambiguous_names_match_nothing():
    known = JointNames(("left_joint1", "right_joint1", "left_joint2", "right_joint2"))
    assert known.match(("joint1", "joint2"), 2) == (None, None)
    assert known.match(("right_joint2", "left_joint_1"), 2) == (3, 0)
    both = JointNames(("elbow_pos", "elbow_vel"))
    assert both.match(("elbow_vel.target", "elbow_pos.target"), 2) == (1, 0)
    assert both.match(("elbow", "wrist"), 2) == (None, None)
    assert bare_name("actual_elbow.pos") == "elbow" and bare_name("position") == "position"


def test_a_recording_in_another_order_is_replayed_and_drawn_in_the_twins(arms):
    cell = make_cell(arms["so101"])
    backwards = recorded(SO101[::-1], 6)
    replayed = replay_actions(backwards, arms["so101"]).replayed
    np.testing.assert_allclose(replayed["action"], backwards["action"][:, ::-1], atol=1e-6)
    qpos = reconstruct_states(backwards, cell, np.arange(3))
    np.testing.assert_allclose(qpos, backwards["observation.state"][:3, ::-1])


def test_a_recording_of_the_arm_alone_leaves_the_gripper_at_rest(arms):
    cell = make_cell(arms["ur5e_2f85"])
    arm_only = recorded(UR5E, 6)
    channels = find_channels(cell, arm_only)
    commands = read_recording(cell, arm_only, channels).commands
    np.testing.assert_array_equal(commands[:, :6], arm_only["action"])
    assert commands.shape[1] == 7 and np.ptp(commands[:, 6]) == 0
    errors = {error.signal: error for error in replay_actions(arm_only, arms["ur5e_2f85"]).errors}
    assert errors["action"].largest < 1e-6 and "observation.state" in errors
    few = recorded(UR5E[:3], 3)
    with pytest.raises(WrongUse, match="do not fit twin"):
        read_recording(cell, few, find_channels(cell, few))
