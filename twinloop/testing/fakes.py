"""A minimal task and a minimal expert, for tests and as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Actor
from twinloop.experts import Reading, Setup
from twinloop.tasks import Cell, Judgement, Start, Truth
from twinloop.twins import initial_state

Array = NDArray[Any]


class WaitTask:
    """Succeeds after a number of control steps."""

    roles: tuple[str, ...] = ()
    phases = ("wait",)
    failures = ("cut_short",)
    time_limit_s = 1.0
    memory = 1
    text = "Wait."

    def __init__(self, cell: Cell, steps: int = 5) -> None:
        self._cell, self._steps = cell, steps

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """As the twin starts."""
        state = initial_state(self._cell.twin, values, len(seeds))
        return Start(state.qpos, np.zeros((len(seeds), self._cell.model.nv)), state.ctrl, state.mocap_pos)

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """Count."""
        count = len(memory)
        none = np.zeros(count, dtype=np.int64)
        return Judgement(none, memory[:, 0] + 1 >= self._steps, none.astype(bool), none, memory + 1.0)


class StillExpert:
    """Commands the home pose."""

    actor: Actor = "expert"

    def __init__(self, setup: Setup) -> None:
        self._hold = np.zeros((setup.count, len(setup.cell.actuators)))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Remember where the actuators are."""
        self._hold[ids] = reading.position[ids]

    def act(self, reading: Reading, step: Array) -> Array:
        """Stay there."""
        return self._hold.copy()
