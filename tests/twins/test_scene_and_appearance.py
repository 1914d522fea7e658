"""How episodes start and how they look follow from the draw, and from nothing that came before."""

import math

import mujoco
import numpy as np
import pytest

from twinloop.twins import apply_appearance, initial_state, load_twin
from twinloop.twins.appearance import light_colour
from twinloop.twins.texture import PATTERNS, paint_texture

PICK_PLACE = ["franka_pick_place", "franka_push", "so101_pick_place"]


def settled(name, values, seconds=0.5):
    twin = load_twin(name)
    model = twin.make_model(values)
    data = mujoco.MjData(model)
    start = initial_state(twin, values, 1)
    data.qpos[:], data.ctrl[:], data.mocap_pos[:] = start.qpos[0], start.ctrl[0], start.mocap_pos[0]
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return model, data, start


@pytest.mark.parametrize("name", PICK_PLACE)
def test_the_cell_is_at_rest_when_an_episode_starts(name):
    _, data, _ = settled(name, {})
    place = data.body("object").xpos
    np.testing.assert_allclose(place[:2], load_twin(name).patch.model.body("object").pos[:2], atol=2e-3)
    assert np.abs(data.qvel).max() < 0.05


def test_object_target_and_table_are_where_the_draw_puts_them():
    values = {
        "object_offset_x_m": 0.05,
        "object_offset_y_m": -0.03,
        "object_yaw_rad": 0.5,
        "object_size_m": 0.06,
        "target_offset_y_m": 0.04,
        "table_height_m": 0.03,
    }
    _, data, _ = settled("franka_pick_place", values)
    np.testing.assert_allclose(data.body("object").xpos, [0.55, 0.07, 0.06], atol=1e-3)
    np.testing.assert_allclose(data.body("target").xpos, [0.5, -0.16, 0.03], atol=1e-9)
    forward = data.body("object").xmat.reshape(3, 3)[:, 0]
    assert math.atan2(forward[1], forward[0]) == pytest.approx(0.5, abs=1e-3)


def test_starts_are_batched():
    twin = load_twin("franka_pick_place")
    offsets = np.linspace(-0.1, 0.1, 7)
    start = initial_state(twin, {"object_offset_x_m": offsets}, 7)
    address = twin.patch.model.joint("object").qposadr[0]
    np.testing.assert_allclose(start.qpos[:, address], 0.5 + offsets)
    assert start.ctrl.shape == (7, 8)
    assert start.ctrl[0, 7] == pytest.approx(0.08)


def test_distractors_are_parked_until_the_scene_is_cluttered_and_keep_clear_of_the_task():
    twin = load_twin("franka_pick_place")
    model = twin.make_model()
    counts = np.array([0, 1, 2, 3] * 25)
    start = initial_state(twin, {"clutter_count": counts, "clutter_layout": np.arange(100)}, 100)
    again = initial_state(twin, {"clutter_count": counts[3:4], "clutter_layout": [3]}, 1)
    np.testing.assert_array_equal(start.qpos[3], again.qpos[0])
    data = mujoco.MjData(model)
    for row, count in enumerate(counts):
        data.qpos[:] = start.qpos[row]
        mujoco.mj_forward(model, data)
        on_table = [np.linalg.norm(data.body(name).xpos[:2]) < 1.0 for name in twin.distractors]
        assert on_table == [index < count for index in range(3)]
        for name in twin.distractors[:count]:
            assert np.linalg.norm(data.body(name).xpos[:2] - data.body("object").xpos[:2]) > 0.12


def test_a_distractor_gives_way_when_it_is_pushed():
    values = {"clutter_count": 3, "clutter_layout": 5}
    model, data, _ = settled("franka_pick_place", values)
    before = data.body("distractor_1").xpos.copy()
    for _ in range(100):
        data.body("distractor_1").xfrc_applied[0] = 5.0
        mujoco.mj_step(model, data)
    moved = data.body("distractor_1").xpos - before
    assert moved[0] > 0.01
    assert abs(moved[2]) < 1e-9


@pytest.mark.parametrize(("center_x_m", "slope", "tips"), [(0.0, 0.9, False), (0.0, 1.1, True), (0.03, 0.35, False), (0.03, 0.5, True)])  # fmt: skip
def test_a_cube_tips_when_its_weight_points_past_its_edge(center_x_m, slope, tips):
    """On a slope, a cube of half edge h tips when tan(angle) exceeds (h - center) / h: 1, or 0.43 at 3 cm."""
    twin = load_twin("cube_toss")
    values = {"object_center_x_m": center_x_m, "object_friction": 2.0}
    model = twin.make_model(values)
    data = mujoco.MjData(model)
    data.qpos[2] = 0.0524
    model.opt.gravity[:] = (9.81 * slope, 0.0, -9.81)
    for _ in range(400):
        mujoco.mj_step(model, data)
    upright = data.body("object").xmat.reshape(3, 3)[2, 2]
    assert (upright < 0.9) == tips


def test_each_face_can_have_its_own_friction():
    def slide(values):
        model, data, _ = settled("franka_push", values, 0.1)
        data.joint("object").qvel[0] = 0.5
        before = data.body("object").xpos[0]
        for _ in range(250):
            mujoco.mj_step(model, data)
        return data.body("object").xpos[0] - before

    slippery = slide({"object_face_bottom_friction_scale": 0.25})
    assert slippery == pytest.approx(slide({"object_friction": 0.2}), rel=1e-6)
    # Coulomb: v^2 / (2 mu g), with mu = 0.2 and 0.8.
    assert slippery == pytest.approx(0.5**2 / (2 * 0.2 * 9.81), rel=0.05)
    assert slide({"object_face_top_friction_scale": 0.25}) == pytest.approx(
        0.5**2 / (2 * 0.8 * 9.81), rel=0.1
    )


def test_the_image_of_a_draw_does_not_depend_on_earlier_draws():
    twin = load_twin("franka_pick_place")
    draw = {
        "light_intensity": 0.5,
        "camera_yaw_rad": 0.1,
        "camera_x_m": 0.02,
        "texture_index": 7,
        "object_colour": "blue",
    }
    fresh, used = twin.make_model(), twin.make_model()
    apply_appearance(
        twin, used, {"light_intensity": 1.7, "light_count": 1, "texture_index": 3, "camera_roll_rad": 0.2}
    )
    assert len(apply_appearance(twin, used, draw)) == 2
    apply_appearance(twin, fresh, draw)
    for field in (
        "light_diffuse",
        "light_dir",
        "light_active",
        "cam_pos",
        "cam_quat",
        "cam_fovy",
        "tex_data",
        "mat_rgba",
    ):
        np.testing.assert_array_equal(getattr(fresh, field), getattr(used, field), err_msg=field)
    apply_appearance(twin, used, {})
    np.testing.assert_allclose(used.cam_quat, twin.patch.model.cam_quat, atol=1e-12)
    np.testing.assert_array_equal(used.tex_data, twin.patch.model.tex_data)
    np.testing.assert_allclose(used.light_diffuse, twin.patch.model.light_diffuse, rtol=1e-6)


def test_fewer_lights_are_as_bright_together():
    twin = load_twin("franka_pick_place")
    model = twin.make_model()
    total = model.light_diffuse.sum()
    apply_appearance(twin, model, {"light_count": 1})
    assert list(model.light_active) == [1, 0, 0]
    assert model.light_diffuse[0].sum() == pytest.approx(total, rel=1e-5)


def test_warm_light_is_red_cold_light_is_blue_and_daylight_is_white():
    np.testing.assert_allclose(light_colour(6500.0), 1.0)
    warm, cold = light_colour(3000.0), light_colour(10000.0)
    assert warm[0] > warm[1] > warm[2]
    assert cold[0] < cold[1] < cold[2]


def test_a_texture_number_always_paints_the_same_image_and_numbers_differ():
    pool = [paint_texture(index, 32, 32) for index in range(40)]
    np.testing.assert_array_equal(pool[5], paint_texture(5, 32, 32))
    assert len({image.tobytes() for image in pool}) == 40
    assert len(PATTERNS) == 6
    assert all(40 < image.mean() < 245 for image in pool)
