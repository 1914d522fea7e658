"""`python -m tests.evaluation.ray_run FOLDER`: trials on a cluster of two nodes, one of which is killed on the way.

In a process of its own, because Ray starts servers and threads that outlive a test. Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import asdict
from pathlib import Path

os.environ |= {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
}

import ray
from ray.cluster_utils import Cluster

import twinloop as tl
from twinloop.evaluation import trials
from twinloop.executors import Here, OnRay

EPISODES = 40
trials.GROUP = 5  # so that a few episodes are many tasks


def main() -> None:
    out = Path(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    victim = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    seen = {"nodes": len(ray.nodes()), "killed_at": -1}

    def kill_on_the_way(done, total):
        if done >= 5 and seen["killed_at"] < 0:
            seen["killed_at"] = done
            cluster.remove_node(victim, allow_graceful=False)

    policy, twin = tl.load_policy(out / "policy"), tl.load_twin("franka_pick_place")
    try:
        for name, executor in (("cluster", OnRay(cluster.address)), ("here", Here())):
            found = tl.evaluate(
                policy, tl.TwinEnvironment(twin, executor=executor), episodes=EPISODES, seed=3,
                out=out / name, on_progress=kill_on_the_way,
            )  # fmt: skip
            seen["trials" if name == "cluster" else "trials_here"] = [asdict(trial) for trial in found.trials]
        seen["nodes_left"] = sum(node["Alive"] for node in ray.nodes())
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
