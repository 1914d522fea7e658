"""Choosing between models on episodes that no candidate was fitted to."""

import pytest

from twinloop.errors import WrongUse
from twinloop.identification.accept import ReplayError
from twinloop.identification.choose import choose as compare
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.run import identify
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
    config = IdentifyConfig(threads=1)
    return identify(twin.with_values(motor_friction_nm=0.0), episodes, models=MODELS, config=config)


def test_friction_that_is_there_is_found_and_what_is_not_is_left_out():
    result = choose({"motor_damping_nms_rad": 0.03, "motor_friction_nm": 0.06})
    assert result.choice.chosen == "coulomb-viscous", result.choice
    assert result["motor_friction_nm"].value == pytest.approx(0.06, rel=0.05)
    assert not set(result.held_out) & set(result.choice.validation)


@pytest.mark.slow
def test_without_friction_the_simplest_model_wins():
    choice = choose({"motor_damping_nms_rad": 0.03, "motor_friction_nm": 0.0}).choice
    assert choice.chosen == "viscous", choice
    assert choice.contenders[0].name == "viscous"


def test_a_lead_that_is_certain_and_tiny_does_not_pay_for_more_parameters():
    def errors(factor):
        return [ReplayError(str(k), (1.0, 1.0), (0.01 * factor, 0.02 * factor)) for k in range(5)]

    for lead, chosen in ((0.998, "simple"), (0.95, "rich")):
        choice = compare({"simple": (["a"], errors(1.0)), "rich": (["a", "b"], errors(lead))}, ["v"])
        assert choice.chosen == chosen, choice


def test_too_little_to_choose_from_is_refused():
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, {}, seed, seconds=0.5) for seed in range(3)]
    with pytest.raises(WrongUse, match="at least 4 episodes"):
        identify(twin, episodes, models=MODELS)
    with pytest.raises(WrongUse, match="at least 2 models"):
        identify(twin, episodes, models={"one": ["motor_friction_nm"]})
