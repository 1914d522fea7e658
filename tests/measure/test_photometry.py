"""Light, noise, blur and vignetting of known size are measured from frames."""

import numpy as np
import pytest
from scipy import ndimage

from twinloop.measure.photometry import (
    measure_blur,
    measure_noise,
    measure_response,
    measure_vignetting,
    read_surfaces,
    respond,
)

RUNS = [0, 0, 1, 1, 2, 2]


def scenes(count=6, side=64):
    """Frames (count, side, side, 3) of coloured squares, and the square (count, side, side) at each pixel."""
    rng = np.random.default_rng(3)
    labels = np.broadcast_to(
        np.add.outer(np.arange(side) // 16 * 4, np.arange(side) // 16), (count, side, side)
    )
    palette = rng.uniform(90, 230, (16, 3))
    return np.rint(palette[labels]).astype(np.uint8), labels


def test_exposure_balance_and_saturation_are_read_from_known_surfaces():
    sim, labels = scenes()
    truth = np.array([-0.8, 0.3, -0.4, 0.7])
    real = np.rint(255 * np.sqrt(np.clip(respond((sim / 255.0) ** 2, truth), 0, 1))).astype(np.uint8)
    draws = measure_response(read_surfaces(real, sim, labels, RUNS), 8, np.random.default_rng(0))
    assert draws.mean(axis=0) == pytest.approx(truth, abs=0.06)


def test_a_surface_of_another_colour_hardly_moves_what_is_read_from_the_others():
    sim, labels = scenes()
    real = sim.copy()
    real[labels == 5] = (20, 240, 20)
    draws = measure_response(read_surfaces(real, sim, labels, RUNS), 8, np.random.default_rng(0))
    assert draws.mean(axis=0) == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=0.12)


def test_shot_and_read_noise_are_told_apart():
    rng = np.random.default_rng(1)
    light = np.broadcast_to(np.linspace(0.02, 0.8, 96)[:, None, None], (6, 96, 96, 3))
    noisy = light + rng.normal(size=light.shape) * np.sqrt(0.05**2 * light + 0.008**2)
    real = np.rint(255 * np.sqrt(np.clip(noisy, 0, 1))).astype(np.uint8)
    shot, read = measure_noise(real, RUNS).mean(axis=0)
    assert shot == pytest.approx(0.05, rel=0.2) and read == pytest.approx(0.008, rel=0.35)


@pytest.mark.parametrize("blur_px", [0.0, 1.0, 2.5])
def test_blur_is_read_from_edges_despite_noise(blur_px):
    sim, labels = scenes()
    rng = np.random.default_rng(1)
    soft = ndimage.gaussian_filter(sim.astype(float), (0, blur_px, blur_px, 0)) + rng.normal(0, 4, sim.shape)
    edges = ndimage.minimum_filter(labels, (1, 3, 3)) != ndimage.maximum_filter(labels, (1, 3, 3))
    found = measure_blur(np.clip(soft, 0, 255).astype(np.uint8), sim, edges, RUNS)
    assert found.mean() == pytest.approx(blur_px, abs=0.35)


def test_vignetting_is_read_from_one_surface_and_a_shadow_on_it_is_none():
    side, focal = 96, 80.0
    x = (np.arange(side) - 47.5) / focal
    away = 1.0 + x[None] ** 2 + x[:, None] ** 2
    light = 0.5 * away ** (-2.0 * 0.6)
    light = np.where((np.arange(side) > 70)[:, None] & (np.arange(side) < 40)[None], 0.3 * light, light)
    real = (
        np.rint(255 * np.sqrt(np.repeat(light[None, ..., None], 3, axis=3)))
        .repeat(6, axis=0)
        .astype(np.uint8)
    )
    found = measure_vignetting(real, np.ones((6, side, side), bool), focal, RUNS)
    assert found.mean() == pytest.approx(0.6, abs=0.08)
