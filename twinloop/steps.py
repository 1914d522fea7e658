"""What the stages of the loop do: each fills a folder, goes on with what an interrupted run left there, and says what it found.

Nothing here knows which stage comes next; `loop.py` puts them in order.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.dataset.commit import write_atomically
from twinloop.dataset.reader import Dataset, open_dataset
from twinloop.dataset.writer import make_dataset
from twinloop.diagnose.run import diagnose
from twinloop.errors import RobotError, WrongUse
from twinloop.gate.evidence import load_evidence
from twinloop.gate.registry import PolicyRegistry
from twinloop.gate.rules import Rules
from twinloop.gate.run import EVIDENCE, Situation, gate
from twinloop.generate.run import generate
from twinloop.identify.anchor import anchor
from twinloop.identify.replays import replay_held_out
from twinloop.identify.result import Identification, load_identification, save_identification
from twinloop.identify.run import identify
from twinloop.learn.act import PolicyController
from twinloop.learn.config import TrainConfig
from twinloop.learn.evaluate import evaluate_in_twin, evaluate_on_robot, task_longest_s
from twinloop.learn.policy import load_policy
from twinloop.learn.samples import known_outcomes
from twinloop.learn.train import train
from twinloop.monitor.run import monitor
from twinloop.plan.run import plan
from twinloop.quality.check import check_dataset
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.randomize import Randomization
from twinloop.report.diagnose_page import write_diagnosis
from twinloop.report.gate_page import write_gate_page
from twinloop.report.identify_page import write_identify_page
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.robot import Attendant, Robot, connected, open_robot
from twinloop.robot.controllers import Controller, ExpertController, OperatorController
from twinloop.robot.record import Plan as Wish
from twinloop.robot.record import record
from twinloop.twin import Twin

DATA, TWIN, RUNS, GATE, REPORT = "data", "twin", "runs", "gate", "report.html"
"""What a stage's folder holds: a data set, a calibrated twin, recordings of trials, a gate's evidence, a report."""

SIGNALS = ("multisine", "waypoints")
"""Excitation that moves every joint all the time, and in large smooth moves."""

Found = dict[str, Any]


def simulate(out: Path, twin: Twin, randomization: Randomization, episodes: int, seed: int) -> Found:
    """Episodes of the scripted expert, a little disturbed so that the data show how to recover."""
    folder = out / DATA
    data = generate(
        twin,
        randomization,
        out=folder,
        episodes=episodes,
        seed=seed,
        expert_noise=0.5,
        resume=folder.exists(),
    )
    return _described(data)


def learn(
    out: Path, name: str, config: TrainConfig, *, sim: Path | None = None, real: Path | None = None
) -> Found:
    """A policy; the curve says how its error fell."""
    folder = out / name
    there = (folder / "policy.json").exists()
    policy = (
        load_policy(folder) if there else train(sim, real, out=folder, config=config, resume=folder.exists())
    )
    results = policy.story.results
    return {"policy": policy.id, "name": name, "validation": results["validation"], "curve": results["curve"]}


def try_out(
    out: Path,
    policy: Path,
    twin: Twin,
    scenes: Randomization,
    robot: str,
    *,
    in_twin: int,
    trials: int,
    seed: int,
) -> Found:
    """How often a policy succeeds in simulation and on the robot; the robot's episodes are kept."""
    loaded = load_policy(policy)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    simulated = evaluate_in_twin(loaded, twin, episodes=in_twin, seed=seed, randomization=scenes)
    with reached(robot) as (arm, attendant):
        measured = evaluate_on_robot([loaded], arm, episodes=trials, out=out / RUNS, attendant=attendant)[0]
    return {"simulation": simulated.as_json(), "robot": measured.as_json(), "runs": RUNS}


def explain(
    out: Path, policy: Path, runs: Path, others: Sequence[Path], twin: Twin, *, budget: int, seed: int
) -> Found:
    """How many points each gap dimension costs the policy on the robot."""
    found = diagnose(
        load_policy(policy),
        open_dataset(runs),
        twin,
        excitation=[episode for path in others for episode in open_dataset(path)],
        budget=budget,
        seed=seed,
        keep=out / "evaluations",
    )
    write_diagnosis(found, out)
    return found.as_json()


def propose(out: Path, diagnosis: Path, identification: Path | None, seed: int) -> Found:
    """What to record next, and what it is expected to bring."""
    made = plan(diagnosis=diagnosis, identification=identification, seed=seed)
    write_atomically(out / "plan.json", json.dumps(made.as_json(), indent=1).encode())
    write_plan_sheet(made, out / REPORT)
    return made.as_json()


def decide(
    out: Path,
    candidate: Path,
    champion: Path,
    twin: Twin,
    robot: str,
    *,
    scenes: Randomization,
    listed: int,
    first: int,
    rules: Rules,
    seed: int,
    identified: Path,
    workspace: Path,
) -> Found:
    """May the candidate take the champion's place? Trials on the robot until the evidence suffices."""
    shutil.rmtree(out / GATE, ignore_errors=True)
    with reached(robot) as (arm, attendant):
        verdict = gate(
            load_policy(candidate),
            twin,
            champion=load_policy(champion),
            rules=rules,
            robot=arm,
            attendant=attendant,
            scenes=listed,
            first_scene=first,
            randomization=scenes,
            seed=seed,
            out=out / GATE,
            situation=Situation(twin_folder=identified / TWIN, workspace=workspace),
        )
    write_gate_page(verdict, load_evidence(out / GATE / EVIDENCE), out / REPORT)
    return verdict.as_json()


def release(out: Path, policy: Path, champion: Path, verdict: Path, root: Path, by: str) -> Found:
    """The candidate as champion, on the grounds of its verdict. Whoever is champion before the first loop is entered first."""
    registry, candidate = PolicyRegistry(root), load_policy(policy)
    if registry.state().aliases.get("champion") is None:
        registry.promote(load_policy(champion), None, by=by, override="in use before the loop")
    if registry.policy("champion").id != candidate.id:
        registry.promote(candidate, verdict, by=by)
    registry.verify()
    return {"champion": candidate.id, "name": candidate.name, "registry": str(root)}


def watch(out: Path, policy: Path, robot: str, reference: Path, *, episodes: int, first: int) -> Found:
    """Deployed episodes of the champion, looked at once."""
    loaded = load_policy(policy)

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return PolicyController(loaded, arm.description)

    found = _recorded(out / DATA, robot, episodes, acting, None, first, "Deployed.")
    report = monitor(open_dataset(out / DATA), open_dataset(reference))
    return found | {"report": report.as_json()}


def excite(out: Path, twin: Twin, robot: str, *, runs: int, seconds: float, first: int) -> Found:
    """Excitation runs, different signals in turn."""

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return ExpertController(twin, SIGNALS[number % len(SIGNALS)], seconds)

    return _recorded(
        out / DATA, robot, runs, acting, seconds, first, "Follow the excitation signal.", judged=False
    )


def demonstrate(
    out: Path, robot: str, *, wanted: int, seconds: float, first: int, operator: str, task: str
) -> Found:
    """Demonstrations by the robot's operator; `wanted` of them attempted."""

    def acting(arm: Robot, attendant: Attendant, number: int) -> Controller:
        return OperatorController(attendant, operator)

    found = _recorded(out / "all", robot, wanted, acting, seconds, first, task)
    return found | {"used": _choose(open_dataset(out / "all"), out / DATA)}


def calibrate(
    out: Path, twin: Twin, real: Path, parameters: Sequence[str], *, seconds: float, seed: int
) -> Found:
    """The twin identified from excitation runs, and whether held-out replay accepts it."""
    episodes, signals = list(open_dataset(real)), ("observation.state",)
    result = identify(twin, episodes, parameters, signals=signals, seconds=seconds, seed=seed)
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


def matching(twin: Twin, patterns: Sequence[str]) -> list[str]:
    """The twin's parameters that any of the patterns matches."""
    return [p.name for p in twin.parameters if any(fnmatch.fnmatch(p.name, pattern) for pattern in patterns)]


def calibrated(out: Path, nominal: Twin) -> tuple[Twin, Identification | None]:
    """The accepted twin with its identification, or the nominal one."""
    result = load_identification(out / TWIN)
    return (result.twin, result) if result.gate.accepted else (nominal, None)


def widened(usual: Randomization, result: Identification | None, scenes: Randomization) -> Randomization:
    """What varies in training: usual ranges, narrowed to the posterior where reality was measured; and scenes."""
    wide = usual if result is None else anchor(result, beside=usual).randomization
    return wide.updated(scenes, name="anchored" if result else "usual")


@contextmanager
def reached(robot: str) -> Iterator[tuple[Robot, Attendant]]:
    """A connected robot and whoever sets scenes and judges beside it."""
    arm = open_robot(robot)
    if not isinstance(arm, Attendant):
        raise WrongUse(
            f"nobody stands beside {robot} to set scenes and judge",
            remedy="record, evaluate and gate by hand; the loop runs alone only where the robot judges itself",
        )
    with connected(arm):
        yield arm, arm


def _recorded(
    folder: Path,
    robot: str,
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
        with reached(robot) as (arm, attendant):
            for number in range(there, wanted):
                longest = seconds or task_longest_s(arm)
                wish = Wish(1, longest, task=task, first=first + number, judged=judged)
                done = record(arm, acting(arm, attendant, number), folder, wish, attendant=attendant)
                if done.reason:
                    raise RobotError(f"recording ended early: {done.reason}", remedy="run the loop again")
    return _described(open_dataset(folder))


def _choose(dataset: Dataset, folder: Path) -> int:
    """Copy what may be trained on: successes without blocking findings. How many there are."""
    if not folder.exists():
        report = check_dataset(dataset, QualitySettings(purpose="train"))
        blocked = {finding.episode for finding in report.blocking}
        outcomes = zip(dataset.numbers, known_outcomes(dataset), strict=True)
        kept = [number for number, success in outcomes if success and number not in blocked]
        if not kept:
            return 0
        with make_dataset(
            folder, dataset.schema, history=("took", (dataset.id,), "usable successes")
        ) as writer:
            for number in kept:
                writer.add(dataset.episode(number))
    return len(open_dataset(folder))


def _described(dataset: Dataset) -> Found:
    known = [success for success in known_outcomes(dataset) if success is not None]
    return {
        "version": dataset.manifest.fingerprint if dataset.manifest else None,
        "episodes": len(dataset),
        "rows": dataset.num_frames,
        "success": sum(known) / len(known) if known else None,
    }
