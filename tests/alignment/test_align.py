"""Cameras whose true place and lens are known: alignment finds them, and says so where it cannot."""

import numpy as np
import pytest
from PIL import Image

import twinloop
from benchmarks.filmed import record, twin_with_camera
from twinloop.errors import UnknownName, WrongUse
from twinloop.randomization.draw import draw_many

pytest.importorskip("cv2")
pytest.importorskip("cma")

STANDING = {
    "x_m": 0.01, "y_m": -0.008, "z_m": 0.006, "pitch_rad": 0.01, "yaw_rad": -0.01, "roll_rad": 0.015,
    "field_of_view_rad": 0.01, "distortion": -0.02,
}  # fmt: skip
CARRIED = {"x_m": 0.001, "y_m": -0.001, "pitch_rad": 0.012, "yaw_rad": -0.01, "field_of_view_rad": 0.01}
FAR = {**CARRIED, "x_m": 0.01, "y_m": -0.008, "z_m": 0.006, "pitch_rad": 0.06, "yaw_rad": -0.05}


def film_twin(camera, height=150, width=200):
    return twin_with_camera("franka_pick_place", camera, height, width, {})


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    twin = film_twin("front", 240, 320)
    return twin, record(tmp_path_factory.mktemp("standing") / "real", twin, "front", STANDING, count=9)


def align(twin, dataset, camera="front", **config):
    return twinloop.align(twin, dataset, camera, config=twinloop.AlignConfig(frames=5, **config))


def test_a_standing_camera_is_found_and_becomes_a_new_version_of_the_twin(standing, tmp_path):
    twin, dataset = standing
    found = align(twin, dataset, near=True, joint_offsets=False)
    assert found.verdict != "not determined"
    assert found.after_px < 1.0 < found.before_px
    for name in ("x_m", "y_m", "roll_rad"):
        assert abs(found[name].value - STANDING[name]) < 3.0 * found[name].standard_deviation
        assert found[name].value == pytest.approx(STANDING[name], abs=0.01)
    assert found.twin.content_hash != twin.content_hash
    assert found.twin.parent == twin.content_hash
    assert found.twin.parameter("camera_front_x_m").nominal == found["x_m"].value
    drawn = draw_many(found.uncertainty, 0, np.arange(2000))
    assert np.std(drawn["camera_front_x_m"]) == pytest.approx(found["x_m"].standard_deviation, rel=0.1)
    together = np.corrcoef(drawn["camera_front_pitch_rad"], drawn["camera_front_principal_y"])[0, 1]
    assert abs(together) > 0.5, "pitch and principal point make up for each other"
    again = twinloop.load_alignment(found.save(tmp_path / "twin"))
    assert again.twin.content_hash == found.twin.content_hash
    assert again.as_json() == found.as_json()
    overlay = twinloop.write_overlay(again, twin, dataset, tmp_path / "overlay.png")
    with Image.open(overlay) as image:
        assert image.width == 2 * 640


def test_a_camera_on_the_hand_is_found_by_what_it_sees_of_hand_and_table(tmp_path):
    twin = film_twin("wrist")
    dataset = record(tmp_path / "real", twin, "wrist", CARRIED, count=8)
    found = align(twin, dataset, "wrist", near=True, joint_offsets=False)
    assert found.verdict == "aligned"
    for name in ("x_m", "y_m"):
        assert found[name].value == pytest.approx(CARRIED[name], abs=0.001)
    for name in ("pitch_rad", "yaw_rad"):
        assert found[name].value == pytest.approx(CARRIED[name], abs=0.01)


def test_images_that_are_late_against_the_joints_are_noticed(tmp_path):
    twin = film_twin("wrist", 120, 160)
    late = record(tmp_path / "real", twin, "wrist", {}, count=60, late_rows=2, rate_hz=20.0)
    found = align(twin, late, "wrist", near=True, joint_offsets=False)
    assert found["time_offset_s"].value == pytest.approx(-0.1, abs=0.02)


@pytest.mark.slow
def test_a_camera_that_is_far_off_and_a_joint_are_found(tmp_path):
    twin = film_twin("wrist", 240, 320)
    dataset = record(tmp_path / "wrist", twin, "wrist", FAR, count=12)
    found = align(twin, dataset, "wrist", joint_offsets=False)
    for name in ("x_m", "y_m", "z_m"):
        assert found[name].value == pytest.approx(FAR[name], abs=0.002)
    twin = film_twin("front", 240, 320)
    dataset = record(tmp_path / "front", twin, "front", STANDING, count=16, offsets_rad={"joint4": 0.25})
    found = twinloop.align(twin, dataset, "front")
    assert [e.joint for e in found.estimates if e.joint] == ["joint4"]
    assert found["joint joint4"].value == pytest.approx(0.25, abs=0.02)
    assert "joint4 reads +14" in found.offsets[0]


def test_one_pose_alone_is_refused_with_poses_to_record(tmp_path):
    twin = film_twin("front")
    found = align(twin, record(tmp_path / "real", twin, "front", STANDING, count=6, reach_rad=0.0))
    assert found.verdict == "not determined"
    assert "one pose" in found.reason
    assert found.twin == twin
    assert len(found.poses_to_record) == 5
    angles = np.array([list(pose.values()) for pose in found.poses_to_record])
    assert np.ptp(angles, axis=0).max() > 0.3
    assert not found.uncertainty.names


def test_an_unknown_camera_is_named_with_the_known_ones(standing):
    twin, dataset = standing
    with pytest.raises(UnknownName, match="front"):
        align(twin, dataset, "side")


def test_a_mask_of_another_size_or_an_empty_one_is_refused(standing, tmp_path):
    twin, dataset = standing
    Image.fromarray(np.full((10, 10), 255, np.uint8)).save(tmp_path / "0-0.png")
    with pytest.raises(WrongUse, match="size"):
        align(twin, dataset, masks=str(tmp_path))
    for row in range(5):
        Image.fromarray(np.zeros((240, 320), np.uint8)).save(tmp_path / f"0-{row}.png")
    with pytest.raises(WrongUse, match="empty"):
        align(twin, dataset, masks=str(tmp_path))


def test_masks_that_name_no_frame_or_no_file_are_refused(standing, tmp_path):
    twin, dataset = standing
    with pytest.raises(WrongUse, match="no masks"):
        align(twin, dataset, masks=str(tmp_path))
    Image.fromarray(np.zeros((240, 320), np.uint8)).save(tmp_path / "0-99.png")
    with pytest.raises(WrongUse, match="no such frames"):
        align(twin, dataset, masks=str(tmp_path))


def test_too_few_frames_are_refused():
    with pytest.raises(WrongUse, match="5 to 20"):
        twinloop.AlignConfig(frames=3)


def test_ways_to_mask_exclude_each_other():
    with pytest.raises(WrongUse, match="exclude"):
        twinloop.AlignConfig(masks="edges", colours=((1, 2, 3),))
