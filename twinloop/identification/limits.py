"""Limits of a designed motion, and a rehearsal in the twin that checks them."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.engines import DEFAULT_ENGINE, Engine, EngineOptions, make_engine
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.experts.excitation import (
    FASTEST_HZ,
    MAX_ACCELERATION_RAD_S2,
    MAX_SPEED_RAD_S,
    REACH,
    excitation_range,
    home_qpos,
)
from twinloop.tasks import Cell

CLEARANCE_M = 0.005
_LOOK_S = 0.04
_TRIES = 8
_MARGIN = 0.98
"""Fraction of a limit that scaling aims at."""


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of a motion; arrays are per actuator.

    `reach` (actuators,) is how far from home commands may go. `speed_rad_s` holds for commands and for the simulated
    joints, `acceleration_rad_s2` for commands, `torque` (actuators,) for the simulated actuators. Joints stay within
    their stops, and the robot's parts `clearance_m` away from everything they do not touch at home.
    """

    reach: Array
    speed_rad_s: float
    acceleration_rad_s2: float
    torque: Array
    fastest_hz: float
    clearance_m: float = CLEARANCE_M


@dataclass(frozen=True)
class Peaks:
    """Peak values of a motion in its rehearsal: radians, rad/s, and the fraction of the torque limit."""

    reach_rad: float
    speed_rad_s: float
    torque_fraction: float


def make_limits(
    cell: Cell,
    *,
    reach: float = REACH,
    speed_rad_s: float = MAX_SPEED_RAD_S,
    acceleration_rad_s2: float = MAX_ACCELERATION_RAD_S2,
    torque_fraction: float = 0.9,
    fastest_hz: float = FASTEST_HZ,
) -> MotionLimits:
    """Limits of a cell. `reach` is a fraction of the way from home to the nearest joint limit, and at most that many radians."""
    for name, value, top in (
        ("reach", reach, 1.0),
        ("torque fraction", torque_fraction, 1.0),
        ("speed", speed_rad_s, np.inf),
        ("acceleration", acceleration_rad_s2, np.inf),
        ("fastest rate", fastest_hz, 0.4 * cell.twin.control_hz),
    ):
        if not 0.0 < value <= top:
            raise WrongUse(
                f"a motion's {name} is out of range", got=value, expected=f"above 0, at most {top:g}"
            )
    _, room = excitation_range(cell, reach)
    if not room.any():
        raise WrongUse(
            f"twin {cell.twin.name!r} has no actuator that a motion could move",
            expected="an actuator with room on both sides of home",
        )
    model = cell.twin.make_model()
    ranges = np.abs(np.asarray(model.actuator_forcerange)).max(axis=1)
    limited = np.asarray(model.actuator_forcelimited).astype(bool)
    torque = np.where(limited, torque_fraction * ranges, np.inf)
    return MotionLimits(room, speed_rad_s, acceleration_rad_s2, torque, fastest_hz)


class Rehearsal:
    """Simulates motions in the nominal twin and scales them towards home until they keep the limits."""

    def __init__(self, cell: Cell, limits: MotionLimits, threads: int = 0) -> None:
        self._cell, self._limits, self._threads = cell, limits, threads
        self._engine: Engine | None = None
        self._start = home_qpos(cell)
        self.home = cell.positions(self._start)[0]
        self.dt_s = cell.dt_s
        self._model = cell.twin.make_model()
        self._touching = self._model_that_notices()
        self._data = mujoco.MjData(self._touching)
        self._fixed = self._touched(self._start)

    def shrink(self, signals: Array) -> tuple[Array, Array]:
        """Signals (N, T, actuators) around home, each scaled down until it keeps the limits; and which could not be."""
        signals = signals * np.minimum(1.0, 1.0 / self._asked(signals))[:, None, None]
        waiting = np.arange(len(signals))
        for _ in range(_TRIES):
            factor = self._factors(signals[waiting])
            signals[waiting] = signals[waiting] * factor[:, None, None]
            waiting = waiting[factor < 1.0]
            if not len(waiting):
                break
        refused = np.zeros(len(signals), dtype=bool)
        refused[waiting] = True
        return signals, refused

    def peaks(self, signal: Array) -> Peaks:
        """Peak values of one signal (T, actuators)."""
        speed, torque, _ = self._played(signal[None])
        return Peaks(float(np.abs(signal).max()), float(speed[0]), float(torque[0]))

    def _asked(self, signals: Array) -> Array:
        """Largest ratio of each commanded signal to its limits."""
        limits, dt_s = self._limits, self._cell.dt_s
        moving = limits.reach > 0.0
        reach = np.abs(signals[:, :, moving]).max(axis=1) / limits.reach[moving]
        speed = np.abs(np.diff(signals, axis=1)).max(axis=(1, 2)) / dt_s / limits.speed_rad_s
        force = np.abs(np.diff(signals, 2, axis=1)).max(axis=(1, 2)) / dt_s**2 / limits.acceleration_rad_s2
        return np.asarray(np.maximum(np.maximum(reach.max(axis=1), speed), np.maximum(force, 1e-9)))

    def _factors(self, signals: Array) -> Array:
        """What to scale each signal by; 1 where the simulated motion keeps every limit."""
        speed, torque, blocked = self._played(signals)
        over = np.maximum(speed / self._limits.speed_rad_s, 1.0)
        factor = np.where(over > 1.0, _MARGIN / over, 1.0)
        # Torque has a part that does not shrink with the motion, gravity's, so it takes smaller steps.
        return np.where((torque > 1.0) | blocked, np.minimum(factor, 0.75), factor)

    def _played(self, signals: Array) -> tuple[Array, Array, Array]:
        """Top speed (N,), torque over its limit (N,), and whether there was a collision (N,) in the simulation."""
        cell, count = self._cell, len(signals)
        if self._engine is None or self._engine.count < count:
            options = EngineOptions(contacts=False, gear_friction=False)
            self._engine = make_engine(DEFAULT_ENGINE, cell, count, self._threads, options=options)
        controls = np.repeat(self.home + signals, cell.twin.substeps, axis=1)
        start = (np.repeat(self._start, count, axis=0), np.zeros((count, cell.model.nv)))
        rolled = self._engine.roll(np.arange(count), {}, start, controls, effort=True)
        assert rolled.effort is not None
        speed, torque, blocked = np.zeros(count), np.full(count, 2.0), np.ones(count, dtype=bool)
        good = ~rolled.diverged
        if good.any():
            qvel = rolled.qvel[good]
            velocities = cell.velocities(qvel.reshape(-1, qvel.shape[2])).reshape(*qvel.shape[:2], -1)
            speed[good] = np.abs(velocities).max(axis=(1, 2))
            torque[good] = (np.abs(rolled.effort[good]) / self._limits.torque).max(axis=(1, 2))
            blocked[good] = self._blocked(rolled.qpos[good])
        return speed, torque, blocked

    def _blocked(self, qpos: Array) -> Array:
        model = self._model
        limited = np.flatnonzero(np.asarray(model.jnt_limited))
        addresses = np.asarray(model.jnt_qposadr)[limited]
        low, high = np.asarray(model.jnt_range)[limited].T
        resting = (self._start[0, addresses] <= low) | (self._start[0, addresses] >= high)
        beyond = (qpos[:, :, addresses] <= low) | (qpos[:, :, addresses] >= high)
        blocked = (beyond & ~resting).any(axis=(1, 2))
        if self._cell.robot_root is None:
            return np.asarray(blocked)
        stride = max(1, round(_LOOK_S / self._cell.twin.physics_dt_s))
        for env in np.flatnonzero(~blocked):
            blocked[env] = any(self._touched(row) - self._fixed for row in qpos[env, ::stride])
        return np.asarray(blocked)

    def _model_that_notices(self) -> mujoco.MjModel:
        """The model with geoms enlarged by the clearance, for collision checks only."""
        model = self._cell.twin.make_model()
        model.geom_margin[:] = np.maximum(np.asarray(model.geom_margin), 0.5 * self._limits.clearance_m)
        return model

    def _touched(self, qpos: Array) -> set[tuple[int, int]]:
        """Pairs of geoms closer than the clearance, at least one of which is the robot's."""
        if self._cell.robot_root is None:
            return set()
        self._data.qpos[:] = qpos
        mujoco.mj_fwdPosition(self._touching, self._data)
        root = self._touching.body(self._cell.robot_root).id
        pairs = np.asarray(self._data.contact.geom).reshape(-1, 2)
        roots = np.asarray(self._touching.body_rootid)[np.asarray(self._touching.geom_bodyid)[pairs]]
        robot = (roots == self._touching.body_rootid[root]).any(axis=1)
        return {(int(a), int(b)) for a, b in pairs[robot]}
