"""Trials on a robot: one episode after the other; several policies take turns in every scene."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import UnknownName, WrongUse
from twinloop.evaluation.environment import OnProgress, dataset_folder, read_trial
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.policies.act import PolicyController
from twinloop.policies.protocol import PolicyLike, actor_id
from twinloop.robots.protocol import Robot, TrialSupervisor
from twinloop.robots.record import RecordingSpec, record
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
    - `resume`: trials of a single policy that its dataset holds already count, and only the others are made.
    """

    robot: Robot
    supervisor: TrialSupervisor | None = None
    time_limit_s: float | None = None
    cameras: tuple[str, ...] = ()
    until_failure: bool = False
    resume: bool = False

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
        supervisor = self._find_supervisor()
        controllers = [PolicyController(policy, self.robot.description) for policy in policies]
        for policy in policies if out is not None else ():
            _require_own_episodes(dataset_folder(Path(out or ""), policy, policies), policy, self.robot)
        limit_s = self.time_limit_s or task_time_limit_s(self.robot)
        trials: list[list[Trial]] = [[] for _ in policies]
        with ExitStack() as stack:
            root = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if self.resume and len(policies) == 1 and (root / "meta").exists():
                trials[0] = _read_trials(open_dataset(root), seed, count, newest=False)
            for first, scenes in self._rounds(seed, len(trials[0]), count, len(policies)):
                if self.until_failure and any(trial.success is False for own in trials for trial in own):
                    break
                for index, controller in enumerate(controllers):
                    folder = dataset_folder(root, policies[index], policies)
                    if out is None:
                        folder = root / policies[index].name
                    spec = RecordingSpec(
                        scenes,
                        limit_s,
                        task=self.robot.description.task,
                        cameras=self.cameras,
                        first=first,
                    )

                    def on_episode(done: int, _: int, before: int = sum(map(len, trials))) -> None:
                        on_progress(before + done, count * len(policies))

                    dataset = record(
                        self.robot, controller, folder, spec, supervisor=supervisor, on_progress=on_episode
                    )
                    trials[index] += _read_trials(dataset, first, scenes)
        where, standin = self.robot.description.serial, self.robot.description.standin
        return [
            Evaluation(policy.name, policy.id, where, seed, tuple(own), standin)
            for policy, own in zip(policies, trials, strict=True)
        ]

    def _rounds(self, seed: int, done: int, count: int, policies: int) -> list[tuple[int, int]]:
        """Numbers of first scenes, with how many are recorded in one go: one by one where policies take turns or may stop."""
        if policies > 1 or self.until_failure:
            return [(seed + number, 1) for number in range(done, count)]
        return [(seed + done, count - done)] if done < count else []

    def _find_supervisor(self) -> TrialSupervisor:
        if self.supervisor is not None:
            return self.supervisor
        if isinstance(self.robot, TrialSupervisor):
            return self.robot
        raise WrongUse("nothing judges whether an episode succeeds", remedy="pass a supervisor")


def task_time_limit_s(robot: Robot) -> float:
    """Return the time limit of the task of a connected robot."""
    description = robot.description
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
