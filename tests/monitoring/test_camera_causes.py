"""What happened to a camera: recordings of a twin whose camera was moved, whose lens is dirty, and whose light has changed."""

import numpy as np
import pytest

from twinloop.experts import find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.monitoring.features import episode_features, usual_frames
from twinloop.monitoring.shifts import camera_cause_of, find_shifts, kind_of
from twinloop.twins import load_twin
from twinloop.twins.images import with_photographs

TWIN = load_twin("franka_pick_place")


def recorded(count, first, twin=TWIN, **look):
    """The first frames of episodes whose light and object vary a little, with this look."""
    rng = np.random.default_rng(first)
    drawn = {f"object_offset_{axis}_m": rng.uniform(-0.05, 0.05, count) for axis in "xy"}
    drawn["light_intensity"] = rng.normal(1.0, 0.02, count)
    drawn["shot_noise"] = np.full(count, 0.02)
    drawn |= {name: np.full(count, float(value)) for name, value in look.items()}
    job = Job(twin, twin.task, "pick_and_place", cameras=("front",), max_steps=4)
    seeds = list(range(first, first + count))
    return list(rollout_drawn(job, seeds, drawn, 2, find_expert("pick_and_place")))


def smeared():
    """A twin with grease on its front lens: a soft grey spot that hides most of what is behind it."""
    y, x = np.mgrid[:128, :128]
    part = 0.85 * np.exp(-((((x - 60) / 34) ** 2 + ((y - 70) / 34) ** 2) ** 2))
    cover = np.dstack([np.full((128, 128, 3), 150.0), 255.0 * part]).astype(np.uint8)
    return with_photographs(TWIN, "cover", {"front": cover})


@pytest.fixture(scope="module")
def usual():
    episodes = recorded(20, 0)
    frames = usual_frames(episodes)
    return frames, [episode_features(episode, frames) for episode in episodes]


@pytest.mark.parametrize(
    ("cause", "change"),
    [
        ("moved camera", {"camera_yaw_rad": 0.03}),
        ("moved camera", {"camera_pitch_rad": -0.02, "light_intensity": 0.9}),
        ("dirty lens", {"twin": smeared()}),
        ("dirty lens", {"lens_blur_px": 2.0}),
        ("changed light", {"light_intensity": 0.6}),
        ("changed light", {"light_temperature_k": 3200.0}),
    ],
)
def test_a_moved_camera_a_dirty_lens_and_changed_light_are_told_apart(usual, cause, change):
    frames, before = usual
    now = [episode_features(episode, frames) for episode in recorded(12, 1000, **change)]
    shifts = find_shifts(before, now)
    assert kind_of(shifts) == "camera"
    assert camera_cause_of(shifts) == cause


def test_nothing_happened_to_a_camera_that_shows_the_same(usual):
    frames, before = usual
    now = [episode_features(episode, frames) for episode in recorded(12, 2000)]
    assert camera_cause_of(find_shifts(before, now)) is None
