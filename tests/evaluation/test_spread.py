"""Trials that are spread over machines are the trials of one machine."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import twinloop as tl
from twinloop.errors import GenerationError, MissingExtra
from twinloop.evaluation import trials
from twinloop.executors import Here, OnRay
from twinloop.generation.cluster import require_build
from twinloop.generation.record import this_build

HAS_RAY = importlib.util.find_spec("ray") is not None
EPISODES = 10


def assert_same(one, other):
    """The same recorded episodes, but for when they were recorded."""
    assert len(tl.open_dataset(one)) == len(tl.open_dataset(other)) == EPISODES
    for a, b in zip(tl.open_dataset(one), tl.open_dataset(other), strict=True):
        assert a.success == b.success and a.provenance.seed == b.provenance.seed
        for name, values in a.signals.items():
            np.testing.assert_array_equal(values, b.signals[name], err_msg=name)


def test_groups_are_put_back_in_order_and_are_the_same_trials(
    tiny_policy, short_trials, tmp_path, monkeypatch
):
    monkeypatch.setattr(trials, "GROUP", 4)

    class Backwards:
        """Does the groups in the opposite order."""

        def map(self, function, shared, tasks, describe):
            for key in reversed(tasks):
                yield key, function(shared, *tasks[key])

    twin = tl.load_twin("franka_pick_place")
    found = {}
    for name, executor in (("here", Here()), ("backwards", Backwards())):
        environment = tl.TwinEnvironment(twin, executor=executor)
        found[name] = tl.evaluate(tiny_policy, environment, episodes=EPISODES, seed=3, out=tmp_path / name)
    assert found["here"].trials == found["backwards"].trials
    assert_same(tmp_path / "here", tmp_path / "backwards")
    plain = tl.evaluate(
        tiny_policy, tl.TwinEnvironment(twin), episodes=EPISODES, seed=3, out=tmp_path / "plain"
    )
    assert [t.success for t in plain.trials] == [t.success for t in found["here"].trials]


def test_a_node_with_other_versions_is_refused():
    with pytest.raises(GenerationError, match="another mujoco"):
        require_build(this_build() | {"mujoco": "0.1"})


@pytest.mark.skipif(HAS_RAY, reason="only where Ray is not installed")
def test_without_ray_the_extra_is_named(tiny_policy):
    environment = tl.TwinEnvironment(tl.load_twin("franka_pick_place"), executor=OnRay())
    with pytest.raises(MissingExtra, match=r"twinloop\[ray\]"):
        tl.evaluate(tiny_policy, environment, episodes=2)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="needs twinloop[ray]")
def test_a_cluster_that_loses_a_node_tries_a_policy_as_one_machine_does(tiny_policy, tmp_path):
    tiny_policy.save(tmp_path / "policy")
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation.ray_run", str(tmp_path)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert seen["nodes"] == 2 and seen["killed_at"] > 0 and seen["nodes_left"] == 1
    assert seen["trials"] == seen["trials_here"] and len(seen["trials"]) == 40
    here, cluster = tl.open_dataset(tmp_path / "here"), tl.open_dataset(tmp_path / "cluster")
    for one, other in zip(here, cluster, strict=True):
        for name, values in one.signals.items():
            np.testing.assert_array_equal(values, other.signals[name], err_msg=name)
