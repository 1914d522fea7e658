"""Thousands of episodes from a few demonstrations: each child names its parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twinloop.episode import Episode
from twinloop.experts.multiply import make_multiplier
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import rollout_drawn
from twinloop.randomization import draw_many

MULTIPLY = "multiply"
"""Who acts, in the provenance of a child."""


def multiply(
    job: Job, demonstrations: Sequence[Episode], seed: int, numbers: Sequence[int], threads: int = 1
) -> Iterator[Episode]:
    """One attempt for each number, in order, in the scenes that the job's randomization draws.

    Failed attempts are yielded too, labelled as failures; the caller decides which to keep.
    """
    numbers = [int(number) for number in numbers]
    drawn = draw_many(job.randomization, seed, numbers) if job.randomization is not None else {}
    seeds = [episode_seed(seed, number) for number in numbers]
    make_expert = make_multiplier(demonstrations)
    return rollout_drawn(replace(job, expert=MULTIPLY), seeds, drawn, threads, make_expert=make_expert)
