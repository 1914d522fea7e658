"""The stand-in's servos, gears and cables: those of the controller's model, with what is wrong with them."""

from __future__ import annotations

import math

import numpy as np

from twinloop.engines.servos import Servos
from twinloop.episode import Array
from twinloop.imperfect.friction import Friction
from twinloop.imperfect.saturation import Saturation
from twinloop.imperfect.saturation import apply as saturate
from twinloop.robots.standin.effects import Actuation
from twinloop.tasks import Cell

CABLE_REST_RAD = 0.6
"""The cable harness rests up to this far from the home pose."""


class Drive(Servos):
    """The servos of a cell with their imperfections.

    `worked_s` is how long the robot has been working, which warms it up. Differences between joints (rest angle of a cable,
    phase of a gear's ripple) are drawn from `rng`.

    Backlash and dry friction follow `imperfect.backlash` and `imperfect.friction`, which are batched; for one environment
    at every physics step, the bare formulas are several times faster.
    """

    def __init__(
        self, cell: Cell, dofs: Array, effects: Actuation, rng: np.random.Generator, worked_s: float = 0.0
    ) -> None:
        super().__init__(cell, dofs, cell.twin.make_model())  # the controller's model, not the hidden one
        self._effects, self.worked_s = effects, worked_s
        model = self._model
        servo = np.asarray(model.actuator_biasprm[:, 1]) != 0.0
        scale = np.where(servo, effects.stiffness_scale, 1.0)
        self._gain, self._stiffness = self._gain * scale, self._stiffness * scale
        self._damping = self._damping * effects.damping_scale
        self._viscous = self._viscous * effects.viscous_scale
        self._prepare()
        gripper = np.arange(model.nu) == cell.gripper
        strength = np.where(gripper, effects.gripper_force_scale, effects.force_scale)
        self._low, self._high = self._low * strength, self._high * strength
        strongest = np.where(self._limited, np.abs(model.actuator_forcerange).max(axis=1), 0.0)
        arm = np.abs(self._weights[~gripper]).T @ strongest[~gripper]
        self._motors = Saturation(
            stall_nm=np.where(self._limited, strongest * strength, np.inf)[None],
            no_load_speed_rad_s=np.where(cell.turning, effects.no_load_speed_rad_s or np.inf, np.inf)[None],
        )
        self._prepare_gears(cell, arm, rng)

    def _prepare_gears(self, cell: Cell, limit: Array, rng: np.random.Generator) -> None:
        effects, count = self._effects, len(limit)
        self._sliding = self._sliding + effects.dry_friction_share * limit
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

    def _arrived(self, command: Array, dt_s: float) -> Array:
        self.worked_s += dt_s
        if self._effects.backlash_rad:
            before = command if self._driven is None else self._driven
            moved = np.maximum(before, command - self._half_backlash)
            command = self._driven = np.minimum(moved, command + self._half_backlash)
        return command

    def _saturated(self, effort: Array, speed: Array) -> Array:
        if self._effects.no_load_speed_rad_s:
            effort = saturate(self._motors, effort[None], speed[None])[0]
        return effort

    def _pulled(self, torque: Array, qpos: Array) -> Array:
        if self._effects.cable_torque_share:
            torque = torque - self._cable * (qpos - self._cable_rest)
        if self._effects.ripple_share:
            torque = torque + self._ripple * np.sin(self._effects.ripple_per_turn * qpos + self._ripple_phase)
        return torque

    def _level(self, qvel: Array, drive_nm: Array, external_nm: Array) -> Array:
        return np.asarray(self._cold() * self._dry(qvel))

    def _dry(self, qvel: Array) -> Array:
        """Dry friction of each joint; without stiction the speed does not matter."""
        if not self._effects.stiction_share:
            return self._sliding
        ratio = qvel / self._stribeck_rad_s
        return np.asarray(np.exp(-(ratio * ratio)) * self._breaking_away + self._sliding)

    def _cold(self) -> float:
        extra = self._effects.cold_friction_scale - 1.0
        return 1.0 + extra * math.exp(-self.worked_s / self._effects.warm_up_s) if extra else 1.0
