"""Predictive bands against residuals whose law is known."""

import numpy as np
import pytest

from twinloop.identification.bands import fit_band


def stuck(rng, episodes):
    """Residuals of a joint that sticks beside its target: one offset per episode, of very different lengths."""
    lengths = rng.integers(20, 400, episodes)
    offsets = np.abs(rng.standard_normal(episodes))
    size = np.concatenate(
        [o + 0.05 * np.abs(rng.standard_normal(n)) for o, n in zip(offsets, lengths, strict=True)]
    )
    return size, np.repeat(np.arange(episodes), lengths)


@pytest.mark.parametrize("episodes", [6, 12, 30])
def test_bands_hold_for_the_next_episode_when_each_is_off_by_its_own_amount(episodes):
    rng = np.random.default_rng(episodes)
    held = []
    for _ in range(300):
        size, episode = stuck(rng, episodes)
        fitted, factor = fit_band(np.ones((len(size), 1)), size, episode, 0.9)
        fresh, _ = stuck(rng, 1)
        held.append(np.mean(fresh <= factor * fitted[0]))
    assert 0.85 <= np.mean(held) <= 0.95, np.mean(held)


def test_bands_follow_what_residuals_grow_with():
    rng = np.random.default_rng(1)
    speed = rng.uniform(0.0, 3.0, 20_000)
    features = np.stack([np.ones_like(speed), speed], axis=1)
    size = (0.2 + 1.0 * speed) * np.abs(rng.standard_normal(len(speed)))
    fitted, factor = fit_band(features, size, np.arange(len(speed)) // 100, 0.9)
    assert fitted[1] / fitted[0] == pytest.approx(5.0, rel=0.25)
    for slow, fast in ((0.0, 1.0), (2.0, 3.0)):
        here = (speed >= slow) & (speed < fast)
        assert np.mean(size[here] <= factor * (features[here] @ fitted)) == pytest.approx(0.9, abs=0.03)
