"""Images with another look at every turn."""

from __future__ import annotations

import numpy as np

from twinloop.learning.vary import SHARE, varied


def scene(count=400):
    """A bright square on a dark ground, (count, 1, 16, 16, 3)."""
    made = np.full((count, 1, 16, 16, 3), 60, np.uint8)
    made[:, :, 4:8, 4:8] = (200, 120, 90)
    return made


def test_most_images_change_and_the_rest_stays_as_it_was():
    before = scene()
    after = varied(before, np.random.default_rng(0))
    changed = np.any(after != before, axis=(1, 2, 3, 4))
    assert abs(changed.mean() - SHARE) < 0.06
    assert np.array_equal(before, scene()), "the images themselves are not touched"
    assert after.dtype == np.uint8 and after.shape == before.shape


def test_looks_differ_from_each_other_and_follow_from_the_seed():
    first, again, other = (varied(scene(50), np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    levels = first[:, 0, 4:8, 4:8].mean(axis=(1, 2))
    assert np.ptp(levels[:, 0]) > 80, "exposure"
    assert np.ptp(levels[:, 0] / levels[:, 2]) > 0.5, "tint"


def test_what_is_bright_stays_where_it_is():
    after = varied(scene(), np.random.default_rng(3)).astype(float).mean(axis=(1, 4))
    ground = np.ones((16, 16), bool)
    ground[4:8, 4:8] = False
    assert np.all(after[:, 4:8, 4:8].mean(axis=(1, 2)) > after[:, ground].mean(axis=1))


def test_no_images_are_no_images():
    assert varied(scene(0), np.random.default_rng(0)).shape == (0, 1, 16, 16, 3)


def test_without_cameras_nothing_is_left_to_chance():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert varied(scene(4)[:, :0], rng).shape == (4, 0, 16, 16, 3)
    assert rng.bit_generator.state == before
