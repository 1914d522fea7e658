"""Joint friction: Coulomb, viscous, stiction with the Stribeck fall, and a part that grows with the load.

The dry level at speed v under load T is

    level = coulomb + load_coefficient |T| + stiction_extra exp(-(v / stribeck_speed)^2)

A gear is loaded from two sides, by its motor and by what hangs on it, and loses more on one than on the other. With
`GearLoad` the level is, after Duclusaud et al. (arXiv 2410.08650),

    level += |drive T_m - external T_e| + |drive_at_rest T_m - external_at_rest T_e| exp(-(v / stribeck_speed)^2)
             + drive_growth T_m^2

where T_m is the motor's torque and T_e all others on the joint, both positive in the joint's direction: in balance they
are opposite and the parts add up.

Two functions turn it into a torque (add it to the applied torque):

`regularized_torque`  -level tanh(v / smooth_speed) - viscous v. Smooth and without memory: good for fitting; it creeps
                      under load instead of sticking, and is stiff when `smooth_speed` is small.
`stick_slip_torque`   the torque over one time step that stops the joint if the level allows it and brakes with the
                      whole level otherwise. It sticks exactly, never reverses the motion and never adds energy, at any
                      step, because it is solved for the speed at the end of the step.

For a sliding joint read N for N·m and m for rad.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect.parameters import Array, Value, broadcast, check_field


@dataclass(frozen=True)
class Friction:
    """`stiction_extra_nm` is what breaking away takes beyond Coulomb friction, so that any two draws are consistent."""

    coulomb_nm: Value = 0.0
    viscous_nm_s_rad: Value = 0.0
    stiction_extra_nm: Value = 0.0
    stribeck_speed_rad_s: Value = 0.05
    load_coefficient: Value = 0.0
    smooth_speed_rad_s: Value = 0.01

    def __post_init__(self) -> None:
        for name in ("coulomb_nm", "viscous_nm_s_rad", "stiction_extra_nm", "load_coefficient"):
            check_field(self, name, at_least=0.0)
        check_field(self, "stribeck_speed_rad_s", above=0.0)
        check_field(self, "smooth_speed_rad_s", above=0.0)


def dry_level_nm(params: Friction, speed_rad_s: Array, load_nm: Value = 0.0) -> Array:
    """The largest dry friction at this speed and load: (N, ...), never negative."""
    level = _stribeck_factor(params, speed_rad_s)
    shape = level.shape
    level *= broadcast(params.stiction_extra_nm, shape)
    level += broadcast(params.coulomb_nm, shape)
    level += broadcast(params.load_coefficient, shape) * np.abs(broadcast(load_nm, shape))
    return level


def _stribeck_factor(params: Friction, speed_rad_s: Array) -> Array:
    """exp(-(v / stribeck_speed)^2): 1 at rest, 0 at speed; a new array (N, ...)."""
    speed = np.asarray(speed_rad_s)
    ratio: Array = np.ascontiguousarray(speed / broadcast(params.stribeck_speed_rad_s, speed.shape))
    np.multiply(ratio, ratio, out=ratio)
    np.negative(ratio, out=ratio)
    return np.exp(ratio, out=ratio)


@dataclass(frozen=True)
class GearLoad:
    """How much of the torques on either side of a gear becomes friction, in motion and in addition at rest.

    `drive_growth_per_nm` is the growth of the motor's fraction with its torque.
    """

    drive: Value = 0.0
    external: Value = 0.0
    drive_at_rest: Value = 0.0
    external_at_rest: Value = 0.0
    drive_growth_per_nm: Value = 0.0

    def __post_init__(self) -> None:
        for name in ("drive", "external", "drive_at_rest", "external_at_rest", "drive_growth_per_nm"):
            check_field(self, name, at_least=0.0)


def gear_level_nm(
    params: Friction, load: GearLoad, speed_rad_s: Array, drive_nm: Array, external_nm: Array
) -> Array:
    """The largest dry friction of a gear between a motor's torque and the other torques on the joint: (N, ...)."""
    resting = _stribeck_factor(params, speed_rad_s)
    shape = resting.shape
    level: Array = np.abs(
        broadcast(load.drive_at_rest, shape) * drive_nm
        - broadcast(load.external_at_rest, shape) * external_nm
    )
    level += broadcast(params.stiction_extra_nm, shape)
    level *= resting
    level += broadcast(params.coulomb_nm, shape)
    level += np.abs(broadcast(load.drive, shape) * drive_nm - broadcast(load.external, shape) * external_nm)
    level += broadcast(load.drive_growth_per_nm, shape) * drive_nm * drive_nm
    return level


def regularized_torque(params: Friction, speed_rad_s: Array, load_nm: Value = 0.0) -> Array:
    """Friction torque (N, ...) as a smooth function of speed (N, ...)."""
    speed = np.asarray(speed_rad_s)
    torque = dry_level_nm(params, speed, load_nm)
    torque *= np.tanh(np.ascontiguousarray(speed / broadcast(params.smooth_speed_rad_s, speed.shape)))
    torque += broadcast(params.viscous_nm_s_rad, speed.shape) * speed
    return np.negative(torque, out=torque)


def stick_slip_torque(
    params: Friction,
    speed_rad_s: Array,
    applied_nm: Array,
    inertia_kg_m2: Value,
    dt_s: float,
    load_nm: Value = 0.0,
) -> Array:
    """Friction torque (N, ...) to hold constant over the next `dt_s`, beside the other torques `applied_nm` (N, ...).

    `inertia_kg_m2` is what those torques accelerate: the diagonal of the mass matrix is a good choice for a chain.
    """
    if not dt_s > 0:
        raise WrongUse("the time step must be positive", got=dt_s, expected="dt_s > 0")
    speed = np.asarray(speed_rad_s)
    inertia = broadcast(inertia_kg_m2, speed.shape)
    momentum_rate = inertia / dt_s
    # With no friction, `stopping` is the torque that would bring the joint to rest within the step.
    stopping = momentum_rate * speed + applied_nm
    level = dry_level_nm(params, speed, load_nm)
    rest: Array = stopping - np.clip(stopping, -level, level)
    # Viscous friction acts on the speed at the end of the step: implicit, so it cannot overshoot either.
    rest *= momentum_rate / (momentum_rate + broadcast(params.viscous_nm_s_rad, speed.shape))
    rest -= stopping
    return rest
