"""A scripted expert that pushes an object along the table, steering as it goes.

The closed fingers are a flat pusher 3 cm wide, kept square to the line from the object to the target and centred on
it; when the object has slid out of line the tool lifts, goes behind it again and goes on.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.motion import vertical_angle
from twinloop.experts.phases import PhasedExpert
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading

HOVER, DESCEND, PUSH, RETREAT = range(4)

ABOVE_M = 0.1
BEHIND_M = 0.085
"""From the object's centre to the tool before it pushes: half a diagonal, the pusher and some room."""

NEAR_M = 0.008
"""The object's centre is this close to the target's when pushing ends."""

SLOWEST_M_S, FASTEST_M_S = 0.02, 0.12
SLOWING_PER_S = 1.5
STEERING = 0.15
TURN_RAD_S = 1.0
OUT_OF_LINE = 0.7
"""Cosine of the angle between the push and the way to the target, below which the tool goes behind again."""

SMOOTHING = 0.2


@EXPERTS.register("push")
class PushExpert(PhasedExpert):
    """Go behind the object, push it towards the target, lift, look, and push again if need be."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._gripper = setup.cell.gripper
        self._closed = float(setup.cell.control_low[self._gripper]) if self._gripper is not None else 0.0
        self._latched = np.zeros((setup.count, 3))

    def act(self, reading: Reading, step: Array) -> Array:
        """Joint targets along the path, or straight ahead while pushing."""
        self._object += SMOOTHING * (reading.object_position - self._object)
        tool = self._motion.arm.tool_pose(self._joints(reading)).place
        self._advance(reading, tool)
        self._in_phase_s += self._dt_s
        place, yaw = self._motion.path(self._goal(reading), self._yaw)
        pushing = self._phase == PUSH
        place = np.where(pushing[:, None], self._ahead(reading), place)
        wanted = nearest_half_turn(vertical_angle(self._direction(reading)), self._motion.yaw)
        turn = np.clip(wanted - self._motion.yaw, -TURN_RAD_S * self._dt_s, TURN_RAD_S * self._dt_s)
        yaw = np.where(pushing, self._motion.yaw + turn, yaw)
        commands = np.empty((len(self._phase), self._actuators))
        if self._gripper is not None:
            commands[:, self._gripper] = self._closed
        commands[:, self._motion.arm.actuators] = self._motion.track(self._shaken(place, step), yaw)
        return commands

    def _direction(self, reading: Reading) -> Array:
        """Unit vectors (N, 2) from the object to the target."""
        away = reading.target_position[:, :2] - self._object[:, :2]
        return np.asarray(away / np.maximum(_length(away), 1e-6)[:, None])

    def _ahead(self, reading: Reading) -> Array:
        """The next place of a pushing tool: forward, and sideways onto the line behind the object."""
        now, direction = self._motion.pose.place, self._direction(reading)
        left_m = _length(reading.target_position[:, :2] - self._object[:, :2])
        speed_m_s = self._style.speed * np.clip(SLOWING_PER_S * left_m, SLOWEST_M_S, FASTEST_M_S)
        offset = self._object[:, :2] - now[:, :2]
        along = offset[:, 0] * direction[:, 0] + offset[:, 1] * direction[:, 1]
        sideways = offset - along[:, None] * direction
        ahead = now.copy()
        ahead[:, :2] += direction * (speed_m_s * self._dt_s)[:, None] + STEERING * sideways
        ahead[:, 2] = self._latched[:, 2]
        return ahead

    def _goal(self, reading: Reading) -> Array:
        phase = self._phase[:, None]
        up = np.zeros((len(phase), 3))
        up[:, 2] = ABOVE_M + self._style.lift_m
        behind = self._object.copy()
        behind[:, :2] -= BEHIND_M * self._direction(reading)
        return np.select([phase == HOVER, phase == DESCEND], [behind + up, behind], self._latched + up)

    def _advance(self, reading: Reading, tool: Array) -> None:
        direction = self._direction(reading)
        offset = self._object[:, :2] - tool[:, :2]
        along = offset[:, 0] * direction[:, 0] + offset[:, 1] * direction[:, 1]
        out_of_line = along < OUT_OF_LINE * _length(offset)
        there = _length(reading.target_position[:, :2] - self._object[:, :2]) < NEAR_M
        done = np.where(self._phase == PUSH, there | out_of_line, self._moved(tool))
        if done.any():
            self._enter(done, (self._phase + 1) % 4, reading)

    def _enter(self, which: Array, phase: Array, reading: Reading) -> None:
        self._set_phase(which, phase, reading)
        lands = which & ((self._phase == PUSH) | (self._phase == RETREAT))
        self._latched[lands] = self._motion.pose.place[lands]
        aims = which & (self._phase <= DESCEND)
        # Nearest to straight ahead, so that the wrist never winds up.
        wanted = nearest_half_turn(vertical_angle(self._direction(reading)), np.zeros_like(self._yaw))
        self._yaw = np.where(aims, wanted, np.where(which, self._motion.yaw, self._yaw))
        self._set_off(which, self._phase == DESCEND, reading)


def nearest_half_turn(angle: Array, to: Array) -> Array:
    """`angle` plus the multiple of half a turn that brings it nearest to `to`: a pusher has two equal sides."""
    return np.asarray(angle + np.pi * np.rint((to - angle) / np.pi))


def _length(vector: Array) -> Array:
    return np.asarray(np.sqrt(vector[:, 0] * vector[:, 0] + vector[:, 1] * vector[:, 1]))
