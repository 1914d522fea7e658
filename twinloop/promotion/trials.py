"""Trials: a candidate and its champion in the same scenes, simulated or on a robot in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError, PolicyGone
from twinloop.evaluation.environment import OnProgress
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate, evaluate_in_turns
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.evidence import PairedTrial
from twinloop.promotion.scenes import Scene
from twinloop.robots.protocol import Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.replicas import share
from twinloop.twins import Twin

ATTEMPTS = 3
"""Attempts at a real trial in which the policy gives no answer; such a trial is void and never counted."""


def simulate(
    candidate: PolicyLike,
    champion: PolicyLike | None,
    twin: Twin,
    scenes: Sequence[Scene],
    *,
    measured: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int = 1,
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[PairedTrial, ...]:
    """Simulate one trial in every scene of a list; `measured` are values of the robot that hold in all of them."""
    policies = [candidate] if champion is None else [candidate, champion]
    values = [{**(measured or {}), **scene.values} for scene in scenes]
    environment = TwinEnvironment(twin, scenes=values, threads=threads)
    evaluations = evaluate_in_turns(policies, environment, seed=seed, on_progress=on_progress)
    if void := [trial for evaluation in evaluations for trial in evaluation.void]:
        raise PolicyGone(
            f"a policy gave no answer in {len(void)} simulated trials, which say nothing about it: {void[0].void}",
            remedy="make sure that it answers, and gate again",
        )
    return tuple(
        PairedTrial(
            scene=scene.number,
            candidate=evaluations[0].trials[k].success is True,
            champion=None if champion is None else evaluations[1].trials[k].success is True,
            values=dict(scene.values),
            artefacts=evaluations[0].trials[k].artefacts,
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
    replicas: Sequence[SupervisedRobot] = (),
) -> PairedTrial:
    """Run one real trial; the order of the policies alternates, and each policy has its own dataset of recordings.

    Where the robot has replicas, the policies act at the same time. A recording of this turn left by a gate that was killed before
    saving its evidence is reused.
    """
    order = [candidate] if champion is None else [candidate, champion]
    if turn % 2:
        order.reverse()

    def run(place: tuple[Robot, TrialSupervisor], policy: PolicyLike) -> tuple[str, bool]:
        folder = out / policy.name
        if (earlier := _recorded(folder, turn)) is not None:
            return policy.id, earlier
        environment = RobotEnvironment(*place, time_limit_s, keep_void=False)
        for _ in range(ATTEMPTS):
            evaluation = evaluate(policy, environment, episodes=1, seed=scene.number, out=folder)
            if evaluation.trials:
                return policy.id, _require_judged(evaluation.trials[0].success, folder, turn)
        raise PolicyGone(
            f"policy {policy.name} gave no answer in {ATTEMPTS} attempts at trial {turn}, which are void",
            remedy="make sure that it answers, and continue with --evidence",
        )

    places: list[tuple[Robot, TrialSupervisor]] = [
        (robot, supervisor),
        *((replica, replica) for replica in replicas),
    ]
    successes = dict(share(places, run, order))
    return PairedTrial(
        scene.number,
        successes[candidate.id],
        None if champion is None else successes[champion.id],
        dict(scene.values),
    )


def _recorded(folder: Path, turn: int) -> bool | None:
    """Outcome of the trial of a turn, if its recording is the last and every earlier turn has one."""
    outcomes = known_outcomes(open_dataset(folder)) if (folder / "meta").exists() else []
    if len(outcomes) != turn + 1:
        return None
    return _require_judged(outcomes[turn], folder, turn)


def _require_judged(success: bool | None, folder: Path, turn: int) -> bool:
    """The outcome of a trial; a gate neither counts an unknown one against a policy nor leaves it out."""
    if success is None:
        raise GateError(
            f"the outcome of trial {turn} is unknown",
            expected="a success or a failure",
            remedy=f"twinloop data label {folder} {turn} --success (or --failure REASON) --by NAME, then gate again",
        )
    return success
