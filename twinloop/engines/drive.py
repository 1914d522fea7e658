"""Between a servo's command and the joint: what has to be computed anew before every physics step.

Friction of the gear depends on speed and load (`joint_friction`), and a servo that is switched off gives nothing, not even
back-EMF. What a twin does not ask for costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mujoco.batch
import numpy as np

from twinloop.engines.joint_friction import JointFriction, loaded_rows
from twinloop.episode import Array
from twinloop.tasks import Cell


class Drive:
    """The servos of all environments of a batch; `varying` names the parameters that differ between them.

    `active` says whether the batch must be stepped one physics step at a time: call `load` when episodes begin, then the
    batch's `forward`, and `before_step` before each step. `switched` makes it so, for servos that may be off.
    """

    def __init__(
        self,
        cell: Cell,
        batch: mujoco.batch.Batch,
        varying: Iterable[str],
        *,
        switched: bool = False,
        gear_friction: bool = True,
    ) -> None:
        self._cell, self._switched = cell, switched and bool(cell.actuators)
        friction = JointFriction(cell, batch, varying) if gear_friction else None
        self._friction = friction if friction is not None and friction.active else None
        self.active = self._friction is not None or self._switched
        if not self.active:
            return
        self._ctrl = batch.bind("ctrl")
        self._enabled = np.ones(int(batch.nsim))
        if self._switched:
            # A force without gain, bias and damping is none, whatever the command.
            fields = ("actuator_gainprm", "actuator_biasprm", "actuator_damping")
            self._fields = {field: np.asarray(batch.expand(field)) for field in fields}
            self._on = {field: rows.copy() for field, rows in self._fields.items()}

    def load(self, ids: Array, values: Mapping[str, Any]) -> None:
        """New episodes in the environments `ids`, with one draw each: arrays (len(ids),). All servos are on."""
        if not self.active:
            return
        if self._friction is not None:
            self._friction.load(ids, values)
        self._enabled[ids] = 1.0
        if self._switched:
            for field, rows in self._on.items():
                rows[ids] = loaded_rows(self._cell, field, values, len(ids))
                self._fields[field][ids] = rows[ids]

    def before_step(self, ids: Array, command: Array, enabled: Array | None = None) -> None:
        """Set what holds during the next physics step of the environments `ids`, told `command` (len(ids), actuators).

        `enabled` (len(ids),) says whose servos are on, all of them by default.
        """
        self._ctrl[ids] = command
        if enabled is not None and self._switched:
            self._switch(ids, np.asarray(enabled, np.float64))
        if self._friction is not None:
            self._friction.write(ids, self._enabled)

    def _switch(self, ids: Array, enabled: Array) -> None:
        turned = ids[self._enabled[ids] != enabled]
        if not len(turned):
            return
        self._enabled[ids] = enabled
        for field, rows in self._fields.items():
            share = self._enabled[turned].reshape(-1, *(1,) * (rows.ndim - 1))
            rows[turned] = share * self._on[field][turned]
