"""Follow an excitation signal, for identification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.tasks.cell import Cell
from twinloop.tasks.place import start_at_rest
from twinloop.tasks.protocol import TASKS, Judgement, Start
from twinloop.tasks.truth import Truth


@TASKS.register("excite")
class Excite:
    """Success: the signal was followed to its end."""

    roles: tuple[str, ...] = ()
    phases = ("excite",)
    failures = ("cut_short",)
    memory = 1
    text = "Follow the excitation signal."

    def __init__(self, cell: Cell, time_limit_s: float = 10.0) -> None:
        self._cell, self.time_limit_s = cell, time_limit_s

    def start(self, values: Mapping[str, Any], seeds: Array) -> Start:
        """Joints at home."""
        return start_at_rest(self._cell, values, len(seeds))

    def judge(self, truth: Truth, memory: Array) -> Judgement:
        """`memory` counts control steps."""
        count = len(memory)
        steps = memory + 1.0
        last = round(self.time_limit_s * self._cell.twin.control_hz)
        return Judgement(
            phase=np.zeros(count, dtype=np.int64),
            success=steps[:, 0] >= last,
            failed=np.zeros(count, dtype=bool),
            reason=np.zeros(count, dtype=np.int64),
            memory=steps,
        )
