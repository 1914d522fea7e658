"""Scripted experts succeed: nearly always in the nominal twin, and mostly under everything that may vary at once."""

import numpy as np
import pytest

from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout
from twinloop.randomization import default_randomization, load_randomization, make_randomization
from twinloop.twins import list_twins, load_twin

ARMS = ("franka_pick_place", "franka_push", "so101_pick_place")
DEFAULT_PLACES = (
    "object_offset_x_m",
    "object_offset_y_m",
    "object_yaw_rad",
    "target_offset_x_m",
    "target_offset_y_m",
)

PLACES = {
    "object_position_noise_cm": [-8, 8],
    "target_position_noise_cm": [-8, 8],
    "object_yaw_rad": [-3, 3],
}
EVERYTHING = {
    **PLACES,
    "object_mass_kg": [0.05, 0.4],
    "friction_coefficient": [0.2, 1.1],
    "action_delay_ms": [0, 80],
    "action_jitter_ms": [0, 5],
    "action_drop_probability": [0, 0.05],
    "observation_delay_ms": [0, 60],
    "encoder_bias_rad": [-0.01, 0.01],
    "encoder_noise_rad": [0, 0.002],
    "backlash_rad": [0, 0.005],
    "object_pose_noise_m": [0, 0.003],
    "object_pose_noise_rad": [0, 0.05],
    "object_pose_bias_x_m": [-0.004, 0.004],
    "object_pose_bias_y_m": [-0.004, 0.004],
    "servo_stiffness_scale": [0.7, 1.3],
    "joint_friction_nm": [0, 2],
    "stiction_scale": [0, 1],
    "table_height_m": [-0.02, 0.02],
    "clutter": [0, 3],
}


def successes(twin_name, varied, episodes, noise=0.0):
    twin = load_twin(twin_name)
    randomization = load_randomization({"twin": twin_name, "randomization": varied})
    job = Job(twin, twin.task, twin.task, randomization, expert_noise=noise)
    return [episode.success for episode in rollout(job, 7, range(episodes))]


@pytest.mark.parametrize("twin_name", ["franka_pick_place", "franka_push"])
def test_the_expert_succeeds_wherever_object_and_target_lie(twin_name):
    assert np.mean(successes(twin_name, PLACES, 12)) == 1.0


@pytest.mark.parametrize(
    "twin_name", ["franka_pick_place", pytest.param("franka_push", marks=pytest.mark.slow)]
)
def test_the_expert_succeeds_under_everything_at_once(twin_name):
    assert np.mean(successes(twin_name, EVERYTHING, 12)) >= 0.9


def test_an_arm_with_one_moving_jaw_and_weak_servos_succeeds_too():
    varied = {
        "object_position_noise_cm": [-3, 3],
        "target_position_noise_cm": [-2, 2],
        "object_yaw_rad": [-3, 3],
        "object_mass_kg": [0.015, 0.06],
        "action_delay_ms": [60, 140],
    }
    assert np.mean(successes("so101_pick_place", varied, 16)) >= 0.9


def test_the_expert_recovers_from_injected_noise():
    assert np.mean(successes("franka_pick_place", PLACES, 16, noise=1.0)) >= 0.9


def over(twin_name, episodes, *, only=None, seed=21):
    """Success over the shipped default randomization, or over some of its parameters."""
    twin = load_twin(twin_name)
    usual = default_randomization(twin)
    if only is not None:
        usual = make_randomization(twin, {name: usual[name] for name in only})
    return np.mean(
        [e.success for e in rollout(Job(twin, twin.task, twin.task, usual), seed, range(episodes))]
    )


def test_the_default_randomization_covers_every_dimension_a_twin_has():
    for twin in list_twins():
        varied = {variation.parameter.dimension for variation in default_randomization(twin).variations}
        assert varied == {parameter.dimension for parameter in twin.parameters}, twin.name


@pytest.mark.parametrize("twin_name", ARMS)
def test_the_expert_succeeds_over_the_default_randomization(twin_name):
    assert over(twin_name, 16) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("twin_name", ARMS)
def test_success_over_many_seeds_of_the_default_randomization(twin_name):
    assert over(twin_name, 320, only=DEFAULT_PLACES) >= 0.98
    assert over(twin_name, 320) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("twin_name", ["franka_pick_place", "franka_push"])
def test_success_over_many_seeds(twin_name):
    assert np.mean(successes(twin_name, PLACES, 400)) >= 0.98
    assert np.mean(successes(twin_name, EVERYTHING, 400)) >= 0.9
