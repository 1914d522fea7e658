"""The task can be done in the stand-in: by the scripted expert where nothing is wrong, by a person where something is."""

import numpy as np
import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import ExpertController, OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.robots.signals import list_signals
from twinloop.tasks import make_cell, make_task
from twinloop.testing.robots import check_robot
from twinloop.twins import load_twin


def record_expert(out, episodes):
    twin = load_twin("franka_pick_place")
    time_limit_s = make_task(twin.task, twin).time_limit_s
    robot = open_robot("standin:ideal")
    with connected(robot):
        controller = ExpertController(twin, twin.task, time_limit_s)
        spec = RecordingSpec(episodes, time_limit_s)
        return record(robot, controller, out, spec, supervisor=robot)


def test_the_expert_succeeds_where_nothing_is_wrong(tmp_path):
    """Two of two; the scenes are seeded, so this is one fixed draw. The slow test below measures the rate."""
    recorded = record_expert(tmp_path / "out", 2)
    assert known_outcomes(recorded) == [True, True]
    episode = recorded.episode(0)
    assert (episode.provenance.source, episode.provenance.engine) == ("standin", "bullet stand-in")
    assert episode.provenance.robot_serial.startswith("standin-")


@pytest.mark.slow
def test_the_expert_succeeds_in_at_least_95_of_100(tmp_path):
    assert np.mean(known_outcomes(record_expert(tmp_path / "out", 60))) >= 0.95


@pytest.mark.slow
def test_a_person_demonstrates_in_the_severe_reality(tmp_path):
    robot = open_robot("standin:severe")
    with connected(robot):
        spec = RecordingSpec(1, 25.0, operator="person-7")
        shown = record(robot, OperatorController(robot, "person-7"), tmp_path / "out", spec, supervisor=robot)
    assert known_outcomes(shown) == [True]
    assert shown.episode(0).provenance.actor == "operator"


def test_the_stand_in_keeps_the_protocol():
    check_robot(open_robot("standin:mild"))


def test_frames_differ_from_the_twins_and_between_realities():
    shown = []
    for name in ("ideal", "severe"):
        robot = open_robot(f"standin:{name}")
        with connected(robot):
            frame = robot.observe(("front",)).frames["front"]
        assert frame.shape == (128, 128, 3) and frame.std() > 10
        shown.append(frame.astype(float))
    assert np.abs(shown[0] - shown[1]).mean() > 15


def test_signals_are_those_of_generated_data_without_the_truth():
    from twinloop.generation.signals import make_schema

    for name in ("franka_pick_place", "so101_pick_place", "servo_pendulum"):
        cell = make_cell(load_twin(name))
        generated = [s for s in make_schema(cell, ()).signals if not s.name.startswith("simulation.")]
        # The stand-in has no force-torque sensor and no inertial unit.
        absent = ["action", *(group.signal.name for group in cell.sensors)]
        assert [s for s in generated if s.name not in absent] == list(list_signals(cell))


def test_the_command_line_records_a_stand_in_and_appends(tmp_path):
    for count in (1, 2):
        recorded = twinloop_json(
            "record", "--robot", "standin:mild", "--excite", "chirp", "--seconds", 1, "--episodes", 1,
            "--out", "out", cwd=tmp_path,
        )  # fmt: skip
        assert recorded["standin"] is True
        assert len(open_dataset(tmp_path / "out")) == count
    assert open_dataset(tmp_path / "out").episode(0).provenance.actor == "excitation"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "--robot", "standin:milt", "--expert", "task"], "mild"),
        (["record", "--robot", "standin:mild"], "choose what controls the robot"),
        (["standin"], "no reality given"),
        (["standin", "--reality", "mild"], "no address to listen at"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(words, said, tmp_path):
    more = ["--out", tmp_path / "out"] if words[0] == "record" else []
    assert said in twinloop(*words, *more, cwd=tmp_path, code=2)
    assert not (tmp_path / "out").exists()
