"""Stages on the robot: trials, excitation runs, demonstrations, deployed episodes. It is only asked through its protocol."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import WrongUse
from twinloop.evaluation.robot import RobotEnvironment, task_time_limit_s
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.identification.change import FEWEST
from twinloop.monitoring.run import monitor
from twinloop.policies.act import PolicyController
from twinloop.quality.check import check_dataset
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.randomization import Randomization
from twinloop.robots import Robot, TrialSupervisor, connected, open_robot
from twinloop.robots.controllers import Controller, ExpertController, OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.stages import Done, Progress
from twinloop.steps.folders import DATA, RUNS, THREADS, USABLE, Found, described, policy_of, share_of
from twinloop.twins import Twin

SIGNALS = ("multisine", "waypoints")
"""Excitation that moves every joint all the time, and in large smooth moves."""


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
    with reached(url) as (arm, _):
        return Station(url, arm.description.serial, arm.description.twin)


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
    first: int = 0,
) -> Found:
    """How often a policy succeeds in simulation and on the robot; the robot's episodes are kept."""
    loaded = policy_of(policy)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    simulated = evaluate(loaded, TwinEnvironment(twin, scenes, threads=THREADS), episodes=in_twin, seed=seed)
    with reached(robot.url) as (arm, supervisor):
        environment = RobotEnvironment(arm, supervisor)
        measured = evaluate(
            loaded, environment, episodes=trials, seed=first, out=out / RUNS, progress=progress
        )
    return {"simulation": simulated.as_json(), "robot": measured.as_json()}


def excite(
    out: Path, progress: Progress, *, twin: Twin, robot: Station, runs: int, seconds: float, first: int
) -> Found:
    """Excitation runs, different signals in turn."""

    def acting(arm: Robot, supervisor: TrialSupervisor, number: int) -> Controller:
        return ExpertController(twin, SIGNALS[number % len(SIGNALS)], seconds)

    task = "Follow the excitation signal."
    return _recorded(out / DATA, progress, robot, runs, acting, seconds, first, task, judged=False)


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

    def acting(arm: Robot, supervisor: TrialSupervisor, number: int) -> Controller:
        return OperatorController(supervisor, operator)

    places = [earlier.folder / DATA] if earlier else []
    found: Found = {"episodes": 0}
    if wanted:
        found = _recorded(out / DATA, progress, robot, wanted, acting, seconds, first, task)
        places.append(out / DATA)
    return {**found, "used": _choose([open_dataset(place) for place in places], out / USABLE)}


def try_until_failure(
    out: Path, progress: Progress, *, policy: Done, robot: Station, trials: int, first: int
) -> Found:
    """Trials of a policy, until one is not said to have succeeded or so many were."""
    loaded = policy_of(policy)

    def acting(arm: Robot, supervisor: TrialSupervisor, number: int) -> Controller:
        return PolicyController(loaded, arm.description)

    def failed(dataset: Dataset) -> bool:
        return not all(known_outcomes(dataset))

    found = _recorded(out / DATA, progress, robot, trials, acting, None, first, "Tried.", over=failed)
    won = [
        success is True for success in known_outcomes(open_dataset(out / DATA))
    ]  # nobody's word is no success
    return {**found, "success": sum(won) / len(won)}


def watch(
    out: Path,
    progress: Progress,
    *,
    policy: Done,
    robot: Station,
    reference: Done,
    shown: Done,
    episodes: int,
    first: int,
) -> Found:
    """Deployed episodes of the champion, looked at once: beside the gate's, or beside demonstrations where those are few."""
    loaded = policy_of(policy)

    def acting(arm: Robot, supervisor: TrialSupervisor, number: int) -> Controller:
        return PolicyController(loaded, arm.description)

    found = _recorded(out / DATA, progress, robot, episodes, acting, None, first, "Deployed.")
    deployed = open_dataset(out / DATA)
    usual = open_dataset(reference.folder / reference.found["recordings"])
    if len(usual) < FEWEST and shown.found["used"]:
        usual = open_dataset(shown.folder / USABLE)
    report = monitor(deployed, usual)
    won = [success is True for success in known_outcomes(deployed)]
    return found | {"robot": share_of(won), "report": report.as_json()}


@contextmanager
def reached(url: str) -> Iterator[tuple[Robot, TrialSupervisor]]:
    """A connected robot and whoever sets scenes and judges beside it."""
    arm = open_robot(url)
    if not isinstance(arm, TrialSupervisor):
        raise WrongUse(
            f"nobody stands beside {url} to set scenes and judge",
            remedy="record, evaluate and gate by hand; the loop runs alone only where the robot judges itself",
        )
    with connected(arm):
        yield arm, arm


def _recorded(
    folder: Path,
    progress: Progress,
    robot: Station,
    wanted: int,
    acting: Callable[[Robot, TrialSupervisor, int], Controller],
    seconds: float | None,
    first: int,
    task: str,
    judged: bool = True,
    over: Callable[[Dataset], bool] = lambda dataset: False,
) -> Found:
    """Record until there are as many episodes as wanted, or it is over; the scene of each follows from its number."""
    there = len(open_dataset(folder)) if folder.exists() else 0
    if there < wanted:
        with reached(robot.url) as (arm, supervisor):
            for number in range(there, wanted):
                if number and over(open_dataset(folder)):
                    break
                progress(number, wanted)
                longest = seconds or task_time_limit_s(arm)
                spec = RecordingSpec(1, longest, task=task, first=first + number, judged=judged)
                record(arm, acting(arm, supervisor, number), folder, spec, supervisor=supervisor)
    return described(open_dataset(folder))


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
