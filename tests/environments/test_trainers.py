"""Unmodified trainers, each in a virtualenv of its own, learn in a twin."""

from pathlib import Path

import pytest

from benchmarks.peers.environment import Peer

HERE = Path(__file__).parent


def run(peer, script, *words):
    """Run a script with Twinloop from this tree in a peer's environment and return the JSON it prints last."""
    if reason := peer.install():
        pytest.skip(reason)
    return peer.run(script, *words, with_twinloop=True)


@pytest.mark.slow
def test_ppo_of_stable_baselines3_learns_to_reach():
    learned = run(Peer("Stable-Baselines3", "sb3"), "learn_to_reach.py", 600, 10_000_000, 0)
    assert learned["successes"] >= 0.9 * learned["scenes"], learned


@pytest.mark.slow
def test_rsl_rl_trains_with_observation_groups_and_time_outs():
    trained = run(Peer("rsl_rl", "rsl_rl"), HERE / "elsewhere" / "train_with_rsl_rl.py")
    assert trained["groups"] == {"policy": [4, 39], "front": [4, 128, 128, 3]}
    assert trained["time_outs"] == [0] * 9 + [4]
    assert trained["changed"]
