"""How often a policy succeeds: in a twin, many episodes at once; on a robot, one after the other.

The scene of an episode follows from the seed and its number alone, so that every policy that is evaluated with the same
seed meets the same scenes, and two of them can be compared pair by pair.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset
from twinloop.datasets.writer import DatasetWriter, make_dataset
from twinloop.episode import Episode
from twinloop.errors import LearnError, WrongUse
from twinloop.experts import Setup
from twinloop.generation.artefacts import KIND as ARTEFACT
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import episode_schema, rollout_drawn
from twinloop.policies.act import PolicyController, PolicyExpert
from twinloop.policies.interface import require_cameras
from twinloop.policies.policy import Policy
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.protocol import Robot, TrialSupervisor
from twinloop.robots.record import RecordingSpec, record
from twinloop.stats.interval import Interval, exact_interval, mcnemar_p_value
from twinloop.tasks import make_task
from twinloop.twins import Twin, load_twin

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Trial:
    """One episode: its number, how it ended, the last phase the task saw it in (None where nobody watches), and how
    many artefacts the simulator showed."""

    number: int
    success: bool
    failure: str | None = None
    phase: str | None = None
    draw: Mapping[str, float | str] | None = None
    artefacts: int = 0


@dataclass(frozen=True)
class Evaluation:
    """Trials of one policy in one place. `standin` says that the robot was none; `twin` is name, version and hash of the
    twin that was simulated, None on a robot."""

    policy: str
    policy_id: str
    where: str
    seed: int
    trials: tuple[Trial, ...]
    standin: bool = False
    twin: Mapping[str, str | None] | None = None

    @property
    def successes(self) -> int:
        """How many trials succeeded."""
        return sum(trial.success for trial in self.trials)

    @property
    def success(self) -> float:
        """Their share."""
        return self.successes / len(self.trials)

    def interval(self, confidence: float = 0.95) -> Interval:
        """The success rate with its exact (Clopper-Pearson) interval."""
        return exact_interval(self.successes, len(self.trials), confidence)

    @property
    def failures(self) -> dict[str, int]:
        """Failures by reason, most frequent first."""
        return dict(Counter(t.failure or "unknown" for t in self.trials if not t.success).most_common())

    @property
    def failed_in(self) -> dict[str, int]:
        """Failures by the last phase the task was in."""
        return dict(Counter(t.phase for t in self.trials if not t.success and t.phase).most_common())

    def slices(self) -> list[tuple[str, int, int]]:
        """For each drawn parameter, successes and trials in the lower and upper half of its draws."""
        made = []
        draws = [trial.draw or {} for trial in self.trials]
        for name in sorted(set().union(*draws)):
            values = np.array([float(d[name]) if isinstance(d.get(name), float) else np.nan for d in draws])
            if np.isnan(values).any() or np.ptp(values) == 0.0:
                continue
            middle = float(np.median(values))
            for text, inside in (("<=", values <= middle), (">", values > middle)):
                won = sum(t.success for t, here in zip(self.trials, inside, strict=True) if here)
                made.append((f"{name} {text} {middle:.3g}", won, int(inside.sum())))
        return made

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        interval = self.interval()
        return {
            "policy": self.policy,
            "policy_id": self.policy_id,
            "where": self.where,
            "standin": self.standin,
            "twin": dict(self.twin) if self.twin else None,
            "seed": self.seed,
            "episodes": len(self.trials),
            "successes": self.successes,
            "success": self.success,
            "interval_95": [interval.low, interval.high],
            "failures": self.failures,
            "failed_in": self.failed_in,
            "slices": [{"slice": n, "successes": won, "episodes": of} for n, won, of in self.slices()],
            "outcomes": [trial.success for trial in self.trials],
            "scenes": [dict(trial.draw or {}) for trial in self.trials],
            "artefacts": [trial.artefacts for trial in self.trials] if self.twin else None,
        }


@dataclass(frozen=True)
class Comparison:
    """Two policies in the same scenes: the difference of their success, and how likely chance alone would differ so."""

    difference: float
    only_first: int
    only_second: int
    p_value: float


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Pair by pair (exact McNemar); refuses evaluations that did not see the same scenes."""
    numbers = [trial.number for trial in first.trials]
    if (first.where, first.seed, numbers) != (second.where, second.seed, [t.number for t in second.trials]):
        raise WrongUse(
            "these evaluations cannot be paired",
            got=f"{second.where}, seed {second.seed}, {len(second.trials)} trials",
            expected=f"{first.where}, seed {first.seed}, {len(first.trials)} trials",
        )
    pairs = [(a.success, b.success) for a, b in zip(first.trials, second.trials, strict=True)]
    only_first, only_second = pairs.count((True, False)), pairs.count((False, True))
    p_value = mcnemar_p_value(only_first, only_second)
    return Comparison(first.success - second.success, only_first, only_second, p_value)


def evaluate_in_twin(
    policy: Policy,
    twin: str | Path | Twin,
    *,
    episodes: int = 200,
    seed: int = 0,
    randomization: Randomization | None = None,
    scenes: Sequence[Mapping[str, float]] | None = None,
    real: bool = False,
    threads: int = 1,
    out: str | Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Evaluation:
    """Let a policy act in a twin's own task; with `out`, the episodes are kept as a dataset.

    `scenes` are values of parameters for each episode, the same parameters in all, instead of a randomization.
    `real` tells the policy that it watches a robot: the twin stands in for one.
    """
    if scenes is not None:
        episodes = len(scenes)
    if episodes < 1:
        raise WrongUse("an evaluation needs at least one episode", got=episodes)
    cell = twin if isinstance(twin, Twin) else load_twin(twin)
    chosen = (randomization or training_scenes(cell)).over(episodes)
    job = Job(cell, cell.task, f"{policy.name}@{policy.id}", chosen)
    _require_schema(policy, job)
    numbers = range(episodes)
    drawn = draw_many(chosen, seed, numbers)
    if scenes is not None:
        drawn = {name: np.array([scene[name] for scene in scenes]) for name in scenes[0]}
    seeds = [episode_seed(seed, number) for number in numbers]

    def make(setup: Setup) -> PolicyExpert:
        return PolicyExpert(policy, setup, real=real)

    trials: list[Trial] = []
    with ExitStack() as stack:
        writer: DatasetWriter | None = None
        if out is not None:
            writer = stack.enter_context(make_dataset(Path(out), episode_schema(job)))
        for episode in rollout_drawn(job, seeds, drawn, threads, make):
            trials.append(_trial(len(trials), episode))
            progress(len(trials), episodes)
            if writer is not None:
                writer.add(episode)
    simulated = {"name": cell.name, "version": cell.version, "hash": cell.content_hash}
    return Evaluation(policy.name, policy.id, cell.name, seed, tuple(trials), twin=simulated)


def evaluate_on_robot(
    policies: Sequence[Policy],
    robot: Robot,
    *,
    episodes: int = 50,
    first: int = 0,
    time_limit_s: float | None = None,
    out: str | Path | None = None,
    cameras: tuple[str, ...] = (),
    supervisor: TrialSupervisor | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Evaluation]:
    """Let policies act on a connected robot, taking turns, each in every scene.

    `out` is a folder that gets one dataset per policy, with images of `cameras`. `supervisor` sets the scene and
    judges; a stand-in brings one.
    """
    if episodes < 1 or not policies:
        raise WrongUse("an evaluation needs at least one policy and one episode", got=episodes)
    if len({policy.id for policy in policies}) < len(policies):
        raise WrongUse("a policy is named twice", got=", ".join(policy.name for policy in policies))
    beside = supervisor or (robot if isinstance(robot, TrialSupervisor) else None)
    if beside is None:
        raise WrongUse("nobody says whether an episode succeeds", remedy="pass a supervisor")
    controllers = [PolicyController(policy, robot.description) for policy in policies]
    for policy in policies if out is not None else ():
        _require_own(Path(out or "") / ("" if len(policies) == 1 else policy.name), policy, robot)
    longest = time_limit_s or task_time_limit_s(robot)
    done: list[list[Trial]] = [[] for _ in policies]
    with ExitStack() as stack:
        root = Path(out) if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # A single policy is recorded in one go; several take turns, scene by scene.
        rounds = [(first, episodes)] if len(policies) == 1 else [(first + k, 1) for k in range(episodes)]
        for begin, count in rounds:
            for index, controller in enumerate(controllers):
                folder = root if out is not None and len(policies) == 1 else root / policies[index].name
                spec = RecordingSpec(
                    count, longest, task=robot.description.task, cameras=cameras, first=begin
                )

                def tell(made: int, _: int, before: int = sum(map(len, done))) -> None:
                    progress(before + made, episodes * len(policies))

                dataset = record(robot, controller, folder, spec, supervisor=beside, on_progress=tell)
                done[index] += _recorded_trials(dataset, begin, count)
    where = robot.description.serial
    return [
        Evaluation(policy.name, policy.id, where, first, tuple(trials), robot.description.standin)
        for policy, trials in zip(policies, done, strict=True)
    ]


def _require_own(folder: Path, policy: Policy, robot: Robot) -> None:
    """Refuse to add to episodes of another robot or by somebody else: what is measured from them would be about neither."""
    if not (folder / "meta").exists():
        return
    there = query([folder], "select distinct robot_serial, actor_id from episodes").to_pylist()
    mine = {"robot_serial": robot.description.serial, "actor_id": f"{policy.name}@{policy.id}"}
    others = [", ".join(str(value) for value in one.values()) for one in there if one != mine]
    if others:
        raise WrongUse(
            f"{folder} has episodes of another robot or by somebody else",
            got="; ".join(others[:3]),
            expected=", ".join(mine.values()),
            remedy="keep these in a folder of their own: another --out",
        )


def _recorded_trials(dataset: Dataset, first: int, count: int) -> list[Trial]:
    newest = dataset.numbers[-count:]
    episodes = [dataset.episode(number) for number in newest]
    return [replace(_trial(first + k, episode), draw=None) for k, episode in enumerate(episodes)]


def task_time_limit_s(robot: Robot) -> float:
    """How long the task of a connected robot may take."""
    description = robot.description
    if description.twin is None:
        raise WrongUse("the robot does not say how long its task takes", remedy="give time_limit_s")
    twin = load_twin(description.twin)
    return make_task(description.task or twin.task, twin).time_limit_s


def _trial(number: int, episode: Episode) -> Trial:
    phases = [event.detail for event in episode.events if event.kind == "phase"]
    return Trial(
        number,
        episode.success is True,
        episode.outcome.failure,
        phases[-1] if phases else None,
        dict(episode.provenance.draw),
        sum(event.kind == ARTEFACT for event in episode.events),
    )


def _require_schema(policy: Policy, job: Job) -> None:
    """Refuse a twin whose episodes do not have the signals that the policy sees."""
    declared = {signal.name: signal for signal in episode_schema(job).signals}
    for signal in (*policy.interface.observations, policy.interface.action):
        found = declared.get(signal.name)
        if found is None or found.size != signal.size:
            raise LearnError(
                f"policy {policy.name} does not fit twin {job.twin.name}: {signal.name}",
                got="nothing" if found is None else f"{found.size} numbers",
                expected=f"{signal.size} numbers",
            )
    where = f"twin {job.twin.name}"
    require_cameras(policy.interface.cameras, job.twin.cameras, policy.image_side, where)
    if job.twin.control_hz != policy.interface.rate_hz:
        raise LearnError(
            f"policy {policy.name} does not fit twin {job.twin.name}: its control rate",
            got=f"{job.twin.control_hz:g} Hz",
            expected=f"{policy.interface.rate_hz:g} Hz",
        )
