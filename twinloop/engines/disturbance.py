"""What changes while an episode runs: one push on the object, and a table that vibrates.

A push acts for `PUSH_S` from its time on. The table's vibration is felt in the table's own frame as an acceleration of
everything on it; its mean over each control step is exact at any frequency, so that no vibration is lost between steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.engines.joint_friction import loaded_rows
from twinloop.engines.protocol import Engine
from twinloop.episode import Array
from twinloop.tasks import Truth

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

    def __init__(self, engine: Engine, drawn: Mapping[str, Any]) -> None:
        self._engine = engine
        twin = engine.cell.twin
        self._nominal = {name: float(twin.parameter(name).nominal) for name in _NAMES if twin.has(name)}
        self._number = {name: np.full(engine.count, value) for name, value in self._nominal.items()}

        def present(name: str) -> bool:
            return name in self._nominal and (name in drawn or self._nominal[name] != 0.0)

        self._pushes, self._vibrates = present("push_force_n"), present("vibration_m")
        self._gravity = loaded_rows(engine.cell, "opt.gravity", {}, engine.count)

    def restart(self, ids: Array, values: Mapping[str, Any]) -> None:
        """New episodes in the environments `ids`, about to be loaded with these draws; nothing acts on them yet."""
        for name, nominal in self._nominal.items():
            self._number[name][ids] = values.get(name, nominal)
        if self._vibrates:
            self._gravity[ids] = loaded_rows(self._engine.cell, "opt.gravity", values, len(ids))
            self._engine.set_gravity(ids, self._gravity[ids])

    def apply(self, truth: Truth, ids: Array) -> None:
        """Write what acts during the next control step of the environments `ids`."""
        number, time_s, dt_s = self._number, truth.time_s, self._engine.cell.dt_s
        if self._pushes:
            since_s = time_s - number["push_time_s"]
            pushed = (since_s > -0.5 * dt_s) & (since_s < PUSH_S - 0.5 * dt_s)
            force_n = np.where(pushed, number["push_force_n"], 0.0)
            direction = number["push_direction_rad"]
            force = np.stack(
                [force_n * np.cos(direction), force_n * np.sin(direction), np.zeros_like(force_n)], axis=1
            )
            self._engine.push_object(ids, force[ids])
        if self._vibrates:
            rate = 2.0 * np.pi * number["vibration_hz"]
            speed = number["vibration_m"] * rate
            # The change of the table's speed over the step, over the step: the mean acceleration.
            change = speed * (np.cos(rate * (time_s + dt_s)) - np.cos(rate * time_s)) / dt_s
            gravity = self._gravity[ids]
            gravity[:, 0] -= change[ids]
            self._engine.set_gravity(ids, gravity)
