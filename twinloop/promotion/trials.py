"""Trials: a candidate and its champion in the same scenes, simulated side by side or on a robot in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.evaluation.run import Evaluation, evaluate_in_twin, evaluate_on_robot
from twinloop.policies.policy import Policy
from twinloop.promotion.evidence import PairedTrial
from twinloop.promotion.scenes import Progress, Scene
from twinloop.robots.protocol import Robot, TrialSupervisor
from twinloop.twins import Twin


def simulate(
    candidate: Policy,
    champion: Policy | None,
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
    found: list[Evaluation] = []
    for policy in policies:

        def tell(done: int, total: int, before: int = len(found) * len(scenes)) -> None:
            progress(before + done, len(policies) * total)

        made = evaluate_in_twin(policy, twin, seed=seed, scenes=values, threads=threads, progress=tell)
        found.append(made)
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
    candidate: Policy,
    champion: Policy | None,
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
        (found,) = evaluate_on_robot(
            [policy],
            robot,
            episodes=1,
            first=scene.number,
            time_limit_s=time_limit_s,
            out=out / policy.name,
            supervisor=supervisor,
        )
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
