"""Statistics of images whose truth is known."""

import numpy as np
import pytest
from scipy import ndimage

from twinloop.measure.images import QUALITIES, measure_levels, measure_qualities, measure_shift


def texture(seed=0, size=(64, 80)):
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.uniform(0, 255, (*size, 3)), (3, 3, 0))
    return 128 + 4.0 * (smooth - smooth.mean())


def quality(frame, name):
    return dict(zip(QUALITIES, measure_qualities(np.clip(frame, 0, 255)), strict=True))[name]


@pytest.mark.parametrize(("down", "right"), [(0, 0), (3, -2), (-4, 5)])
def test_a_shift_is_found_in_pixels(down, right):
    wide = texture(size=(96, 112))
    before = wide[16:80, 16:96]
    now = wide[16 - down : 80 - down, 16 - right : 96 - right]
    assert measure_shift(before, now) == pytest.approx((down, right), abs=0.6)


@pytest.mark.parametrize("noise", [2.0, 6.0])
def test_the_noise_of_a_camera_is_found(noise):
    rng = np.random.default_rng(1)
    frames = [texture(seed) + noise * rng.standard_normal((64, 80, 3)) for seed in range(8)]
    # Three channels of independent noise, weighed by their luminance.
    expected = noise * np.linalg.norm([0.2126, 0.7152, 0.0722])
    assert np.mean([quality(frame, "noise") for frame in frames]) == pytest.approx(expected, rel=0.15)


def test_exposure_colour_and_sharpness_move_as_they_should():
    image = texture()
    assert quality(0.8 * image, "exposure") == pytest.approx(0.8 * quality(image, "exposure"), rel=0.01)
    warm = image * np.array([1.2, 1.0, 1.0])
    gained = quality(warm, "colour, red to green") - quality(image, "colour, red to green")
    assert gained == pytest.approx(np.log(1.2), abs=0.02)
    sharp = np.random.default_rng(2).uniform(0, 255, (64, 80, 3))
    assert quality(ndimage.gaussian_filter(sharp, (1.5, 1.5, 0)), "sharpness") < 0.7 * quality(
        sharp, "sharpness"
    )


def test_a_frozen_video_does_not_change_and_a_black_one_has_no_level():
    frames = [np.full((8, 8, 3), 100, np.uint8)] * 3 + [np.zeros((8, 8, 3), np.uint8)]
    found = measure_levels(frames)
    assert found.change.tolist() == [0.0, 0.0, 0.0, 100.0] and found.level[-1] == 0.0
