"""Simulate episodes side by side, behind imperfect hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinloop.episode import Episode, Schema
from twinloop.generate.job import Job


def episode_schema(job: Job) -> Schema:
    """What every episode of a job declares."""
    raise NotImplementedError


def rollout(job: Job, seed: int, numbers: Sequence[int], threads: int = 1) -> Iterator[Episode]:
    """One episode for each number, in order; the result does not depend on which others are asked for."""
    raise NotImplementedError
