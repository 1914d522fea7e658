"""A writer killed at any moment loses only what was not committed and never harms what was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.datasets.writer_process import SCHEMAS, crash_episode
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.repair import repair
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import NoDataset
from twinloop.testing import assert_same_episode

KILLS_IN_A_ROW = 4
"""For each of two kinds and three seeds: 24 kills in all."""


class WriterProcess:
    """The other end of `writer_process`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.datasets.writer_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, folder, kind, first, episodes, per_commit, kill_at=None) -> None:
        names = ("folder", "kind", "first", "episodes", "per_commit", "kill_at")
        values = (str(folder), kind, first, episodes, per_commit, kill_at)
        self.process.stdin.write(json.dumps(dict(zip(names, values, strict=True))) + "\n")
        self.process.stdin.flush()

    def read_number(self, word: str) -> int:
        """The number in the next line, which must start with `word`."""
        got, number = self.process.stdout.readline().split()
        assert got == word, f"the writer printed {got} {number}"
        return int(number)

    def rest(self) -> dict[str, int]:
        """The last number said of each word until the writer has ended."""
        last: dict[str, int] = {}
        while "ended" not in last:
            word, number = self.process.stdout.readline().split()
            last[word] = int(number)
        return last


@pytest.fixture(scope="module")
def writer_process():
    other = WriterProcess()
    yield other
    other.process.stdin.close()
    other.process.wait(timeout=10)
    other.process.stdout.close()


def assert_first_episodes_intact(folder, kind, at_least) -> int:
    dataset = open_dataset(folder)
    assert len(dataset) >= at_least
    for seed, episode in enumerate(dataset):
        assert_same_episode(episode, crash_episode(seed, kind))
    return len(dataset)


def assert_consistent_for_lerobot(folder) -> None:
    """What LeRobot finds with its globs is complete and agrees with the totals it trusts."""
    info = json.loads((folder / "meta/info.json").read_text())
    data = [pq.read_table(path) for path in sorted(folder.glob("data/*/*.parquet"))]
    tables = [pq.read_table(path) for path in sorted(folder.glob("meta/episodes/*/*.parquet"))]
    rows = [int(i) for table in data for i in table["index"].to_pylist()]
    numbers = [int(i) for table in tables for i in table["episode_index"].to_pylist()]
    assert rows == list(range(info["total_frames"]))
    assert numbers == list(range(info["total_episodes"]))
    assert sum(sum(table["length"].to_pylist()) for table in tables) == info["total_frames"]
    assert pq.read_table(folder / "meta/tasks.parquet").num_rows == info["total_tasks"]


def assert_repaired_and_usable(folder, kind, at_least) -> None:
    repair(folder)
    verification = verify(folder)
    assert verification.ok, verification.findings
    assert not verification.findings
    count = assert_first_episodes_intact(folder, kind, at_least)
    assert_consistent_for_lerobot(folder)
    with append_to(folder) as writer:
        writer.add(crash_episode(count, kind))
    assert assert_first_episodes_intact(folder, kind, count + 1) == count + 1
    assert_consistent_for_lerobot(folder)


@pytest.mark.parametrize("kind", ["state", "camera"])
@pytest.mark.parametrize("seed", range(3))
def test_a_writer_killed_at_random_moments_loses_only_what_was_not_committed(
    tmp_path, writer_process, kind, seed
):
    folder = tmp_path / "d"
    with make_dataset(folder, SCHEMAS[kind]) as writer:
        writer.add(crash_episode(0, kind))
    rng = np.random.default_rng(seed)
    committed = 1
    for _ in range(KILLS_IN_A_ROW):
        writer_process.order(folder, kind, committed, 100_000, 2)
        child = writer_process.read_number("pid")
        assert writer_process.read_number("committed") == committed
        time.sleep(float(rng.uniform(0.0, 0.04)))
        os.kill(child, signal.SIGKILL)
        last = writer_process.rest()
        assert last["ended"] == -signal.SIGKILL
        committed = assert_first_episodes_intact(folder, kind, last.get("committed", committed))
        repair(folder)
        committed = len(open_dataset(folder))
    assert_repaired_and_usable(folder, kind, committed)


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("state", 3),
        ("camera", 8),
        pytest.param("state", 1, marks=pytest.mark.slow),
        pytest.param("camera", 1, marks=pytest.mark.slow),
    ],
)
def test_a_commit_killed_before_any_of_its_steps_happens_wholly_or_not_at_all(
    tmp_path, writer_process, kind, every
):
    pristine = tmp_path / "pristine"
    with make_dataset(pristine, SCHEMAS[kind]) as writer:
        for seed in range(3):
            writer.add(crash_episode(seed, kind))
    writer_process.order(shutil.copytree(pristine, tmp_path / "count"), kind, 3, 2, 10, 10_000)
    steps = writer_process.rest()["steps"]
    assert steps >= 30
    lengths = set()
    for step in range(0, steps, every):
        folder = shutil.copytree(pristine, tmp_path / f"{step}")
        writer_process.order(folder, kind, 3, 2, 10, step)
        assert writer_process.rest()["ended"] == -signal.SIGKILL
        lengths.add(assert_first_episodes_intact(folder, kind, 3))
        assert_repaired_and_usable(folder, kind, 3)
        assert len(open_dataset(folder)) in (4, 6)
        shutil.rmtree(folder)
    assert lengths == {3, 5}


def test_a_writer_killed_while_it_makes_a_dataset_can_simply_be_started_again(tmp_path, writer_process):
    writer_process.order(tmp_path / "count", "state", 0, 0, 1, 10_000)
    steps = writer_process.rest()["steps"]
    for step in range(steps):
        folder = tmp_path / f"{step}"
        writer_process.order(folder, "state", 0, 0, 1, step)
        assert writer_process.rest()["ended"] == -signal.SIGKILL
        try:
            writer = append_to(folder)
        except NoDataset:
            writer = make_dataset(folder, SCHEMAS["state"])
        with writer:
            for seed in range(writer.episodes, 2):
                writer.add(crash_episode(seed, "state"))
        assert assert_first_episodes_intact(folder, "state", 2) == 2
        assert_consistent_for_lerobot(folder)
        shutil.rmtree(folder)
