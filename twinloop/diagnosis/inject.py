"""A policy behind imperfections that the twin's own hardware does not have.

The perceived object is late, shifted, scaled, tilted or hidden behind the hand before the policy sees it, and images look as recorded
ones do; a steady load on a joint moves it off its command by load over stiffness, which is the same as commanding it there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.diagnosis import imperfection as kind
from twinloop.diagnosis.look import Look, with_look
from twinloop.episode import Actor
from twinloop.errors import InvalidTwin
from twinloop.experts import Reading, Setup
from twinloop.experts.kinematics import Arm
from twinloop.policies.act import PolicyExpert
from twinloop.policies.policy import Policy

Array = NDArray[Any]

LONGEST_S = 1.0


class DisturbedPolicy:
    """A policy through the door for experts; `rows` are the values of every episode, in the order in which they begin."""

    actor: Actor = "policy"

    def __init__(
        self,
        policy: Policy,
        setup: Setup,
        rows: Mapping[str, Array],
        looks: Mapping[str, Look] | None = None,
    ) -> None:
        cell = setup.cell
        self._inner = PolicyExpert(policy, setup)
        self.cameras, self._looks = self._inner.cameras, looks or {}
        self._rng = np.random.default_rng(0)
        self._next = 0
        self._of = np.zeros(setup.count, dtype=np.int64)
        self._rows, self._dt_s = rows, cell.dt_s
        self._low, self._high = cell.control_low, cell.control_high
        self._stiffness = np.maximum(np.asarray(cell.model.actuator_gainprm[:, 0]), 1e-9)
        self._loads: list[tuple[int, Array, Array]] = []
        for index, joint in enumerate(cell.actuators):
            load, slope = kind.load_names(joint)
            if load in rows:
                self._loads.append((index, rows[load], rows.get(slope, np.zeros_like(rows[load]))))
        self._late: deque[Array] = deque(maxlen=1 + round(LONGEST_S / cell.dt_s))
        self._shown: Array | None = None
        self._begun = np.ones(setup.count, dtype=bool)
        self._age = np.zeros(setup.count, dtype=np.int64)
        try:
            self._arm = Arm(cell) if kind.HIDDEN in rows else None
        except InvalidTwin:
            self._arm = None

    def looks(self) -> Array:
        """Where the next chunk is thought of."""
        return self._inner.looks()

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """New episodes, each with its own row of values."""
        self._of[ids] = np.arange(self._next, self._next + len(ids))
        self._next += len(ids)
        self._begun[ids], self._age[ids] = True, 0
        self._inner.restart(ids, reading, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """What the policy commands for what it is shown, and where loads make that go."""
        pose = np.concatenate([reading.object_position, reading.object_columns], axis=1)
        pose = self._hide(self._wrong(self._delay(pose)), reading)
        shown = replace(
            reading, object_position=pose[:, :3], object_columns=pose[:, 3:], frames=self._seen(reading)
        )
        action = self._inner.act(shown, step)
        self._age += 1
        self._begun[:] = False
        return self._loaded(action, reading)

    def _seen(self, reading: Reading) -> Mapping[str, Array]:
        look = self._value(kind.LOOK)
        if look is None or not self._looks:
            return reading.frames
        return with_look(reading.frames, self._looks, (look > 0.5) & self.looks(), self._rng)

    def _value(self, name: str) -> Array | None:
        return self._rows[name][self._of] if name in self._rows else None

    def _delay(self, pose: Array) -> Array:
        late = self._value(kind.PERCEIVED_DELAY)
        if late is None:
            return pose
        self._late.append(pose)
        steps = np.minimum(np.round(late / self._dt_s).astype(np.int64), self._age)
        steps = np.minimum(steps, len(self._late) - 1)
        stacked = np.stack(self._late)
        return np.asarray(stacked[len(stacked) - 1 - steps, np.arange(len(pose))])

    def _wrong(self, pose: Array) -> Array:
        scale, shift = self._value(kind.PERCEIVED_SCALE), self._value(kind.PERCEIVED_Z)
        tilts = [self._value(name) for name in kind.TILT]
        if scale is None and shift is None and tilts[0] is None:
            return pose
        made = pose.copy()
        if scale is not None:
            made[:, :3] *= 1.0 + scale[:, None]
        if shift is not None:
            made[:, 2] += shift
        if tilts[0] is not None and tilts[1] is not None:
            turn = np.stack([tilts[0], tilts[1], np.zeros(len(pose))], axis=1)
            for first in (3, 6):
                made[:, first : first + 3] += np.cross(turn, made[:, first : first + 3])
        return made

    def _hide(self, pose: Array, reading: Reading) -> Array:
        reach = self._value(kind.HIDDEN)
        if reach is None or self._arm is None:
            return pose
        tool = self._arm.tool_pose(reading.position[:, self._arm.actuators]).place
        hidden = (np.linalg.norm(tool - reading.object_position, axis=1) < reach) & ~self._begun
        if self._shown is not None:
            pose = np.where(hidden[:, None], self._shown, pose)
        self._shown = pose
        return pose

    def _loaded(self, action: Array, reading: Reading) -> Array:
        for index, load, slope in self._loads:
            torque = load[self._of] + slope[self._of] * reading.position[:, index]
            action[:, index] -= torque / self._stiffness[index]
        return np.clip(action, self._low, self._high)
