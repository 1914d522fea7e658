"""Peak memory does not grow with the size of the dataset."""

from __future__ import annotations

import subprocess
import sys

import pytest

WRITE = """
import resource, sys
import numpy as np
from tests.datasets.examples import STATE_ONLY
from twinloop.datasets import pending_commit
from twinloop.datasets import writer as module
from twinloop.episode import make_episode
pending_commit.ROW_GROUP_BYTES = 1 << 20
folder, episodes = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
with module.make_dataset(folder, STATE_ONLY) as writer:
    for number in range(episodes):
        values = rng.normal(size=(2000, 15))
        signals = {"observation.state": values[:, :6], "action": values[:, 6:12], "observation.force": values[:, 12:]}
        writer.add(make_episode(STATE_ONLY, np.arange(2000) / 50 + number, signals))
        if number % 10 == 9:
            writer.commit()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""

READ = """
import resource, sys
from twinloop.datasets.reader import open_dataset
total = sum(float(episode["action"].sum()) for episode in open_dataset(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_mb(program, *arguments) -> float:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


@pytest.fixture(scope="module")
def peaks(tmp_path_factory):
    """Peak memory in MB of (writing, reading) 10 episodes and 200; the larger dataset holds 45 MB of numbers."""
    folder = tmp_path_factory.mktemp("memory")
    found = {}
    for episodes in (10, 200):
        written = peak_mb(WRITE, folder / f"{episodes}", episodes)
        found[episodes] = (written, peak_mb(READ, folder / f"{episodes}"))
    return found


def test_writing_twenty_times_more_takes_no_more_memory(peaks):
    assert peaks[200][0] < peaks[10][0] + 12


def test_reading_twenty_times_more_takes_no_more_memory(peaks):
    assert peaks[200][1] < peaks[10][1] + 12
