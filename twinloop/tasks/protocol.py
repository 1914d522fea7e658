"""The door for tasks: what a task must say, and where tasks are found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import WrongUse
from twinloop.plugins import Registry
from twinloop.tasks.cell import Cell, make_cell
from twinloop.tasks.truth import Truth
from twinloop.twins import Twin

Array = NDArray[Any]


@dataclass(frozen=True)
class Start:
    """How n episodes start: qpos (n, nq), qvel (n, nv), ctrl (n, nu), mocap_pos (n, nmocap, 3)."""

    qpos: Array
    qvel: Array
    ctrl: Array
    mocap_pos: Array


@dataclass(frozen=True)
class Judgement:
    """Where N episodes stand: `phase` and `reason` index the task's `phases` and `failures`.

    An episode ends when it succeeded or when nothing can help it any more (`failed`). `reason` is what is missing for
    success now; it becomes the failure label if the episode ends now without success.
    """

    phase: Array
    success: Array
    failed: Array
    reason: Array
    memory: Array


class Task(Protocol):
    """What to do in a cell. Made from the cell; holds no state of its own.

    `memory` numbers per environment, zeros at the start, are carried from one judgement to the next.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """Parts a twin must have."""

    @property
    def phases(self) -> tuple[str, ...]:
        """What `Judgement.phase` counts."""

    @property
    def failures(self) -> tuple[str, ...]:
        """What `Judgement.reason` counts."""

    @property
    def time_limit_s(self) -> float:
        """When an episode is ended whatever its state."""

    @property
    def memory(self) -> int:
        """Numbers carried from one judgement to the next."""

    @property
    def text(self) -> str:
        """The task in words, as a person would be told."""

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """How one episode per seed starts; `values` maps parameter names to a number or an array (n,)."""

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """Where each environment stands; called once per control step."""


TASKS: Registry[Callable[[Cell], Task]] = Registry("task", "tasks")


def make_task(name: str, twin: Twin) -> Task:
    """The task called `name` in this twin's cell; refuses a twin that lacks a part the task needs."""
    factory = TASKS.get(name)
    _check_roles(name, getattr(factory, "roles", ()), twin)
    task = factory(make_cell(twin))
    _check_roles(name, task.roles, twin)
    return task


def _check_roles(name: str, roles: tuple[str, ...], twin: Twin) -> None:
    for role in roles:
        if role not in twin.roles:
            raise WrongUse(
                f"task {name!r} needs a part that twin {twin.name!r} does not have",
                got=", ".join(sorted(twin.roles)) or "no roles",
                expected=", ".join(roles),
                remedy=f"say which part is the {role!r} in the twin's roles",
            )


def first_true(*conditions: Array) -> Array:
    """For each environment the index of the first condition that holds; the number of conditions when none does."""
    return np.asarray(np.argmax(np.stack([*conditions, np.ones_like(conditions[0])]), axis=0))
