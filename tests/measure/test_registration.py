"""A camera that was moved by a known amount is found from edges, whatever the colours are."""

import numpy as np
import pytest

from twinloop.engines.survey import survey
from twinloop.measure.registration import QUANTITIES, find_edges, register
from twinloop.tasks import make_cell
from twinloop.tasks.place import start_at_rest
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")
CELL = make_cell(TWIN)
MOVED = {"camera_pitch_rad": 0.09, "camera_yaw_rad": -0.06, "camera_roll_rad": 0.04, "camera_y_m": 0.008}


def states(count):
    """Poses of the arm around the home pose, with the object in view."""
    rng = np.random.default_rng(0)
    rest = start_at_rest(CELL, {}, 1)
    qpos = np.tile(rest.qpos, (count, 1))
    qpos[:, :7] += rng.normal(0.0, 0.12, (count, 7))
    return qpos, np.tile(rest.mocap_pos, (count, 1, 1))


@pytest.fixture(scope="module")
def drawn():
    qpos, mocap = states(12)
    return survey(CELL, "wrist", qpos, mocap), survey(CELL, "wrist", qpos, mocap, MOVED)


def registered(nominal, real):
    points = find_edges(
        nominal.frames,
        nominal.depth,
        nominal.focal_px,
        np.ones(nominal.geoms.shape, bool),
        np.random.default_rng(1),
    )
    return register(real, points, nominal.focal_px, list(range(len(real))))


def test_a_moved_camera_is_found_in_frames_of_other_colours(drawn):
    nominal, moved = drawn
    rng = np.random.default_rng(2)
    dark = moved.frames[..., ::-1] * 0.5 + rng.normal(0.0, 2.0, moved.frames.shape)
    found = registered(nominal, np.clip(dark, 0, 255).astype(np.uint8))
    for name, truth in MOVED.items():
        value = found.values[QUANTITIES.index(name.removeprefix("camera_"))]
        assert value == pytest.approx(truth, abs=0.012 if name.endswith("rad") else 0.004), name
    assert found.score > found.before + 0.1


def test_a_camera_that_was_not_moved_stays(drawn):
    nominal, _ = drawn
    found = registered(nominal, nominal.frames)
    assert np.abs(found.values[:3]).max() < 0.003 and np.abs(found.values[3:6]).max() < 0.001
    assert found.score > 0.7


def test_frames_without_edges_determine_no_camera(drawn):
    nominal, _ = drawn
    empty = np.full_like(nominal.frames, 90)
    points = find_edges(
        empty, nominal.depth, nominal.focal_px, np.ones(nominal.geoms.shape, bool), np.random.default_rng(1)
    )
    assert register(empty, points, nominal.focal_px, list(range(len(empty)))) is None
