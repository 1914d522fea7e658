"""Trials: a candidate and its champion in the same scenes, simulated or on a robot in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError, PolicyGone
from twinloop.evaluation.environment import OnProgress
from twinloop.evaluation.robot import RobotEnvironment, task_time_limit_s
from twinloop.evaluation.run import evaluate, evaluate_in_turns
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.act import PolicyController
from twinloop.policies.protocol import PolicyLike, cameras_of
from twinloop.promotion.evidence import PairedTrial
from twinloop.promotion.scenes import set_up_by
from twinloop.robots.protocol import Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.record import RecordingSpec, Station
from twinloop.robots.replicas import share
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.scenes import Scene
from twinloop.supervision.schedule import draw_order
from twinloop.supervision.series import find_void, run_trial
from twinloop.supervision.trial import Announcement
from twinloop.twins import Twin

ATTEMPTS = 3
"""Attempts at a real trial in which the policy gives no answer; such a trial is void and never counted."""


@dataclass(frozen=True)
class Series:
    """What a turn belongs to: the most turns that there may be, and the seed of the order in which policies act."""

    most: int
    seed: int = 0


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
    series: Series | None = None,
) -> PairedTrial:
    """Run one real trial; the order of the policies alternates, and each policy has its own dataset of recordings.

    Where the robot has replicas, the policies act at the same time. With a person beside the robot the order is drawn instead, and
    trials that are void are repeated. A recording of this turn left by a gate that was killed before saving its evidence is reused.
    """
    order = [candidate] if champion is None else [candidate, champion]
    if isinstance(supervisor, PersonSupervisor):
        series = series or Series(turn + 1)
        drawn = [order[k] for k in draw_order(len(order), series.seed, turn)]
        found = _attended(drawn, robot, supervisor, scene, turn, out, time_limit_s, series)
        return _pair(candidate, champion, scene, found)
    if turn % 2:
        order.reverse()

    def run(place: tuple[Robot, TrialSupervisor], policy: PolicyLike) -> tuple[str, bool]:
        folder = out / policy.name
        if (earlier := _recorded(folder, turn)) is not None:
            return policy.id, earlier
        environment = RobotEnvironment(*place, time_limit_s, cameras=cameras_of(policy), keep_void=False)
        for _ in range(ATTEMPTS):
            evaluation = evaluate(policy, environment, episodes=1, seed=scene.number, out=folder)
            if evaluation.trials:
                return policy.id, _require_judged(evaluation.trials[0].success, folder, turn)
        raise PolicyGone(
            f"policy {policy.name} gave no answer in {ATTEMPTS} attempts at trial {turn}, which are void",
            remedy="make sure that it answers, and continue with --evidence",
        )

    places: list[tuple[Robot, TrialSupervisor]] = [
        (robot, set_up_by(robot, supervisor, scene)),
        *((replica, set_up_by(replica, replica, scene)) for replica in replicas),
    ]
    return _pair(candidate, champion, scene, dict(share(places, run, order)))


def _pair(
    candidate: PolicyLike, champion: PolicyLike | None, scene: Scene, successes: Mapping[str, bool]
) -> PairedTrial:
    other = None if champion is None else successes[champion.id]
    return PairedTrial(scene.number, successes[candidate.id], other, dict(scene.values))


def _attended(
    order: Sequence[PolicyLike],
    robot: Robot,
    person: PersonSupervisor,
    scene: Scene,
    turn: int,
    out: Path,
    time_limit_s: float | None,
    series: Series,
) -> dict[str, bool]:
    """The turn's trials in a drawn order; the person does not learn which policy acts."""
    successes: dict[str, bool] = {}
    limit_s = time_limit_s or task_time_limit_s(robot)
    spec = RecordingSpec(
        1, limit_s, task=robot.description.task, cameras=cameras_of(*order), first=scene.number
    )
    with person.series(turn * len(order), sum(_count_void(out / policy.name) for policy in order)):
        for place, policy in enumerate(order):
            folder = out / policy.name
            if (earlier := _recorded(folder, turn)) is not None:
                successes[policy.id] = earlier
                person.count_done(1)
                continue
            number, total = turn * len(order) + place, series.most * len(order)
            person.announce(Announcement(number, total, scene.number, can_skip=False))
            station = Station(robot, PolicyController(policy, robot.description), person)
            episode = run_trial(station, spec, folder, person)
            success = None if episode is None else episode.success
            successes[policy.id] = _require_judged(success, folder, turn)
    return successes


def _count_void(folder: Path) -> int:
    outcomes = known_outcomes(open_dataset(folder)) if (folder / "meta").exists() else []
    return outcomes.count(None)


def _recorded(folder: Path, turn: int) -> bool | None:
    """Outcome of the trial of a turn, if its recording is the last and every earlier turn has one."""
    dataset = open_dataset(folder) if (folder / "meta").exists() else None
    if dataset is None or len(outcomes := known_outcomes(dataset)) <= turn:
        return None
    if None in outcomes:  # those of void trials do not count
        void = [find_void(dataset.episode(number)) is not None for number in dataset.numbers]
        outcomes = [outcome for outcome, is_void in zip(outcomes, void, strict=True) if not is_void]
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
