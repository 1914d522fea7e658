"""`python -m tests.generate.ray_run OUT`: a run on a cluster of two nodes, one of which is killed on the way.

In a process of its own, because Ray starts servers and threads that outlive a test. Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

os.environ |= {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
}

import ray
from ray.cluster_utils import Cluster

from tests.generation.fakes import fake_work
from tests.generation.test_run import EPISODES
from twinloop.generation.run import generate, make_job, run
from twinloop.twins import load_twin


def main() -> None:
    out = Path(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    victim = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    seen = {"nodes": len(ray.nodes()), "killed_at": -1}

    def kill_on_the_way(progress):
        if progress.episodes >= 8 and seen["killed_at"] < 0:
            seen["killed_at"] = progress.episodes
            cluster.remove_node(victim, allow_graceful=False)

    try:
        work = fake_work(pause_s=0.1)
        run(
            work, EPISODES, out / "killed", ray=cluster.address, chunk_episodes=4, on_progress=kill_on_the_way
        )
        seen["nodes_left"] = sum(node["Alive"] for node in ray.nodes())
        job = make_job(load_twin("franka_pick_place"), max_steps=40)
        generate(job, episodes=8, seed=3, out=out / "arm", ray=cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
