"""Cached copies of a dataset: one process makes them, nobody else's are touched, and a full disk kills nobody."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets import cache
from twinloop.datasets.cache import cached_frames, cached_rows
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import DiskError


def write(path, count=3, schema=STATE_ONLY):
    with make_dataset(path, schema) as writer:
        for seed in range(count):
            writer.add(toy_episode(seed, schema=schema))
    return open_dataset(path)


def test_of_two_that_want_the_rows_at_once_one_makes_them_and_the_other_waits(tmp_path, monkeypatch):
    dataset = write(tmp_path / "d")
    pieces, folder = cache._read_blocks, cache._folder
    made, asked = [], threading.Semaphore(0)

    def slow_pieces(source):
        made.append(source)
        for _ in range(2):  # both have asked
            assert asked.acquire(timeout=30)
        yield from pieces(source)

    def asked_for(source):
        asked.release()
        return folder(source)

    monkeypatch.setattr(cache, "_read_blocks", slow_pieces)
    monkeypatch.setattr(cache, "_folder", asked_for)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(cached_rows, [dataset, open_dataset(tmp_path / "d")])
    assert len(made) == 1
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


@pytest.mark.parametrize("what", ["rows", "frames"])
def test_what_a_killed_process_left_half_made_is_cleared_away(tmp_path, what):
    dataset = write(tmp_path / "d", schema=WITH_CAMERA)
    copy = {"rows": cached_rows, "frames": lambda d: {"front": cached_frames(d, "front", 8)}}[what]
    whole = {name: np.array(values) for name, values in copy(dataset).items()}
    folder = dataset.root / cache.FOLDER
    for made in folder.iterdir():
        if made.name != cache.LOCK:
            made.rename(made.with_name(f"{made.name}{cache.PARTIAL}"))
    for name, values in copy(dataset).items():
        np.testing.assert_array_equal(values, whole[name])
    assert not list(folder.glob(f"*{cache.PARTIAL}"))


def test_rows_of_a_new_version_take_the_place_of_the_old_and_leave_the_new_images(tmp_path):
    dataset = write(tmp_path / "d", schema=WITH_CAMERA)
    cached_frames(dataset, "front"), cached_rows(dataset)
    folder = dataset.root / cache.FOLDER
    assert len(list(folder.iterdir())) == 3  # images, rows and the lock
    with append_to(dataset.root) as writer:
        writer.add(toy_episode(9, schema=WITH_CAMERA))
    changed = open_dataset(dataset.root)
    frames, rows = cached_frames(changed, "front"), cached_rows(changed)
    assert len(frames) == len(rows["action"]) == changed.num_frames
    version = changed.manifest.fingerprint
    assert {path.name for path in folder.iterdir()} == {version, f"{version}-front.npy", cache.LOCK}


def test_room_is_taken_before_anything_is_written(tmp_path):
    """Writing to a mapped file on a full disk is a bus error; asking for the room first is one that can be told."""
    cache._allocate(tmp_path / "a.npy", np.dtype(np.uint8), (1 << 20,))
    found = (tmp_path / "a.npy").stat()
    assert found.st_size > 1 << 20
    assert found.st_blocks * 512 >= found.st_size


@pytest.mark.parametrize("copy", [cached_rows, lambda d: cached_frames(d, "front")])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing_half_made(tmp_path, monkeypatch, copy):
    dataset = write(tmp_path / "d", schema=WITH_CAMERA)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(DiskError, match="No space left on device"):
            copy(dataset)
    assert [path.name for path in (dataset.root / cache.FOLDER).iterdir()] == [cache.LOCK]
    assert len(copy(dataset)) > 0
