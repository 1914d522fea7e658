"""One writer at a time; what goes wrong while writing costs what was not committed and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode, toy_frames
from twinloop.datasets import commit, pending_commit
from twinloop.datasets.labels import add_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.video import VideoEncoder, VideoSettings, decode
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Camera, Schema, Signal, make_episode
from twinloop.errors import DatasetError, DiskError, InvalidEpisode, LockedDataset, WrongUse
from twinloop.testing import assert_same_episode


def assert_intact(folder, seeds, schema=STATE_ONLY):
    dataset = open_dataset(folder)
    assert len(dataset) == len(seeds)
    for got, seed in zip(dataset, seeds, strict=True):
        assert_same_episode(got, toy_episode(seed, schema=schema))
    assert verify(folder).findings == ()


class Frames:
    """Frames from a generator, as a recorder gives them."""

    def __init__(self, camera, make):
        self.shape = (30, camera.height, camera.width, 3)
        self._make = make

    def __len__(self):
        return 30

    def __iter__(self):
        return iter(self._make())


def with_frames(seed, make):
    camera = WITH_CAMERA.cameras[0]
    good = toy_episode(seed, schema=WITH_CAMERA)
    return make_episode(
        WITH_CAMERA, good.time_s, good.signals, frames={"front": Frames(camera, make)}, task="x"
    )


def good_frames(count=30):
    return list(toy_frames(1, 30, WITH_CAMERA.cameras[0]))[:count]


def test_a_second_writer_is_refused_and_told_who_holds_the_dataset(tmp_path):
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        for attempt in (
            lambda: append_to(tmp_path / "d"),
            lambda: add_labels(tmp_path / "d", ["x"], {"success": True}, by="kim"),
        ):
            with pytest.raises(LockedDataset, match=f"being written by process {os.getpid()} on "):
                attempt()
        writer.add(toy_episode(0))
    with append_to(tmp_path / "d") as writer:
        writer.add(toy_episode(1))
    assert_intact(tmp_path / "d", [0, 1])


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_killed(tmp_path):
    program = (
        "import sys, time; from twinloop.datasets.writer import append_to\n"
        "writer = append_to(sys.argv[1]); print('ready', flush=True); time.sleep(60)"
    )
    make_dataset(tmp_path / "d", STATE_ONLY).close()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "d")], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(LockedDataset, match=f"process {other.pid} on "):
            append_to(tmp_path / "d")
        other.kill()
        other.wait()
    with append_to(tmp_path / "d") as writer:
        writer.add(toy_episode(0))
    assert_intact(tmp_path / "d", [0])


def test_a_reader_at_work_meanwhile_sees_only_what_is_committed(tmp_path):
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        assert list(open_dataset(tmp_path / "d")) == []
        writer.add(toy_episode(0))
        assert len(open_dataset(tmp_path / "d")) == 0
        writer.commit()
        early = open_dataset(tmp_path / "d")
        writer.add(toy_episode(1))
        writer.commit()
        assert len(early) == len(list(early)) == 1
        assert_same_episode(early.episode(0), toy_episode(0))
        assert len(open_dataset(tmp_path / "d")) == 2


def test_a_reader_between_any_two_moves_of_a_commit_sees_a_whole_dataset(tmp_path, monkeypatch):
    """LeRobot's info.json is moved before the manifest, so for a moment it is ahead of it."""
    from pathlib import Path

    seen = []
    replace = Path.replace

    def replace_and_read(self, target):
        result = replace(self, target)
        if (tmp_path / "d/meta/twinloop/manifest.json").exists():
            seen.append(len(list(open_dataset(tmp_path / "d"))))
        return result

    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        monkeypatch.setattr(Path, "replace", replace_and_read)
        writer.add(toy_episode(0))
        writer.commit()
        writer.add(toy_episode(1))
        writer.commit()
    assert sorted(set(seen)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: good_frames(29), "wrong number of frames; got 29; expected 30"),
        (lambda: good_frames() + good_frames(1), "wrong number of frames; got 31; expected 30"),
        (lambda: [], "wrong number of frames; got 0; expected 30"),
        (lambda: [*good_frames(3), np.zeros((48, 63, 3), np.uint8)], r"got \(48, 63, 3\) uint8; expected"),
        (lambda: [np.zeros((48, 64, 3), np.float32)], "float32; expected"),
        (lambda: [[[1, 2], [3]]], "camera 'front' has an invalid frame"),
    ],
)
def test_bad_frames_cost_their_own_episode_only(tmp_path, make, message):
    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer:
        with pytest.raises(InvalidEpisode, match=message):
            writer.add(with_frames(9, make))
        writer.add(toy_episode(0, schema=WITH_CAMERA))
        with pytest.raises(InvalidEpisode, match=message):
            writer.add(with_frames(9, make))
        writer.add(toy_episode(1, schema=WITH_CAMERA))
    assert_intact(tmp_path / "d", [0, 1], WITH_CAMERA)


def test_an_error_of_the_camera_itself_passes_through_and_costs_its_own_episode_only(tmp_path):
    def broken_camera():
        yield from good_frames(2)
        raise TimeoutError("the camera is gone")

    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer:
        writer.add(toy_episode(0, schema=WITH_CAMERA))
        with pytest.raises(TimeoutError, match="the camera is gone"):
            writer.add(with_frames(9, broken_camera))
    assert_intact(tmp_path / "d", [0], WITH_CAMERA)


def test_only_bad_frames_ever_leave_an_empty_dataset(tmp_path):
    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer, pytest.raises(InvalidEpisode):
        writer.add(with_frames(9, lambda: good_frames(3)))
    assert_intact(tmp_path / "d", [], WITH_CAMERA)


def test_an_episode_of_another_kind_is_refused_and_the_writer_goes_on(tmp_path):
    other = Schema((*STATE_ONLY.signals[:2], Signal("extra")), 50.0)
    rows = np.zeros((2, 6), np.float32)
    stranger = make_episode(other, [0, 1], {"observation.state": rows, "action": rows, "extra": rows[:, :1]})
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        with pytest.raises(InvalidEpisode, match=r"observation\.force missing"):
            writer.add(stranger)
        writer.add(toy_episode(1))
    assert_intact(tmp_path / "d", [0, 1])


def test_control_c_while_episodes_are_written_keeps_every_whole_episode(tmp_path):
    for attempt in range(6):
        folder = tmp_path / f"{attempt}"
        added = 0
        timer = threading.Timer(0.02 + 0.013 * attempt, os.kill, (os.getpid(), signal.SIGINT))
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt), make_dataset(folder, STATE_ONLY) as writer:
            timer.start()
            while time.monotonic() - started < 30:
                writer.add(toy_episode(added))
                added += 1
                if added % 7 == 0:
                    writer.commit()
        timer.join()
        kept = len(open_dataset(folder))
        assert kept in (added, added + 1)
        assert_intact(folder, range(kept))


def test_control_c_is_held_back_until_what_belongs_together_is_done():
    done = []
    with pytest.raises(KeyboardInterrupt), commit.defer_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        done.append(True)
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_commit_that_fails_after_it_was_decided_is_finished_before_anything_else(tmp_path, monkeypatch):
    """Otherwise the next group would be staged over files that the journal still has to move."""
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        with monkeypatch.context() as patch:
            patch.setattr(commit, "finish_journal", fail_with(OSError(5, "Input/output error")))
            with pytest.raises(DiskError, match="Input/output error"):
                writer.commit()
        writer.add(toy_episode(1))
        assert writer.committed == 1
    assert_intact(tmp_path / "d", [0, 1])


def test_a_commit_that_fails_before_it_was_decided_is_lost_and_says_so(tmp_path, monkeypatch):
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        writer.commit()
        writer.add(toy_episode(7))
        writer.add(toy_episode(8))
        with monkeypatch.context() as patch:
            patch.setattr(commit, "write_atomically", fail_with(OSError(28, "No space left on device")))
            with pytest.raises(
                DiskError, match=r"No space left on device.*1 episodes are committed, 2 uncommitted"
            ):
                writer.commit()
        writer.add(toy_episode(1))
    assert_intact(tmp_path / "d", [0, 1])


def test_rows_that_cannot_be_written_are_lost_with_their_commit_only(tmp_path, monkeypatch):
    monkeypatch.setattr(pending_commit, "ROW_GROUP_BYTES", 1)
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        writer.commit()
        with monkeypatch.context() as patch:
            patch.setattr(pq.ParquetWriter, "write_table", fail_with(OSError(28, "No space left on device")))
            with pytest.raises(DiskError, match="1 episodes are committed, 1 uncommitted ones are lost"):
                writer.add(toy_episode(9))
        writer.add(toy_episode(1))
    assert_intact(tmp_path / "d", [0, 1])


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize("kind", ["state", "camera"])
def test_a_full_disk_is_one_clear_error_and_what_was_committed_stays(tmp_path, kind):
    """A limit on file size stands in for the disk: the process gets EFBIG where it would get ENOSPC."""
    schema = {"state": STATE_ONLY, "camera": WITH_CAMERA}[kind]
    with make_dataset(tmp_path / "d", schema) as writer:
        writer.add(toy_episode(0, schema=schema))
    program = f"""
import resource, signal, sys
import numpy as np
from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets import pending_commit
from twinloop.datasets import writer as module
from twinloop.episode import make_episode
from twinloop.errors import DiskError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
schema = {{"state": STATE_ONLY, "camera": WITH_CAMERA}}[{kind!r}]
pending_commit.ROW_GROUP_BYTES = 1 << 14
rng = np.random.default_rng(0)
try:
    with module.append_to({str(tmp_path / "d")!r}) as writer:
        for seed in range(200):
            episode = toy_episode(seed, rows=60, schema=schema)
            noise = {{"front": rng.integers(0, 255, (60, 48, 64, 3), dtype=np.uint8)}}
            writer.add(make_episode(schema, episode.time_s, episode.signals, frames=noise if schema.cameras else None))
except DiskError as error:
    print(error)
    sys.exit(3)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 3, result.stderr
    assert "cannot be written (File too large)" in result.stdout
    assert "1 episodes are committed" in result.stdout
    assert "Traceback" not in result.stderr
    assert_intact(tmp_path / "d", [0], schema)
    with append_to(tmp_path / "d") as writer:
        writer.add(toy_episode(1, schema=schema))
    assert_intact(tmp_path / "d", [0, 1], schema)


def test_a_closed_writer_writes_no_more_and_closing_again_does_nothing(tmp_path):
    writer = make_dataset(tmp_path / "d", STATE_ONLY)
    writer.add(toy_episode(0))
    writer.close()
    writer.close()
    with pytest.raises(WrongUse, match="is closed"):
        writer.add(toy_episode(1))
    assert_intact(tmp_path / "d", [0])


def test_a_folder_with_something_in_it_is_never_taken_for_a_new_dataset(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="not empty"):
        make_dataset(tmp_path, STATE_ONLY)
    with pytest.raises(DatasetError, match="not empty"):
        make_dataset(tmp_path / "notes.txt", STATE_ONLY)
    make_dataset(tmp_path / "d", STATE_ONLY).close()
    with pytest.raises(DatasetError, match="append_to"):
        make_dataset(tmp_path / "d", STATE_ONLY)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_unknown_codec_is_named_and_costs_nothing_committed(tmp_path):
    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer:
        writer.add(toy_episode(0, schema=WITH_CAMERA))
    settings = VideoSettings(codec="nonsense")
    with append_to(tmp_path / "d", video=settings) as writer, pytest.raises(WrongUse, match="nonsense"):
        writer.add(toy_episode(1, schema=WITH_CAMERA))
    assert_intact(tmp_path / "d", [0], WITH_CAMERA)


def test_an_encoder_may_be_closed_twice_and_without_frames(tmp_path):
    for frames in (0, 1):
        encoder = VideoEncoder(tmp_path / f"{frames}.mp4", Camera("a", 16, 16), 30.0, VideoSettings())
        for _ in range(frames):
            encoder.add(np.zeros((16, 16, 3), np.uint8))
        encoder.close()
        encoder.close()
        assert encoder.frames == frames


@pytest.mark.parametrize("rate_hz", [0.0123, 0.5, 7.3, 29.97, 59.94005994, 240.0])
def test_frames_keep_their_place_at_any_rate(tmp_path, rate_hz):
    camera = Camera("a", 16, 16)
    encoder = VideoEncoder(tmp_path / "v.mp4", camera, rate_hz, VideoSettings())
    for level in range(200):
        encoder.add(np.full((16, 16, 3), level, np.uint8))
    encoder.close()
    for row in (0, 1, 137, 199):
        image = next(decode(tmp_path / "v.mp4", row, 1, rate_hz))
        assert abs(float(image.mean()) - row) < 3
