"""Videos of episodes show what happened, state the source of their images, and work in a browser."""

from dataclasses import replace

import av
import numpy as np
import pytest

from tests.browser import CHROMIUM, Browser
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Camera, Outcome, Schema, Signal, make_episode
from twinloop.errors import WrongUse
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout
from twinloop.generation.videos import (
    HEIGHT,
    WIDTH,
    reconstruct_states,
    record_failure_videos,
    record_video,
    video_data_uri,
)
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")


@pytest.fixture(scope="module")
def episode():
    """A simulated pick and place."""
    return next(rollout(Job(TWIN, TWIN.task, "pick_and_place"), 3, [0]))


@pytest.fixture(scope="module")
def video(episode, tmp_path_factory):
    return record_video(episode, tmp_path_factory.mktemp("video") / "a.webm", twin=TWIN, title="an episode")


def images(path):
    with av.open(str(path)) as container:
        rate = float(container.streams.video[0].average_rate)
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)]), rate


def red(image):
    """Where the middle of what is red in an image is: the cube."""
    low = image.astype(int)
    rows, columns = np.nonzero((low[..., 0] > 150) & (low[..., 1] < 110) & (low[..., 2] < 90))
    assert len(rows) > 10, "the cube is seen"
    return np.array([columns.mean(), rows.mean()])


def green(image):
    low = image.astype(int)
    rows, columns = np.nonzero((low[..., 1] > 130) & (low[..., 0] < 90))
    return np.array([columns.mean(), rows.mean()])


def test_a_video_shows_the_episode_at_its_own_speed(episode, video):
    shown, rate = images(video)
    assert shown.shape[2] == WIDTH and shown.shape[1] > HEIGHT, "a caption is under the images"
    assert len(shown) / rate == pytest.approx(episode.duration_s + 0.6, abs=0.2)
    assert video.stat().st_size < 250_000
    first, last = red(shown[0, :HEIGHT]), red(shown[-1, :HEIGHT])
    target = green(shown[0, :HEIGHT])
    assert np.linalg.norm(first - target) > 30.0, "the cube starts elsewhere"
    assert np.linalg.norm(last - target) < 12.0, "and ends on the target"


def test_states_are_put_together_from_readings_where_the_truth_is_not_known(episode):
    """A robot's recording has no `simulation.object`: the pose must come out of what was perceived."""
    cell, rows = make_cell(TWIN), np.arange(len(episode))
    true = reconstruct_states(episode, cell, rows)
    signals = tuple(s for s in episode.schema.signals if not s.name.startswith("simulation."))
    bare = replace(
        episode,
        schema=replace(episode.schema, signals=signals),
        signals={s.name: episode.signals[s.name] for s in signals},
    )
    perceived = reconstruct_states(bare, cell, rows)
    place = cell.object_qpos
    joints = np.delete(np.arange(true.shape[1]), np.arange(place, place + 7))
    assert np.array_equal(true[:, joints], perceived[:, joints])
    assert np.allclose(true[:, place : place + 3], perceived[:, place : place + 3], atol=1e-5)
    same = np.abs((true[:, place + 3 : place + 7] * perceived[:, place + 3 : place + 7]).sum(axis=1))
    assert np.allclose(same, 1.0, atol=1e-5), "quaternions up to their sign"


def test_an_episodes_own_camera_comes_first_and_the_caption_names_the_source(tmp_path):
    schema = Schema((Signal("observation.state", (2,), ("rad",)),), 50.0, (Camera("front", 64, 96),), "toy")
    frames = np.zeros((30, 64, 96, 3), np.uint8)
    frames[:15, :, :, 2] = 220
    frames[15:, :, :, 0] = 220
    recorded = make_episode(
        schema,
        np.arange(30) / 50.0,
        {"observation.state": np.zeros((30, 2), np.float32)},
        frames={"front": frames},
    )
    shown, rate = images(record_video(recorded, tmp_path / "own.webm", twin=TWIN))
    assert rate == pytest.approx(25.0)
    assert shown[2, 60, 60, 2] > 150 > shown[2, 60, 60, 0] and shown[-1, 60, 60, 0] > 150, "blue, then red"
    bare = replace(recorded, schema=replace(schema, cameras=()), frames={})
    with pytest.raises(WrongUse, match=r"(?s)no camera.*pass a twin to render"):
        record_video(bare, tmp_path / "none.webm")
    with pytest.raises(WrongUse, match=r"(?s)joints do not fit twin.*expected 8"):
        record_video(bare, tmp_path / "none.webm", twin=TWIN)
    assert not (tmp_path / "none.webm").exists()


def test_only_failures_are_filmed_and_no_more_than_asked_for(episode, tmp_path):
    short = replace(
        episode,
        time_s=episode.time_s[:4],
        signals={name: values[:4] for name, values in episode.signals.items()},
    )
    with make_dataset(tmp_path / "runs", episode.schema) as writer:
        for number, success in enumerate((True, False, False, True, False)):
            failure = None if success else "dropped"
            writer.add(replace(short, outcome=Outcome(success, failure), id=f"{number:064x}"))
    runs = open_dataset(tmp_path / "runs")
    videos = record_failure_videos(runs, tmp_path / "videos", twin=TWIN, title="policy-v1", most=2)
    assert [path.name for path in videos] == ["policy-v1-1-dropped.webm", "policy-v1-2-dropped.webm"]
    assert all(path.exists() for path in videos)


@pytest.mark.skipif(CHROMIUM is None, reason="no browser")
def test_a_video_plays_in_a_page_that_needs_no_other_file(video, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><video muted src='{video_data_uri(video)}'></video>")
    with Browser(400, 400) as browser:
        browser.open(page)
        played = browser.run(
            "new Promise((done) => { const v = document.querySelector('video'); v.onerror = () => done('error');"
            "v.onended = () => done([v.videoWidth, v.videoHeight, v.currentTime > 1]); v.playbackRate = 16; v.play(); })"
        )
    assert played == [WIDTH, 288, True]
