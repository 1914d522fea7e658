"""A scripted expert that brings the tool to the target and keeps it there."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.phases import PhasedExpert
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading

SAG_PER_S = 1.0
"""Weight of each second of readings in what is learned about joints that hang below their commands."""


@EXPERTS.register("reach")
class ReachExpert(PhasedExpert):
    """One smooth path to the target, the tool pointing down, the gripper as it was."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, SAG_PER_S)
        self._held = np.zeros((setup.count, self._actuators))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Start again from where the joints are."""
        self._held[ids] = reading.position[ids]
        super().restart(ids, reading, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """Joint targets along the path."""
        self._in_phase_s += self._dt_s
        place, yaw = self._motion.path(self._goal(reading), self._yaw)
        joints = self._motion.track(self._shaken(place, step), yaw)
        commands = self._held.copy()
        commands[:, self._motion.arm.actuators] = self._motion.against_sag(joints, self._joints(reading))
        return commands

    def _goal(self, reading: Reading) -> Array:
        return reading.target_position

    def _enter(self, which: Array, phase: Array, reading: Reading) -> None:
        self._set_phase(which, phase, reading)
        self._yaw = np.where(which, self._motion.yaw, self._yaw)
        self._set_off(which, np.zeros_like(which), reading)
