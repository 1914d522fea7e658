"""The camera pipeline against optics, and the speed it promises."""

import numpy as np
import pytest

from twinloop.errors import TwinloopError, WrongUse
from twinloop.imperfect import camera, lens, noise, shutter
from twinloop.imperfect.camera import CameraEffects, Sensor
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.shutter import Shutter

BARREL = Lens(k1=-0.25, k2=0.06, k3=0.001, p1=0.002, p2=-0.003, field_of_view_rad=1.2)


def captured(effects, frames, velocity_px_s=None, normal=None):
    tables = camera.make_tables(effects, len(frames), *frames.shape[1:3])
    return camera.capture(tables, frames, velocity_px_s, normal)


def linear(frames):
    """The light of frames encoded with gamma 2."""
    return np.asarray(frames, dtype=np.float64) ** 2


def random_frames(count, height=24, width=32):
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def test_a_camera_without_effects_records_the_image_unchanged():
    frames = random_frames(2)
    np.testing.assert_array_equal(captured(CameraEffects(), frames), frames)
    scaled = frames.astype(np.float32) / 255
    np.testing.assert_allclose(captured(CameraEffects(), scaled), scaled, atol=1e-6)


def test_defocus_spreads_a_point_into_a_gaussian_of_its_deviation_and_keeps_the_light():
    frames = np.zeros((1, 41, 61, 3), dtype=np.float32)
    frames[0, 20, 30] = 1.0
    light = linear(captured(CameraEffects(lens=Lens(blur_px=2.0)), frames))[0, ..., 0]
    assert light.sum() == pytest.approx(1.0, rel=1e-3)
    x, y = np.arange(61) - 30, np.arange(41) - 20
    assert np.sqrt((light.sum(axis=0) * x**2).sum()) == pytest.approx(2.0, rel=0.01)
    assert np.sqrt((light.sum(axis=1) * y**2).sum()) == pytest.approx(2.0, rel=0.01)
    flat = np.full((1, 24, 32, 3), 100, dtype=np.uint8)
    np.testing.assert_array_equal(captured(CameraEffects(lens=Lens(blur_px=5.0)), flat), flat)


def test_distortion_follows_the_formula_at_a_known_point():
    x, y = lens.distort(Lens(k1=0.1, k2=0.01, k3=0.001, p1=0.02, p2=0.03), np.array(0.5), np.array(-0.25))
    r2 = 0.3125
    radial = 1 + 0.1 * r2 + 0.01 * r2**2 + 0.001 * r2**3
    assert x == pytest.approx(0.5 * radial + 2 * 0.02 * 0.5 * -0.25 + 0.03 * (r2 + 2 * 0.25))
    assert y == pytest.approx(-0.25 * radial + 0.02 * (r2 + 2 * 0.0625) + 2 * 0.03 * 0.5 * -0.25)


def test_undistorting_a_distorted_point_gives_it_back():
    x, y = np.meshgrid(np.linspace(-0.6, 0.6, 9), np.linspace(-0.6, 0.6, 9))
    back_x, back_y = lens.undistort(BARREL, *lens.distort(BARREL, x, y))
    np.testing.assert_allclose([back_x, back_y], [x, y], atol=1e-6)


def test_a_known_grid_point_lands_where_the_lens_formula_puts_it():
    height, width, row, column = 96, 128, 20, 100
    frame = np.zeros((1, height, width, 3), dtype=np.float32)
    rows, columns = np.mgrid[:height, :width]
    frame[0] = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * 2.0**2))[..., None]
    light = linear(captured(CameraEffects(lens=BARREL), frame))[0, :, :, 1]
    focal = lens.focal_px(BARREL, height)
    x, y = lens.distort(
        BARREL, np.array((column - (width - 1) / 2) / focal), np.array((row - (height - 1) / 2) / focal)
    )
    assert (light * columns).sum() / light.sum() == pytest.approx(x * focal + (width - 1) / 2, abs=0.1)
    assert (light * rows).sum() / light.sum() == pytest.approx(y * focal + (height - 1) / 2, abs=0.1)


def test_a_wider_source_image_leaves_no_repeated_border():
    scale = lens.needed_source_scale(BARREL, 48, 64)
    assert 1.0 < scale < 1.5
    wide = Lens(**{**vars(BARREL), "source_scale": scale * 1.0001})
    x, y = lens.undistort(wide, *lens._pixel_grid(wide, 48, 64))
    focal = lens.focal_px(wide, 48) / wide.source_scale
    assert np.abs(focal * x).max() <= 63 / 2
    assert np.abs(focal * y).max() <= 47 / 2


def test_a_distortion_that_folds_the_image_is_refused():
    with pytest.raises(WrongUse, match=r"folds the image .* got k1=-3"):
        lens.make_remap(Lens(k1=-3.0, field_of_view_rad=1.2), 32, 32)


def test_vignetting_follows_the_fourth_power_of_the_cosine():
    effects = CameraEffects(lens=Lens(field_of_view_rad=1.2, vignetting=1.0))
    light = linear(captured(effects, np.full((1, 65, 65, 3), 0.8, dtype=np.float32)))[0, :, :, 0]
    focal = lens.focal_px(effects.lens, 65)
    for row, column in ((32, 32), (32, 64), (0, 32), (0, 0)):
        angle = np.arctan(np.hypot(row - 32, column - 32) / focal)
        assert light[row, column] / 0.64 == pytest.approx(np.cos(angle) ** 4, rel=1e-4)


def test_motion_blur_turns_an_edge_into_a_ramp_as_wide_as_the_motion():
    image = np.zeros((8, 64, 3), dtype=np.float32)
    image[:, 32:] = 1.0
    for length in (4.0, 7.5, -4.0):
        profile = shutter.blur(image, length, 0.0)[4, :, 0]
        np.testing.assert_allclose(np.diff(profile).max(), 1 / abs(length), rtol=0.1)
        centre = 63.5 - profile.sum()
        deviation = np.sqrt((np.diff(profile) * (np.arange(63) + 0.5 - centre) ** 2).sum())
        assert centre == pytest.approx(31.5, abs=1e-4)
        # A uniform spread has variance length^2 / 12; linear interpolation adds up to a quarter of a pixel squared.
        assert abs(length) / 12**0.5 <= deviation + 0.01 <= np.sqrt(length**2 / 12 + 0.25) + 0.02


def test_motion_blur_keeps_the_light_and_is_the_same_in_both_directions():
    image = np.zeros((40, 40, 3), dtype=np.float32)
    image[20, 20] = 1.0
    across, down = shutter.blur(image, 6.3, 0.0), shutter.blur(image, 0.0, 6.3)
    diagonal = shutter.blur(image, 5.0, -3.0)[..., 0]
    assert diagonal.sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(across, down.transpose(1, 0, 2), atol=1e-6)
    rows, columns = np.nonzero(diagonal > 0.01)
    assert np.corrcoef(rows, columns)[0, 1] < -0.8


def edge_positions(planes):
    """Where each row of an image (height, width) turns from black to white, to a fraction of a pixel."""
    return planes.shape[1] - planes.sum(axis=1)


def test_a_rolling_shutter_skews_a_moving_edge_by_speed_times_line_time():
    frame = np.zeros((1, 40, 80, 3), dtype=np.float32)
    frame[:, :, 30:] = 1.0
    speed_px_s, line_time_s = 2_500.0, 1e-4
    effects = CameraEffects(shutter=Shutter(line_time_s=line_time_s))
    light = linear(captured(effects, frame, np.array([[speed_px_s, 0.0]])))[0, :, :, 0]
    skew = np.diff(edge_positions(light))
    np.testing.assert_allclose(skew, speed_px_s * line_time_s, atol=1e-3)


def test_a_rolling_shutter_stretches_a_image_that_moves_down():
    image = np.broadcast_to(np.arange(50, dtype=np.float32)[:, None, None], (50, 10, 3)).copy()
    rolled = shutter.roll(image, 0.0, 0.2)
    np.testing.assert_allclose(rolled[:, 0, 0], np.arange(50) * 0.8, atol=1e-4)


def test_a_global_shutter_does_not_skew():
    frames = random_frames(1)
    np.testing.assert_array_equal(captured(CameraEffects(), frames, np.array([[500.0, 300.0]])), frames)


def test_turning_and_moving_a_camera_moves_the_image_the_other_way():
    turning = np.array([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    moving = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.2, -0.1, 0.0]])
    velocity = shutter.image_velocity_px_s(100.0, turning, moving, 2.0)
    np.testing.assert_allclose(velocity, [[-50, 0], [0, 50], [-10, 5]])


def test_shot_noise_variance_is_proportional_to_the_signal_and_read_noise_is_its_floor():
    full_well, read = 2_000.0, 8.0
    sensor = Sensor(full_well_electrons=full_well, read_noise_electrons=read)
    levels = np.array([0.05, 0.1, 0.2, 0.4, 0.6], dtype=np.float32)
    frames = np.broadcast_to(np.sqrt(levels)[:, None, None, None], (5, 120, 120, 3)).copy()
    normal = noise.frame_noise(range(5), "camera", 0, (120, 120, 3))
    light = linear(captured(CameraEffects(sensor=sensor), frames, normal=normal)).reshape(5, -1)
    np.testing.assert_allclose(light.mean(axis=1), levels, rtol=2e-3)
    np.testing.assert_allclose(light.var(axis=1), levels / full_well + (read / full_well) ** 2, rtol=0.03)
    slope, floor = np.polyfit(levels, light.var(axis=1), 1)
    assert slope == pytest.approx(1 / full_well, rel=0.03)
    assert floor == pytest.approx((read / full_well) ** 2, rel=0.5)


def test_a_dark_image_amplified_is_noisier_than_one_exposed_longer():
    frames = np.full((2, 100, 100, 3), 0.6, dtype=np.float32)
    normal = noise.frame_noise([1, 2], "camera", 0, (100, 100, 3))
    sensor = Sensor(
        exposure=np.array([1.0, 0.1]), gain=np.array([1.0, 10.0]), full_well_electrons=np.array([3e3, 3e3])
    )
    light = linear(captured(CameraEffects(sensor=sensor), frames, normal=normal)).reshape(2, -1)
    np.testing.assert_allclose(light.mean(axis=1), 0.36, rtol=0.02)
    assert light[1].var() / light[0].var() == pytest.approx(10.0, rel=0.1)


def test_exposure_and_white_balance_scale_the_light_of_each_channel():
    frames = np.full((2, 4, 4, 3), 0.5, dtype=np.float32)
    sensor = Sensor(exposure=np.array([1.0, 2.0]), white_balance=np.array([[1.2, 1.0, 0.8], [1.0, 1.0, 1.0]]))
    light = linear(captured(CameraEffects(sensor=sensor), frames))
    np.testing.assert_allclose(light[0, 0, 0], 0.25 * np.array([1.2, 1.0, 0.8]), rtol=1e-5)
    np.testing.assert_allclose(light[1, 0, 0], 0.5, rtol=1e-5)


def test_no_colour_saturation_is_grey_and_overexposure_is_white():
    frames = random_frames(1)
    grey = captured(CameraEffects(sensor=Sensor(colour_saturation=0.0)), frames)
    assert (np.ptp(grey.astype(int), axis=-1) == 0).all()
    white = captured(CameraEffects(sensor=Sensor(exposure=1e6)), np.maximum(frames, 1))
    assert (white == 255).all()


def test_flare_adds_its_strength_at_the_lamp_and_half_of_it_one_radius_away():
    effects = CameraEffects(flare=Flare(strength=0.4, x=0.25, y=0.25, radius=0.1))
    light = linear(captured(effects, np.zeros((1, 100, 200, 3), dtype=np.float32)))[0, :, :, 0]
    veil = 0.4 * 0.08
    assert light[24, 49] == pytest.approx(0.4 + veil, rel=0.01)
    assert light[24, 59] == pytest.approx(0.2 + veil, rel=0.1)
    assert light.min() > veil


def test_each_environment_has_its_own_camera_and_the_same_one_as_alone():
    frames = random_frames(3)
    k1 = np.array([-0.2, 0.0, 0.1])
    together = captured(CameraEffects(lens=Lens(k1=k1)), frames)
    for i in range(3):
        alone = captured(CameraEffects(lens=Lens(k1=float(k1[i]))), frames[i : i + 1])
        np.testing.assert_array_equal(together[i], alone[0])


def test_cameras_that_are_all_alike_share_one_table():
    assert len(camera.make_tables(CameraEffects(), 8, 16, 16).tables) == 1
    assert len(camera.make_tables(CameraEffects(lens=Lens(k1=np.zeros(8))), 8, 16, 16).tables) == 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lens(k1=np.nan), r"Lens.k1 .* got nan; expected finite numbers"),
        (lambda: Lens(field_of_view_rad=45.0), r"Lens.field_of_view_rad .* got 45; .* at most 3.1"),
        (lambda: Shutter(exposure_s=-0.01), r"Shutter.exposure_s .* got -0.01"),
        (lambda: Sensor(full_well_electrons=0.0), r"Sensor.full_well_electrons .* got 0; .* above 0"),
        (lambda: Sensor(white_balance=np.array([[1.0, -1.0, 1.0]])), r"got -1 at index \(0, 1\)"),
        (lambda: Flare(radius=0.0), r"Flare.radius .* got 0"),
    ],
)
def test_bad_parameters_are_refused_with_what_was_got_and_expected(make, message):
    with pytest.raises(TwinloopError, match=message):
        make()


def test_frames_that_do_not_fit_are_refused():
    tables = camera.make_tables(CameraEffects(lens=Lens(k1=np.zeros(2))), 2, 16, 16)
    with pytest.raises(WrongUse, match=r"do not fit the camera; got uint8 of shape \(2, 8, 8, 3\)"):
        camera.capture(tables, np.zeros((2, 8, 8, 3), dtype=np.uint8))
    with pytest.raises(WrongUse, match="got float64"):
        camera.capture(tables, np.zeros((2, 16, 16, 3)))
    with pytest.raises(WrongUse, match="one frame per environment; got 3; expected 2"):
        camera.capture(tables, np.zeros((3, 16, 16, 3), dtype=np.uint8))
    noisy = camera.make_tables(CameraEffects(sensor=Sensor(full_well_electrons=100.0)), 1, 16, 16)
    with pytest.raises(WrongUse, match="noisy but no noise was given"):
        camera.capture(noisy, np.zeros((1, 16, 16, 3), dtype=np.uint8))
    with pytest.raises(WrongUse, match="too small; got"):
        camera.make_tables(CameraEffects(), 1, 1, 16)
