"""Trials: a candidate and its champion in the same scenes, simulated side by side or on a robot in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate, evaluate_in_turns
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.evidence import PairedTrial
from twinloop.promotion.scenes import Progress, Scene
from twinloop.robots.protocol import Robot, TrialSupervisor
from twinloop.twins import Twin


def simulate(
    candidate: PolicyLike,
    champion: PolicyLike | None,
    twin: Twin,
    scenes: Sequence[Scene],
    *,
    measured: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Progress = lambda done, total: None,
) -> tuple[PairedTrial, ...]:
    """One simulated trial in every scene of a list; `measured` are values of the robot in all of them."""
    policies = [candidate] if champion is None else [candidate, champion]
    values = [{**(measured or {}), **scene.values} for scene in scenes]
    environment = TwinEnvironment(twin, scenes=values, threads=threads)
    found = evaluate_in_turns(policies, environment, seed=seed, progress=progress)
    return tuple(
        PairedTrial(
            scene=scene.number,
            candidate=found[0].trials[k].success,
            champion=None if champion is None else found[1].trials[k].success,
            values=dict(scene.values),
            artefacts=found[0].trials[k].artefacts,
        )
        for k, scene in enumerate(scenes)
    )


def try_on_robot(
    candidate: PolicyLike,
    champion: PolicyLike | None,
    robot: Robot,
    supervisor: TrialSupervisor,
    scene: Scene,
    *,
    turn: int,
    out: Path,
    time_limit_s: float | None = None,
) -> PairedTrial:
    """One real trial; who goes first alternates, and recordings are appended to one dataset for each policy.

    A recording of this turn that is there already, from a gate that was killed before it took note, is not made again.
    """
    order = [candidate] if champion is None else [candidate, champion]
    if turn % 2:
        order.reverse()
    won = {}
    for policy in order:
        before = _recorded(out / policy.name, turn)
        if before is not None:
            won[policy.id] = before
            continue
        environment = RobotEnvironment(robot, supervisor, time_limit_s)
        found = evaluate(policy, environment, episodes=1, seed=scene.number, out=out / policy.name)
        won[policy.id] = found.trials[0].success
    return PairedTrial(
        scene.number,
        won[candidate.id],
        None if champion is None else won[champion.id],
        dict(scene.values),
    )


def _recorded(folder: Path, turn: int) -> bool | None:
    """How the trial of a turn went, where its recording is the last after one of every turn before."""
    outcomes = known_outcomes(open_dataset(folder)) if (folder / "meta").exists() else []
    return outcomes[turn] if len(outcomes) == turn + 1 else None
