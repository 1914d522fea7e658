"""Delays are exact, jitter and losses have the distribution asked for, and environments keep their own."""

import numpy as np
import pytest

from twinloop.errors import TwinloopError, WrongUse
from twinloop.imperfect import delay, noise, stream
from twinloop.imperfect.delay import Delay


def arrival_steps(module, params, environments, dt_s, steps=40):
    """The first step at which each environment sees a unit step sent at step 5."""
    state = module.make_state(params, np.zeros((environments, 1)), dt_s)
    seen = []
    for t in range(steps):
        state, output = module.step(params, state, np.full((environments, 1), float(t >= 5)), dt_s)
        seen.append(output[:, 0])
    return np.argmax(np.array(seen) == 1.0, axis=0) - 5


@pytest.mark.parametrize("module", [delay, stream])
def test_a_step_arrives_exactly_one_delay_later_in_every_environment(module):
    delays_s = np.arange(8) * 0.02
    np.testing.assert_array_equal(arrival_steps(module, Delay(delays_s), 8, 0.02), np.arange(8))


def test_a_held_packet_arrives_at_the_first_reception_after_its_delay():
    delays_s = np.array([0.0, 0.001, 0.02, 0.021, 0.039, 0.04])
    np.testing.assert_array_equal(arrival_steps(delay, Delay(delays_s), 6, 0.02), [0, 1, 1, 2, 2, 2])


def test_receiving_at_the_physics_rate_resolves_a_fraction_of_a_control_step():
    params = Delay(np.array([0.006, 0.034]))
    state = delay.make_state(params, np.zeros((2, 1)), 0.02)
    arrived_s = np.full(2, np.nan)
    for control in range(4):
        state = delay.send(params, state, np.full((2, 1), 1.0))
        for physics in range(10):
            state, held = delay.receive(state)
            new = np.isnan(arrived_s) & (held[:, 0] == 1.0)
            arrived_s[new] = control * 0.02 + physics * 0.002
            state = delay.advance(state, 0.002)
    np.testing.assert_allclose(arrived_s, [0.006, 0.034], atol=1e-12)


def test_a_stream_reads_a_ramp_as_it_was_a_fraction_of_a_step_ago():
    params = Delay(np.array([0.0, 0.005, 0.0333, 0.1]))
    state = stream.make_state(params, np.zeros((4, 2)), 0.02)
    for t in range(30):
        state, seen = stream.step(params, state, np.full((4, 2), t * 0.02), 0.02)
    np.testing.assert_allclose(seen, 29 * 0.02 - params.delay_s[:, None] * np.ones((1, 2)), atol=1e-12)


def test_jitter_has_the_mean_and_deviation_asked_for():
    steps, dt_s = 20_000, 0.02
    params = Delay(0.05, 0.004)
    jitter = noise.draw_normal([1], "jitter", steps)
    state = stream.make_state(params, np.zeros((1, 1)), dt_s)
    age_s = np.empty(steps)
    for t in range(steps):
        state, seen = stream.step(params, state, np.full((1, 1), t * dt_s), dt_s, jitter[t])
        age_s[t] = t * dt_s - seen[0, 0]
    assert age_s[10:].mean() == pytest.approx(0.05, abs=4 * 0.004 / steps**0.5)
    assert age_s[10:].std() == pytest.approx(0.004, rel=0.03)


def test_packets_are_lost_at_the_rate_asked_for_and_the_last_one_is_held():
    rates = np.array([0.0, 0.1, 0.6, 1.0])
    steps = 4_000
    params = Delay(0.02, drop_probability=rates)
    drop = noise.draw_uniform([1, 2, 3, 4], "drop", steps)
    for module in (delay, stream):
        state = module.make_state(params, np.full((4, 1), -1.0), 0.02)
        seen = np.empty((steps, 4))
        for t in range(steps):
            state, output = module.step(params, state, np.full((4, 1), float(t)), 0.02, drop=drop[t])
            seen[t] = output[:, 0]
        repeated = (np.diff(seen[5:], axis=0) == 0).mean(axis=0)
        np.testing.assert_allclose(repeated, rates, atol=0.03)
        assert (np.diff(seen, axis=0) >= 0).all()


def test_a_packet_overtaken_by_a_newer_one_is_ignored():
    params = Delay(0.05, 0.02)
    state = delay.make_state(params, np.zeros((1, 1)), 0.02)
    jitter = noise.draw_normal([8], "jitter", 2_000)
    seen = []
    for t in range(2_000):
        state, held = delay.step(params, state, np.full((1, 1), float(t)), 0.02, jitter[t])
        seen.append(held[0, 0])
    assert (np.diff(seen) >= 0).all()
    assert (np.diff(seen) == 0).any()
    assert (np.diff(seen) > 1).any()


def test_an_environment_can_begin_again_while_the_others_go_on():
    params = Delay(0.04)
    which = np.array([False, True])
    for module in (delay, stream):
        state = module.make_state(params, np.zeros((2, 1)), 0.02)
        for _ in range(5):
            state, _ = module.step(params, state, np.ones((2, 1)), 0.02)
        state = module.reset(state, which, np.full((2, 1), 7.0))
        seen = []
        for _ in range(3):
            state, output = module.step(params, state, np.full((2, 1), 9.0), 0.02)
            seen.append(output[:, 0])
        np.testing.assert_array_equal(seen, [[1, 7], [1, 7], [9, 9]])


@pytest.mark.parametrize("module", [delay, stream])
def test_a_step_leaves_the_state_it_was_given_as_it_was(module):
    params = Delay(0.03)
    state = module.make_state(params, np.zeros((2, 1)), 0.02)
    first = module.step(params, state, np.ones((2, 1)), 0.02)[1]
    again = module.step(params, state, np.ones((2, 1)), 0.02)[1]
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(state.values, 0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delay_s": -0.01}, r"Delay.delay_s is out of range; got -0.01; expected finite numbers at least 0"),
        ({"delay_s": np.array([0.0, np.nan])}, r"Delay.delay_s .* got nan at index \(1,\)"),
        ({"jitter_s": "fast"}, r"Delay.jitter_s .* got 'fast'; expected finite numbers"),
        ({"drop_probability": 1.2}, r"Delay.drop_probability .* got 1.2; .* at most 1.0"),
    ],
)
def test_bad_delays_are_refused_with_what_was_got_and_expected(fields, message):
    with pytest.raises(TwinloopError, match=message):
        Delay(**fields)


def test_wrong_use_of_a_delay_is_explained():
    state = delay.make_state(Delay(0.1), np.zeros((2, 1)), 0.02)
    with pytest.raises(WrongUse, match="no noise was given"):
        delay.send(Delay(0.1, jitter_s=0.01), state, np.zeros((2, 1)))
    with pytest.raises(WrongUse, match="no noise was given"):
        delay.send(Delay(0.1, drop_probability=0.5), state, np.zeros((2, 1)))
    with pytest.raises(WrongUse, match="does not fit the batch; got shape"):
        delay.send(Delay(np.zeros(3)), state, np.zeros((2, 1)))
    with pytest.raises(WrongUse, match="more packets are under way"):
        for _ in range(20):
            state = delay.send(Delay(0.1), state, np.zeros((2, 1)))
    with pytest.raises(WrongUse, match="longer than the state remembers"):
        stream.step(Delay(1.0), stream.make_state(Delay(0.1), np.zeros((2, 1)), 0.02), np.zeros((2, 1)), 0.02)
    for module in (delay, stream):
        with pytest.raises(WrongUse, match="must be positive; got 0"):
            module.make_state(Delay(0.1), np.zeros((2, 1)), 0.0)
