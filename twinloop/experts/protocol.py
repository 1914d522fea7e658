"""The expert protocol, and the registry of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts.reading import Reading
from twinloop.plugins import Registry
from twinloop.tasks import Cell


@dataclass(frozen=True)
class Setup:
    """What an expert is built for: a cell, N parallel environments, episodes of at most `steps` control steps.

    `noise` scales injected disturbances, see `twinloop.generation.job.Job`.
    """

    cell: Cell
    count: int
    steps: int
    noise: float = 0.0

    @cached_property
    def style(self) -> dict[str, Array]:
        """The twin's parameters of stage `actor`, one value per environment (N,); up to date whenever `restart` is called."""
        actor = [parameter for parameter in self.cell.twin.parameters if parameter.stage == "actor"]
        return {parameter.name: np.full(self.count, float(parameter.nominal)) for parameter in actor}


class Expert(Protocol):
    """Controls N environments at once and keeps the state of each.

    An expert acts on sensor readings with delay and errors, never on the true state.
    """

    actor: Actor

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Begin new episodes with these seeds in the environments `ids`; `reading` covers all environments."""

    def act(self, reading: Reading, step: Array) -> Array:
        """Commands for all actuators of all environments, (N, actuators), each at its own control step (N,)."""


@runtime_checkable
class ImageExpert(Protocol):
    """An expert that uses cameras; frames are rendered only where and when it needs them."""

    @property
    def cameras(self) -> tuple[str, ...]:
        """The cameras it uses."""

    def needs_images(self) -> Array:
        """Which environments (N,) need frames for the next `act`."""


EXPERTS: Registry[Callable[[Setup], Expert]] = Registry("expert", "experts")

_USUAL = {"excite": "multisine", "toss": "passive"}


def default_expert(task: str) -> str:
    """Name of the default expert of a task: its own name, except for tasks without a scripted expert."""
    return _USUAL.get(task, task)
