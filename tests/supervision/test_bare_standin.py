"""A stand-in as bare as most real cells: nothing tracks objects and it judges nothing, so the person's word is the outcome."""

import numpy as np
import pytest

from tests.supervision.people import answering, somebody
from tests.terminal import run_command
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.promotion.checks import Situation
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import GateConfig, gate
from twinloop.promotion.scenes import observe_list
from twinloop.robots import connected, open_robot
from twinloop.supervision.person import make_person
from twinloop.testing.policies import ProportionalPolicy
from twinloop.twins import load_twin

pytest.importorskip("pybullet")

ACCEPTED = Situation(accepted=("replay", "artefacts"), by="ann", reason="a test has no recordings")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    file = tmp_path_factory.mktemp("bare") / "bare.yaml"
    file.write_text("name: bare\ntwin: franka_pick_place\nneeds_person: true\n")
    with connected(open_robot(f"standin:{file}")) as robot:
        yield robot, load_twin("franka_pick_place"), f"standin:{file}"


@pytest.fixture
def policy(bare):
    robot = bare[0]
    home = np.asarray(robot.observe().signals["observation.state"])
    return ProportionalPolicy(robot.description.schema(), home, name="keeper")


def test_it_neither_tracks_nor_judges(bare):
    robot, twin, _ = bare
    assert not robot.description.judges
    assert "observation.environment_state" not in [signal.name for signal in robot.description.signals]
    assert "observation.environment_state" not in robot.observe().signals
    assert robot.judge(over=True).success is None
    with pytest.raises(GateError, match="does not perceive its scene"):
        observe_list(robot, robot, twin, [1])


def test_the_persons_word_is_the_outcome_of_an_evaluation(bare, policy, tmp_path):
    robot, twin, _ = bare
    person = make_person(robot, "ann", twin)
    with somebody(person, answering("success", "missed_target", "redo", "success")) as seen:
        found = evaluate(
            policy, RobotEnvironment(robot, person, 0.2), episodes=3, seed=5, out=tmp_path / "runs"
        )
    assert [trial.success for trial in found.trials] == [True, False, True]
    assert len(found.repeated) == 1 and found.failures == {"missed_target": 1}
    placed = [
        next(event.detail for event in episode.events if event.kind == "placed")
        for episode in open_dataset(tmp_path / "runs")
    ]
    assert all(text.startswith("as asked ") for text in placed), "not measured: as asked, marked as such"
    assert any("cm" in state.instruction for state in seen if state.stage == "placing")


def test_the_persons_word_is_the_evidence_of_a_gate(bare, policy, tmp_path):
    robot, twin, _ = bare
    person = make_person(robot, "ann", twin)
    with somebody(person, answering("success", "missed_target", "success")):
        gate(
            policy, twin, GateConfig(Rules(max_trials=3, threshold=0.5), scenes=3, time_limit_s=0.2), robot=robot,
            supervisor=person, out=tmp_path / "gate", situation=ACCEPTED,
        )  # fmt: skip
    real = load_evidence(tmp_path / "gate").real
    assert [trial.candidate for trial in real] == [True, False, True][: len(real)] and real


def test_a_command_without_a_person_says_who_is_missing(bare, tmp_path):
    words = ("record", "--robot", bare[2], "--expert", "passive", "--episodes", "1", "--out", "out")
    code, _, err = run_command(*words, cwd=tmp_path)
    assert code != 0 and "somebody beside the robot has to" in err and "Traceback" not in err
