"""Policies that are not ours go through every door that ours does."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.learning.examples import TINY, Standin
from tests.trials import shorten_trials
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.errors import LearnError
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema
from twinloop.learning.train import train
from twinloop.policies.act import PolicyController
from twinloop.policies.latency import draw_observations
from twinloop.policies.networks.policy import Policy
from twinloop.policies.protocol import Execution, make_batched
from twinloop.promotion.run import GateConfig, gate
from twinloop.robots import connected
from twinloop.robots.record import RecordingSpec, record
from twinloop.testing.policies import ProportionalPolicy, check_policy
from twinloop.twins import load_twin

HOME = [0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.8, 0.04]


@pytest.fixture(scope="module")
def twin():
    return load_twin("franka_pick_place")


@pytest.fixture(scope="module")
def foreign(twin):
    return ProportionalPolicy(episode_schema(Job(twin, twin.task, "nobody")), HOME)


def test_a_plain_class_is_a_policy(foreign):
    assert not isinstance(foreign, Policy)
    check_policy(foreign)


@pytest.mark.parametrize("head", ["regression", "flow"])
def test_our_own_policy_is_one_too(panda_data, tmp_path, head):
    check_policy(train(panda_data, out=tmp_path / "p", config=replace(TINY, head=head)))


class Counter:
    """Commands how often it was asked in this episode."""

    name, id, execution = "counter", "1", Execution()

    def __init__(self, interface, **broken):
        self.interface, self.asked, self.broken = interface, 0, broken

    def reset(self, seed):
        if not self.broken.get("forgets_to_reset"):
            self.asked = 0

    def infer(self, observation):
        self.asked += 1
        if self.broken.get("writes"):
            observation["observation.state"][:] = 0.0
        size = self.interface.action.size + self.broken.get("larger", 0)
        return np.full((1 - self.broken.get("shorter", 0), size), self.broken.get("value", float(self.asked)))


def test_a_single_episode_policy_keeps_one_state_for_each_row(foreign):
    check_policy(Counter(foreign.interface))
    batched = make_batched(Counter(foreign.interface))
    rows = np.arange(3)
    batch = draw_observations(foreign.interface, 1, 3)
    batched.reset_batch(rows, rows, real=False)
    batched.infer_batch(batch, rows)
    batched.reset_batch(rows[:1], rows[:1], real=False)
    assert batched.infer_batch(batch, rows)[:, 0, 0].tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"forgets_to_reset": True}, "same seed"),
        ({"writes": True}, "inputs"),
        ({"larger": 1}, "chunk: got"),
        ({"shorter": 1}, "executed are 1"),
        ({"value": np.nan}, "finite"),
    ],
)
def test_the_check_finds_what_is_broken(foreign, broken, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_policy(Counter(foreign.interface, **broken))


def test_it_is_evaluated_in_a_twin_and_results_do_not_depend_on_threads(foreign, twin, tmp_path):
    found = evaluate(foreign, TwinEnvironment(twin, threads=1), episodes=3, seed=1, out=tmp_path / "kept")
    assert len(found.trials) == 3 and found.policy_id == "gain-0.2"
    assert evaluate(foreign, TwinEnvironment(twin, threads=2), episodes=3, seed=1) == found
    episode = open_dataset(tmp_path / "kept").episode(0)
    assert episode.provenance.actor_id == "proportional@gain-0.2"
    reached = np.asarray(episode["observation.state"])[-1, :7]
    assert np.abs(reached - HOME[:7]).max() < 0.1, "it moves the arm where it should"


def test_a_chunk_of_another_shape_is_refused_in_a_trial(foreign, twin):
    with pytest.raises(LearnError, match="does not give the chunks that it declares"):
        evaluate(Counter(foreign.interface, larger=1), twin, episodes=1)


def test_it_is_evaluated_and_recorded_on_a_robot(tmp_path):
    robot = Standin()
    with connected(robot):
        pointer = ProportionalPolicy(robot.description.schema(), [0.1, 0.2])
        short = RobotEnvironment(robot, time_limit_s=0.5)
        assert len(evaluate(pointer, short, episodes=2, seed=3).trials) == 2
        controller = PolicyController(pointer, robot.description)
        record(robot, controller, tmp_path / "runs", RecordingSpec(1, 0.5), supervisor=robot)
    assert open_dataset(tmp_path / "runs").episode(0).provenance.actor_id == "proportional@gain-0.2"


def test_it_is_gated_by_simulation_and_diagnosed(foreign, twin, tmp_path):
    with shorten_trials():
        verdict = gate(foreign, twin, GateConfig(scenes=6), out=tmp_path / "gate")
        assert verdict.decision != "promote", "it grasps nothing"
        assert json.loads((tmp_path / "gate" / "evidence.json").read_text())["candidate"]["id"] == foreign.id
        evaluate(foreign, twin, episodes=4, seed=5, out=tmp_path / "runs")
        found = diagnose(foreign, open_dataset(tmp_path / "runs"), twin, scenes=8)
    assert found.policy_id == foreign.id
