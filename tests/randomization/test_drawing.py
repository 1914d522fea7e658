"""Draws depend on seed, episode and parameter name only, and have the moments their distribution promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import InvalidRandomization, WrongUse
from twinloop.randomization import (
    Categorical,
    Constant,
    LogUniform,
    Mixture,
    Normal,
    Randomization,
    Schedule,
    Uniform,
    WholeNumbers,
    draw,
    draw_many,
    make_randomization,
)
from twinloop.twins import load_twin

COUNT = 40_000
TWIN = load_twin("franka_pick_place")


def sample(distribution, name="object_friction", seed=3):
    return draw_many(make_randomization(TWIN, {name: distribution}), seed, np.arange(COUNT))[name]


def truncated_moments(mean, std, low, high):
    """Mean and variance of a truncated normal, from the textbook formula."""
    a, b = (low - mean) / std, (high - mean) / std
    density = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b)]
    mass = 0.5 * (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2)))
    shift = (density[0] - density[1]) / mass
    return mean + std * shift, std**2 * (1 + (a * density[0] - b * density[1]) / mass - shift**2)


MOMENTS = [
    (Uniform(0.2, 1.1), 0.65, 0.9**2 / 12),
    (Normal(0.9, 0.1), 0.9, 0.01),
    (Normal(0.3, 0.2, 0.1, 0.8), *truncated_moments(0.3, 0.2, 0.1, 0.8)),
    (
        LogUniform(0.05, 1.5),
        1.45 / math.log(30),
        (1.5**2 - 0.05**2) / (2 * math.log(30)) - (1.45 / math.log(30)) ** 2,
    ),
    (Categorical((0.2, 0.5, 1.0), (1, 2, 1)), 0.55, 0.25 * 0.04 + 0.5 * 0.25 + 0.25 - 0.55**2),
    (
        Mixture((Uniform(0.1, 0.3), Normal(1.0, 0.1)), (0.25, 0.75)),
        0.8,
        0.25 * (0.04 / 12 + 0.36) + 0.75 * 0.05,
    ),
    (Constant(0.4), 0.4, 0.0),
]


@pytest.mark.parametrize(("distribution", "mean", "variance"), MOMENTS, ids=lambda case: type(case).__name__)
def test_draws_have_the_analytic_mean_and_variance(distribution, mean, variance):
    values = sample(distribution)
    assert values.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / COUNT) + 1e-12)
    assert values.var() == pytest.approx(variance, rel=0.05, abs=1e-12)
    low, high = distribution.support()
    assert low <= values.min() and values.max() <= high


def test_whole_numbers_cover_their_range_evenly():
    values = sample(WholeNumbers(0, 3), "clutter_count")
    found, counts = np.unique(values, return_counts=True)
    assert list(found) == [0, 1, 2, 3]
    np.testing.assert_allclose(counts / COUNT, 0.25, atol=0.01)


def test_correlated_parameters_have_the_covariance_they_were_given():
    covariance = np.array([[0.01, 0.0012], [0.0012, 0.0004]])
    names = ["object_friction", "object_mass_kg"]
    randomization = make_randomization(TWIN, {}, correlated=[(names, [0.8, 0.2], covariance)])
    values = draw_many(randomization, 5, np.arange(COUNT))
    drawn = np.stack([values[name] for name in names])
    np.testing.assert_allclose(np.cov(drawn), covariance, rtol=0.05)
    np.testing.assert_allclose(drawn.mean(axis=1), [0.8, 0.2], atol=0.003)


def test_combining_two_replaces_what_the_second_names_and_leaves_the_rest():
    pair = (["object_friction", "object_mass_kg"], [0.8, 0.2], [[0.01, 0.0012], [0.0012, 0.0004]])
    before = make_randomization(TWIN, {"object_size_m": Uniform(0.03, 0.05)}, correlated=[pair])
    change = make_randomization(TWIN, {"object_friction": Uniform(0.2, 0.3)}, name="change")
    after = before | change
    assert (after.name, sorted(after.names)) == (before.name, sorted(before.names))
    assert after["object_friction"] == Uniform(0.2, 0.3) and after["object_size_m"] == before["object_size_m"]
    assert after["object_mass_kg"] == before["object_mass_kg"] and not after.correlations


def test_different_parameters_are_independent():
    randomization = make_randomization(
        TWIN, {n: Uniform(0.1, 1) for n in ("object_friction", "object_mass_kg")}
    )
    values = draw_many(randomization, 1, np.arange(COUNT))
    assert abs(np.corrcoef(values["object_friction"], values["object_mass_kg"])[0, 1]) < 0.02


def test_consecutive_episodes_and_neighbouring_seeds_are_independent():
    values = sample(Uniform(0.1, 1.0))
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.02
    assert abs(np.corrcoef(values, sample(Uniform(0.1, 1.0), seed=4))[0, 1]) < 0.02


def test_a_schedule_moves_from_one_distribution_to_the_other():
    schedule = Schedule(Constant(0.2), Uniform(0.8, 1.0), 1000, 3000)
    values = sample(schedule)
    assert (values[:1001] == 0.2).all()
    assert values[2000] == pytest.approx(0.1 + 0.45, abs=0.05)
    assert values[3000:].min() >= 0.8


def test_a_schedule_over_progress_needs_the_length_of_the_run():
    schedule = Schedule(Constant(0.2), Constant(1.0), 0.0, 0.5, progress=True)
    randomization = make_randomization(TWIN, {"object_friction": schedule})
    with pytest.raises(InvalidRandomization, match=r"over\(episodes\)"):
        draw(randomization, 1, 0)
    assert draw(randomization.over(100), 1, 25)["object_friction"] == pytest.approx(0.6)


MANY = make_randomization(
    TWIN,
    {
        "object_mass_kg": LogUniform(0.05, 0.4),
        "object_friction": Mixture((Normal(0.8, 0.1), Uniform(0.1, 0.3)), (0.7, 0.3)),
        "object_colour": Categorical(("red", "blue", "green"), (2, 1, 1)),
        "clutter_count": WholeNumbers(0, 3),
    },
    correlated=[(["joint1_friction_nm", "joint2_friction_nm"], [2.0, 3.0], [[0.1, 0.05], [0.05, 0.2]])],
)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(-(2**62), 2**62), episodes=st.lists(st.integers(0, 2**40), min_size=1, max_size=12))
def test_an_episode_draws_the_same_alone_in_any_batch_and_in_any_order(seed, episodes):
    together = draw_many(MANY, seed, episodes)
    for row, episode in enumerate(episodes):
        alone = draw(MANY, seed, episode)
        assert alone == {name: together[name][row] for name in alone}


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 10**6), count=st.integers(1, 40), cut=st.integers(0, 40))
def test_splitting_a_run_between_workers_does_not_change_it(start, count, cut):
    episodes = np.arange(start, start + count)
    whole = draw_many(MANY, 9, episodes)
    halves = [draw_many(MANY, 9, part) for part in (episodes[:cut], episodes[cut:])]
    for name, values in whole.items():
        np.testing.assert_array_equal(values, np.concatenate([half[name] for half in halves]))


def test_adding_a_parameter_leaves_the_draws_of_the_others_alone():
    fewer = Randomization(MANY.name, MANY.twin, MANY.variations[1:])
    expected = {name: value for name, value in draw(MANY, 2, 8).items() if name in fewer.names}
    assert draw(fewer, 2, 8) == expected


def test_a_draw_can_be_recorded_in_the_provenance_of_an_episode():
    from twinloop.episode import Provenance

    assert Provenance(draw=draw(MANY, 1, 1)).draw["object_colour"] in ("red", "blue", "green")


def test_draws_are_the_same_on_every_machine():
    values = draw(make_randomization(TWIN, {"object_mass_kg": Uniform(0.05, 0.4)}), 1, 17)
    assert values["object_mass_kg"] == pytest.approx(0.19574522116105747, rel=1e-15)


def test_negative_episode_numbers_are_refused():
    with pytest.raises(WrongUse, match="start at 0"):
        draw(MANY, 1, -1)


def test_a_range_a_number_and_a_word_are_distributions_too():
    made = make_randomization(
        TWIN,
        {"object_mass_kg": (0.1, 0.2), "clutter_count": (0, 2), "object_colour": "red", "object_friction": 1},
    )
    assert made["object_mass_kg"] == Uniform(0.1, 0.2)
    assert made["clutter_count"] == WholeNumbers(0, 2)
    assert (made["object_colour"], made["object_friction"]) == (Constant("red"), Constant(1.0))
