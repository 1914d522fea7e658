"""Pick-and-place trajectories beside robosuite and gymnasium-robotics, each recording to disk on all cores.

Every side does its own closest task with its own randomization, scripted expert and fastest form: ours one worker per
core; gymnasium-robotics an AsyncVectorEnv of the width that is fastest here; robosuite one process per core. They run in
turn. All three use MuJoCo with a physics step of 2 ms. Ours is timed from the call to the finished dataset; the peers
only from when their environments stand ready.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.bench_generate import CASES, SEED, make_case_job
from benchmarks.peers.environment import Peer
from benchmarks.peers.gymnasium_robotics import PEER as GYMNASIUM
from benchmarks.peers.robosuite import PEER as ROBOSUITE
from benchmarks.report import Section, Settings, Table, Target, ratio, spread
from benchmarks.scene import cpu_seconds
from twinloop.generation.chunks import CHUNK_EPISODES
from twinloop.generation.processes import usable_cores
from twinloop.generation.run import make_work
from twinloop.generation.run import run as generate_chunks

PROMISES = {GYMNASIUM: 10.0, ROBOSUITE: 25.0}
WIDTHS = (2, 4, 8)
SCRIPT = "pick_and_place.py"


@dataclass(frozen=True)
class Measured:
    """One run of one side."""

    episodes: int
    steps: int
    seconds: float
    cpu_s: float
    robot_s: float
    success: float


@dataclass(frozen=True)
class Plan:
    repeats: int
    ours: int
    gymnasium: int
    robosuite_each: int
    trial: int


FULL = Plan(repeats=3, ours=4 * CHUNK_EPISODES, gymnasium=160, robosuite_each=6, trial=32)
QUICK = Plan(repeats=1, ours=CHUNK_EPISODES, gymnasium=16, robosuite_each=1, trial=8)


def run(settings: Settings) -> Section:
    plan = QUICK if settings.quick else FULL
    cores = usable_cores()
    missing = {}
    for peer in PROMISES:
        settings.say.print(f"{peer.name}: installing if needed ...")
        reason = peer.install()
        if reason:
            missing[peer] = reason
    versions: dict[str, str] = {}

    def theirs(peer: Peer, *words: object) -> Measured:
        result = peer.run(SCRIPT, settings.work / peer.folder, "--seed", SEED, *words)
        versions.update({f"{name} ({peer.name}'s)": number for name, number in result["versions"].items()})
        return Measured(**{name: result[name] for name in Measured.__dataclass_fields__})

    width, trials = WIDTHS[0], {}
    if GYMNASIUM not in missing:
        for number in WIDTHS:
            settings.say.print(f"{GYMNASIUM.name}: trying {number} environments ...")
            one = theirs(GYMNASIUM, "--environments", number, "--episodes", plan.trial)
            trials[number] = one.steps / one.seconds
        width = max(trials, key=lambda number: trials[number])
    runs: dict[str, list[Measured]] = {"ours": []} | {p.name: [] for p in PROMISES if p not in missing}
    loads = [os.getloadavg()[0]]
    words: Mapping[Peer, tuple[object, ...]] = {
        GYMNASIUM: ("--environments", width, "--episodes", plan.gymnasium),
        ROBOSUITE: ("--processes", cores, "--episodes", plan.robosuite_each),
    }
    for repeat in range(plan.repeats):
        settings.say.print(f"all sides in turn, {repeat + 1} of {plan.repeats} ...")
        runs["ours"].append(measure(settings, plan.ours, cores))
        for peer in PROMISES:
            if peer not in missing:
                runs[peer.name].append(theirs(peer, *words[peer]))
        loads.append(os.getloadavg()[0])
    forms = {
        "ours": f"franka_pick_place, {cores} workers",
        GYMNASIUM.name: f"FetchPickAndPlace-v4, AsyncVectorEnv of {width}",
        ROBOSUITE.name: f"PickPlaceCan with a Panda, {cores} processes",
    }
    notes = [
        "Ours varies mass, friction, place, action delay and encoder noise; robosuite its dynamics (DomainRandomizationWrapper, "
        "once per episode) and the can's place; gymnasium-robotics has nothing to vary but the places of object and goal.",
        "A trajectory is not the same amount of work on each side, so the promises are judged in physics steps/s, which are "
        "2 ms of robot time everywhere. Trajectories/s are given as they are: Fetch's last 2 s and need no release.",
        "By the clock, a side with more processes gets a larger part of a machine that does other work too (see the load "
        "above); per processor second nobody gains by that, but the waiting of an AsyncVectorEnv for its slowest "
        "environment does not count either.",
    ]
    if trials:
        tried = ", ".join(f"{n}: {rate:,.0f}" for n, rate in trials.items())
        notes.append(f"Physics steps/s of {GYMNASIUM.name} by number of environments: {tried}.")
    notes += [f"{reason}." for reason in missing.values()]
    return Section(
        "peers",
        "Pick-and-place trajectories beside robosuite and gymnasium-robotics",
        (_absolute(runs, forms), _ratios(runs)),
        tuple(_target(peer, runs) for peer in PROMISES),
        tuple(notes),
        versions,
        tuple(loads),
    )


def measure(settings: Settings, episodes: int, workers: int) -> Measured:
    job = make_case_job(CASES[0])
    out = settings.work / "generated"
    shutil.rmtree(out, ignore_errors=True)
    began, cpu = time.perf_counter(), cpu_seconds()
    work, _ = make_work(job, episodes=episodes, seed=SEED)
    data = generate_chunks(work, episodes, out, workers=workers, chunk_episodes=CHUNK_EPISODES)
    seconds, cpu_s = time.perf_counter() - began, cpu_seconds() - cpu
    control_steps = (
        data.num_frames - episodes
    )  # the last row of an episode is a state without a step after it
    return Measured(
        episodes=episodes,
        steps=control_steps * job.twin.substeps,
        seconds=seconds,
        cpu_s=cpu_s,
        robot_s=control_steps / job.twin.control_hz / episodes,
        success=sum(bool(episode.success) for episode in data) / episodes,
    )


def _absolute(runs: Mapping[str, Sequence[Measured]], forms: Mapping[str, str]) -> Table:
    rows = []
    for name, values in runs.items():
        rows.append(
            (
                name,
                forms[name],
                spread([m.steps / m.seconds for m in values]),
                spread([m.episodes / m.seconds for m in values], 1),
                f"{statistics.median(m.robot_s for m in values):.1f}",
                spread([m.steps / m.cpu_s for m in values]),
                f"{statistics.median(m.success for m in values):.0%}",
            )
        )
    columns = (
        "side",
        "form",
        "physics steps/s",
        "trajectories/s",
        "robot time of one, s",
        "physics steps per processor second",
        "success",
    )
    return Table("All cores, by the clock, recorded to disk", columns, tuple(rows))


def _ratios(runs: Mapping[str, Sequence[Measured]]) -> Table:
    def times(name: str, value: Any) -> str:
        return f"{ratio([value(m) for m in runs['ours']], [value(m) for m in runs[name]]):.1f}"

    rows = tuple(
        (
            name,
            times(name, lambda m: m.steps / m.seconds),
            times(name, lambda m: m.episodes / m.seconds),
            times(name, lambda m: m.steps / m.cpu_s),
        )
        for name in runs
        if name != "ours"
    )
    columns = ("peer", "physics steps/s", "trajectories/s", "physics steps per processor second")
    return Table("How many times the peer's rate ours is", columns, rows)


def _target(peer: Peer, runs: Mapping[str, Sequence[Measured]]) -> Target:
    promise = f"at least {PROMISES[peer]:.0f} times {peer.name} in physics steps/s, by the clock"
    if peer.name not in runs:
        return Target(promise, "not installed", None)
    ours, theirs = runs["ours"], runs[peer.name]
    times = ratio([m.steps / m.seconds for m in ours], [m.steps / m.seconds for m in theirs])
    per_cpu = ratio([m.steps / m.cpu_s for m in ours], [m.steps / m.cpu_s for m in theirs])
    return Target(promise, f"{times:.1f} times ({per_cpu:.1f} per processor second)", times >= PROMISES[peer])
