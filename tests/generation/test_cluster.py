"""A Ray cluster gives the dataset that one machine gives, also when a node is lost on the way."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generation.fakes import fake_work
from tests.generation.test_run import EPISODES, assert_same
from twinloop.datasets.reader import open_dataset
from twinloop.errors import MissingExtra
from twinloop.generation.replay import replay
from twinloop.generation.run import generate, make_job, run
from twinloop.twins import load_twin

HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="needs twinloop[ray]")
def test_a_cluster_that_loses_a_node_gives_the_identical_dataset(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.generation.ray_run", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert seen["nodes"] == 2 and 8 <= seen["killed_at"] < EPISODES and seen["nodes_left"] == 1
    here = run(fake_work(), EPISODES, tmp_path / "here", workers=1, chunk_episodes=4)
    assert_same(open_dataset(tmp_path / "killed"), here)
    job = make_job(load_twin("franka_pick_place"), max_steps=40)
    arm = open_dataset(tmp_path / "arm")
    assert_same(arm, generate(job, episodes=8, seed=3, out=tmp_path / "arm-here", workers=1))
    assert all(replay(arm, number).same for number in range(8))


@pytest.mark.skipif(HAS_RAY, reason="only where Ray is not installed")
def test_without_ray_the_extra_is_named(tmp_path):
    with pytest.raises(MissingExtra, match=r"twinloop\[ray\]"):
        run(fake_work(), 4, tmp_path / "out", ray="auto")
