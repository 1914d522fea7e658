"""A `Job`, a seed and a number determine an episode."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from twinloop.engines import DEFAULT_ENGINE
from twinloop.randomization import Randomization
from twinloop.twins import Twin


@dataclass(frozen=True)
class Job:
    """Everything that determines an episode, except its seed and number.

    `task`, `expert` and `engine` are registered names. Without a randomization every episode is the nominal twin. `expert_noise`
    scales the disturbances that are injected into the expert's commands so that the data covers recovery: 0 is none,
    1 is about as much as an expert can still correct. With `expert_sees_truth` the expert acts on the true state instead of
    readings, like a person who sees the scene; readings are recorded all the same.
    """

    twin: Twin
    task: str
    expert: str
    randomization: Randomization | None = None
    cameras: tuple[str, ...] = ()
    expert_noise: float = 0.0
    max_steps: int | None = None
    expert_sees_truth: bool = False
    engine: str = DEFAULT_ENGINE


def episode_seed(seed: int, number: int) -> int:
    """The seed of one episode: 63 bits that depend on the run's seed and the episode's number alone."""
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def describe_actor(job: Job) -> str:
    """The actor id of a job: its expert, and every setting that the rest of the provenance does not hold."""
    words = [job.expert]
    if job.task != job.twin.task:
        words.append(f"task={job.task}")
    if job.expert_noise:
        words.append(f"noise={job.expert_noise!r}")
    if job.max_steps is not None:
        words.append(f"max_steps={job.max_steps}")
    if job.expert_sees_truth:
        words.append("sees=truth")
    return " ".join(words)


def parse_actor(twin: Twin, actor_id: str, randomization: Randomization | None = None) -> Job:
    """Parse what `describe_actor` wrote into a job in the given twin."""
    expert, *words = actor_id.split()
    settings = dict(word.split("=", 1) for word in words)
    return Job(
        twin=twin,
        task=settings.get("task", twin.task),
        expert=expert,
        randomization=randomization,
        expert_noise=float(settings.get("noise", 0.0)),
        max_steps=int(settings["max_steps"]) if "max_steps" in settings else None,
        expert_sees_truth=settings.get("sees") == "truth",
    )
