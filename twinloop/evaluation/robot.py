"""Trials on a robot: one episode after the other; several policies take turns in every scene.

Replicas of a stand-in share the trials: one for each core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import UnknownName, WrongUse
from twinloop.evaluation.attended import try_attended
from twinloop.evaluation.environment import OnProgress, dataset_folder, read_trial
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.generation.processes import usable_cores
from twinloop.policies.act import PolicyController
from twinloop.policies.latency import Charged, Latency, charged_to
from twinloop.policies.protocol import PolicyLike, actor_id, is_concurrent
from twinloop.robots.protocol import Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.record import RecordingSpec, Station, record
from twinloop.robots.replicas import replicas
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.schedule import Schedule, draw_schedule
from twinloop.tasks import make_task
from twinloop.twins import load_twin

EPISODES = 50
"""Trials where a caller asks for no number."""


@dataclass(frozen=True)
class RobotEnvironment:
    """A connected robot, or a stand-in for one, as a place where policies are tried.

    - `supervisor`: prepares scenes and judges; default: the robot itself, as a stand-in can.
    - `time_limit_s`: limit of an episode; default: that of the robot's task.
    - `cameras`: whose frames are kept in addition to the signals.
    - `until_failure`: stop after the first trial that fails.
    - `keep_void`: trials in which the policy gave no answer are kept, marked as such; else they are no trials.
    - `latency`: inference times that are charged to the policy, on a robot whose time stands still while it thinks (`lockstep`);
      any other robot's time goes on by itself.
    - `resume`: trials of a single policy that its dataset holds already count, and only the others are made.
    """

    robot: Robot
    supervisor: TrialSupervisor | None = None
    time_limit_s: float | None = None
    cameras: tuple[str, ...] = ()
    until_failure: bool = False
    resume: bool = False
    latency: Charged | None = None
    keep_void: bool = True

    def try_policies(
        self,
        policies: Sequence[PolicyLike],
        episodes: int | None,
        seed: int,
        out: Path | None,
        on_progress: OnProgress,
    ) -> list[Evaluation]:
        """Try the policies in turns; `seed` is the number of the first scene."""
        count = EPISODES if episodes is None else episodes
        if count < 1 or not policies:
            raise WrongUse("an evaluation needs at least one policy and one episode", got=count)
        person = self._find_supervisor()
        for policy in policies if out is not None else ():
            _require_own_episodes(dataset_folder(Path(out or ""), policy, policies), policy, self.robot)
        trials: list[list[Trial]] = [[] for _ in policies]
        with ExitStack() as stack:
            root = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folders = [
                dataset_folder(root, policy, policies) if out is not None else root / policy.name
                for policy in policies
            ]
            if isinstance(person, PersonSupervisor):
                file = (
                    out.with_name(f"{out.name}.{Schedule.FILE}") if out is not None else root / Schedule.FILE
                )
                return self._attended(policies, person, folders, file, count, seed, on_progress)
            if self.resume and len(policies) == 1 and (root / "meta").exists():
                trials[0] = _read_trials(open_dataset(root), seed, count, newest=False)
            others = stack.enter_context(self._replicas(policies, count - len(trials[0])))
            series = [self._stations(policy, others) for policy in policies]
            turns = len(policies) > 1 and (self.until_failure or not others)
            for first, scenes in _split(seed, len(trials[0]), count, turns):
                if self.until_failure and any(trial.success is False for own in trials for trial in own):
                    break
                for own, stations, folder in zip(trials, series, folders, strict=True):

                    def on_episode(done: int, _: int, before: int = sum(map(len, trials))) -> None:
                        on_progress(before + done, count * len(policies))

                    own += self._record(stations, folder, first, scenes, on_episode)
        where, standin = self.robot.description.serial, self.robot.description.standin
        return [
            Evaluation(
                policy.name, policy.id, where, seed, tuple(own), standin, latency_s=self._times(policy)
            )
            for policy, own in zip(policies, trials, strict=True)
        ]

    def _attended(
        self,
        policies: Sequence[PolicyLike],
        person: PersonSupervisor,
        folders: Sequence[Path],
        file: Path,
        scenes: int,
        first: int,
        on_progress: OnProgress,
    ) -> list[Evaluation]:
        """Trials that a person sets up and judges, who does not know which policy acts."""
        serial = self.robot.description.serial
        made = try_attended(
            person,
            [self._stations(policy, ())[0] for policy in policies],
            folders,
            draw_schedule([policy.id for policy in policies], serial, first, scenes),
            file,
            self._spec(first, scenes),
            on_progress,
            self.until_failure,
        )
        standin = self.robot.description.standin
        return [
            Evaluation(
                policy.name,
                policy.id,
                serial,
                first,
                trials,
                standin,
                latency_s=self._times(policy),
                repeated=void,
            )
            for policy, trials, void in zip(policies, made.trials, made.void, strict=True)
        ]

    def _spec(self, first: int, scenes: int) -> RecordingSpec:
        return RecordingSpec(
            scenes,
            self.time_limit_s or task_time_limit_s(self.robot),
            task=self.robot.description.task,
            cameras=self.cameras,
            first=first,
            until_failure=self.until_failure,
            keep_void=self.keep_void,
        )

    def _record(
        self, stations: Sequence[Station], folder: Path, first: int, scenes: int, on_progress: OnProgress
    ) -> list[Trial]:
        """Trials of one policy in consecutive scenes; the last is the first failure where that ends them."""
        spec = self._spec(first, scenes)
        before = len(open_dataset(folder)) if (folder / "meta").exists() else 0
        mine = stations[0]
        dataset = record(
            mine.robot,
            mine.controller,
            folder,
            spec,
            supervisor=mine.supervisor,
            replicas=stations[1:],
            on_progress=on_progress,
        )
        return _read_trials(dataset, first, len(dataset) - before)

    def _stations(self, policy: PolicyLike, others: Sequence[SupervisedRobot]) -> list[Station]:
        """The policy on the robot and on its replicas, which supervise themselves."""
        places = [(self.robot, self._find_supervisor()), *((other, other) for other in others)]
        return [
            Station(
                robot,
                PolicyController(policy, robot.description, row, latency=self._charged(policy)),
                supervisor,
            )
            for row, (robot, supervisor) in enumerate(places)
        ]

    def _replicas(
        self, policies: Sequence[PolicyLike], trials: int
    ) -> AbstractContextManager[tuple[SupervisedRobot, ...]]:
        """Replicas of the robot that share the trials, where it supervises them itself and the policies allow it."""
        count = min(usable_cores(), trials) - 1 if all(map(is_concurrent, policies)) else 0
        return replicas(self.robot, self._find_supervisor(), count)

    def _charged(self, policy: PolicyLike) -> Latency | None:
        return charged_to(policy, self.latency) if self.robot.description.lockstep else None

    def _times(self, policy: PolicyLike) -> tuple[float, ...]:
        charged = self._charged(policy)
        return charged.delays_s if charged else ()

    def _find_supervisor(self) -> TrialSupervisor:
        if self.supervisor is not None:
            return self.supervisor
        if isinstance(self.robot, TrialSupervisor):
            return self.robot
        raise WrongUse("nothing judges whether an episode succeeds", remedy="pass a supervisor")


def _split(seed: int, done: int, count: int, turns: bool) -> list[tuple[int, int]]:
    """Numbers of first scenes, with how many are recorded in one go: one by one where policies take turns.

    They need not where the robot has replicas: its episodes do not depend on each other.
    """
    if turns:
        return [(seed + number, 1) for number in range(done, count)]
    return [(seed + done, count - done)] if done < count else []


def task_time_limit_s(robot: Robot) -> float:
    """Return the time limit of the task of a connected robot."""
    description = robot.description
    if description.time_limit_s is not None:
        return description.time_limit_s
    remedy = "give the time limit of an episode: time_limit_s in Python, --seconds on the command line"
    if description.twin is None:
        raise WrongUse("the robot does not declare how long its task takes", remedy=remedy)
    try:
        twin = load_twin(description.twin)
        return make_task(description.task or twin.task, twin).time_limit_s
    except UnknownName as error:
        raise WrongUse(
            f"how long the robot's task takes is not known: {error.what}", remedy=remedy
        ) from error


def _require_own_episodes(folder: Path, policy: PolicyLike, robot: Robot) -> None:
    """Refuse to append to episodes of another robot or policy: what is measured from the mixture would be about neither."""
    if not (folder / "meta").exists():
        return
    recorded = query([folder], "select distinct robot_serial, actor_id from episodes").to_pylist()
    own = {"robot_serial": robot.description.serial, "actor_id": actor_id(policy)}
    others = [", ".join(str(value) for value in one.values()) for one in recorded if one != own]
    if others:
        raise WrongUse(
            f"{folder} has episodes of another robot or policy",
            got="; ".join(others[:3]),
            expected=", ".join(own.values()),
            remedy="keep these in a folder of their own: another --out",
        )


def _read_trials(dataset: Dataset, first: int, count: int, newest: bool = True) -> list[Trial]:
    """Trials of the newest or the oldest `count` episodes, the first of them in scene `first`."""
    numbers = dataset.numbers[-count:] if newest else dataset.numbers[:count]
    episodes = [dataset.episode(number) for number in numbers]
    return [replace(read_trial(first + k, episode), draw=None) for k, episode in enumerate(episodes)]
