"""Rollout: one episode per number, in order, the same bits whatever runs in the same batch, with its whole provenance."""

import numpy as np
import pytest

from twinloop.errors import UnknownName
from twinloop.generation import rollout as rollout_module
from twinloop.generation.job import Job, describe_actor, episode_seed, parse_actor
from twinloop.generation.replay import replay
from twinloop.generation.rollout import episode_schema, rollout, rollout_drawn
from twinloop.generation.run import generate
from twinloop.randomization import load_randomization
from twinloop.testing import assert_same_episode
from twinloop.twins import load_twin

ENVIRONMENT = "observation.environment_state"

VARIED = {
    "object_position_noise_cm": [-5, 5],
    "object_yaw_rad": [-1, 1],
    "object_mass_kg": [0.05, 0.4],
    "action_delay_ms": [0, 60],
    "action_jitter_ms": [0, 5],
    "action_drop_probability": [0, 0.1],
    "observation_delay_ms": [0, 60],
    "observation_jitter_ms": [0, 5],
    "encoder_bias_rad": [-0.01, 0.01],
    "encoder_noise_rad": [0, 0.002],
    "encoder_drift_rad": [0, 0.01],
    "encoder_quantum_rad": [0, 0.001],
    "velocity_noise_rad_s": [0, 0.01],
    "backlash_rad": [0, 0.005],
    "stiction_scale": [0, 1],
    "joint_friction_nm": [0, 2],
    "object_pose_noise_m": [0, 0.003],
    "object_pose_noise_rad": [0, 0.05],
    "object_pose_drop_probability": [0, 0.2],
    "push_force_n": [0, 2],
    "vibration_m": [0, 0.0005],
    "clutter": [0, 3],
}


def make_job(twin_name="franka_pick_place", varied=VARIED, **changes):
    twin = load_twin(twin_name)
    randomization = load_randomization({"name": "all", "twin": twin_name, "randomization": varied})
    settings = {"task": twin.task, "expert": "pick_and_place", "randomization": randomization, **changes}
    return Job(twin, **settings)


@pytest.fixture(scope="module")
def together():
    job = make_job(max_steps=130, expert_noise=0.5)
    return job, list(rollout(job, 11, range(64)))


@pytest.mark.parametrize(
    ("first", "count", "threads"), [(5, 1, 1), (20, 7, 2), pytest.param(0, 64, 2, marks=pytest.mark.slow)]
)
def test_an_episode_has_the_same_bits_in_any_batch_and_on_any_number_of_threads(
    together, first, count, threads
):
    job, expected = together
    numbers = range(first, first + count)
    for number, episode in zip(numbers, rollout(job, 11, numbers, threads), strict=True):
        assert_same_episode(episode, expected[number])


def test_an_episode_has_the_same_bits_in_a_slot_that_was_used_before(together, monkeypatch):
    job, expected = together
    monkeypatch.setattr(rollout_module, "MAX_ENVIRONMENTS", 3)
    for number, episode in enumerate(rollout(job, 11, range(8))):
        assert_same_episode(episode, expected[number])


@pytest.mark.slow
def test_slots_freed_early_are_refilled_and_episodes_still_come_in_order(monkeypatch):
    job = make_job(varied={"object_position_noise_cm": [-8, 8]})
    whole = list(rollout(job, 3, range(9)))
    monkeypatch.setattr(rollout_module, "MAX_ENVIRONMENTS", 4)
    again = list(rollout(job, 3, range(9)))
    assert len({len(episode) for episode in whole}) > 1
    for a, b in zip(again, whole, strict=True):
        assert_same_episode(a, b)


def test_provenance_says_where_an_episode_came_from(together):
    job, episodes = together
    origin = episodes[4].provenance
    assert (origin.source, origin.engine, origin.actor) == ("sim", "mujoco", "expert")
    assert (origin.twin, origin.twin_hash) == (job.twin.name, job.twin.content_hash)
    assert origin.seed == episode_seed(11, 4)
    assert origin.randomization == "all"
    assert set(origin.draw) == set(job.randomization.names)
    assert {"twinloop", "mujoco", "numpy"} <= set(origin.software)


def test_an_episode_is_regenerated_from_its_provenance_alone(together):
    job, episodes = together
    origin = episodes[9].provenance
    again = parse_actor(load_twin(origin.twin), origin.actor_id, job.randomization)
    drawn = {name: np.array([value]) for name, value in origin.draw.items()}
    (episode,) = rollout_drawn(again, [origin.seed], drawn)
    assert_same_episode(episode, episodes[9])


def test_what_the_actor_is_called_says_everything_about_the_job():
    job = make_job(expert_noise=0.25, max_steps=50)
    assert parse_actor(job.twin, describe_actor(job), job.randomization) == job


def test_a_successful_episode_goes_through_the_phases_and_records_contact_grasp_and_release():
    job = make_job(varied={"object_yaw_rad": [-1, 1]})
    (episode,) = rollout(job, 2, [0])
    assert episode.success
    phases = [event.detail for event in episode.events if event.kind == "phase"]
    assert phases[0] == "approach" and phases[-1] == "release" and "transport" in phases
    assert {"contact", "grasp", "release"} <= {event.kind for event in episode.events}
    assert episode.task == "Pick up the object and place it on the target."
    assert episode.schema == episode_schema(job)


def test_an_episode_cut_short_says_what_was_missing():
    (episode,) = rollout(make_job(max_steps=20), 2, [0])
    assert episode.success is False
    assert episode.outcome.failure == "never_touched"
    assert len(episode) == 20


def test_a_draw_for_a_parameter_the_twin_does_not_have_is_refused():
    with pytest.raises(UnknownName):
        rollout_drawn(make_job(), [1], {"object_mas_kg": np.array([0.1])})


@pytest.mark.parametrize(
    ("twin_name", "expert"), [("servo_pendulum", "prbs"), ("cube_toss", "passive"), ("franka_push", "random")]
)
def test_every_kind_of_twin_rolls_out_and_again_alone(twin_name, expert):
    twin = load_twin(twin_name)
    job = Job(twin, twin.task, expert, max_steps=60)
    several = list(rollout(job, 5, range(4)))
    (alone,) = rollout(job, 5, [2])
    assert_same_episode(alone, several[2])
    assert len({episode.id for episode in several}) == 4


def seen_poses(twin, **drawn):
    """Recorded object places of one episode by an expert that sees how things are; the motion never depends on readings."""
    job = Job(twin, twin.task, twin.task, expert_sees_truth=True)
    columns = {name: np.array([value]) for name, value in drawn.items()}
    (episode,) = rollout_drawn(job, [3], columns)
    assert episode.success
    names = [signal.elements for signal in episode.schema.signals if signal.name == ENVIRONMENT]
    where = [names[0].index(f"object.{axis}") for axis in "xyz"]
    return episode[ENVIRONMENT][:, where]


def test_an_expert_that_sees_the_truth_is_not_misled_by_readings_and_readings_are_wrong_as_told():
    twin = load_twin("franka_pick_place")
    exact = seen_poses(twin)
    shifted = seen_poses(twin, object_pose_bias_z_m=0.03, object_pose_bias_x_m=-0.01)
    np.testing.assert_allclose(
        shifted[1:] - exact[1:], np.tile([-0.01, 0.0, 0.03], (len(exact) - 1, 1)), atol=1e-6
    )
    scaled = seen_poses(twin, object_pose_scale_error=0.02)
    np.testing.assert_allclose(scaled[1:], 1.02 * exact[1:], rtol=1e-5)
    late = seen_poses(twin, object_pose_delay_s=0.1)
    np.testing.assert_allclose(late[5:], exact[:-5], atol=1e-6)
    hidden = seen_poses(twin, object_pose_hidden_m=0.1)
    moved = np.linalg.norm(exact - exact[0], axis=1)
    assert moved.max() > 0.1 and np.ptp(hidden[moved > 0.05][:-40], axis=0).max() == 0.0, (
        "frozen while carried"
    )


def test_without_that_the_expert_believes_what_is_hidden_to_stay_where_it_was():
    twin = load_twin("franka_pick_place")
    job = Job(twin, twin.task, twin.task)
    (episode,) = rollout_drawn(job, [3], {"object_pose_hidden_m": np.array([0.1])})
    assert episode.success is False


def test_an_episode_of_an_expert_that_saw_the_truth_is_made_again(tmp_path):
    twin = load_twin("franka_pick_place")
    hidden = load_randomization(
        {"name": "hidden", "randomization": {"object_pose_hidden_m": [0.05, 0.1]}}, twin
    )
    dataset = generate(
        twin, hidden, out=tmp_path / "d", episodes=2, seed=1, workers=1, expert_sees_truth=True, max_steps=120
    )
    assert all(replay(dataset, number).same for number in dataset.numbers)
    assert "sees=truth" in dataset.episode(0).provenance.actor_id
