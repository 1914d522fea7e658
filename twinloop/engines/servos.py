"""Servos for engines that solve motors as velocity constraints: from a command to each joint's free speed and its torque.

A servo's gains, damping, rotor and friction are integrated implicitly, as MuJoCo's `implicitfast` does, for the speed that the joint
would reach in free motion. An engine makes that speed the target of a motor that is solved together with the contacts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import mujoco
import numpy as np

from twinloop.engines.joint_friction import LEVELS, friction_numbers
from twinloop.episode import Array
from twinloop.imperfect.friction import Friction, GearLoad, gear_level_nm
from twinloop.tasks import Cell


class ServoOutput(NamedTuple):
    """Per joint: the speed in free motion, and the torque if it is blocked; per actuator: its effort."""

    speed: Array
    blocked: Array
    effort: Array


class Servos:
    """The servos of a cell as `model` has them: gains, force limits, rotor inertia, gravity compensation, dry friction.

    Joints are in the order of `dofs`, MuJoCo's degrees of freedom; `model` belongs to these servos from then on.
    """

    def __init__(self, cell: Cell, dofs: Array, model: mujoco.MjModel) -> None:
        self.dofs, self._model = dofs, model
        self._data = mujoco.MjData(model)
        order = {int(dof): index for index, dof in enumerate(dofs)}
        gear = np.asarray(model.actuator_gear)[:, 0]
        self._weights = np.zeros((model.nu, len(dofs)))
        for actuator in range(model.nu):
            for dof, weight in zip(cell.dof_addresses[actuator], cell.weights[actuator], strict=True):
                self._weights[actuator, order[int(dof)]] += weight * gear[actuator]
        self._square = self._weights * self._weights
        self._gain = np.array(model.actuator_gainprm[:, 0])
        self._offset = np.array(model.actuator_biasprm[:, 0])
        self._stiffness = np.array(-model.actuator_biasprm[:, 1])
        self._damping = np.array(-model.actuator_biasprm[:, 2])
        self._limited = np.asarray(model.actuator_forcelimited).astype(bool)
        self._low = np.where(self._limited, model.actuator_forcerange[:, 0], -np.inf)
        self._high = np.where(self._limited, model.actuator_forcerange[:, 1], np.inf)
        self.rotor = np.array(model.dof_armature[dofs])
        self._back_emf = np.asarray(model.actuator_damping) @ self._square
        self._viscous = model.dof_damping[dofs] + self._back_emf
        self._sliding = np.array(model.dof_frictionloss[dofs])
        self._sticks = bool(np.any(self._sliding > 0.0))
        joints = np.array([int(model.dof_jntid[dof]) for dof in dofs], dtype=np.int64)
        self._addresses = np.asarray(model.jnt_qposadr)[joints]
        self._spring = np.array(model.jnt_stiffness[joints])
        self._spring_rest = np.asarray(model.qpos_spring)[self._addresses]
        self._springs = bool(np.any(self._spring))
        # Views, stored because fetching each takes a microsecond.
        self._model_qpos, self._gravity_torque = self._data.qpos, self._data.qfrc_gravcomp
        self._last_inertia: Array | None = None
        self._compensates = bool(np.any(model.body_gravcomp))
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the gains; to be called again after they have changed."""
        self._unlimited = (
            self._damping @ self._square + self._viscous,
            self._stiffness @ self._square + self._spring,
        )

    def step(
        self, qpos: Array, qvel: Array, command: Array, bias: Array, inertia: Array, dt_s: float
    ) -> ServoOutput:
        """Response of the servos to `command` at joints (n,); `bias` is gravity and Coriolis torque, `inertia` per joint."""
        command = self._arrived(command, dt_s)
        length, speed = self._weights @ qpos, self._weights @ qvel
        wanted = self._gain * command + self._offset - self._stiffness * length - self._damping * speed
        effort = self._saturated(np.minimum(np.maximum(wanted, self._low), self._high), speed)
        free = effort == wanted
        torque = effort @ self._weights
        carried = self.gravity_compensation(qpos)
        if free.all():
            damping, stiffness = self._unlimited
        else:
            damping = (free * self._damping) @ self._square + self._viscous
            stiffness = (free * self._stiffness) @ self._square + self._spring
        pulled = carried - bias - self._viscous * qvel
        if self._springs:
            pulled = pulled - self._spring * (qpos - self._spring_rest)
        pulled = self._pulled(pulled, qpos)
        if inertia is not self._last_inertia:  # updated at the control rate
            self._last_inertia, self._inert = inertia, (inertia + self.rotor) / dt_s
        stiffening = dt_s * stiffness
        applied = torque + pulled - stiffening * qvel
        resisting = self._inert + damping + stiffening
        if self._sticks:
            level = self._level(qvel, torque, carried - bias)
            # Solved for the end of the step: friction stops a joint exactly and never turns it back.
            rest = resisting * qvel + applied
            applied = applied - np.minimum(np.maximum(rest, -level), level)
        return ServoOutput(qvel + applied / resisting, np.abs(torque + carried), effort)

    def gravity_compensation(self, qpos: Array) -> Array:
        """Gravity compensation torque, from the controller's model of the arm."""
        if not self._compensates:
            return np.zeros(len(self.dofs))
        self._model_qpos[self._addresses] = qpos
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_passive(self._model, self._data)
        return np.asarray(self._gravity_torque[self.dofs])

    def _arrived(self, command: Array, dt_s: float) -> Array:
        """The command as it reaches the servos."""
        return command

    def _saturated(self, effort: Array, speed: Array) -> Array:
        """What motors at this speed give of an effort within their limits."""
        return effort

    def _pulled(self, torque: Array, qpos: Array) -> Array:
        """The passive torques, with what else pulls at the joints."""
        return torque

    def _level(self, qvel: Array, drive_nm: Array, external_nm: Array) -> Array:
        """Dry friction of each joint."""
        return self._sliding


class TwinServos(Servos):
    """The servos of a twin for one draw: friction of gears depends on speed and load, and servos may be switched off."""

    def __init__(
        self,
        cell: Cell,
        dofs: Array,
        model: mujoco.MjModel,
        values: Mapping[str, Any],
        *,
        gear_friction: bool,
    ) -> None:
        super().__init__(cell, dofs, model)
        self.enabled = True
        self._loaded = False
        if not gear_friction:
            return
        number, stribeck, extra = friction_numbers(cell, dofs, values, self._sliding[None])
        self._loaded = any(bool(np.any(number[ending])) for ending in LEVELS) or bool(np.any(extra))
        if self._loaded:
            self._sticks = True
            self._friction = Friction(self._sliding[None], 0.0, extra, stribeck)
            self._gear = GearLoad(
                drive=number["drive_load_friction"],
                external=number["external_load_friction"],
                drive_at_rest=number["drive_load_stiction"],
                external_at_rest=number["external_load_stiction"],
                drive_growth_per_nm=number["drive_load_growth_per_nm"],
            )

    def switch(self, enabled: bool) -> None:
        """Switch all servos on or off; one that is off gives nothing, not even back-EMF."""
        if enabled == self.enabled:
            return
        self.enabled = enabled
        if not enabled:
            self._on = self._gain, self._offset, self._stiffness, self._damping, self._viscous
            self._gain, self._offset, self._stiffness, self._damping = (
                np.zeros_like(part) for part in self._on[:4]
            )
            self._viscous = self._viscous - self._back_emf
        else:
            self._gain, self._offset, self._stiffness, self._damping, self._viscous = self._on
        self._prepare()

    def _level(self, qvel: Array, drive_nm: Array, external_nm: Array) -> Array:
        if not self._loaded:
            return self._sliding
        rows = (qvel[None], drive_nm[None], external_nm[None])
        return np.asarray(gear_level_nm(self._friction, self._gear, *rows)[0])
