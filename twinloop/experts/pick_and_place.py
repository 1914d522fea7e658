"""A scripted expert that picks an object up and places it, and tries again when it slips."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.grip import find_grip
from twinloop.experts.motion import nearest_quarter_turn, pointing_down, vertical_angle
from twinloop.experts.phases import PhasedExpert
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading

HOVER, DESCEND, CLOSE, LIFT, CARRY, LOWER, OPEN, RETREAT = range(8)

CLEARANCE_M = 0.004
"""Height above the table at which the object is let go."""

CLOSE_S = 0.5
OPEN_S = 0.3

SMOOTHING = 0.15
"""Weight of each new reading in the running estimate of where the object is."""

DROPPED_M = 0.05


@EXPERTS.register("pick_and_place")
class PickAndPlaceExpert(PhasedExpert):
    """Hover, descend, close, lift, carry, lower, open, retreat; back to hover when the object is not in the hand."""

    def __init__(self, setup: Setup) -> None:
        cell, count = setup.cell, setup.count
        assert cell.gripper is not None
        self._gripper = cell.gripper
        self._grip = find_grip(cell)
        super().__init__(setup, self._grip.sag_per_s)
        self._closed = float(cell.control_low[self._gripper])
        widest = float(cell.control_high[self._gripper])
        self._open = self._closed + self._grip.opening_fraction * (widest - self._closed)
        self._grasp = np.zeros((count, 3))
        self._in_hand = np.zeros((count, 3))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Start again above the object."""
        self._grasp[ids] = reading.object_position[ids]
        super().restart(ids, reading, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """Joint targets along the path of the present phase, and the gripper's opening."""
        self._watch(reading)
        self._advance(reading)
        self._in_phase_s += self._dt_s
        commands = np.empty((len(self._phase), self._actuators))
        place, yaw = self._motion.path(self._goal(reading), self._yaw)
        joints = self._motion.track(self._shaken(place, step), yaw)
        commands[:, self._motion.arm.actuators] = self._motion.against_sag(joints, self._joints(reading))
        closed = (self._phase >= CLOSE) & (self._phase < OPEN)
        commands[:, self._gripper] = np.where(closed, self._closed, self._open)
        return commands

    def _watch(self, reading: Reading) -> None:
        """Average where the object is: in the world while it lies, in the hand while it is held."""
        seen = reading.object_position
        lying = self._phase <= DESCEND
        self._object += np.where(lying[:, None], SMOOTHING * (seen - self._object), 0.0)
        held = (self._phase == LIFT) | (self._phase == CARRY)
        tool = self._motion.arm.tool_pose(self._joints(reading)).place
        self._tool = tool
        self._in_hand += np.where(held[:, None], SMOOTHING * (seen - tool - self._in_hand), 0.0)

    def _goal(self, reading: Reading) -> Array:
        phase = self._phase[:, None]
        up = np.zeros((len(phase), 3))
        up[:, 2] = self._grip.above_m + self._style.lift_m
        beside = self._object - self._grip.offset_m * pointing_down(self._yaw)[0]
        above_target = reading.target_position - np.concatenate(
            [self._in_hand[:, :2], np.zeros((len(phase), 1))], axis=1
        )
        # The height of the tool at the grasp is the height at which the object touches the table again.
        level = np.zeros_like(self._grasp)
        level[:, 2] = self._grasp[:, 2] - reading.target_position[:, 2]
        placed = above_target + level
        placed[:, 2] += CLEARANCE_M
        return np.select(
            [phase == HOVER, phase == DESCEND, phase == CLOSE, phase == LIFT, phase == CARRY, phase <= OPEN],
            [beside + up, beside, self._grasp, self._grasp + up, placed + up, placed],
            placed + up,
        )

    def _advance(self, reading: Reading) -> None:
        """Go to the next phase where the present one is done, and back to the start where the object was lost."""
        phase, waited = self._phase, self._in_phase_s
        waits = np.select([phase == CLOSE, phase == OPEN], [CLOSE_S, OPEN_S], 0.0)
        done = np.where(waits > 0.0, waited >= waits, self._moved(self._tool))
        empty = reading.position[:, self._gripper] < self._closed + 0.1 * (self._open - self._closed)
        below = self._tool[:, 2] - reading.object_position[:, 2] > DROPPED_M
        holding = (phase >= LIFT) & (phase <= LOWER)
        lost = holding & (empty | below) & (waited > 2.0 * self._dt_s)
        again = lost | ((phase == RETREAT) & done)
        following = np.where(again, HOVER, phase + 1)
        changes = again | (done & (phase < RETREAT))
        if changes.any():
            self._enter(changes, following, reading)

    def _enter(self, which: Array, phase: Array, reading: Reading) -> None:
        fresh = self._set_phase(which, phase, reading)
        self._in_hand[fresh] = 0.0
        sees = which & (self._phase <= DESCEND)
        angle = vertical_angle(reading.object_columns)
        self._yaw = np.where(sees, nearest_quarter_turn(angle, np.zeros_like(angle)), self._yaw)
        grasps = which & (self._phase == CLOSE)
        self._grasp[grasps] = self._motion.pose.place[grasps]
        careful = (self._phase == DESCEND) | (self._phase == LIFT) | (self._phase == LOWER)
        self._set_off(which, careful, reading)
