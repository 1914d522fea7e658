"""The task protocol, and the registry of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.plugins import Registry
from twinloop.tasks.cell import Cell, make_cell
from twinloop.tasks.truth import Truth
from twinloop.twins import Twin


@dataclass(frozen=True)
class Start:
    """Initial state of n episodes: qpos (n, nq), qvel (n, nv), ctrl (n, nu), mocap_pos (n, nmocap, 3)."""

    qpos: Array
    qvel: Array
    ctrl: Array
    mocap_pos: Array


@dataclass(frozen=True)
class Judgement:
    """Status of N episodes: `phase` and `reason` index the task's `phases` and `failures`.

    An episode ends on `success`, or when success has become impossible (`failed`). `reason` is what is missing for
    success; it is the failure label if the episode ends now.
    """

    phase: Array
    success: Array
    failed: Array
    reason: Array
    memory: Array


class Task(Protocol):
    """A task in a cell; stateless.

    `memory` numbers per environment, zeros at the start, are carried from one judgement to the next.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles that a twin must have."""

    @property
    def phases(self) -> tuple[str, ...]:
        """Names that `Judgement.phase` indexes."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Names that `Judgement.reason` indexes."""

    @property
    def time_limit_s(self) -> float:
        """Time limit of an episode, s."""

    @property
    def memory(self) -> int:
        """Length of the state carried from one judgement to the next."""

    @property
    def text(self) -> str:
        """The task as an instruction."""

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """Initial state of one episode per seed; `values` maps parameter names to a number or an array (n,)."""

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """Judge every environment; called once per control step."""


@runtime_checkable
class RewardedTask(Protocol):
    """A task that also says how good a state is, for reinforcement learning."""

    def reward(self, truth: Truth) -> Array:
        """Dense reward of each environment (N,) per control step, from -1 (far from success) to 0.

        Never positive, so that nothing is gained by putting success off.
        """


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
                remedy=f"name the part under {role!r} in the twin's roles",
            )


def first_true(*conditions: Array) -> Array:
    """For each environment the index of the first condition that holds; the number of conditions when none does."""
    return np.asarray(np.argmax(np.stack([*conditions, np.ones_like(conditions[0])]), axis=0))
