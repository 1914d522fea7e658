"""Shared by scripted experts: a tool that moves through phases, one path for each."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts.disturb import Bumps
from twinloop.experts.motion import ToolMotion
from twinloop.experts.protocol import Setup
from twinloop.experts.reading import Reading
from twinloop.experts.style import Style

SLOW_M_S, FAST_M_S = 0.25, 0.5
SETTLE_M = 0.01
PATIENCE_S = 1.0
"""A phase that has not settled this long after its path ended goes on regardless."""


class PhasedExpert(ABC):
    """Phases are numbered from 0, in which the object's place is taken afresh."""

    actor: Actor = "expert"

    def __init__(self, setup: Setup, sag_per_s: float = 0.0) -> None:
        cell, count = setup.cell, setup.count
        self._dt_s = cell.dt_s
        self._actuators = len(cell.actuators)
        self._motion = ToolMotion(cell, count, sag_per_s)
        self._bumps = Bumps(setup)
        self._style = Style(setup)
        self._phase = np.zeros(count, dtype=np.int64)
        self._in_phase_s = np.zeros(count)
        self._object = np.zeros((count, 3))
        self._yaw = np.zeros(count)

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Start again with the first phase."""
        self._motion.restart(ids, self._joints(reading)[ids])
        self._bumps.restart(ids, seeds)
        self._style.restart(ids, seeds)
        which = np.zeros(len(self._phase), dtype=bool)
        which[ids] = True
        self._enter(which, np.zeros_like(self._phase), reading)

    @abstractmethod
    def _goal(self, reading: Reading) -> Array:
        """Where the paths of the present phases end, (N, 3)."""

    @abstractmethod
    def _enter(self, which: Array, phase: Array, reading: Reading) -> None:
        """The environments `which` (N,) bool go to `phase` (N,)."""

    def _joints(self, reading: Reading) -> Array:
        return np.asarray(reading.position[:, self._motion.arm.actuators])

    def _set_phase(self, which: Array, phase: Array, reading: Reading) -> Array:
        """Change the phase; returns the environments that enter the first one."""
        self._phase = np.where(which, phase, self._phase)
        self._in_phase_s[which] = 0.0
        fresh: Array = which & (self._phase == 0)
        self._object[fresh] = reading.object_position[fresh]
        return fresh

    def _set_off(self, which: Array, careful: Array, reading: Reading) -> None:
        """Begin the paths of the present phases, slowly where `careful` (N,)."""
        speed_m_s = self._style.speed * np.where(careful, SLOW_M_S, FAST_M_S)
        self._motion.begin(which, self._goal(reading), speed_m_s, self._style.pause_s)

    def _moved(self, tool: Array) -> Array:
        """Whether each path has ended with the tool (N, 3) at its place, or has waited long enough for it: (N,)."""
        away = tool - self._motion.pose.place
        settled = (away * away).sum(axis=1) < SETTLE_M * SETTLE_M
        patient = self._in_phase_s > self._motion.duration_s + PATIENCE_S
        return np.asarray(self._motion.arrived & (settled | patient))

    def _shaken(self, place: Array, step: Array) -> Array:
        """Places (N, 3) with the bumps and the tremor of the demonstrator."""
        return np.asarray(place + self._bumps.offset(step) + self._style.tremor(step))
