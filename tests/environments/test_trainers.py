"""Unmodified trainers, each in a virtualenv of its own, learn in a twin."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.peers.environment import Peer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(peer, script, *words):
    """Run a script with Twinloop from this tree in a peer's environment and return the JSON it prints last."""
    if reason := peer.install():
        pytest.skip(reason)
    command = [peer.venv / "bin/python", HERE / "elsewhere" / script, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_ppo_of_stable_baselines3_learns_to_reach():
    learned = run(Peer("Stable-Baselines3", "sb3"), "train_with_sb3.py", 600, 3_000_000)
    assert learned["success"] >= 0.9, learned


@pytest.mark.slow
def test_rsl_rl_trains_with_observation_groups_and_time_outs():
    trained = run(Peer("rsl_rl", "rsl_rl"), "train_with_rsl_rl.py")
    assert trained["groups"] == {"policy": [4, 39], "front": [4, 128, 128, 3]}
    assert trained["time_outs"] == [0] * 9 + [4]
    assert trained["changed"]
