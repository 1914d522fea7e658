"""The path through a gate on one page: scenes, simulated trials, checks, real trials one at a time, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from twinloop.errors import GateError, WrongUse
from twinloop.generation.processes import usable_cores
from twinloop.policies.protocol import PolicyLike, training_datasets
from twinloop.promotion.attempts import note
from twinloop.promotion.checks import Check, Subject, accept, run_checks, twin_is_current
from twinloop.promotion.evidence import (
    Contender,
    Evidence,
    PairedTrial,
    draw_scenes,
    load_evidence,
    save_evidence,
)
from twinloop.promotion.rules import Rules
from twinloop.promotion.scenes import Placing, Progress, Scene, draw_list, look_at_list
from twinloop.promotion.statistics import measure
from twinloop.promotion.trials import simulate, try_on_robot
from twinloop.promotion.verdict import Verdict, decide
from twinloop.randomization import Randomization
from twinloop.robots.protocol import Robot, TrialSupervisor
from twinloop.twins import Twin

EVIDENCE, RECORDINGS = "evidence.json", "recordings"
FIRST_SCENE = 200
"""Scenes that a stand-in sets by number begin here: other evaluations have used the lower ones."""


@dataclass(frozen=True)
class Situation:
    """What checks look at besides the evidence; see `Subject`."""

    twin_folder: Path | None = None
    workspace: Path | None = None
    drift: Mapping[str, Any] | None = None
    alerts: tuple[Mapping[str, Any], ...] = ()
    twin_since: datetime | None = None
    accepted: tuple[str, ...] = ()
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Watchers:
    """Who hears how it goes: progress of looking and simulating, and every real trial with the verdict so far."""

    progress: Callable[[str], Progress] = lambda what: lambda done, total: None
    trial: Callable[[int, PairedTrial, Verdict], None] = lambda number, trial, verdict: None
    tell: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class GateConfig:
    """How a candidate is judged.

    Args:
        rules: The bar, stated before the first trial.
        scenes: How many scenes are simulated; real trials are drawn from them.
        first_scene: Number of the first scene on a stand-in, which sets scenes by number.
        randomization: Where things lie in simulated scenes; default: the training scenes.
        measured: Values of the twin's parameters that hold for the robot in every scene, such as the delay of its tracker, where the
            twin has others. `twinloop.measured_values` gives those of an identification and a diagnosis.
        seed: Random seed for the scenes.
        threads: Simulation threads; 0: all cores.
        time_limit_s: Longest a real trial may take; default: the task's limit.
    """

    rules: Rules = field(default_factory=Rules)
    scenes: int = 400
    first_scene: int = FIRST_SCENE
    randomization: Randomization | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    threads: int = 0
    time_limit_s: float | None = None


def gate(
    candidate: PolicyLike,
    twin: Twin,
    config: GateConfig | None = None,
    *,
    champion: PolicyLike | None = None,
    robot: Robot | None = None,
    supervisor: TrialSupervisor | None = None,
    evidence: Evidence | None = None,
    out: str | Path = "gate",
    situation: Situation | None = None,
    watchers: Watchers | None = None,
) -> Verdict:
    """Judge whether a candidate may take the champion's place.

    With a connected robot, scenes are simulated and then tried on the robot one after the other until the evidence suffices or the
    trials are used up.

    Args:
        candidate: The policy to judge.
        twin: The twin that scenes are simulated in.
        config: The bar, scenes and seed.
        champion: The policy to beat, scene by scene; without one the candidate has to pass `rules.threshold`.
        robot: A connected robot; without one only the evidence so far is judged.
        supervisor: Sets scenes and judges trials; default: the robot's own.
        evidence: Trials so far; a robot goes on from them.
        out: Folder for evidence, verdict and recordings. Trials that it holds are never replaced: it must be new, or hold this very
            evidence.
        situation: What the checks look at besides the evidence.
        watchers: Follow progress and trials.

    Returns:
        The verdict; evidence and verdict are in `out`.

    Raises:
        GateError: If the evidence is about other policies or another robot.
        WrongUse: If no supervisor judges trials.
    """
    config, watchers, situation = config or GateConfig(), watchers or Watchers(), situation or Situation()
    rules, seed = config.rules, config.seed
    folder = Path(out)
    beside = supervisor or (robot if isinstance(robot, TrialSupervisor) else None)
    if robot is not None and beside is None:
        raise WrongUse("nobody says whether a trial succeeds", remedy="pass a supervisor")
    found = evidence or _begin(candidate, champion, twin, robot, seed)
    _require_contenders(found, candidate, champion)
    if robot is not None and found.robot is not None:
        _require_robot(found, robot)
    _require_kept(folder, evidence)
    if not found.simulated and not found.real:
        numbers = range(config.first_scene, config.first_scene + config.scenes)
        listed = _list(twin, robot, beside, numbers, config.randomization, seed, watchers)
        simulated = simulate(
            candidate,
            champion,
            twin,
            listed,
            measured=config.measured,
            seed=seed,
            threads=config.threads or usable_cores(),
            progress=watchers.progress("simulating"),
        )
        found = replace(found, simulated=simulated)
    datasets = (*training_datasets(candidate), *(training_datasets(champion) if champion else ()))
    checks = _checked(found, rules, twin, datasets, situation)
    if robot is not None and beside is not None and not any(check.blocks for check in checks):
        current = twin_is_current(checks)
        found = _try(
            found,
            rules,
            current,
            candidate,
            champion,
            robot,
            beside,
            folder,
            config.time_limit_s,
            situation,
            watchers,
        )
        checks = _checked(found, rules, twin, datasets, situation)
    statistics = measure(found, rules, twin_is_current=twin_is_current(checks))
    verdict = decide(found, statistics, rules, checks)
    _keep(found, folder / EVIDENCE, situation)
    verdict.save(folder)
    return verdict


def _begin(
    candidate: PolicyLike, champion: PolicyLike | None, twin: Twin, robot: Robot | None, seed: int
) -> Evidence:
    description = robot.description if robot is not None else None
    return Evidence(
        candidate=contender(candidate),
        champion=contender(champion) if champion else None,
        twin={"name": twin.name, "version": twin.version, "hash": twin.content_hash},
        robot=description.serial if description else None,
        standin=description.standin if description else False,
        drawn_with=seed if description else None,
    )


def contender(policy: PolicyLike) -> Contender:
    """A policy as the gate knows it."""
    return Contender(policy.name, policy.id)


def _require_contenders(found: Evidence, candidate: PolicyLike, champion: PolicyLike | None) -> None:
    for said, policy, role in (
        (found.candidate, candidate, "candidate"),
        (found.champion, champion, "champion"),
    ):
        got, expected = said.id if said else None, policy.id if policy else None
        if got != expected:
            raise GateError(
                f"the evidence is about another {role}", got=got or "none", expected=expected or "none"
            )


def _require_robot(found: Evidence, robot: Robot) -> None:
    """Trials of two robots are about neither."""
    there = robot.description
    if (found.robot, found.standin) != (there.serial, there.standin):
        raise GateError(
            "the evidence is of another robot",
            got=_called(there.serial, there.standin),
            expected=_called(found.robot, found.standin),
            remedy="go on with the robot of the evidence, or begin anew with another --out",
        )


def _require_kept(folder: Path, evidence: Evidence | None) -> None:
    """Refuse to replace trials: whoever repeats them until one series pleases promotes by luck."""
    file = folder / EVIDENCE
    if not file.exists() and (folder / RECORDINGS).exists():
        raise GateError(
            f"{folder} holds recordings of trials, but not their {EVIDENCE}",
            remedy="restore it, or choose another --out",
        )
    if file.exists() and load_evidence(file) != evidence:
        raise GateError(
            f"{file} holds trials already, which would be lost",
            remedy=f"go on from them with --evidence {file}, or choose another --out",
        )


def _called(serial: str | None, standin: bool) -> str:
    return f"{'stand-in' if standin else 'robot'} {serial}"


def _list(
    twin: Twin,
    robot: Robot | None,
    supervisor: TrialSupervisor | None,
    numbers: Sequence[int],
    randomization: Randomization | None,
    seed: int,
    watchers: Watchers,
) -> list[Scene]:
    if not numbers:
        raise WrongUse("a gate needs at least one scene", got=len(numbers))
    if robot is not None and supervisor is not None and robot.description.standin:
        return look_at_list(robot, supervisor, twin, numbers, watchers.progress("looking at scenes"))
    return draw_list(twin, len(numbers), seed, randomization)


def _checked(
    found: Evidence, rules: Rules, twin: Twin, datasets: Sequence[Mapping[str, Any]], situation: Situation
) -> tuple[Check, ...]:
    subject = Subject(
        found,
        rules,
        twin,
        situation.twin_folder,
        situation.workspace,
        tuple(datasets),
        situation.drift,
        situation.alerts,
        situation.twin_since,
    )
    return accept(run_checks(subject), situation.accepted, situation.by, situation.reason)


def _try(
    found: Evidence,
    rules: Rules,
    current: bool,
    candidate: PolicyLike,
    champion: PolicyLike | None,
    robot: Robot,
    supervisor: TrialSupervisor,
    folder: Path,
    time_limit_s: float | None,
    situation: Situation,
    watchers: Watchers,
) -> Evidence:
    """Real trials until the evidence suffices; each is on the disk before the next begins."""
    if found.drawn_with is None or (found.real and not found.combinable):
        raise WrongUse(
            "the evidence so far was not drawn from its list of scenes, so a robot cannot go on from it",
            remedy="gate it as it is, or begin anew",
        )
    by_number = {trial.scene: Scene(trial.scene, trial.values) for trial in found.simulated}
    if not robot.description.standin:
        supervisor = Placing(supervisor, list(by_number.values()), watchers.tell)
    order = draw_scenes(list(by_number), found.drawn_with, rules.max_trials)
    names = [candidate.name] if champion is None else [candidate.name, champion.name]
    found = replace(found, recordings=tuple(str(folder / RECORDINGS / name) for name in names))
    _keep(found, folder / EVIDENCE, situation)
    for number in range(len(found.real), rules.max_trials):
        if settled(found, rules, current):
            break
        trial = try_on_robot(
            candidate,
            champion,
            robot,
            supervisor,
            by_number[order[number]],
            turn=number,
            out=folder / RECORDINGS,
            time_limit_s=time_limit_s,
        )
        found = found.with_real(trial)
        _keep(found, folder / EVIDENCE, situation)
        now = measure(found, rules, twin_is_current=current, interval=False)
        watchers.trial(number + 1, trial, decide(found, now, rules))
    return found


def _keep(found: Evidence, file: Path, situation: Situation) -> None:
    """Trials on the disk, and in the memory of the workspace."""
    save_evidence(found, file)
    if situation.workspace is not None and found.real:
        note(situation.workspace, found, file)


def settled(found: Evidence, rules: Rules, current: bool) -> bool:
    """Whether another trial could change nothing: promoted, or refused by evidence and not for want of it."""
    now = measure(found, rules, twin_is_current=current, interval=False)
    standings = [part.standing for part in now.slices]
    if "worse" in standings or (now.refusing and not now.promoting):
        return True
    return now.promoting and "open" not in standings
