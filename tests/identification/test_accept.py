"""The replay gate: better by more than chance, and by enough to matter."""

import numpy as np
import pytest

from twinloop.identification.accept import judge, replay_errors
from twinloop.identification.predict import Window

ROWS = 200
WINDOWS = [Window(i, 0, ROWS) for i in range(12)]
SENSOR = np.array([1e-4])


def errors(scale, seed=0):
    return scale * np.random.default_rng(seed).standard_normal((ROWS * len(WINDOWS), 1))


def test_half_the_error_is_accepted():
    verdict = judge(WINDOWS, errors(0.02), errors(0.01, 1), SENSOR)
    assert verdict.accepted and verdict.ratio == pytest.approx(0.5, rel=0.05) and verdict.unit == "episodes"


def test_more_error_is_rejected():
    verdict = judge(WINDOWS, errors(0.01), errors(0.02, 1), SENSOR)
    assert not verdict.accepted and "rose by" in verdict.reason


def test_a_certain_but_tiny_gain_is_no_reason_for_a_new_version():
    before = errors(0.02)
    verdict = judge(WINDOWS, before, before * 0.999, SENSOR)
    assert verdict.p_value < 0.01 and not verdict.accepted and "too little to matter" in verdict.reason


def test_chance_alone_is_rarely_accepted():
    accepted = [judge(WINDOWS, errors(0.02, s), errors(0.02, 1000 + s), SENSOR).accepted for s in range(200)]
    assert np.mean(accepted) <= 0.06


def test_errors_below_what_the_sensor_can_tell_do_not_count():
    verdict = judge(WINDOWS, errors(1e-6), errors(1e-7, 1), SENSOR)
    assert not verdict.accepted


def test_a_channel_that_gets_worse_is_named_though_the_whole_gets_better():
    before = np.concatenate([errors(0.02), errors(0.02, 1), errors(0.004, 2)], axis=1)
    after = np.concatenate([errors(0.01, 3), errors(0.01, 4), errors(0.005, 5)], axis=1)
    verdict = judge(WINDOWS, before, after, np.full(3, 1e-4), ["pan", "lift", "roll"])
    assert verdict.accepted and verdict.worse == ("roll",) and "it rose for roll" in verdict.reason
    assert judge(WINDOWS, before, 0.5 * before, np.full(3, 1e-4), ["pan", "lift", "roll"]).worse == ()


def test_errors_are_reported_by_episode_and_channel():
    windows = [Window(0, 0, 2), Window(0, 2, 4), Window(1, 0, 2)]
    before = np.array([[3.0], [3.0], [4.0], [4.0], [1.0], [1.0]])
    first, second = replay_errors(["a", "b"], windows, before, 0 * before)
    assert first.before == (pytest.approx(np.sqrt(12.5)),) and second.before == (1.0,)
    assert first.after == (0.0,)
