"""Episodes of a policy in a twin, in groups that an executor may do anywhere.

A group is the same episodes wherever it is done, so that one machine and a cluster compute the same bits: a network's answer may
depend in its last bit on how many episodes it is asked about at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.executors import Executor
from twinloop.experts import Setup
from twinloop.generation.cluster import require_build
from twinloop.generation.job import Job
from twinloop.generation.record import this_build
from twinloop.generation.rollout import rollout_drawn
from twinloop.policies.act import PolicyExpert
from twinloop.policies.latency import Latency
from twinloop.policies.protocol import PolicyLike

GROUP = 32
"""Episodes of a group."""

Tried = tuple[Episode, str | None]
"""An episode, and why it is void."""


@dataclass(frozen=True)
class PolicyWork:
    """A policy and what it is tried in."""

    job: Job
    policy: PolicyLike
    as_robot: bool = False
    latency: Latency | None = None


def try_group(
    work: PolicyWork,
    seeds: Sequence[int],
    drawn: Mapping[str, Array],
    build: Mapping[str, str] | None = None,
    threads: int = 1,
) -> list[Tried]:
    """Simulate one group where this runs."""
    if build is not None:
        require_build(build, work.job.engine)
    return list(roll_policy(work, seeds, drawn, threads))


def roll_policy(
    work: PolicyWork, seeds: Sequence[int], drawn: Mapping[str, Array], threads: int
) -> Iterator[Tried]:
    """Simulate episodes with these seeds and draws in this process, in order."""
    experts: list[PolicyExpert] = []

    def make_expert(setup: Setup) -> PolicyExpert:
        experts.append(PolicyExpert(work.policy, setup, real=work.as_robot, latency=work.latency))
        return experts[-1]

    for row, episode in enumerate(rollout_drawn(work.job, seeds, drawn, threads, make_expert)):
        void = {seed: reason for expert in experts for seed, reason in expert.void.items()}
        yield episode, void.get(seeds[row])


def spread_policy(
    work: PolicyWork, seeds: Sequence[int], drawn: Mapping[str, Array], executor: Executor
) -> Iterator[Tried]:
    """Simulate episodes in groups wherever the executor does them, in order.

    Args:
        work: The policy and its job.
        seeds: A seed for each episode.
        drawn: Values (episodes,) by parameter.
        executor: Where.

    Yields:
        Every episode with why it is void, in the order of the seeds; no more than a few groups wait for an earlier one.
    """
    groups = [slice(first, first + GROUP) for first in range(0, len(seeds), GROUP)]
    build = this_build(work.job.engine)
    tasks = {
        number: (list(seeds[part]), {name: np.asarray(values)[part] for name, values in drawn.items()}, build)
        for number, part in enumerate(groups)
    }
    waiting: dict[int, Any] = {}
    due = 0
    results: Any = executor.map(try_group, work, tasks, lambda number: f"group {number} of the trials")
    with closing(results):
        for number, tried in results:
            waiting[number] = tried
            while due in waiting:
                yield from waiting.pop(due)
                due += 1
