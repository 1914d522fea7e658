"""What changes while an episode runs: one push on the object, and a table that vibrates.

A push acts for `PUSH_S` from its time on. The table's vibration is felt in the table's own frame as an acceleration of
everything on it; its mean over each control step is exact at any frequency, so that no vibration is lost between steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.tasks import Truth

Array = NDArray[Any]

PUSH_S = 0.1

_NAMES = (
    "push_force_n",
    "push_time_s",
    "push_direction_rad",
    "vibration_m",
    "vibration_hz",
)


class Disturbance:
    """Pushes and vibration of all environments; written to the engine before each control step."""

    def __init__(self, engine: MujocoBatch, drawn: Mapping[str, Any]) -> None:
        self._engine = engine
        twin = engine.cell.twin
        self._nominal = {name: float(twin.parameter(name).nominal) for name in _NAMES if twin.has(name)}
        self._number = {name: np.full(engine.count, value) for name, value in self._nominal.items()}

        def present(name: str) -> bool:
            return name in self._nominal and (name in drawn or self._nominal[name] != 0.0)

        self._pushes, self._vibrates = present("push_force_n"), present("vibration_m")
        self._gravity = engine.expand("opt.gravity") if self._vibrates else None
        self._still = self._gravity.copy() if self._gravity is not None else None

    def restart(self, ids: Array, values: Mapping[str, Any]) -> None:
        """New episodes in the environments `ids`, about to be loaded with these draws; nothing acts on them yet."""
        for name, nominal in self._nominal.items():
            self._number[name][ids] = values.get(name, nominal)
        if self._gravity is not None and self._still is not None:
            self._still[ids] = self._engine.loaded_rows("opt.gravity", values, len(ids))
            self._gravity[ids] = self._still[ids]

    def apply(self, truth: Truth, ids: Array) -> None:
        """Write what acts during the next control step of the environments `ids`."""
        number, time_s, dt_s = self._number, truth.time_s, self._engine.cell.dt_s
        if self._pushes:
            since_s = time_s - number["push_time_s"]
            pushed = (since_s > -0.5 * dt_s) & (since_s < PUSH_S - 0.5 * dt_s)
            force_n = np.where(pushed, number["push_force_n"], 0.0)
            body = self._engine.cell.model.body(self._engine.cell.twin.role("object")).id
            direction = number["push_direction_rad"]
            self._engine.external_force[ids, body, 0] = (force_n * np.cos(direction))[ids]
            self._engine.external_force[ids, body, 1] = (force_n * np.sin(direction))[ids]
        if self._gravity is not None and self._still is not None:
            rate = 2.0 * np.pi * number["vibration_hz"]
            speed = number["vibration_m"] * rate
            # The change of the table's speed over the step, over the step: the mean acceleration.
            change = speed * (np.cos(rate * (time_s + dt_s)) - np.cos(rate * time_s)) / dt_s
            self._gravity[ids] = self._still[ids]
            self._gravity[ids, 0] -= change[ids]
