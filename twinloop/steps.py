"""What the stages of the loop do: each fills a folder, goes on with what an interrupted run left there, and says what it found.

Earlier stages come as `Done`: a folder and what was found. Nothing here knows which stage comes next; `loop.py` puts them in order.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.coverage.run import coverage
from twinloop.dataset.commit import write_atomically
from twinloop.dataset.reader import Dataset, open_dataset
from twinloop.dataset.writer import make_dataset
from twinloop.diagnose.believed import believed
from twinloop.diagnose.run import diagnose
from twinloop.errors import RobotError, WrongUse
from twinloop.gap.evidence import Options
from twinloop.gap.run import measure_gap
from twinloop.gate.evidence import load_evidence
from twinloop.gate.registry import PolicyRegistry
from twinloop.gate.rules import Rules
from twinloop.gate.run import EVIDENCE, RECORDINGS, Situation, Watchers, gate
from twinloop.generate.film import record_video
from twinloop.generate.run import generate
from twinloop.identify.anchor import anchor, not_identified
from twinloop.identify.replays import replay_held_out
from twinloop.identify.result import load_identification, save_identification
from twinloop.identify.run import identify
from twinloop.learn.act import PolicyController
from twinloop.learn.config import TrainConfig
from twinloop.learn.evaluate import evaluate_in_twin, evaluate_on_robot, exact_interval, task_longest_s
from twinloop.learn.policy import Policy, load_policy
from twinloop.learn.samples import known_outcomes
from twinloop.learn.train import train
from twinloop.monitor.run import monitor
from twinloop.plan.run import plan
from twinloop.quality.check import check_dataset
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.randomize import Randomization, default_randomization, load_randomization
from twinloop.randomize.distribution import Distribution, Uniform
from twinloop.randomize.randomization import make_randomization
from twinloop.report.coverage_page import write_coverage_page
from twinloop.report.diagnose_page import write_diagnosis
from twinloop.report.gap_page import write_gap_page
from twinloop.report.gate_page import write_gate_page
from twinloop.report.identify_page import write_identify_page
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.robot import Attendant, Robot, connected, open_robot
from twinloop.robot.controllers import Controller, ExpertController, OperatorController
from twinloop.robot.record import Plan as Wish
from twinloop.robot.record import record
from twinloop.stages import Done, Progress
from twinloop.twin import Twin

DATA, USABLE, TWIN, RUNS, GATE, REPORT = "data", "usable", "twin", "runs", "gate", "report.html"
"""What a stage's folder holds: a data set, what of it may be trained on, a calibrated twin, recordings of trials, a gate's
evidence, a report."""

BELIEVED, COVERAGE, DIAGNOSIS, PLAN = "believed.json", "coverage.json", "diagnosis.json", "plan.json"

THREADS = 0
"""All cores; results do not depend on it."""

GAP_EPISODES = 20
"""Of either side, spread evenly: enough for intervals, and soon done."""

SIGNALS = ("multisine", "waypoints")
"""Excitation that moves every joint all the time, and in large smooth moves."""

Found = dict[str, Any]


@dataclass(frozen=True)
class Station:
    """Where a robot is reached, and which one it is: stages made on it stand for as long as that answers there."""

    url: str
    serial: str
    twin: str | None = None

    @property
    def content_hash(self) -> str:
        """Which robot, whatever way it is reached."""
        return self.serial


def reach(url: str) -> Station:
    """Ask who answers; refuses a robot that cannot run alone."""
    with _reached(url) as (arm, _):
        return Station(url, arm.description.serial, arm.description.twin)


def simulate(
    out: Path, progress: Progress, *, twin: Twin, randomization: Randomization, episodes: int, seed: int
) -> Found:
    """Episodes of the scripted expert, a little disturbed so that the data show how to recover.

    The expert sees how things are, so that what it shows is right however wrong the recorded readings are.
    """
    folder = out / DATA
    data = generate(
        twin,
        randomization,
        out=folder,
        episodes=episodes,
        seed=seed,
        expert_noise=0.5,
        expert_sees_truth=True,
        resume=folder.exists(),
        progress=lambda now: progress(now.episodes, now.total),
    )
    return _described(data)


def learn(
    out: Path, progress: Progress, *, name: str, config: TrainConfig, sim: Done, real: Done | None = None
) -> Found:
    """A policy; the curve says how its error fell. Too few demonstrations are no demonstrations."""
    folder = out / name
    shown = (
        real.folder / USABLE if real is not None and real.found["used"] >= config.fewest_episodes else None
    )
    if config.recipe == "co-train" and shown is None:
        config = replace(config, recipe="sim-only")
    if (folder / "policy.json").exists():
        policy = load_policy(folder)
    else:
        policy = train(
            sim.folder / DATA,
            shown,
            out=folder,
            config=config,
            resume=folder.exists(),
            hear=lambda point, steps: progress(point.step, steps),
        )
    results = policy.story.results
    return {
        "policy": policy.id,
        "name": name,
        "recipe": config.recipe,
        "validation": results["validation"],
        "curve": results["curve"],
    }


def try_out(
    out: Path,
    progress: Progress,
    *,
    policy: Done,
    twin: Twin,
    scenes: Randomization,
    robot: Station,
    in_twin: int,
    trials: int,
    seed: int,
) -> Found:
    """How often a policy succeeds in simulation and on the robot; the robot's episodes are kept."""
    loaded = _policy(policy)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    simulated = evaluate_in_twin(
        loaded, twin, episodes=in_twin, seed=seed, randomization=scenes, threads=THREADS
    )
    with _reached(robot.url) as (arm, attendant):
        (measured,) = evaluate_on_robot(
            [loaded], arm, episodes=trials, out=out / RUNS, attendant=attendant, progress=progress
        )
    return {"simulation": simulated.as_json(), "robot": measured.as_json()}


def excite(
    out: Path, progress: Progress, *, twin: Twin, robot: Station, runs: int, seconds: float, first: int
) -> Found:
    """Excitation runs, different signals in turn."""

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return ExpertController(twin, SIGNALS[number % len(SIGNALS)], seconds)

    task = "Follow the excitation signal."
    return _recorded(out / DATA, progress, robot, runs, acting, seconds, first, task, judged=False)


def calibrate(
    out: Path,
    progress: Progress,
    *,
    twin: Twin,
    real: Done,
    parameters: Sequence[str],
    seconds: float,
    seed: int,
) -> Found:
    """The twin identified from excitation runs, and whether held-out replay accepts it."""
    episodes, signals = list(open_dataset(real.folder / DATA)), ("observation.state",)
    rounds = iter(range(1, 10**9))
    result = identify(
        twin,
        episodes,
        parameters,
        signals=signals,
        seconds=seconds,
        seed=seed,
        progress=lambda *_: progress(next(rounds), 0),
    )
    save_identification(result, out / TWIN)
    write_identify_page(result, replay_held_out(twin, result, episodes, signals=signals), out / REPORT)
    return {
        "twin": result.twin.content_hash,
        "accepted": result.gate.accepted,
        "reason": result.gate.reason,
        "estimates": [
            {
                "name": e.name,
                "unit": e.unit,
                "dimension": e.dimension,
                "nominal": e.nominal,
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "status": e.status,
            }
            for e in result.estimates
        ],
    }


def measure(out: Path, progress: Progress, *, twin: Twin, runs: Done, sim: Done, seed: int) -> Found:
    """How far the twin is from the robot, dimension by dimension."""
    found = measure_gap(
        open_dataset(runs.folder / RUNS),
        twin,
        open_dataset(sim.folder / DATA),
        options=Options(seed=seed, episodes=GAP_EPISODES),
        progress=lambda _, done, total: progress(done, total),
    )
    write_gap_page(found, out / REPORT)
    return found.as_json()


def cover(out: Path, progress: Progress, *, real: Done, sim: Done, seed: int) -> Found:
    """Where the robot's episodes lie outside what simulation shows."""
    sides = open_dataset(real.folder / RUNS), open_dataset(sim.folder / DATA)
    found = coverage(*sides, seed=seed, progress=progress)
    write_atomically(out / COVERAGE, json.dumps(found.as_json(), indent=1).encode())
    write_coverage_page(found, out / REPORT, sides)
    return found.as_json()


def explain(
    out: Path,
    progress: Progress,
    *,
    policy: Done,
    runs: Done,
    others: Sequence[Done],
    twin: Twin,
    budget: int,
    seed: int,
) -> Found:
    """How many points each gap dimension costs the policy on the robot, and what was measured of each."""
    found = diagnose(
        _policy(policy),
        open_dataset(runs.folder / RUNS),
        twin,
        excitation=[episode for one in others for episode in open_dataset(one.folder / DATA)],
        budget=budget,
        seed=seed,
        keep=out / "evaluations",
        progress=lambda _, done, total: progress(done, total),
    )
    write_diagnosis(found, out)
    write_atomically(out / BELIEVED, json.dumps(believed(found.measured, twin).plain()).encode())
    return found.as_json()


def propose(
    out: Path, progress: Progress, *, diagnosis: Done, coverage: Done, identification: Done, seed: int
) -> Found:
    """What to record next, and what it is expected to bring."""
    made = plan(
        diagnosis=diagnosis.folder / DIAGNOSIS,
        coverage=coverage.folder / COVERAGE,
        identification=identification.folder / TWIN,
        seed=seed,
    )
    write_atomically(out / PLAN, json.dumps(made.as_json(), indent=1).encode())
    write_plan_sheet(made, out / REPORT)
    return made.as_json()


def demonstrate(
    out: Path,
    progress: Progress,
    *,
    robot: Station,
    wanted: int,
    seconds: float,
    first: int,
    operator: str,
    task: str,
    earlier: Done | None = None,
) -> Found:
    """Demonstrations by the robot's operator, `wanted` of them attempted; those that may be trained on, earlier ones too."""

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return OperatorController(attendant, operator)

    found = _recorded(out / DATA, progress, robot, wanted, acting, seconds, first, task)
    attempts = [open_dataset(one) for one in (*([earlier.folder / DATA] if earlier else []), out / DATA)]
    return found | {"used": _choose(attempts, out / USABLE)}


def decide(
    out: Path,
    progress: Progress,
    *,
    workspace: Path,
    candidate: Done,
    champion: Done | None,
    twin: Twin,
    identified: Done,
    explained: Done,
    robot: Station,
    scenes: Randomization,
    listed: int,
    first: int,
    rules: Rules,
    seed: int,
) -> Found:
    """May the candidate take the champion's place, or, without one, pass the bar? Trials until the evidence suffices."""
    shutil.rmtree(out / GATE, ignore_errors=True)
    loaded = _policy(candidate)
    varied = _measured(twin, identified, explained).variations
    middle = {v.name: _at(v.distribution, 0.5) for v in varied if v.name not in scenes.names}
    with _reached(robot.url) as (arm, attendant):
        verdict = gate(
            loaded,
            twin,
            champion=_policy(champion) if champion else None,
            rules=rules,
            robot=arm,
            attendant=attendant,
            scenes=listed,
            first_scene=first,
            randomization=scenes,
            measured=middle,
            seed=seed,
            threads=THREADS,
            out=out / GATE,
            situation=Situation(twin_folder=identified.folder / TWIN, workspace=workspace),
            watchers=Watchers(trial=lambda number, *_: progress(number, rules.most_trials)),
        )
    evidence = load_evidence(out / GATE / EVIDENCE)
    write_gate_page(verdict, evidence, out / REPORT)
    return verdict.as_json() | {
        "simulation": _share([trial.candidate for trial in evidence.simulated]),
        "robot": _share([trial.candidate for trial in evidence.real]) | {"standin": evidence.standin},
        "recordings": f"{GATE}/{RECORDINGS}/{loaded.name}",
    }


def film(out: Path, progress: Progress, *, twin: Twin, before: Done, after: Done) -> Found:
    """What a failure looked like before and a success after, where there are such."""
    made = []
    wanted = (
        ("before", before.folder / RUNS, False),
        ("after", after.folder / after.found["recordings"], True),
    )
    for when, folder, success in wanted:
        if not folder.exists():
            continue
        runs = open_dataset(folder)
        chosen = [n for n, won in zip(runs.numbers, known_outcomes(runs), strict=True) if won is success]
        if chosen:
            title = f"{when}: a {'success' if success else 'failure'}"
            record_video(runs.episode(chosen[0]), out / f"{when}.webm", twin=twin, title=title)
            made.append({"file": f"{when}.webm", "caption": title})
    return {"films": made}


def release(
    out: Path, progress: Progress, *, root: Path, policy: Done, champion: Done | None, verdict: Done, by: str
) -> Found:
    """The candidate as champion, on the grounds of its verdict. Whoever is champion before the first loop is entered first."""
    registry, candidate = PolicyRegistry(root), _policy(policy)
    if champion is not None and registry.state().aliases.get("champion") is None:
        registry.promote(_policy(champion), None, by=by, override="in use before the loop")
    holder = registry.policy("champion") if registry.state().aliases.get("champion") else None
    if holder is None or holder.id != candidate.id:
        registry.promote(candidate, verdict.folder / GATE / "verdict.json", by=by)
    registry.verify()
    return {"champion": candidate.id, "name": candidate.name}


def watch(
    out: Path,
    progress: Progress,
    *,
    policy: Done,
    robot: Station,
    reference: Done,
    episodes: int,
    first: int,
) -> Found:
    """Deployed episodes of the champion, looked at once."""
    loaded = _policy(policy)

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return PolicyController(loaded, arm.description)

    found = _recorded(out / DATA, progress, robot, episodes, acting, None, first, "Deployed.")
    deployed = open_dataset(out / DATA)
    report = monitor(deployed, open_dataset(reference.folder / reference.found["recordings"]))
    won = [success is True for success in known_outcomes(deployed)]
    return found | {"robot": _share(won), "report": report.as_json()}


def matching(twin: Twin, patterns: Sequence[str]) -> list[str]:
    """The twin's parameters that any of the patterns matches."""
    return [p.name for p in twin.parameters if any(fnmatch.fnmatch(p.name, pattern) for pattern in patterns)]


def calibrated(identified: Done, nominal: Twin) -> Twin:
    """The twin that was accepted, or the nominal one."""
    return load_identification(identified.folder / TWIN).twin if identified.found["accepted"] else nominal


def anchored(twin: Twin, identified: Done, explained: Done, scenes: Randomization) -> Randomization:
    """What varies in training: usual ranges, narrowed to what was measured of this robot; scenes, widened to its own."""
    measured = _measured(twin, identified, explained)
    varied = default_randomization(twin).updated(measured)
    if identified.found["accepted"]:
        varied = anchor(load_identification(identified.folder / TWIN), beside=varied).randomization
    wide = {name: _wider(scenes[name], measured[name]) for name in scenes.names if name in measured.names}
    return varied.updated(scenes).updated(make_randomization(twin, wide), name="anchored")


def _measured(twin: Twin, identified: Done, explained: Done) -> Randomization:
    """What diagnosis measured of the robot; where identification did too, it knows better."""
    told = load_randomization(json.loads((explained.folder / BELIEVED).read_text()), twin)
    names = [estimate["name"] for estimate in identified.found["estimates"]]
    return not_identified(told, names) if identified.found["accepted"] else told


def _wider(usual: Distribution, seen: Distribution) -> Uniform:
    low, high = usual.support()
    return Uniform(min(low, _at(seen, 0.005)), max(high, _at(seen, 0.995)))


def _at(distribution: Distribution, share: float) -> float:
    """The value below which this share of the draws lies."""
    return float(distribution.quantile(np.array([[share]]), np.zeros(1, dtype=np.int64))[0])


@contextmanager
def _reached(url: str) -> Iterator[tuple[Robot, Attendant]]:
    """A connected robot and whoever sets scenes and judges beside it."""
    arm = open_robot(url)
    if not isinstance(arm, Attendant):
        raise WrongUse(
            f"nobody stands beside {url} to set scenes and judge",
            remedy="record, evaluate and gate by hand; the loop runs alone only where the robot judges itself",
        )
    with connected(arm):
        yield arm, arm


def _policy(made: Done) -> Policy:
    return load_policy(made.folder / made.found["name"])


def _recorded(
    folder: Path,
    progress: Progress,
    robot: Station,
    wanted: int,
    acting: Callable[[Robot, Attendant, int], Controller],
    seconds: float | None,
    first: int,
    task: str,
    judged: bool = True,
) -> Found:
    """Record until there are as many episodes as wanted; the scene of each follows from its number."""
    there = len(open_dataset(folder)) if folder.exists() else 0
    if there < wanted:
        with _reached(robot.url) as (arm, attendant):
            for number in range(there, wanted):
                progress(number, wanted)
                longest = seconds or task_longest_s(arm)
                wish = Wish(1, longest, task=task, first=first + number, judged=judged)
                done = record(arm, acting(arm, attendant, number), folder, wish, attendant=attendant)
                if done.reason:
                    raise RobotError(f"recording ended early: {done.reason}", remedy="run the loop again")
    return _described(open_dataset(folder))


def _choose(attempts: Sequence[Dataset], folder: Path) -> int:
    """Copy what may be trained on: successes without blocking findings. How many there are."""
    shutil.rmtree(folder, ignore_errors=True)
    usable = []
    for dataset in attempts:
        report = check_dataset(dataset, QualitySettings(purpose="train"))
        blocked = {finding.episode for finding in report.blocking}
        outcomes = zip(dataset.numbers, known_outcomes(dataset), strict=True)
        usable += [dataset.episode(n) for n, success in outcomes if success and n not in blocked]
    if usable:
        told = ("took", tuple(dataset.id for dataset in attempts), "usable successes")
        with make_dataset(folder, attempts[0].schema, history=told) as writer:
            for episode in usable:
                writer.add(episode)
    return len(usable)


def _described(dataset: Dataset) -> Found:
    known = [success for success in known_outcomes(dataset) if success is not None]
    return {
        "version": dataset.manifest.fingerprint if dataset.manifest else None,
        "episodes": len(dataset),
        "rows": dataset.num_frames,
        "success": sum(known) / len(known) if known else None,
    }


def _share(won: Sequence[bool]) -> Found:
    low, high = exact_interval(sum(won), len(won)) if won else (0.0, 1.0)
    return {
        "episodes": len(won),
        "successes": sum(won),
        "success": sum(won) / len(won) if won else None,
        "interval_95": [low, high],
    }
