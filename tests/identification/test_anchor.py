"""Anchored randomization: the posterior comes back out of what `generate` draws, and what is not known keeps its prior."""

import json
from dataclasses import replace

import numpy as np
import pytest

from twinloop.identification.anchor import _outside, _within, anchor
from twinloop.identification.identifiable import Confusion
from twinloop.identification.result import save_identification
from twinloop.identification.run import identify
from twinloop.randomization import default_randomization, make_randomization
from twinloop.randomization.distribution import Uniform
from twinloop.randomization.draw import draw_many
from twinloop.randomization.load import load_randomization
from twinloop.stages import Done
from twinloop.steps import anchored
from twinloop.steps.folders import BELIEVED, TWIN
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
    return identify(twin, episodes, NAMES, threads=1, held_out=[e.id for e in episodes[6:]])


def test_differences_between_runs_are_seen_where_they_are(found):
    scatter = np.sqrt(np.diag(found.run_to_run))
    values = np.array([estimate.value for estimate in found.estimates])
    damping, armature, delay = scatter / values
    assert 0.08 <= damping <= 0.5, "injected: 20 %"
    assert armature < 0.05 and delay < 0.05


def test_draws_have_the_mean_and_spread_of_posterior_and_runs(found):
    anchored = anchor(found)
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
    anchored = anchor(blind)
    assert anchored.guessed == ("motor_damping_nms_rad",)
    assert anchored.randomization["motor_damping_nms_rad"] == Uniform(*found.estimates[0].prior)


def test_in_a_loop_what_could_not_be_told_varies_as_usual(found, tmp_path):
    untold = replace(found.estimates[0], status="not identifiable")
    save_identification(
        replace(found, estimates=(untold, *found.estimates[1:]), gate=replace(found.gate, accepted=True)),
        tmp_path / TWIN,
    )
    nothing = make_randomization(found.twin, {}, name="nothing")
    (tmp_path / BELIEVED).write_text(json.dumps(nothing.plain()))
    listed = [
        {"name": e.name, "nominal": 0.1 if e is untold else e.nominal} for e in (untold, *found.estimates[1:])
    ]
    estimates = {"accepted": True, "estimates": listed}
    done = Done("identify", "", tmp_path, "", estimates, 0.0, "")
    varied, usual = anchored(found.twin, done, done, nothing), default_randomization(found.twin)
    low, high = varied[untold.name].support()
    assert low == pytest.approx(usual[untold.name].support()[0], rel=0.01), "around the calibrated value"
    assert high == 0.1 < untold.prior[1], "and the nominal one"
    assert varied["motor_armature_kgm2"] != usual["motor_armature_kgm2"]


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
    anchored = anchor(blind)
    assert anchored.guessed == ()
    drawn = draw_many(anchored.randomization, 1, range(2000))
    moved = [(drawn[e.name] - e.value) / width for e, width in zip((second, third), wide, strict=True)]
    assert np.std(moved[0]) > 0.01
    assert np.std(moved[0] + moved[1]) < 0.05 * np.std(moved[0] - moved[1])


def test_the_config_is_one_that_generate_reads(found, tmp_path):
    save_identification(found, tmp_path / "calibrated")
    config = anchor(found).as_config(str(tmp_path / "calibrated"))
    again = load_randomization(config)
    assert set(again.names) == {*NAMES, "motor_encoder_bias_rad"}


def test_the_rest_varies_as_usual_and_the_observation_does_not_wait_twice(found):
    usual = default_randomization(found.twin)
    assert "observation_delay_s" in usual.names
    anchored = anchor(found, beside=usual).randomization
    assert set(anchored.names) == set(usual.names) - {"observation_delay_s"} | set(NAMES)
    assert anchored["motor_friction_nm"] == usual["motor_friction_nm"], "not asked about"
    assert anchored["action_delay_s"] == anchor(found).randomization["action_delay_s"]


def test_a_confused_parameter_at_the_edge_of_its_range_is_drawn_inside(found):
    damping, armature, delay = found.estimates
    both = Confusion((damping.name, delay.name), (1.0, -1.0), "move faster")
    edge = replace(found, estimates=(damping, armature, replace(delay, value=0.0)), confusions=(both,))
    drawn = draw_many(anchor(edge).randomization, 1, range(500))
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
