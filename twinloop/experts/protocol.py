"""The door for experts: who acts in an episode, and where they are found by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Actor
from twinloop.experts.reading import Reading
from twinloop.plugins import Registry
from twinloop.tasks import Cell

Array = NDArray[Any]


@dataclass(frozen=True)
class Setup:
    """What an expert is made for: a cell, N environments side by side, episodes of at most `steps` control steps.

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
    """Acts in N environments at once and remembers where each of them stands.

    An expert sees readings, late and wrong as the operator of a real robot sees them, never the truth.
    """

    actor: Actor

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Forget the past of the environments `ids`, which begin episodes with these seeds; `reading` is of all."""

    def act(self, reading: Reading, step: Array) -> Array:
        """Commands for all actuators of all environments, (N, actuators), each at its own control step (N,)."""


@runtime_checkable
class Looking(Protocol):
    """What an expert has besides when it looks through cameras; images are drawn only where and when it looks."""

    @property
    def cameras(self) -> tuple[str, ...]:
        """The cameras it looks through."""

    def looks(self) -> Array:
        """Which environments (N,) the next `act` needs images of."""


EXPERTS: Registry[Callable[[Setup], Expert]] = Registry("expert", "experts")

_USUAL = {"excite": "multisine", "toss": "passive"}


def default_expert(task: str) -> str:
    """The expert that usually does a task: the one of the same name, unless the task is not about achieving something."""
    return _USUAL.get(task, task)
