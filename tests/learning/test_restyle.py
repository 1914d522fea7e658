"""Restyling: the look of another image, and nothing else of it."""

import numpy as np
import pytest

from tests.learning.examples import photograph
from twinloop.errors import LearnError
from twinloop.learning.restyle import SHARE, Styles, fourier, fourier_exact, load_photographs


def images(seed, count=3, low=0, high=256):
    return np.random.default_rng(seed).integers(low, high, (count, 1, 16, 16, 3)).astype(np.uint8)


def waves(images):
    return np.fft.rfft2(images.astype(float), axes=(-3, -2))


def test_a_band_of_nothing_changes_nothing():
    mine, other = images(0), images(1)
    assert np.array_equal(fourier(mine, other, 0.0), mine)
    assert np.array_equal(fourier(mine, mine, 0.2), mine), "its own look changes nothing either"


def test_inside_the_band_strength_is_the_others_and_phase_its_own():
    mine, other = images(2).astype(float), images(3).astype(float)
    band = 0.15
    made = waves(fourier_exact(mine, other, band))
    slow = (np.abs(np.fft.fftfreq(16))[:, None] <= band) & (np.fft.rfftfreq(16)[None] <= band)
    inside, outside = made[..., slow, :], made[..., ~slow, :]
    assert 0 < slow.sum() < slow.size
    assert np.allclose(np.abs(inside), np.abs(waves(other))[..., slow, :], atol=1e-6)
    assert np.allclose(np.angle(inside), np.angle(waves(mine))[..., slow, :], atol=1e-6)
    assert np.allclose(outside, waves(mine)[..., ~slow, :], atol=1e-6)


def test_some_images_stay_as_they_are_and_chance_follows_from_the_seed():
    mine = images(6, count=200)
    styles = Styles("fourier", images(7, low=0, high=40), 0.5)
    made = styles.apply(mine, np.random.default_rng(1))
    changed = (made != mine).reshape(200, -1).any(axis=1)
    assert abs(changed.mean() - SHARE) < 0.12 and made[changed].mean() < 0.5 * mine.mean()
    assert np.array_equal(made, styles.apply(mine, np.random.default_rng(1)))


def test_photographs_are_read_from_a_folder(tmp_path):
    image = np.zeros((20, 30, 3), np.uint8)
    image[:, :15] = (200, 100, 50)
    photograph(tmp_path / "a.png", image)
    made = load_photographs(tmp_path, 10)
    assert made.shape == (1, 10, 10, 3)
    assert made[0, 5, 2].tolist() == [200, 100, 50] and made[0, 5, 8].tolist() == [0, 0, 0]
    (tmp_path / "b.jpg").write_text("no image")
    with pytest.raises(LearnError, match="no image that can be read"):
        load_photographs(tmp_path, 10)
    with pytest.raises(LearnError, match="has no photographs"):
        load_photographs(tmp_path / "nowhere", 10)
