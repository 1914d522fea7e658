"""Driving an arm by hand from a keyboard: speeds of the tool along the world's axes, turned into joint commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.experts.kinematics import Arm, step_towards
from twinloop.robots.protocol import Robot, read_position
from twinloop.tasks import Cell

SPEED_M_S, TURN_RAD_S = 0.12, 1.0
"""Speed of the tool and of its turn about the vertical while a key is held."""
HEARD_S = 0.3
"""A key counts as released when nothing has been heard of it for this long."""
IN_USE_S = 1.0
"""The robot follows the keys if it asked for them within this time."""
STEP_RAD = 0.05
"""Largest change of a joint in one control step."""
AXES = 4
"""Of a motion: x, y, z, and the turn about the vertical."""


class Jog:
    """The leader arm of somebody at a keyboard.

    Args:
        robot: A connected robot.
        cell: Its cell, whose twin has a tool.
        clock: The time in s.
    """

    def __init__(self, robot: Robot, cell: Cell, clock: Callable[[], float] = time.monotonic) -> None:
        self._robot, self._cell, self._clock = robot, cell, clock
        self._arm = Arm(cell)
        self._lock = threading.Lock()
        self._motion, self._closed, self._heard_s = np.zeros(AXES), False, -np.inf
        self._target: Array | None = None
        self._steered_s = -np.inf

    @property
    def in_use(self) -> bool:
        """Whether the robot follows the keys now."""
        return self._clock() - self._steered_s < IN_USE_S

    def restart(self) -> None:
        """Begin where the robot is."""
        with self._lock:
            self._target, self._heard_s, self._closed = None, -np.inf, False

    def move(self, motion: Array, closed: bool) -> None:
        """Which keys are held: fractions of full speed (4,), -1 to 1, and whether the gripper is to be closed."""
        values = np.asarray(motion, np.float64)
        if values.shape != (AXES,) or not np.isfinite(values).all():
            raise WrongUse("not a motion", got=values.tolist(), expected=f"{AXES} numbers from -1 to 1")
        with self._lock:
            self._motion, self._closed, self._heard_s = np.clip(values, -1.0, 1.0), closed, self._clock()

    def steer(self) -> Array:
        """The command of this control step: joints (A,)."""
        self._steered_s = self._clock()
        if self._target is None:
            self._target = read_position(self._robot.description, self._robot.observe())
        with self._lock:
            fresh = self._clock() - self._heard_s < HEARD_S
            motion = self._motion if fresh else np.zeros(AXES)
            closed = self._closed
        target, dt_s = self._target.copy(), 1.0 / self._robot.description.rate_hz
        if motion.any():
            joints = target[self._arm.actuators][None]
            _, jacobian = self._arm.tool_jacobian(joints)
            error = np.zeros((1, 6))
            error[0, :3], error[0, 5] = SPEED_M_S * dt_s * motion[:3], TURN_RAD_S * dt_s * motion[3]
            target[self._arm.actuators] += step_towards(jacobian, error, np.zeros_like(joints), STEP_RAD)[0]
        gripper = self._cell.gripper
        if gripper is not None and np.isfinite(self._heard_s):
            target[gripper] = (self._cell.control_low if closed else self._cell.control_high)[gripper]
        self._target = np.clip(target, self._cell.control_low, self._cell.control_high)
        return self._target
