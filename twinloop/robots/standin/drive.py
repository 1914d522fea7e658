"""Servos, gears and cables: from a command to the speed each joint would reach in free motion, and its torque."""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.imperfect.friction import Friction
from twinloop.imperfect.saturation import Saturation
from twinloop.imperfect.saturation import apply as saturate
from twinloop.robots.standin.effects import Actuation
from twinloop.tasks import Cell

CABLE_REST_RAD = 0.6
"""The cable harness rests up to this far from the home pose."""


class DriveOutput(NamedTuple):
    """Per joint: the speed in free motion, and the torque if it is blocked; per actuator: its effort."""

    speed: Array
    blocked: Array
    effort: Array


class Drive:
    """The servos of a cell: gains, force limits, rotor inertia, gravity compensation, and their imperfections.

    Joints are in the order of `dofs`, MuJoCo's degrees of freedom. `worked_s` is how long the robot has been working,
    which warms it up. Differences between joints (rest angle of a cable, phase of a gear's ripple) are drawn from `rng`.

    Backlash and dry friction follow `imperfect.backlash` and `imperfect.friction`, which are batched; for one environment
    at every physics step, the bare formulas are several times faster.
    """

    def __init__(
        self, cell: Cell, dofs: Array, effects: Actuation, rng: np.random.Generator, worked_s: float = 0.0
    ) -> None:
        self.dofs, self._effects, self.worked_s = dofs, effects, worked_s
        model = self._model = cell.twin.make_model()  # the controller's model, not the hidden one
        self._data = mujoco.MjData(model)
        order = {int(dof): index for index, dof in enumerate(dofs)}
        gear = np.asarray(model.actuator_gear)[:, 0]
        self._weights = np.zeros((model.nu, len(dofs)))
        for actuator in range(model.nu):
            for dof, weight in zip(cell.dof_addresses[actuator], cell.weights[actuator], strict=True):
                self._weights[actuator, order[int(dof)]] += weight * gear[actuator]
        self._square = self._weights * self._weights
        servo = np.asarray(model.actuator_biasprm[:, 1]) != 0.0
        scale = np.where(servo, effects.stiffness_scale, 1.0)
        self._gain = model.actuator_gainprm[:, 0] * scale
        self._offset = np.array(model.actuator_biasprm[:, 0])
        self._stiffness = -model.actuator_biasprm[:, 1] * scale
        self._damping = -model.actuator_biasprm[:, 2] * effects.damping_scale
        gripper = np.arange(model.nu) == cell.gripper
        strength = np.where(gripper, effects.gripper_force_scale, effects.force_scale)
        limited = np.asarray(model.actuator_forcelimited).astype(bool)
        self._low = np.where(limited, model.actuator_forcerange[:, 0] * strength, -np.inf)
        self._high = np.where(limited, model.actuator_forcerange[:, 1] * strength, np.inf)
        self._rotor = np.array(model.dof_armature[dofs])
        back_emf = np.asarray(model.actuator_damping) @ self._square
        self._viscous = (model.dof_damping[dofs] + back_emf) * effects.viscous_scale
        joints = np.array([int(model.dof_jntid[dof]) for dof in dofs], dtype=np.int64)
        self._addresses = np.asarray(model.jnt_qposadr)[joints]
        # Views, stored because fetching each takes a microsecond.
        self._model_qpos, self._gravity_torque = self._data.qpos, self._data.qfrc_gravcomp
        self._unlimited = self._damping @ self._square + self._viscous, self._stiffness @ self._square
        self._last_inertia: Array | None = None
        self._compensates = bool(np.any(model.body_gravcomp))
        strongest = np.where(limited, np.abs(model.actuator_forcerange).max(axis=1), 0.0)
        arm = np.abs(self._weights[~gripper]).T @ strongest[~gripper]
        self._motors = Saturation(
            stall_nm=np.where(limited, strongest * strength, np.inf)[None],
            no_load_speed_rad_s=np.where(cell.turning, effects.no_load_speed_rad_s or np.inf, np.inf)[None],
        )
        self._prepare_gears(cell, arm, np.array(model.dof_frictionloss[dofs]), rng)

    def _prepare_gears(self, cell: Cell, limit: Array, sliding: Array, rng: np.random.Generator) -> None:
        effects, count = self._effects, len(limit)
        self._sliding = sliding + effects.dry_friction_share * limit
        self._breaking_away = effects.stiction_share * limit
        self._stribeck_rad_s = np.asarray(Friction().stribeck_speed_rad_s)
        self._sticks = bool(np.any(self._sliding > 0.0) or effects.stiction_share)
        home = np.zeros(self._model.nq)
        for name, angle in cell.twin.home.items():
            home[self._model.joint(name).qposadr[0]] = angle
        self._cable_rest = home[self._addresses] + rng.uniform(-CABLE_REST_RAD, CABLE_REST_RAD, count)
        self._cable = effects.cable_torque_share * limit
        self._ripple = effects.ripple_share * limit
        self._ripple_phase = rng.uniform(-np.pi, np.pi, count)
        self._half_backlash = 0.5 * effects.backlash_rad * cell.turning
        self._driven: Array | None = None

    def step(
        self, qpos: Array, qvel: Array, command: Array, bias: Array, inertia: Array, dt_s: float
    ) -> DriveOutput:
        """Response of the servos to `command` at joints (n,); `bias` is gravity and Coriolis torque, `inertia` per joint."""
        self.worked_s += dt_s
        if self._effects.backlash_rad:
            before = command if self._driven is None else self._driven
            moved = np.maximum(before, command - self._half_backlash)
            command = self._driven = np.minimum(moved, command + self._half_backlash)
        length, speed = self._weights @ qpos, self._weights @ qvel
        wanted = self._gain * command + self._offset - self._stiffness * length - self._damping * speed
        effort = np.minimum(np.maximum(wanted, self._low), self._high)
        if self._effects.no_load_speed_rad_s:
            effort = saturate(self._motors, effort[None], speed[None])[0]
        free = effort == wanted
        torque = effort @ self._weights
        carried = self.gravity_compensation(qpos)
        if free.all():
            damping, stiffness = self._unlimited
        else:
            damping = (free * self._damping) @ self._square + self._viscous
            stiffness = (free * self._stiffness) @ self._square
        pulled = carried - bias - self._viscous * qvel
        if self._effects.cable_torque_share:
            pulled = pulled - self._cable * (qpos - self._cable_rest)
        if self._effects.ripple_share:
            pulled = pulled + self._ripple * np.sin(self._effects.ripple_per_turn * qpos + self._ripple_phase)
        if inertia is not self._last_inertia:  # updated at the control rate
            self._last_inertia, self._inert = inertia, (inertia + self._rotor) / dt_s
        stiffening = dt_s * stiffness
        applied = torque + pulled - stiffening * qvel
        resisting = self._inert + damping + stiffening
        if self._sticks:
            level = self._cold() * self._dry(qvel)
            # Solved for the end of the step: friction stops a joint exactly and never turns it back.
            rest = resisting * qvel + applied
            applied = applied - np.minimum(np.maximum(rest, -level), level)
        return DriveOutput(qvel + applied / resisting, np.abs(torque + carried), effort)

    def gravity_compensation(self, qpos: Array) -> Array:
        """Gravity compensation torque, from the controller's model of the arm."""
        if not self._compensates:
            return np.zeros(len(self.dofs))
        self._model_qpos[self._addresses] = qpos
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_passive(self._model, self._data)
        return np.asarray(self._gravity_torque[self.dofs])

    def _dry(self, qvel: Array) -> Array:
        """Dry friction of each joint; without stiction the speed does not matter."""
        if not self._effects.stiction_share:
            return self._sliding
        ratio = qvel / self._stribeck_rad_s
        return np.asarray(np.exp(-(ratio * ratio)) * self._breaking_away + self._sliding)

    def _cold(self) -> float:
        extra = self._effects.cold_friction_scale - 1.0
        return 1.0 + extra * math.exp(-self.worked_s / self._effects.warm_up_s) if extra else 1.0
