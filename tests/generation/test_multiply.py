"""A few demonstrations become many episodes in new scenes, and each names the demonstration it came from."""

import numpy as np
import pytest

from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import GenerationError, WrongUse
from twinloop.generation.job import Job
from twinloop.generation.multiply import multiply
from twinloop.generation.replay import replay
from twinloop.generation.rollout import rollout
from twinloop.randomization import load_randomization
from twinloop.testing import assert_same_episode
from twinloop.twins import load_twin

SCENES = {
    "object_position_noise_cm": [-8, 8],
    "target_position_noise_cm": [-8, 8],
    "object_yaw_rad": [-3, 3],
    "object_mass_kg": [0.05, 0.4],
    "friction_coefficient": [0.3, 1.1],
}


@pytest.fixture(scope="module")
def job():
    twin = load_twin("franka_pick_place")
    randomization = load_randomization({"twin": twin.name, "randomization": SCENES})
    return Job(twin, twin.task, "pick_and_place", randomization)


@pytest.fixture(scope="module")
def demonstrations(job):
    return list(rollout(job, 1, range(10)))


def test_most_attempts_from_ten_demonstrations_succeed_and_name_their_parents(job, demonstrations):
    children = list(multiply(job, demonstrations, 2, range(24)))
    assert np.mean([child.success for child in children]) >= 0.8
    parents = {child.provenance.parents for child in children}
    assert all(len(p) == 1 and p[0] in {d.id for d in demonstrations} for p in parents)
    assert len(parents) > 3
    assert {child.provenance.actor_id for child in children} == {"multiply"}


def test_a_child_is_the_same_whatever_else_is_multiplied(job, demonstrations):
    several = list(multiply(job, demonstrations, 2, range(3)))
    (alone,) = multiply(job, demonstrations, 2, [1])
    assert_same_episode(alone, several[1])


def test_failed_demonstrations_cannot_be_multiplied(job):
    short = Job(job.twin, job.task, job.expert, max_steps=5)
    with pytest.raises(WrongUse, match="no successful demonstration"):
        next(multiply(job, list(rollout(short, 1, [0])), 2, [0]))


def test_children_are_made_again_bit_for_bit_from_the_demonstrations_beside_them(
    job, demonstrations, tmp_path
):
    children = list(multiply(job, demonstrations, 2, range(4)))
    with make_dataset(tmp_path / "both", demonstrations[0].schema) as writer:
        for episode in (*demonstrations, *children):
            writer.add(episode)
    dataset = open_dataset(tmp_path / "both")
    for number in range(len(demonstrations), len(dataset)):
        again = replay(dataset, number)
        assert again.same, again.differences
        assert again.replayed.provenance.parents == children[number - len(demonstrations)].provenance.parents
    with make_dataset(tmp_path / "alone", demonstrations[0].schema) as writer:
        writer.add(children[0])
    with pytest.raises(GenerationError, match="demonstration that an episode was multiplied from is not in"):
        replay(tmp_path / "alone", 0)


def test_a_hand_that_is_never_opened_all_the_way_is_multiplied_too():
    twin = load_twin("so101_pick_place")
    scenes = {"object_position_noise_cm": [-3, 3], "target_position_noise_cm": [-2, 2]}
    job = Job(
        twin,
        twin.task,
        "pick_and_place",
        load_randomization({"twin": twin.name, "randomization": scenes}),
    )
    demonstrations = list(rollout(job, 1, range(3)))
    assert np.mean([child.success for child in multiply(job, demonstrations, 2, range(8))]) >= 0.8
