"""Anchored randomization: the posterior comes back out of what `generate` draws, and what is not known keeps its prior."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from twinloop.anchoring import Anchor, anchored_randomization, limit_to_task, load_anchor, write_config
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.identifiable import Confusion
from twinloop.identification.run import identify
from twinloop.identification.uncertainty import _outside, _within, posterior_randomization, without_identified
from twinloop.randomization import default_randomization, make_randomization
from twinloop.randomization.distribution import Uniform
from twinloop.randomization.draw import draw_many
from twinloop.randomization.load import load_randomization
from twinloop.twins import load_twin

from .worlds import record

NAMES = ["motor_damping_nms_rad", "motor_armature_kgm2", "action_delay_s"]


@pytest.fixture(scope="module")
def found():
    twin = load_twin("servo_pendulum")
    truth = {"motor_damping_nms_rad": 0.03, "motor_armature_kgm2": 0.003, "action_delay_s": 0.02}
    episodes = []
    for seed in range(8):
        wobble = 1.0 + 0.2 * np.random.default_rng(seed).standard_normal()
        values = truth | {"motor_damping_nms_rad": 0.03 * wobble}
        episodes.append(record(twin, values, seed, seconds=1.5))
    return identify(
        twin, episodes, NAMES, config=IdentifyConfig(threads=1, held_out=[e.id for e in episodes[6:]])
    )


def test_differences_between_runs_are_seen_where_they_are(found):
    scatter = np.sqrt(np.diag(found.run_to_run))
    values = np.array([estimate.value for estimate in found.estimates])
    damping, armature, delay = scatter / values
    assert 0.08 <= damping <= 0.5, "injected: 20 %"
    assert armature < 0.05 and delay < 0.05


def test_draws_have_the_mean_and_spread_of_posterior_and_runs(found):
    anchored = posterior_randomization(found)
    drawn = draw_many(anchored.randomization, 1, range(4000))
    expected = found.covariance + found.run_to_run
    for index, estimate in enumerate(found.estimates):
        assert np.mean(drawn[estimate.name]) == pytest.approx(estimate.value, rel=0.02)
        assert np.std(drawn[estimate.name]) == pytest.approx(np.sqrt(expected[index, index]), rel=0.08)
    columns = np.stack([drawn[name] for name in found.names])
    wanted = expected[0, 1] / np.sqrt(expected[0, 0] * expected[1, 1])
    assert np.corrcoef(columns)[0, 1] == pytest.approx(wanted, abs=0.05)


def test_what_is_not_identified_keeps_its_prior_and_is_named(found):
    blind = replace(
        found, estimates=(replace(found.estimates[0], status="not identifiable"), *found.estimates[1:])
    )
    anchored = posterior_randomization(blind)
    assert anchored.unidentified == ("motor_damping_nms_rad",)
    assert anchored.randomization["motor_damping_nms_rad"] == Uniform(*found.estimates[0].prior)


def test_a_parameter_that_could_not_be_identified_varies_as_usual_around_both_values(found):
    unidentified = replace(found.estimates[0], status="not identifiable", nominal=0.1)
    blind = replace(
        found, estimates=(unidentified, *found.estimates[1:]), gate=replace(found.gate, accepted=True)
    )
    varied, usual = anchored_randomization(blind), default_randomization(found.twin)
    low, high = varied[unidentified.name].support()
    assert low == pytest.approx(usual[unidentified.name].support()[0], rel=0.01), (
        "around the calibrated value"
    )
    assert high == 0.1 < unidentified.prior[1], "and the nominal one"
    assert varied["motor_armature_kgm2"] != usual["motor_armature_kgm2"]


def test_a_rejected_calibration_contributes_nothing(found):
    rejected = replace(found, gate=replace(found.gate, accepted=False))
    assert rejected.accepted_twin.content_hash == found.base == rejected.nominal_twin.content_hash
    assert (
        anchored_randomization(rejected).content_hash
        == default_randomization(rejected.nominal_twin).content_hash
    )


def test_what_is_only_known_in_combination_varies_along_it_and_not_against_it(found):
    first, second, third = found.estimates
    wide = (0.3 * (second.prior[1] - second.prior[0]), 0.3 * (third.prior[1] - third.prior[0]))
    tied = np.array([[wide[0] ** 2, -wide[0] * wide[1]], [-wide[0] * wide[1], wide[1] ** 2]]) * (
        1 + 1e-6 * np.eye(2)
    )
    covariance = found.covariance.copy()
    covariance[1:, 1:], covariance[0, 1:], covariance[1:, 0] = tied, 0.0, 0.0
    both = Confusion((second.name, third.name), (1.0, 1.0), "")
    blind = replace(
        found,
        covariance=covariance,
        run_to_run=np.zeros((3, 3)),
        confusions=(both,),
        estimates=(first, *(replace(e, status="not identifiable") for e in (second, third))),
    )
    anchored = posterior_randomization(blind)
    assert anchored.unidentified == ()
    drawn = draw_many(anchored.randomization, 1, range(2000))
    moved = [(drawn[e.name] - e.value) / width for e, width in zip((second, third), wide, strict=True)]
    assert np.std(moved[0]) > 0.01
    assert np.std(moved[0] + moved[1]) < 0.05 * np.std(moved[0] - moved[1])


def test_the_config_is_one_that_generate_reads(found, tmp_path):
    found.save(tmp_path / "calibrated")
    alone = anchored_randomization(found, other_parameters=make_randomization(found.twin, {}))
    file = write_config(alone, str(tmp_path / "calibrated"), tmp_path / "anchored.yaml", ["as measured"])
    again = load_randomization(file)
    assert set(again.names) == {*NAMES, "motor_encoder_bias_rad"}
    assert again.content_hash == alone.content_hash


def test_the_rest_varies_as_usual_and_the_observation_does_not_wait_twice(found):
    usual = default_randomization(found.twin)
    assert "observation_delay_s" in usual.names
    anchored = anchored_randomization(found, other_parameters=usual)
    assert set(anchored.names) == set(usual.names) - {"observation_delay_s"} | set(NAMES)
    assert anchored["motor_friction_nm"] == usual["motor_friction_nm"], "not asked about"
    assert anchored["action_delay_s"] == posterior_randomization(found).randomization["action_delay_s"]


def test_a_confused_parameter_at_the_edge_of_its_range_is_drawn_inside(found):
    damping, armature, delay = found.estimates
    both = Confusion((damping.name, delay.name), (1.0, -1.0), "move faster")
    edge = replace(found, estimates=(damping, armature, replace(delay, value=0.0)), confusions=(both,))
    drawn = draw_many(posterior_randomization(edge).randomization, 1, range(500))
    assert drawn[delay.name].min() >= 0.0 and drawn[delay.name].max() < 0.05
    assert drawn[damping.name].std() > 0.0


def test_a_value_very_close_to_its_bound_does_not_keep_the_others_from_varying_together():
    twin = load_twin("franka_pick_place")
    parameters = [twin.parameter(f"joint{number}_backlash_rad") for number in range(1, 8)]
    means = [5e-5] + [0.01] * 6
    spread = np.random.default_rng(0).standard_normal((7, 7))
    drawn_in = _within(parameters, means, 1e-4 * spread @ spread.T + 1e-5 * np.eye(7))
    assert np.linalg.eigvalsh(drawn_in).min() > 0.0
    deviations = np.sqrt(np.diag(drawn_in)).tolist()
    assert not any(_outside(*part) for part in zip(parameters, means, deviations, strict=True))
    assert min(deviations[1:]) > 1e-4


class Pilot:
    """Expert episodes with their draws and outcomes, as far as `limit_to_task` reads a dataset."""

    def __init__(self, randomization, succeeds, count=200):
        drawn = draw_many(randomization, 3, range(count))
        draws = [{name: float(values[i]) for name, values in drawn.items()} for i in range(count)]
        self.episodes = [
            SimpleNamespace(success=bool(succeeds(draw)), provenance=SimpleNamespace(draw=draw))
            for draw in draws
        ]

    def __iter__(self):
        return iter(self.episodes)


WIDE = {"motor_friction_nm": Uniform(0.0, 0.4), "motor_damping_nms_rad": Uniform(0.01, 0.05)}


def test_ranges_shrink_to_what_the_task_allows_and_the_cause_is_named(tmp_path):
    twin = load_twin("servo_pendulum")
    wide = make_randomization(twin, WIDE, name="wide")
    pilot = Pilot(wide, lambda draw: draw["motor_friction_nm"] < 0.25)
    found = limit_to_task(twin, wide, pilot, expected=1.0)
    (limit,) = found.limits
    assert limit.parameter == "motor_friction_nm" and limit.narrowed and 0.2 < limit.high < 0.3
    narrowed = found.randomization(twin)
    assert narrowed["motor_friction_nm"].support()[1] == limit.high
    assert narrowed["motor_damping_nms_rad"] == wide["motor_damping_nms_rad"]
    assert (
        "in 100% of nominal ones" in found.warnings[0]
        and "motor_friction_nm narrowed to" in found.warnings[1]
    )
    found.save(tmp_path)
    assert load_anchor(tmp_path) == found and isinstance(found, Anchor)


def test_a_measured_parameter_is_named_and_never_narrowed():
    twin = load_twin("servo_pendulum")
    wide = make_randomization(twin, WIDE)
    pilot = Pilot(wide, lambda draw: draw["motor_friction_nm"] < 0.25)
    found = limit_to_task(twin, wide, pilot, expected=1.0, measured={"motor_friction_nm"})
    assert [limit.narrowed for limit in found.limits] == [False]
    assert found.randomization(twin).content_hash == wide.content_hash


def test_an_expert_that_fails_by_chance_narrows_nothing():
    twin = load_twin("servo_pendulum")
    wide = make_randomization(twin, WIDE)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = limit_to_task(twin, wide, Pilot(wide, lambda draw, rng=rng: rng.random() < 0.8), expected=1.0)
        assert found.limits == () and found.warnings[1] == "no single parameter explains the failures"
    assert limit_to_task(twin, wide, Pilot(wide, lambda draw: True), expected=1.0).warnings == ()


def test_scales_of_all_joints_do_not_vary_what_was_identified_joint_by_joint():
    twin = load_twin("franka_reach")
    usual = default_randomization(twin)
    assert {"servo_damping_scale", "servo_stiffness_scale"} <= set(usual.names)
    damped = without_identified(usual, twin, ["joint4_damping_nms_rad"]).names
    assert "servo_damping_scale" not in damped and "servo_stiffness_scale" in damped
    stiff = without_identified(usual, twin, ["joint4_stiffness_nm_rad"]).names
    assert "servo_stiffness_scale" not in stiff and "servo_damping_scale" in stiff
