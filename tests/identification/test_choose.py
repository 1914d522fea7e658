"""Choosing between models on episodes that no candidate was fitted to."""

import pytest

from twinloop.errors import WrongUse
from twinloop.identification.choose import choose_model
from twinloop.identification.config import IdentifyConfig
from twinloop.twins import load_twin

from .worlds import record

MODELS = {
    "viscous": ["motor_damping_nms_rad"],
    "coulomb-viscous": ["motor_damping_nms_rad", "motor_friction_nm"],
    "with-bias": ["motor_damping_nms_rad", "motor_friction_nm", "motor_encoder_bias_rad"],
}


def choose(truth):
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, truth, seed, seconds=1.5) for seed in range(8)]
    return choose_model(
        twin.with_values(motor_friction_nm=0.0), episodes, MODELS, config=IdentifyConfig(threads=1)
    )


def test_friction_that_is_there_is_found_and_what_is_not_is_left_out():
    choice, result = choose({"motor_damping_nms_rad": 0.03, "motor_friction_nm": 0.06})
    assert choice.chosen == "coulomb-viscous", choice
    assert result["motor_friction_nm"].value == pytest.approx(0.06, rel=0.05)
    assert not set(result.held_out) & set(choice.validation)


def test_without_friction_the_simplest_model_wins():
    choice, _ = choose({"motor_damping_nms_rad": 0.03, "motor_friction_nm": 0.0})
    assert choice.chosen == "viscous", choice
    assert choice.contenders[0].name == "viscous"


def test_too_little_to_choose_from_is_refused():
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, {}, seed, seconds=0.5) for seed in range(3)]
    with pytest.raises(WrongUse, match="at least 4 episodes"):
        choose_model(twin, episodes, MODELS)
    with pytest.raises(WrongUse, match="at least 2 models"):
        choose_model(twin, episodes, {"one": ["motor_friction_nm"]})
