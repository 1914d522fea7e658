"""Depth noise against stereo geometry and the rates asked for."""

import numpy as np
import pytest

from twinloop.errors import TwinloopError, WrongUse
from twinloop.imperfect import depth
from twinloop.imperfect.depth import DepthNoise


def walls(*distances_m, size=128):
    """One flat wall per environment."""
    return np.broadcast_to(
        np.array(distances_m, dtype=np.float32)[:, None, None], (len(distances_m), size, size)
    )


def step_scene(size=64):
    """A near half and a far half."""
    scene = np.full((1, size, size), 1.0, dtype=np.float32)
    scene[:, :, size // 2 :] = 2.0
    return scene


def test_a_perfect_depth_camera_reports_the_truth():
    scene = np.random.default_rng(0).uniform(0.3, 3, (2, 16, 16)).astype(np.float32)
    reported = depth.apply(DepthNoise(), scene, depth.draw_noise([1, 2], 0, 16, 16))
    np.testing.assert_allclose(reported, scene, rtol=1e-6)


def test_noise_grows_with_the_square_of_the_distance():
    distances = np.array([0.5, 1.0, 2.0])
    params = DepthNoise(focal_baseline_px_m=20.0, disparity_noise_px=0.05)
    reported = depth.apply(params, walls(*distances), depth.draw_noise(range(3), 0, 128, 128))
    np.testing.assert_allclose(reported.std(axis=(1, 2)), distances**2 * 0.05 / 20.0, rtol=0.03)


def test_disparity_steps_quantize_depth_the_coarser_the_farther():
    params = DepthNoise(focal_baseline_px_m=20.0, disparity_step_px=np.array([0.0, 0.25]))
    scene = np.broadcast_to(np.linspace(0.5, 4.0, 4096, dtype=np.float32).reshape(64, 64), (2, 64, 64))
    reported = depth.apply(params, scene, depth.draw_noise([0, 1], 0, 64, 64))
    np.testing.assert_allclose(reported[0], scene[0], rtol=1e-5)
    steps = 20.0 / reported[1] / 0.25
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    gaps = np.diff(np.unique(reported[1]))
    assert gaps[-1] > 20 * gaps[0]


def test_only_pixels_beside_a_depth_step_lose_their_reading_at_the_rate_asked_for():
    scene = np.repeat(step_scene(128), 40, axis=0)
    reported = depth.apply(DepthNoise(edge_dropout=0.3), scene, depth.draw_noise(range(40), 0, 128, 128))
    lost = reported == 0.0
    assert lost[:, :, 63:65].mean() == pytest.approx(0.3, abs=0.02)
    assert not lost[:, :, :63].any()
    assert not lost[:, :, 65:].any()


def test_sideways_errors_make_edges_ragged_and_leave_surfaces_alone():
    reported = depth.apply(DepthNoise(edge_shift_px=1.0), step_scene(), depth.draw_noise([1], 0, 64, 64))
    np.testing.assert_allclose(reported[:, :, :26], 1.0)
    np.testing.assert_allclose(reported[:, :, 38:], 2.0, rtol=1e-6)
    first_far = np.argmax(reported[0] > 1.5, axis=1)
    assert 0.5 < first_far.std() < 2.0


def test_reflective_surfaces_have_holes_in_patches_at_the_rate_asked_for():
    reflectivity = np.zeros((60, 64, 64))
    reflectivity[:, :, 32:] = 1.0
    reflectivity[:, 32:, 32:] = 0.5
    params = DepthNoise(reflective_dropout=0.4, patch_px=8)
    reported = depth.apply(
        params, walls(*[1.0] * 60, size=64), depth.draw_noise(range(60), 0, 64, 64), reflectivity
    )
    lost = reported == 0.0
    assert not lost[:, :, :32].any()
    assert lost[:, :32, 32:].mean() == pytest.approx(0.4, abs=0.05)
    assert lost[:, 32:, 32:].mean() == pytest.approx(0.2, abs=0.05)
    inside = lost[:, :32, 32:].astype(float)
    neighbours = np.corrcoef(inside[:, :, 1:].ravel(), inside[:, :, :-1].ravel())[0, 1]
    assert neighbours > 0.7


def test_readings_out_of_range_and_missing_ones_are_zero():
    params = DepthNoise(nearest_m=0.3, farthest_m=3.0)
    scene = walls(0.1, 1.0, 5.0, 0.0, np.inf, np.nan, size=4)
    reported = depth.apply(params, scene, depth.draw_noise(range(6), 0, 4, 4))
    np.testing.assert_array_equal(reported[:, 0, 0], [0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_dropout": 1.5}, r"DepthNoise.edge_dropout .* got 1.5; .* at most 1"),
        ({"reflective_dropout": -0.1}, r"DepthNoise.reflective_dropout .* got -0.1"),
        ({"disparity_noise_px": np.nan}, r"DepthNoise.disparity_noise_px .* got nan"),
        ({"focal_baseline_px_m": 0.0}, r"DepthNoise.focal_baseline_px_m .* got 0; .* above 0"),
        ({"patch_px": 1}, r"DepthNoise.patch_px .* got 1; .* at least 2"),
    ],
)
def test_bad_parameters_are_refused_with_what_was_got_and_expected(fields, message):
    with pytest.raises(TwinloopError, match=message):
        DepthNoise(**fields)


def test_wrong_arrays_are_refused():
    normal = depth.draw_noise([1], 0, 8, 8)
    with pytest.raises(WrongUse, match="do not fit each other; got depth"):
        depth.apply(DepthNoise(), walls(1.0, size=9), normal)
    with pytest.raises(WrongUse, match="needs to know what is reflective"):
        depth.apply(DepthNoise(reflective_dropout=0.1), walls(1.0, size=8), normal)
    with pytest.raises(WrongUse, match="reflectivity does not fit"):
        depth.apply(DepthNoise(), walls(1.0, size=8), normal, np.zeros((1, 4, 4)))
