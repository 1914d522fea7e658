"""A run gives the same dataset for any number of workers and interruptions."""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.generation.fakes import fake_work
from twinloop.datasets import disk_space
from twinloop.datasets.commit import writer_lock
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GenerationError, LockedDataset, TwinloopError, WrongUse
from twinloop.generation.run import PARTS, run

EPISODES = 50


def files(dataset):
    """Checksums of all rows, frames and tables; what is left out says who wrote them and when."""
    kept = ("data/", "videos/", "meta/episodes/", "meta/tasks", "meta/stats", "meta/info")
    return {name: entry for name, entry in dataset.manifest.files.items() if name.startswith(kept)}


def provenance(dataset):
    """Every row, except that a dataset has an id of its own, which its episodes carry as their origin."""
    return dataset.provenance_table().drop_columns(["origin_dataset"])


def ids(dataset):
    return dataset.provenance_table().column("episode_id").to_pylist()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run(
        fake_work(), EPISODES, tmp_path_factory.mktemp("reference") / "out", workers=1, chunk_episodes=4
    )


def assert_same(dataset, reference):
    assert ids(dataset) == ids(reference)
    assert files(dataset) == files(reference)
    assert provenance(dataset) == provenance(reference)
    assert not (dataset.root / PARTS).exists()


def test_episodes_are_numbered_in_order_and_count_as_written_here(reference):
    side = reference.provenance_table()
    assert side.column("origin_index").to_pylist() == list(range(EPISODES))
    assert side.column("origin_dataset").unique().to_pylist() == [reference.id]
    assert len(set(ids(reference))) == EPISODES


def test_two_workers_write_the_same_files(tmp_path, reference):
    assert_same(run(fake_work(), EPISODES, tmp_path / "out", workers=2, chunk_episodes=4), reference)


def test_cameras_come_along(tmp_path):
    one = run(fake_work(cameras=True), 20, tmp_path / "one", workers=1)
    two = run(fake_work(cameras=True), 20, tmp_path / "two", workers=2)
    assert_same(two, one)
    assert two.episode(19).frames["front"][3].shape == (16, 24, 3)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_killed_at_random_moments_continues_without_gaps(tmp_path, reference, workers):
    out, rng, kills = tmp_path / "out", random.Random(workers), 0
    command = [sys.executable, "-m", "tests.generation.fakes", str(out), str(EPISODES), str(workers), "0.02"]
    for patience_s in [rng.uniform(0.0, 0.4) for _ in range(2)] + [120.0]:
        before = parts_on_disk(out)
        child = subprocess.Popen([*command, "resume"], start_new_session=True, cwd=Path(__file__).parents[2])
        while child.poll() is None and parts_on_disk(out) == before:
            time.sleep(0.01)
        try:
            assert child.wait(timeout=patience_s) == 0
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
    assert kills >= 1
    assert_same(open_dataset(out), reference)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_ctrl_c_in_a_terminal_ends_all_processes_quietly(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tests.generation.fakes", str(out), "400", "2", "0.05"]
    child = subprocess.Popen(
        command, start_new_session=True, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True
    )
    while child.poll() is None and "part-000003" not in parts_on_disk(out):
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert said.count("Traceback") == 1 and said.strip().endswith("KeyboardInterrupt")
    assert not [name for name in parts_on_disk(out) if name.endswith("partial")]


def parts_on_disk(out):
    """Names that change whenever a chunk is started, finished or taken in."""
    return sorted(path.name for path in (out / PARTS).glob("*"))


def test_ctrl_c_leaves_finished_parts_and_resume_takes_them(tmp_path, reference):
    out = tmp_path / "out"

    def interrupt(progress):
        if progress.episodes >= 21:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(fake_work(), EPISODES, out, workers=1, chunk_episodes=4, on_progress=interrupt)
    assert sorted(path.name for path in (out / PARTS).iterdir()) == [f"part-{i:06d}" for i in range(5)]
    first = []
    dataset = run(
        fake_work(), EPISODES, out, workers=1, chunk_episodes=4, resume=True, on_progress=first.append
    )
    assert first[0].episodes == 21
    assert_same(dataset, reference)


def test_a_part_that_was_cut_short_is_made_again(tmp_path, reference):
    out = tmp_path / "out"
    # One worker makes chunks in order, so that the second part is finished when the sixth fails.
    with pytest.raises((GenerationError, RuntimeError), match="the arm fell off"):
        run(fake_work(raise_at=22), EPISODES, out, workers=1, chunk_episodes=4)
    part = out / PARTS / "part-000001/data/chunk-000/file-000.parquet"
    part.write_bytes(part.read_bytes()[:-7])
    assert_same(run(fake_work(), EPISODES, out, workers=1, chunk_episodes=4, resume=True), reference)


def test_a_worker_that_dies_once_is_replaced(tmp_path, reference):
    work = fake_work(die_at=13, die_marker=str(tmp_path / "died"))
    assert_same(run(work, EPISODES, tmp_path / "out", workers=2, chunk_episodes=4), reference)
    assert (tmp_path / "died").exists()


def test_a_worker_that_dies_twice_is_reported_with_its_episodes(tmp_path):
    with pytest.raises(GenerationError, match=r"episodes 12 to 15 died 2 times, last by signal 9"):
        run(fake_work(die_at=13), EPISODES, tmp_path / "out", workers=2, chunk_episodes=4)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_chunk_names_its_episodes(tmp_path, workers):
    with pytest.raises((GenerationError, RuntimeError), match="the arm fell off"):
        run(fake_work(raise_at=13), EPISODES, tmp_path / "out", workers=workers, chunk_episodes=4)


def test_a_rollout_that_leaves_an_episode_out_is_refused(tmp_path):
    with pytest.raises(GenerationError, match="episodes 12 to 15: wrong number"):
        run(fake_work(leave_out=13), EPISODES, tmp_path / "out", workers=1, chunk_episodes=4)


def test_another_seed_number_or_job_cannot_be_resumed(tmp_path):
    out = tmp_path / "out"
    run(fake_work(), 8, out, workers=1)
    with pytest.raises(GenerationError, match="seed: got 2, expected 1"):
        run(fake_work(seed=2), 8, out, workers=1, resume=True)
    with pytest.raises(GenerationError, match="episodes: got 9, expected 8"):
        run(fake_work(), 9, out, workers=1, resume=True)
    with pytest.raises(GenerationError, match="cameras"):
        run(fake_work(cameras=True), 8, out, workers=1, resume=True)
    assert len(run(fake_work(), 8, out, workers=1, resume=True)) == 8


def test_another_version_cannot_resume(tmp_path, monkeypatch):
    run(fake_work(), 8, tmp_path / "out", workers=1)
    monkeypatch.setattr("twinloop.generation.record.__version__", "99")
    with pytest.raises(GenerationError, match='twinloop: got "99"'):
        run(fake_work(), 8, tmp_path / "out", workers=1, resume=True)


def test_an_existing_folder_is_refused_and_the_way_on_is_named(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(RuntimeError):
        run(fake_work(raise_at=6), 8, out, workers=1, chunk_episodes=4)
    with pytest.raises(GenerationError, match="unfinished with 0 of 8 episodes"):
        run(fake_work(), 8, out, workers=1, chunk_episodes=4)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").write_text("dear robot")
    with pytest.raises(TwinloopError, match="not a generated dataset"):
        run(fake_work(), 8, tmp_path / "other", workers=1)
    with pytest.raises(WrongUse):
        run(fake_work(), 0, tmp_path / "none")


def test_a_second_run_into_the_same_folder_is_refused(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(RuntimeError):
        run(fake_work(raise_at=6), 8, out, workers=1, chunk_episodes=4)
    with writer_lock(out), pytest.raises(LockedDataset):
        run(fake_work(), 8, out, workers=1, chunk_episodes=4, resume=True)


def test_too_little_room_is_said_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, "free_bytes", lambda folder: 300 << 20)
    with pytest.raises(GenerationError, match=r"100000 episodes .* got 315 MB free; expected about \d"):
        run(fake_work(), 100_000, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def test_progress_counts_episodes_successes_time_and_disk(tmp_path, monkeypatch):
    seen, clock = [], count(step=0.5)
    monkeypatch.setattr("twinloop.generation.run.time", SimpleNamespace(monotonic=lambda: next(clock)))
    run(fake_work(), 20, tmp_path / "out", workers=1, chunk_episodes=4, on_progress=seen.append)
    counts = [p.episodes for p in seen]
    assert counts == sorted(counts) and counts[-1] == 20
    assert seen[-1].success == pytest.approx(16 / 20)
    assert seen[-1].remaining_s == 0.0
    assert seen[-1].episodes_per_s == pytest.approx(20 / (0.5 * len(seen))), "the clock is read once a report"
    assert np.isfinite(seen[-1].bytes_in_all) and seen[-1].bytes_in_all > 0
