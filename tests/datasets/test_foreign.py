"""Other people's datasets: a real v2.1 one with AV1 video and holes in its numbers, and v3.0 as LeRobot writes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.datasets.examples import WITH_CAMERA, toy_episode
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import DatasetError, WrongUse

REAL = Path(os.environ.get("TWINLOOP_REAL_DATA") or Path(__file__).parents[3] / "shared/real")
G1 = REAL / "g1_demos"
real_data = pytest.mark.skipif(
    not G1.is_dir(), reason=f"the real demonstrations are not in {REAL}; set TWINLOOP_REAL_DATA"
)


@real_data
def test_real_v2_demonstrations_are_read_under_their_own_numbers():
    dataset = open_dataset(G1)
    assert dataset.layout_version == "v2.1"
    assert dataset.numbers == [10, 28, 29, 30, 31]
    assert dataset.num_frames == 1333
    assert dataset.skipped == {}
    assert len(dataset.schema.signal("action").elements) == 26
    lengths = []
    for episode in dataset:
        lengths.append(len(episode))
        assert episode["observation.state"].shape == episode["action"].shape == (len(episode), 26)
        assert np.isfinite(episode["action"]).all()
        assert (np.diff(episode.time_s) > 0).all()
        assert episode.task
    assert sum(lengths) == 1333
    with pytest.raises(WrongUse, match=r"5 episodes.* 10 .* 31"):
        dataset.episode(11)


@real_data
def test_frames_of_real_demonstrations_decode_at_both_ends():
    dataset = open_dataset(G1)
    camera = dataset.schema.camera("cam_high")
    for episode in dataset:
        frames = episode.frames["cam_high"]
        assert frames.shape == (len(episode), camera.height, camera.width, 3)
        first, last = frames[0], frames[-1]
        assert first.shape == last.shape == (camera.height, camera.width, 3)
        assert first.std() > 10
        assert last.std() > 10
        assert np.abs(first.astype(int) - last).mean() > 1


@real_data
def test_real_demonstrations_verify_and_are_never_written_to():
    found = verify(G1)
    assert (found.findings, found.episodes, found.frames, found.checksums) == ((), 5, 1333, False)
    with pytest.raises(DatasetError, match="never changed in place"):
        append_to(G1)


@pytest.fixture
def foreign(tmp_path):
    """What LeRobot leaves: no manifest, no true time, a list of one row group."""
    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed, rows=5 + seed, schema=WITH_CAMERA))
    shutil.rmtree(tmp_path / "d/meta/twinloop")
    return tmp_path / "d"


def test_v3_data_of_others_is_read_with_what_it_says_and_nothing_more(foreign):
    dataset = open_dataset(foreign)
    assert dataset.manifest is None
    assert dataset.id == "foreign:d"
    assert dataset.numbers == [0, 1, 2]
    for seed, episode in enumerate(dataset):
        expected = toy_episode(seed, rows=5 + seed, schema=WITH_CAMERA)
        assert episode["action"].tobytes() == expected["action"].tobytes()
        assert (episode.success, episode.provenance.source, episode.events) == (None, "unknown", ())
        assert episode.frames["front"][-1].shape == (48, 64, 3)
        assert episode.id == open_dataset(foreign).episode(seed).id
    assert verify(foreign, decode=True).findings == ()


def test_a_data_set_of_others_is_never_appended_to(foreign):
    with pytest.raises(DatasetError, match="never changed in place"):
        append_to(foreign)
