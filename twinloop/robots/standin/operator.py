"""A simulated person at a leader arm, with reaction time, aiming error and personal style.

The person follows the task's scripted expert. Vision is delayed by the reaction time; the hand trembles, overshoots,
pauses, and is faster or slower than the script.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.experts import EXPERTS, Reading, Setup
from twinloop.experts.kinematics import Arm, step_towards
from twinloop.robots.standin.effects import Human
from twinloop.tasks import Cell

HAND_RAD_S = 12.0
"""Natural frequency of the hand that overshoots."""


class Operator:
    """Demonstrates one episode."""

    def __init__(
        self, cell: Cell, task: str, human: Human, first: Reading, steps: int, rng: np.random.Generator
    ) -> None:
        if task not in EXPERTS:
            raise RobotError(f"no expert demonstrates task {task!r}", available=EXPERTS.names())
        self._cell, self._human, self._rng = cell, human, rng
        self._expert = EXPERTS.get(task)(Setup(cell, 1, steps))
        self._aim = rng.normal(0.0, 1.0, (2, 3)) * human.aim_error_m * np.array([1.0, 1.0, 0.3])
        self._memory: deque[Reading] = deque(maxlen=1 + round(human.reaction_s / cell.dt_s))
        self._expert.restart(np.array([0]), self._misjudged(first), np.array([int(rng.integers(2**31))]))
        self._arm = Arm(cell) if "tool" in cell.twin.roles else None
        self._before = self._after = first.position[0].copy()
        self._progress, self._calls = 0.0, 0
        self._hand, self._hand_speed = first.position[0].copy(), np.zeros(len(cell.actuators))
        self._pause_s = 0.0
        self._phases = rng.uniform(-math.pi, math.pi, 3)

    def steer(self, now: Reading) -> Array:
        """Position of the leader arm at this control step, (actuators,)."""
        self._memory.append(now)
        seen = self._misjudged(self._memory[0])
        command = self._follow(seen)
        command = self._overshoot(command)
        return self._tremble(command, float(now.time_s[0]))

    def _misjudged(self, reading: Reading) -> Reading:
        return replace(
            reading,
            object_position=reading.object_position + self._aim[0],
            target_position=reading.target_position + self._aim[1] * [1.0, 1.0, 0.0],
        )

    def _follow(self, seen: Reading) -> Array:
        human, dt_s = self._human, self._cell.dt_s
        if self._pause_s <= 0.0 and human.pause_rate_hz and self._rng.random() < human.pause_rate_hz * dt_s:
            self._pause_s = human.pause_s
        if self._pause_s > 0.0:
            self._pause_s -= dt_s
        else:
            self._progress += human.speed_scale
        while self._progress >= 1.0:
            self._progress -= 1.0
            self._before = self._after
            self._after = self._expert.act(seen, np.array([self._calls]))[0]
            self._calls += 1
        moved: Array = self._before + self._progress * (self._after - self._before)
        if self._cell.gripper is not None:  # the gripper command is not interpolated
            moved[self._cell.gripper] = self._after[self._cell.gripper]
        return moved

    def _overshoot(self, command: Array) -> Array:
        if not self._human.overshoot:
            return command
        wave = math.log(self._human.overshoot)
        damping = -wave / math.hypot(math.pi, wave)
        dt_s = self._cell.dt_s
        pull = HAND_RAD_S**2 * (command - self._hand) - 2.0 * damping * HAND_RAD_S * self._hand_speed
        self._hand_speed = self._hand_speed + dt_s * pull
        self._hand = self._hand + dt_s * self._hand_speed
        moved = self._hand.copy()
        if self._cell.gripper is not None:
            moved[self._cell.gripper] = command[self._cell.gripper]
        return np.asarray(moved)

    def _tremble(self, command: Array, time_s: float) -> Array:
        if not self._human.tremor_m or self._arm is None:
            return command
        joints = command[self._arm.actuators][None]
        _, jacobian = self._arm.tool_jacobian(joints)
        rate = 2.0 * math.pi * self._human.tremor_hz
        shake = self._human.tremor_m * np.sin(rate * time_s * np.array([1.0, 1.13, 0.91]) + self._phases)
        error = np.concatenate([shake, np.zeros(3)])[None]
        moved = command.copy()
        moved[self._arm.actuators] += step_towards(jacobian, error, np.zeros_like(joints), 0.05)[0]
        return np.clip(moved, self._cell.control_low, self._cell.control_high)
