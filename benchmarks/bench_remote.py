"""What it costs to evaluate a policy over a connection: the same state policy in this process and behind `twinloop serve`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import twinloop
from benchmarks.report import Section, Settings, Table, Target, median_interval, spread
from twinloop.learning.config import TrainConfig
from twinloop.policies.mapping.interface_map import InterfaceMap
from twinloop.policies.open import connect_policy

TWIN = "franka_pick_place"
MOST = 1.5
CONFIG = f"twin: {TWIN}\nrandomization: {{environment: {{object_offset_x_m: [-0.05, 0.05]}}}}\n"


def run(settings: Settings) -> Section:
    episodes, rounds = (8, 1) if settings.quick else (8, 15)
    policy = twinloop.load_policy(make_policy(settings.work))
    seconds: dict[str, list[float]] = {"in this process": [], "through openpi:": []}
    used: dict[str, list[float]] = {name: [] for name in seconds}
    loads: list[float] = []
    kept = [Path(tempfile.mkdtemp(dir=settings.work)) / name for name in ("near", "far")]
    with served(settings.work / "remote-policy") as (address, server):
        far = connect_policy(make_map(policy, address))
        for acting, out in zip((policy, far), kept, strict=True):
            twinloop.evaluate(acting, TWIN, episodes=8, seed=1, out=out)
        for _ in range(rounds):
            for name, acting in zip(seconds, (policy, far), strict=True):
                loads.append(os.getloadavg()[0])
                began, worked = time.perf_counter(), time.process_time() + processor_seconds(server)
                twinloop.evaluate(acting, TWIN, episodes=episodes, seed=1)
                seconds[name].append(time.perf_counter() - began)
                used[name].append(time.process_time() + processor_seconds(server) - worked)
        far.close()
    apart = largest_difference(*kept)
    ratios, work = (
        [through / here for through, here in zip(*reversed(list(times.values())), strict=True)]
        for times in (seconds, used)
    )
    rows = tuple((name, spread(seconds[name], 2), spread(used[name], 2)) for name in seconds)
    return Section(
        "remote",
        "Evaluating a policy over a connection",
        (
            Table(
                f"{episodes} trials in {TWIN}, {rounds} rounds in turns",
                ("policy", "s", "processor s, of both processes"),
                rows,
            ),
        ),
        (
            Target(
                f"at most {MOST} times the time in this process",
                f"{median_interval(ratios)} times",
                statistics.median(ratios) <= MOST,
            ),
            Target(
                f"at most {MOST} times the processor time, which other work hardly changes",
                f"{median_interval(work)} times",
                statistics.median(work) <= MOST,
            ),
            Target("the same commands, bit by bit", f"8 episodes differ by at most {apart:g}", apart == 0.0),
        ),
        ("The server is a process of its own on the same machine; all episodes share one connection.",),
        loads=tuple(loads),
    )


def largest_difference(near: Path, far: Path) -> float:
    """Between the commands of the same episodes in two datasets."""
    episodes = zip(twinloop.open_dataset(near), twinloop.open_dataset(far), strict=True)
    return max(float(np.abs(a.signals["action"] - b.signals["action"]).max()) for a, b in episodes)


def make_policy(work: Path) -> Path:
    """A state policy of the default size, trained for a moment: what it has learned has no effect on what it costs.

    Its chunks are not blended: an interface map has no word for that, and both are to execute them alike.
    """
    folder, config = work / "remote-policy", work / "remote.yaml"
    if not folder.exists():
        config.write_text(CONFIG)
        data = twinloop.generate(config, out=work / "remote-sim", episodes=8, seed=3, workers=1)
        twinloop.train(data, out=folder, config=TrainConfig(steps=50, blend=False))
    return folder


def make_map(policy: twinloop.Policy, address: str) -> InterfaceMap:
    interface, execution = policy.interface, policy.execution
    inputs = {signal.name: {"from": signal.name} for signal in interface.observations}
    actions = [{"elements": list(interface.action.elements)}]
    return InterfaceMap.model_validate(
        {"policy": address, "twin": TWIN, "inputs": inputs, "actions": actions, "history": execution.history}
        | {"n_action_steps": execution.n_action_steps}
    )


def processor_seconds(process: int) -> float:
    """Processor time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """The address of a policy that is served, and the id of the process that does."""
    command = [sys.executable, "-m", "twinloop", "serve", str(folder), "--port", "0", "--simulated", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said: dict[str, Any] = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
            yield said["policy"], server.pid
        finally:
            server.terminate()
