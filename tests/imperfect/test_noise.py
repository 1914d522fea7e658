"""Noise belongs to an environment's seed and stream, and has the distribution it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twinloop.errors import TwinloopError
from twinloop.imperfect import noise

SEEDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(seeds=SEEDS, pick=st.data())
def test_an_environments_noise_does_not_depend_on_the_rest_of_the_batch(seeds, pick):
    i = pick.draw(st.integers(0, len(seeds) - 1))
    for draw in (noise.draw_normal, noise.draw_uniform):
        np.testing.assert_array_equal(draw(seeds, "a", 5, (3,))[:, i], draw([seeds[i]], "a", 5, (3,))[:, 0])
    np.testing.assert_array_equal(
        noise.frame_noise(seeds, "a", 7, (3, 8, 8))[i], noise.frame_noise([seeds[i]], "a", 7, (3, 8, 8))[0]
    )


def test_a_longer_block_starts_with_the_shorter_one():
    np.testing.assert_array_equal(
        noise.draw_normal([1, 2], "a", 10, (3,)), noise.draw_normal([1, 2], "a", 50, (3,))[:10]
    )


def test_seeds_and_streams_give_unrelated_noise():
    block = np.stack(
        [noise.draw_normal([seed], stream, 20_000)[:, 0] for seed in (1, 2) for stream in ("a", "b")]
    )
    correlation = np.corrcoef(block)[np.triu_indices(4, 1)]
    assert np.abs(correlation).max() < 0.03


def test_draws_have_the_distribution_they_are_named_for():
    seeds = range(50)
    assert stats.kstest(noise.draw_normal(seeds, "a", 400).ravel(), "norm").pvalue > 0.01
    assert stats.kstest(noise.draw_uniform(seeds, "a", 400).ravel(), "uniform").pvalue > 0.01
    assert stats.kstest(np.ravel(noise.frame_noise(range(4), "a", 0, (3, 64, 64))), "norm").pvalue > 0.01


def test_frame_noise_is_white_in_space_and_from_frame_to_frame():
    first, second = (noise.frame_noise([3], "a", frame, (256, 256))[0] for frame in (0, 1))
    for a, b in ((first, second), (first[:, 1:], first[:, :-1]), (first[1:], first[:-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / 256


def test_a_frame_larger_than_one_slice_of_the_bank_is_still_white():
    (frame,) = noise.frame_noise([3], "a", 0, (3, 300, 300))
    assert frame.shape == (3, 300, 300)
    assert abs(np.corrcoef(frame[0].ravel(), frame[1].ravel())[0, 1]) < 4 / 300


def test_environments_may_be_at_different_frames():
    mixed = noise.frame_noise([5, 6], "a", np.array([2, 9]), (8, 8))
    np.testing.assert_array_equal(mixed[0], noise.frame_noise([5], "a", 2, (8, 8))[0])
    np.testing.assert_array_equal(mixed[1], noise.frame_noise([6], "a", 9, (8, 8))[0])


@pytest.mark.parametrize("seeds", [[0.5], [[1, 2]], 3])
def test_seeds_that_are_not_one_integer_per_environment_are_refused(seeds):
    with pytest.raises(TwinloopError, match=r"got .*expected integers of shape \(N,\)"):
        noise.draw_normal(seeds, "a", 1)
