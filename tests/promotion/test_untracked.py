"""A stand-in that nothing tracks objects in, but that judges its own trials: gate and diagnosis draw the scenes themselves."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.evidence import read_evidence
from twinloop.diagnosis.scene import first_scenes
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.policies.protocol import cameras_of
from twinloop.promotion.checks import Situation
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import GateConfig, gate
from twinloop.randomization.scenes import SCENES, training_scenes
from twinloop.robots import connected, open_robot
from twinloop.supervision.scenes import draw_list
from twinloop.testing.policies import ProportionalPolicy
from twinloop.twins import load_twin

pytest.importorskip("pybullet")

ACCEPTED = Situation(accepted=("replay", "artefacts"), by="ann", reason="a test has no recordings")


@pytest.fixture(scope="module")
def untracked(tmp_path_factory):
    file = tmp_path_factory.mktemp("untracked") / "untracked.yaml"
    file.write_text("name: untracked\ntwin: franka_pick_place\ntracks_objects: false\n")
    with connected(open_robot(f"standin:{file}")) as robot:
        yield robot


@pytest.fixture(scope="module")
def policy(untracked):
    home = np.asarray(untracked.observe().signals["observation.state"])
    schema = untracked.description.schema(("front",))
    made = ProportionalPolicy(schema, home, name="keeper")
    made.interface = replace(made.interface, cameras=schema.cameras)
    return made


def test_it_judges_but_gives_no_pose(untracked):
    assert untracked.description.judges
    assert "observation.environment_state" not in untracked.observe().signals
    untracked.prepare(3)
    assert untracked.judge(over=True).success is False
    with connected(open_robot("standin:ideal")) as tracked:
        assert "observation.environment_state" in tracked.observe().signals


def test_a_gate_draws_scenes_and_has_the_stand_in_set_them(untracked, policy, tmp_path):
    twin = load_twin("franka_pick_place")
    config = GateConfig(Rules(max_trials=2, threshold=0.5), scenes=3, time_limit_s=0.2, seed=4)
    gate(policy, twin, config, robot=untracked, out=tmp_path / "gate", situation=ACCEPTED)
    evidence = load_evidence(tmp_path / "gate")
    drawn = {scene.number: dict(scene.values) for scene in draw_list(twin, 3, 4)}
    assert {trial.scene: dict(trial.values) for trial in evidence.simulated} == drawn
    assert cameras_of(policy) == ("front",) and len(evidence.real) == 2
    episodes = open_dataset(tmp_path / "gate" / "recordings" / "keeper")
    for trial, episode in zip(evidence.real, episodes, strict=True):
        recorded = np.asarray(episode.frames["front"][0], np.float64)
        untracked.place(trial.scene, trial.values)
        listed = untracked.observe(("front",)).frames["front"].astype(np.float64)
        untracked.prepare(trial.scene)
        by_number = untracked.observe(("front",)).frames["front"].astype(np.float64)
        telling = np.abs(listed - by_number).max(axis=2) > 60.0
        assert telling.sum() > 5
        assert np.abs(recorded - listed)[telling].mean() < 0.5 * np.abs(recorded - by_number)[telling].mean()


def test_the_scenes_of_a_diagnosis_are_drawn_where_nothing_perceives_the_object(untracked, policy, tmp_path):
    twin = load_twin("franka_pick_place")
    evaluate(policy, RobotEnvironment(untracked, time_limit_s=1.0), episodes=1, seed=0, out=tmp_path / "runs")
    evidence = read_evidence(twin, open_dataset(tmp_path / "runs"))
    drawn = first_scenes(evidence, np.zeros(40, int), training_scenes(twin), seed=2)
    assert set(drawn) == set(SCENES)
    for name, values in drawn.items():
        low, high = SCENES[name]
        assert len(np.unique(values)) == 40 and low <= values.min() and values.max() <= high
    again = first_scenes(evidence, np.zeros(40, int), training_scenes(twin), seed=2)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)
