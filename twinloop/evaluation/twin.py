"""Trials in a twin: many episodes at once; the scene of an episode follows from the seed and its number alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.writer import DatasetWriter, make_dataset
from twinloop.engines import DEFAULT_ENGINE, require_engine
from twinloop.errors import LearnError, WrongUse
from twinloop.evaluation.environment import OnProgress, dataset_folder, read_trial
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.evaluation.trials import PolicyWork, roll_policy, spread_policy
from twinloop.executors import Executor
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import episode_schema
from twinloop.policies.act import require_same_signals
from twinloop.policies.interface import require_cameras
from twinloop.policies.latency import Charged, charged_to
from twinloop.policies.protocol import PolicyLike, actor_id, min_image_side, require_unchanged
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.numerics import list_engines_of, without_numerics
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.record import make_void
from twinloop.twins import Twin

_OnTrial = Callable[[int], None]

EPISODES = 200
"""Trials where a caller asks for no number."""


@dataclass(frozen=True)
class TwinEnvironment:
    """A twin's own task as a place where policies are tried.

    - `randomization`: what varies between episodes; default: the twin's usual scenes.
    - `scenes`: instead of a randomization, values of parameters for each episode, the same parameters in all.
    - `threads`: simulation threads; results do not depend on them.
    - `as_robot`: policies that distinguish robots from simulations act as on a robot: the twin represents one.
    - `latency`: inference times that are charged to the policy; default: it answers at once.
    - `engine`: the physics engine that simulates the episodes.
    - `executor`: does groups of trials elsewhere, such as `OnRay(address)`; default: all of them here, side by side.
    """

    twin: Twin
    randomization: Randomization | None = None
    scenes: Sequence[Mapping[str, float]] | None = None
    threads: int = 1
    as_robot: bool = False
    latency: Charged | None = None
    engine: str = DEFAULT_ENGINE
    executor: Executor | None = None

    def try_policies(
        self,
        policies: Sequence[PolicyLike],
        episodes: int | None,
        seed: int,
        out: Path | None,
        on_progress: OnProgress,
    ) -> list[Evaluation]:
        """Try one policy after the other in the same scenes."""
        count = len(self.scenes) if self.scenes is not None else EPISODES if episodes is None else episodes
        if count < 1:
            raise WrongUse("an evaluation needs at least one episode", got=count)
        evaluations: list[Evaluation] = []
        for policy in policies:

            def on_trial(done: int, before: int = len(evaluations) * count) -> None:
                on_progress(before + done, len(policies) * count)

            folder = None if out is None else dataset_folder(out, policy, policies)
            evaluations.append(self._try_policy(policy, count, seed, folder, on_trial))
        return evaluations

    def _try_policy(
        self, policy: PolicyLike, count: int, seed: int, out: Path | None, on_trial: _OnTrial
    ) -> Evaluation:
        twin = self.twin
        randomization = (self.randomization or training_scenes(twin)).over(count)
        job = Job(twin, twin.task, actor_id(policy), randomization, engine=self.engine)
        require_twin(policy, job)
        numbers = range(count)
        if self.scenes is not None:
            drawn = {name: np.array([scene[name] for scene in self.scenes]) for name in self.scenes[0]}
        else:
            drawn = draw_many(randomization, seed, numbers)
        for one in list_engines_of(randomization, self.engine):
            require_engine(one, twin, without_numerics(drawn))
        seeds = [episode_seed(seed, number) for number in numbers]

        charged = charged_to(policy, self.latency)
        work = PolicyWork(job, policy, self.as_robot, charged)
        tried = (
            roll_policy(work, seeds, drawn, self.threads)
            if self.executor is None
            else spread_policy(work, seeds, drawn, self.executor)
        )
        trials: list[Trial] = []
        with ExitStack() as stack:
            writer: DatasetWriter | None = None
            if out is not None:
                writer = stack.enter_context(make_dataset(out, episode_schema(job)))
            for episode, reason in tried:
                if reason:
                    episode = make_void(episode, reason)
                trials.append(read_trial(len(trials), episode))
                on_trial(len(trials))
                if writer is not None:
                    writer.add(episode)
        if not any(
            trial.void for trial in trials
        ):  # a policy that is gone cannot be asked, and its trials say so
            require_unchanged(policy)
        times = charged.delays_s if charged else ()
        simulated = {"name": twin.name, "version": twin.version, "hash": twin.content_hash}
        if self.engine != DEFAULT_ENGINE:
            simulated["engine"] = self.engine
        return Evaluation(
            policy.name, policy.id, twin.name, seed, tuple(trials), twin=simulated, latency_s=times
        )


def require_twin(policy: PolicyLike, job: Job) -> None:
    """Refuse a twin whose signals, cameras or control rate are not those of the policy, as on a robot."""
    where = f"twin {job.twin.name}"
    declared = {signal.name: signal for signal in episode_schema(job).signals}
    for signal in (*policy.interface.observations, policy.interface.action):
        known = declared.get(signal.name)
        if known is None or known.size != signal.size:
            raise LearnError(
                f"policy {policy.name} does not fit {where}: {signal.name}",
                got="nothing" if known is None else f"{known.size} numbers",
                expected=f"{signal.size} numbers",
            )
    require_cameras(policy.interface.cameras, job.twin.cameras, min_image_side(policy), where)
    if job.twin.control_hz != policy.interface.rate_hz:
        raise LearnError(
            f"policy {policy.name} does not fit {where}: its control rate",
            got=f"{job.twin.control_hz:g} Hz",
            expected=f"{policy.interface.rate_hz:g} Hz",
        )
    require_same_signals(policy, declared, declared["action"], job.twin.control_hz, where)
