"""A long run of `generate` with the usual config: is the rate the same at the end as at the beginning, and the memory?

The config is the one of the field's usual shape (4,096 environments, 50 episodes each), run from a file with one worker
per core, state only. A fresh process runs it; from outside, processor time and resident memory of it and all its
workers are sampled.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.report import ROOT, Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset

CONFIG = """\
scene: {robot: franka_panda, task: pick_and_place}
randomization:
  visual: {texture_pool: 200, lighting_intensity: [0.3, 1.8], camera_jitter_deg: [-5, 5]}
  physics: {object_mass_kg: [0.05, 0.4], friction_coefficient: [0.2, 1.1], object_position_noise_cm: [-2, 2]}
rollout: {parallel_envs: 4096, episodes_per_env: 50}
"""
WHOLE = 4096 * 50
PARTS = 5
MOST_BYTES = 2e9
FLAT = 0.15
"""How far apart fifths may be: episodes come in bursts of a chunk, an eighth of a fifth, from each worker."""

SAMPLE_S = 0.25
BLUEPRINT_PER_S = 780_000 / (11 * 3600)
"""GR00T blueprint as published: 780,000 trajectories in 11 hours."""


@dataclass(frozen=True)
class Sample:
    """The whole process tree at one moment."""

    seconds: float
    cpu_s: float
    resident_bytes: int


@dataclass(frozen=True)
class Part:
    """One fifth of a run."""

    episodes: int
    seconds: float
    cpu_s: float
    most_bytes: int


def run(settings: Settings) -> Section:
    episodes = 320 if settings.quick else 5120
    config = settings.work / "usual.yaml"
    config.write_text(CONFIG)
    out = settings.work / "long-run"
    shutil.rmtree(out, ignore_errors=True)
    settings.say.print(f"{episodes} episodes ...")
    loads = [os.getloadavg()[0]]
    parts, said, samples = watch(config, out, episodes)
    loads.append(os.getloadavg()[0])
    data = open_dataset(out)
    total_s = said[-1]["seconds"]
    rate = episodes / total_s
    per_cpu = [part.episodes / part.cpu_s for part in parts]
    most = max(sample.resident_bytes for sample in samples)
    cores = os.cpu_count() or 1
    rows = tuple(
        (
            f"{k + 1} of {PARTS}",
            f"{part.episodes / part.seconds:.1f}",
            f"{part.episodes / part.cpu_s:.1f}",
            f"{part.most_bytes / 1e6:,.0f}",
        )
        for k, part in enumerate(parts)
    )
    uneven = (max(per_cpu) - min(per_cpu)) / statistics.median(per_cpu)
    growth = parts[-1].most_bytes / parts[1].most_bytes - 1.0
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    quiet = cores * statistics.median(per_cpu)
    section = Section(
        "long_run",
        f"A run of {episodes:,} episodes: rate and memory over time",
        (
            Table(
                "By fifths of the run",
                ("fifth", "episodes/s", "episodes per processor second", "most resident memory, MB"),
                rows,
            ),
            Table(
                "Trajectories/s",
                ("", "trajectories/s", "204,800 episodes take"),
                (
                    (f"this run, {cores} cores as loaded as they were", f"{rate:.1f}", hours(WHOLE / rate)),
                    (f"{cores} cores with nothing else to do", f"{quiet:.1f}", hours(WHOLE / quiet)),
                    (
                        "GR00T blueprint, as published (780,000 in 11 h on its cluster)",
                        f"{BLUEPRINT_PER_S:.1f}",
                        hours(WHOLE / BLUEPRINT_PER_S),
                    ),
                ),
            ),
        ),
        (
            Target(
                f"the rate is flat: fifths within {FLAT:.0%} per processor second",
                f"{uneven:.1%}",
                uneven <= FLAT,
            ),
            Target(
                "memory is flat: the last fifth within 5% of the second", f"{growth:+.1%}", growth <= 0.05
            ),
            Target("memory of all processes below 2 GB", f"{most / 1e9:.2f} GB", most < MOST_BYTES),
        ),
        (
            f"{len(data):,} episodes, {data.num_frames:,} rows, {size / 1e6:,.0f} MB on disk, "
            f"{said[-2]['success']:.1%} success.",
            "Memory is resident memory summed over the processes; pages they share count in each.",
            "The rate with nothing else to do is the processor rate times the cores; it was not seen by the clock here "
            "unless the load says so.",
        ),
        loads=tuple(loads),
    )
    shutil.rmtree(out, ignore_errors=True)
    return section


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"


def watch(config: Path, out: Path, episodes: int) -> tuple[list[Part], list[dict[str, float]], list[Sample]]:
    """Run it, and cut what was seen at every fifth."""
    command = [sys.executable, "-m", "benchmarks.long_run_worker", str(config), str(out), str(episodes)]
    samples: list[Sample] = []
    said: list[dict[str, float]] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        over = threading.Event()
        sampling = threading.Thread(target=_sample, args=(process.pid, over, samples))
        sampling.start()
        assert process.stdout is not None
        began = time.perf_counter()
        for line in process.stdout:
            said.append({**json.loads(line), "heard": time.perf_counter() - began})
        process.wait()
        over.set()
        sampling.join()
    if process.returncode:
        raise RuntimeError(f"the run failed with code {process.returncode}")
    cuts = [0.0]
    made = [0]
    for k in range(1, PARTS + 1):
        reached = next(line for line in said if line["episodes"] >= k * episodes / PARTS)
        cuts.append(reached["heard"])
        made.append(int(reached["episodes"]))
    parts = []
    for k in range(PARTS):
        inside = [sample for sample in samples if cuts[k] <= sample.seconds <= cuts[k + 1]]
        parts.append(
            Part(
                made[k + 1] - made[k],
                cuts[k + 1] - cuts[k],
                inside[-1].cpu_s - inside[0].cpu_s,
                max(sample.resident_bytes for sample in inside),
            )
        )
    return parts, said, samples


def _sample(number: int, over: threading.Event, samples: list[Sample]) -> None:
    began = time.perf_counter()
    root = psutil.Process(number)
    used: dict[int, float] = {}  # by process; those that ended keep what they had used
    while not over.wait(SAMPLE_S):
        resident = 0
        try:
            for process in [root, *root.children(recursive=True)]:
                with process.oneshot():
                    times = process.cpu_times()
                    used[process.pid] = times.user + times.system
                    resident += process.memory_info().rss
        except psutil.Error:
            continue
        samples.append(Sample(time.perf_counter() - began, sum(used.values()), resident))
