"""Generation beside the raw engine: the same scenes, draws and actions, stepped by `mujoco.batch` and nothing else.

Ours randomizes, passes commands and readings through imperfect hardware, decides phases and success, flags artefacts and
writes a dataset; the raw engine only steps. Processor time is compared, so that other work on the machine does not
enter; with two threads, the clock is shown too. Both sides run in turn.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import raw_engine
from benchmarks.report import Section, Settings, Table, Target, spread
from benchmarks.scene import cpu_seconds
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Episode
from twinloop.generation.chunks import CHUNK_EPISODES
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema, rollout
from twinloop.generation.run import make_job, make_work
from twinloop.generation.run import run as generate_chunks
from twinloop.randomization import load_randomization
from twinloop.twins import load_twin

TWIN = "franka_pick_place"
SEED = 1
LEAST = 0.80
THREADS = 2

PHYSICS = {
    "object_mass_kg": [0.05, 0.4],
    "friction_coefficient": [0.2, 1.1],
    "object_position_noise_cm": [-2, 2],
}
USUAL = {**PHYSICS, "action_delay_ms": [0, 60], "encoder_noise_rad": [0, 0.002]}
EVERYTHING = {
    **USUAL,
    "action_jitter_ms": [0, 5],
    "action_drop_probability": [0, 0.05],
    "observation_delay_ms": [0, 60],
    "observation_jitter_ms": [0, 5],
    "observation_drop_probability": [0, 0.05],
    "encoder_bias_rad": [-0.01, 0.01],
    "encoder_drift_rad": [0, 0.005],
    "encoder_quantum_rad": [0, 0.002],
    "velocity_noise_rad_s": [0, 0.02],
    "backlash_rad": [0, 0.005],
    "object_pose_noise_m": [0, 0.003],
    "object_pose_noise_rad": [0, 0.05],
    "object_pose_drop_probability": [0, 0.05],
}


@dataclass(frozen=True)
class Case:
    title: str
    expert: str | None
    varied: Mapping[str, Any]
    promised: bool


CASES = (
    Case("expert picks and places", None, USUAL, True),
    Case("random actions in contact", "random", USUAL, True),
    Case("expert, hardware perfect", None, PHYSICS, False),
    Case("expert, every hardware imperfection", None, EVERYTHING, False),
)


@dataclass(frozen=True)
class Measured:
    """Processor seconds and seconds of both sides for the same physics steps."""

    steps: int
    rows: int
    episodes: int
    success: float
    touching: float
    ours_cpu_s: float
    raw_cpu_s: float
    ours_s: float
    raw_s: float

    @property
    def share(self) -> float:
        return self.raw_cpu_s / self.ours_cpu_s


def run(settings: Settings) -> Section:
    episodes, repeats = (32, 1) if settings.quick else (CHUNK_EPISODES, 3)
    loads = [os.getloadavg()[0]]
    measured: dict[str, list[Measured]] = {case.title: [] for case in CASES}
    for repeat in range(repeats):
        for case in CASES:
            settings.say.print(f"{case.title}: {episodes} episodes, {repeat + 1} of {repeats} ...")
            measured[case.title].append(measure(settings, case, episodes))
            loads.append(os.getloadavg()[0])
    promised = [case for case in CASES if case.promised]
    on_two: dict[str, list[Measured]] = {case.title: [] for case in promised}
    for repeat in range(repeats):
        for case in promised:
            many = (1 if settings.quick else 4) * CHUNK_EPISODES
            settings.say.print(
                f"{THREADS} workers, {case.title}: {many} episodes, {repeat + 1} of {repeats} ..."
            )
            on_two[case.title].append(measure_workers(settings, case, many))
            loads.append(os.getloadavg()[0])
    targets = []
    for case in promised:
        targets.append(_target(f"{case.title}, one thread", [m.share for m in measured[case.title]]))
        targets.append(_target(f"{case.title}, {THREADS} threads", [m.share for m in on_two[case.title]]))
    return Section(
        "generate",
        "Generation, state only, beside raw mujoco.batch",
        (
            _one_thread(measured),
            _hardware(measured),
            _two_threads(on_two),
        ),
        tuple(targets),
        (
            f"Scene: {TWIN}, {episodes} episodes with draws of mass, friction, place, delay and encoder noise.",
            f"With two threads: ours is `generate` with two worker processes and the {CHUNK_EPISODES}-episode chunks of a large "
            "run, from the call to the finished dataset, starting the processes included; the raw engine is one batch with "
            "two threads.",
        ),
        loads=tuple(loads),
    )


def _target(title: str, shares: Sequence[float]) -> Target:
    share = statistics.median(shares)
    return Target(f"{title}: at least {LEAST:.2f} of raw stepping", f"{share:.2f}", share >= LEAST)


def _one_thread(measured: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for title, values in measured.items():
        rows.append(
            (
                title,
                spread([m.steps / m.ours_cpu_s for m in values]),
                spread([m.steps / m.raw_cpu_s for m in values]),
                spread([m.share for m in values], 2),
                spread([m.episodes / m.ours_cpu_s for m in values], 1),
                f"{values[0].touching:.0%}",
                f"{values[0].success:.0%}",
            )
        )
    columns = (
        "run",
        "ours, physics steps/s",
        "raw mujoco.batch, steps/s",
        "share",
        "episodes/s",
        "rows in which robot touches object",
        "success",
    )
    return Table("One thread, per second of processor time", columns, tuple(rows))


def _hardware(measured: Mapping[str, Sequence[Measured]]) -> Table:
    """What everything but physics costs per control step, and how much of that is the hardware."""

    def cost_us(title: str) -> list[float]:
        return [1e6 * (m.ours_cpu_s - m.raw_cpu_s) / m.rows for m in measured[title]]

    perfect = statistics.median(cost_us("expert, hardware perfect"))
    rows = []
    for title, name in (
        ("expert, hardware perfect", "none"),
        ("expert picks and places", "delay and encoder noise"),
        ("expert, every hardware imperfection", f"all {len(EVERYTHING) - len(PHYSICS)} parameters at once"),
    ):
        step_us = statistics.median(1e6 * m.raw_cpu_s / m.rows for m in measured[title])
        more = statistics.median(cost_us(title)) - perfect
        rows.append(
            (name, spread(cost_us(title), 1), f"{more:.1f}", f"{step_us:.0f}", f"{more / step_us:.1%}")
        )
    columns = (
        "imperfect hardware",
        "all but physics, µs per control step",
        "of which hardware",
        "physics, µs per control step",
        "hardware over physics",
    )
    return Table("Cost of imperfect hardware, one environment, processor time", columns, tuple(rows))


def _two_threads(measured: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for title, values in measured.items():
        rows.append(
            (
                title,
                spread([m.steps / m.ours_s for m in values]),
                spread([m.steps / m.raw_s for m in values]),
                spread([m.raw_s / m.ours_s for m in values], 2),
                spread([m.share for m in values], 2),
            )
        )
    columns = (
        "run",
        "ours, physics steps/s",
        "raw mujoco.batch, steps/s",
        "share by the clock",
        "share of processor time",
    )
    return Table(f"{THREADS} threads, by the clock", columns, tuple(rows))


def make_case_job(case: Case) -> Job:
    randomization = load_randomization(
        {"name": "usual", "twin": TWIN, "randomization": {"physics": case.varied}}
    )
    return make_job(load_twin(TWIN), randomization, expert=case.expert)


def measure(settings: Settings, case: Case, episodes: int) -> Measured:
    """One thread of this process."""
    job = make_case_job(case)
    out = settings.work / "generated"
    shutil.rmtree(out, ignore_errors=True)
    began, cpu = time.perf_counter(), time.process_time()
    made = []
    with make_dataset(out, episode_schema(job)) as writer:
        for episode in rollout(job, SEED, range(episodes), 1):
            writer.add(episode)
            made.append(episode)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    return _beside_raw(job, made, 1, seconds, cpu_s)


def measure_workers(settings: Settings, case: Case, episodes: int) -> Measured:
    """`generate` with worker processes, beside one batch with as many threads."""
    job = make_case_job(case)
    out = settings.work / "generated"
    shutil.rmtree(out, ignore_errors=True)
    began, cpu = time.perf_counter(), cpu_seconds()
    work, _ = make_work(job, episodes=episodes, seed=SEED)
    data = generate_chunks(work, episodes, out, workers=THREADS, chunk_episodes=CHUNK_EPISODES)
    seconds, cpu_s = time.perf_counter() - began, cpu_seconds() - cpu
    return _beside_raw(job, list(data), THREADS, seconds, cpu_s)


def _beside_raw(job: Job, made: list[Episode], threads: int, seconds: float, cpu_s: float) -> Measured:
    raw = raw_engine.step(job, SEED, [episode["action"] for episode in made], threads)
    robot_force_n = np.concatenate([episode["simulation.contact"][:, 0] for episode in made])
    return Measured(
        steps=raw.steps,
        rows=sum(len(episode) for episode in made),
        episodes=len(made),
        success=float(np.mean([bool(episode.success) for episode in made])),
        touching=float(np.mean(robot_force_n > 0.0)),
        ours_cpu_s=cpu_s,
        raw_cpu_s=raw.cpu_s,
        ours_s=seconds,
        raw_s=raw.seconds,
    )
