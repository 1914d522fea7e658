"""Quantization, bias, noise and drift against their statistics."""

import numpy as np
import pytest

from twinloop.errors import TwinloopError, WrongUse
from twinloop.imperfect import bias, drift, noise, quantize
from twinloop.imperfect.bias import Bias
from twinloop.imperfect.drift import RandomWalk, TemperatureDrift
from twinloop.imperfect.quantize import Quantization


def allan_deviation(rows, dt_s, lengths):
    """Overlapping Allan deviation of (T, N) readings at averaging times of `lengths` samples, averaged over N."""
    summed = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)]) * dt_s
    result = []
    for m in lengths:
        second = summed[2 * m :] - 2 * summed[m:-m] + summed[: -2 * m]
        result.append(np.sqrt(np.mean(second**2) / (2 * (m * dt_s) ** 2)))
    return np.array(result)


def slope(tau_s, deviation):
    return np.polyfit(np.log(tau_s), np.log(deviation), 1)[0]


def test_quantization_error_is_uniform_with_variance_of_a_twelfth_of_the_step_squared():
    step = np.array([0.01, 0.3])
    signal = np.random.default_rng(0).uniform(-100, 100, (2, 50_000))
    error = quantize.apply(Quantization(step), signal) - signal
    np.testing.assert_allclose(error.var(axis=1), step**2 / 12, rtol=0.02)
    assert (np.abs(error) <= step[:, None] / 2 + 1e-12).all()


def test_quantized_readings_are_whole_steps_within_the_range():
    reading = quantize.apply(Quantization(0.25, -1.0, 1.0), np.array([[0.3, -0.4, 7.0, -7.0]]))
    np.testing.assert_allclose(reading, [[0.25, -0.5, 1.0, -1.0]])


def test_a_step_of_zero_leaves_that_environment_alone():
    signal = np.array([[0.123], [0.123]])
    np.testing.assert_allclose(quantize.apply(Quantization(np.array([0.0, 0.1])), signal), [[0.123], [0.1]])


def test_bias_and_scale_error_are_what_they_say():
    params = Bias(bias=np.array([0.0, 0.5]), scale_error=np.array([0.1, 0.0]))
    np.testing.assert_allclose(bias.apply(params, np.full((2, 3), 2.0), 0.02), [[2.2] * 3, [2.5] * 3])


def test_noise_per_reading_does_not_depend_on_the_rate_and_a_density_does():
    normal = noise.draw_normal(range(4), "gyro", 1, (20_000,))[0]
    for dt_s in (0.001, 0.02):
        reading = bias.apply(Bias(noise=0.3), np.zeros((4, 20_000)), dt_s, normal)
        assert reading.std() == pytest.approx(0.3, rel=0.02)
        reading = bias.apply(Bias(noise_density=0.3), np.zeros((4, 20_000)), dt_s, normal)
        assert reading.std() == pytest.approx(0.3 / dt_s**0.5, rel=0.02)


def test_the_allan_deviation_of_white_noise_falls_by_one_half_from_its_density():
    dt_s, density = 0.01, 0.02
    normal = noise.draw_normal(range(8), "gyro", 20_000)
    readings = bias.apply(Bias(noise_density=density), np.zeros_like(normal), dt_s, normal)
    lengths = np.array([1, 4, 16, 64, 256])
    deviation = allan_deviation(readings, dt_s, lengths)
    assert slope(lengths * dt_s, deviation) == pytest.approx(-0.5, abs=0.03)
    np.testing.assert_allclose(deviation * np.sqrt(lengths * dt_s), density, rtol=0.1)


def test_the_allan_deviation_of_a_random_walk_rises_by_one_half_from_its_rate():
    dt_s, rate = 0.01, 0.05
    normal = noise.draw_normal(range(8), "drift", 20_000)
    state = drift.make_walk_state(np.zeros(8))
    readings = np.empty((20_000, 8))
    for t in range(len(readings)):
        state, readings[t] = drift.step_walk(RandomWalk(rate), state, np.zeros(8), dt_s, normal[t])
    lengths = np.array([16, 32, 64, 128, 256])
    deviation = allan_deviation(readings, dt_s, lengths)
    assert slope(lengths * dt_s, deviation) == pytest.approx(0.5, abs=0.06)
    np.testing.assert_allclose(deviation / np.sqrt(lengths * dt_s / 3), rate, rtol=0.15)


def test_a_random_walk_spreads_with_the_square_root_of_time_whatever_the_step():
    for steps, dt_s in ((100, 0.1), (1_000, 0.01)):
        normal = noise.draw_normal([1], "drift", steps, (4_000,))
        state = drift.make_walk_state(np.zeros((1, 4_000)))
        for t in range(steps):
            state, _ = drift.step_walk(RandomWalk(0.2), state, np.zeros((1, 4_000)), dt_s, normal[t])
        assert state.offset.std() == pytest.approx(0.2 * 10**0.5, rel=0.05)


def test_a_correlated_walk_settles_at_its_stationary_spread_whatever_the_step():
    for dt_s in (0.05, 2.0):
        steps = int(20 / dt_s)
        normal = noise.draw_normal([1], "drift", steps, (4_000,))
        state = drift.make_walk_state(np.zeros((1, 4_000)))
        for t in range(steps):
            state, _ = drift.step_walk(RandomWalk(0.2, 4.0), state, np.zeros((1, 4_000)), dt_s, normal[t])
        assert state.offset.std() == pytest.approx(0.2 * 2**0.5, rel=0.05)


def test_a_force_sensor_that_warms_up_drifts_exponentially_along_each_axis():
    params = TemperatureDrift(
        offset_per_k=np.array([[0.1, -0.2, 0.0]]),
        ambient_c=20.0,
        self_heating_k=15.0,
        zeroed_at_c=20.0,
        time_constant_s=np.array([100.0, 400.0]),
    )
    for dt_s in (0.5, 25.0):
        state = drift.make_temperature_state(20.0, 2)
        for _ in range(int(200 / dt_s)):
            state, _ = drift.step_temperature(params, state, np.zeros((2, 3)), dt_s)
        _, reading = drift.step_temperature(params, state, np.ones((2, 3)), dt_s)
        warm_k = 15.0 * (1 - np.exp(-200.0 / np.array([100.0, 400.0])))
        np.testing.assert_allclose(reading, 1.0 + warm_k[:, None] * [[0.1, -0.2, 0.0]], rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantization(-0.1), r"Quantization.step .* got -0.1; .* at least 0"),
        (
            lambda: Quantization(0.1, 2.0, 1.0),
            r"lowest is above .* got 2.0 and 1.0; expected lowest <= highest",
        ),
        (lambda: Bias(bias=np.inf), r"Bias.bias .* got inf; expected finite numbers"),
        (lambda: Bias(noise=-1.0), r"Bias.noise .* got -1"),
        (lambda: RandomWalk(rate=np.nan), r"RandomWalk.rate .* got nan"),
        (lambda: RandomWalk(1.0, 0.0), r"RandomWalk.correlation_time_s .* got 0; expected numbers above 0"),
        (lambda: TemperatureDrift(time_constant_s=-5.0), r"TemperatureDrift.time_constant_s .* got -5"),
    ],
)
def test_bad_parameters_are_refused_with_what_was_got_and_expected(make, message):
    with pytest.raises(TwinloopError, match=message):
        make()


def test_random_readings_without_noise_are_refused():
    with pytest.raises(WrongUse, match=r"Bias.noise is random but no noise was given"):
        bias.apply(Bias(noise=0.1), np.zeros((1, 1)), 0.02)
    with pytest.raises(WrongUse, match=r"RandomWalk.rate is random but no noise was given"):
        drift.step_walk(RandomWalk(0.1), drift.make_walk_state(np.zeros(1)), np.zeros(1), 0.02)
    with pytest.raises(WrongUse, match="must be positive; got -1"):
        bias.apply(Bias(), np.zeros((1, 1)), -1)
