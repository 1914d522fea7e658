"""Friction that depends on speed and load, in MuJoCo: a joint's `frictionloss` written anew before every physics step.

MuJoCo solves dry friction of a given level exactly, as a constraint together with contacts and limits; this part only says
how high the level is now. Speed and torques are those at the beginning of the previous physics step. A part of the level
is present when its parameter varies or is nominally not zero, so that a twin without gear friction pays nothing.

A constraint is as hard as `solreffriction` and `solimpfriction` say: with MuJoCo's defaults a joint that should stick
creeps by some hundredths of a radian per second under load. Twins of servos make it hard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mujoco
import mujoco.batch
import numpy as np

from twinloop.episode import Array
from twinloop.imperfect.friction import Friction, GearLoad, gear_level_nm
from twinloop.tasks import Cell
from twinloop.twins.declare import to_identifier

LEVELS = (
    "stiction_extra_nm",
    "drive_load_friction",
    "external_load_friction",
    "drive_load_stiction",
    "external_load_stiction",
    "drive_load_growth_per_nm",
)
"""Endings of the parameters that raise a joint's friction."""
STRIBECK_RAD_S = 0.05
"""Speed at which static friction has fallen to a third of its excess, for joints without a Stribeck speed of their own."""
_ALL = "servo"
"""Parameters that begin with this word instead of a joint's name are for every driven joint, on top of its own."""
_SCALE = "stiction_scale"


class JointFriction:
    """Dry friction of the joints of all environments of a batch; `varying` names the parameters that differ in them.

    `active` says whether anything beyond MuJoCo's own friction is asked for. If so, call `load` when episodes begin and `write`
    before every physics step, after the batch was told their state (`forward`).
    """

    def __init__(self, cell: Cell, batch: mujoco.batch.Batch, varying: Iterable[str]) -> None:
        self._cell, self._count = cell, int(batch.nsim)
        twin, names = cell.twin, _dof_names(cell.model)
        varying = frozenset(varying)

        def present(name: str) -> bool:
            return twin.has(name) and (name in varying or twin.parameter(name).nominal != 0.0)

        driven = {int(dof) for row in cell.dof_addresses for dof in row}
        shared = any(present(f"{_ALL}_{ending}") for ending in LEVELS)
        self._dofs = np.array(
            [
                dof
                for dof, name in enumerate(names)
                if present(_SCALE)
                or (shared and dof in driven)
                or any(present(f"{name}_{ending}") for ending in LEVELS)
            ],
            dtype=np.int64,
        )
        self.active = bool(len(self._dofs))
        if not self.active:
            return
        first, last = int(self._dofs[0]), int(self._dofs[-1])
        self._columns = slice(first, last + 1) if last - first + 1 == len(self._dofs) else self._dofs
        bind = batch.bind
        self._speed, self._smooth = bind("qvel"), bind("qfrc_smooth")
        self._actuator, self._damper = bind("qfrc_actuator"), bind("qfrc_damper")
        self._frictionloss = np.asarray(batch.expand("dof_frictionloss"))
        shape = (self._count, len(self._dofs))
        self._number = {ending: np.zeros(shape) for ending in LEVELS}
        self._coulomb, self._extra, self._back_emf = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._stribeck = np.full(shape, STRIBECK_RAD_S)

    def load(self, ids: Array, values: Mapping[str, Any]) -> None:
        """New episodes in the environments `ids`, with one draw each: arrays (len(ids),)."""
        if not self.active:
            return
        dofs, count = self._dofs, len(ids)
        self._coulomb[ids] = loaded_rows(self._cell, "dof_frictionloss", values, count)[:, dofs]
        number, self._stribeck[ids], self._extra[ids] = friction_numbers(
            self._cell, dofs, values, self._coulomb[ids]
        )
        for ending, rows in number.items():
            self._number[ending][ids] = rows
        self._frictionloss[np.ix_(ids, dofs)] = self._coulomb[ids]
        damping = loaded_rows(self._cell, "actuator_damping", values, count)
        self._back_emf[ids] = (damping @ _squared_gears(self._cell.model))[:, dofs]
        self._rows = slice(0, 0)

    def write(self, ids: Array, enabled: Array | None = None) -> None:
        """Write the level that holds during the next physics step of the environments `ids`.

        A motor has back-EMF only where it is `enabled` (N,), everywhere by default.
        """
        rows = slice(0, int(ids.max(initial=-1)) + 1)
        if rows != self._rows:
            self._make_levels(rows)
        dofs = self._columns
        speed, drive = self._speed[rows, dofs], self._actuator[rows, dofs]
        external = self._smooth[rows, dofs] - drive - self._damper[rows, dofs]
        back_emf = self._back_emf[rows] if enabled is None else self._back_emf[rows] * enabled[rows, None]
        level = gear_level_nm(self._friction, self._load, speed, drive - back_emf * speed, external)
        if len(level) == len(ids):
            self._frictionloss[rows, dofs] = level
        else:
            self._frictionloss[np.ix_(ids, self._dofs)] = level[ids]

    def _make_levels(self, rows: slice) -> None:
        """The numbers of the first environments, once for all of their steps."""
        number = {ending: values[rows] for ending, values in self._number.items()}
        self._rows = rows
        self._friction = Friction(self._coulomb[rows], 0.0, self._extra[rows], self._stribeck[rows])
        self._load = GearLoad(
            drive=number["drive_load_friction"],
            external=number["external_load_friction"],
            drive_at_rest=number["drive_load_stiction"],
            external_at_rest=number["external_load_stiction"],
            drive_growth_per_nm=number["drive_load_growth_per_nm"],
        )


def friction_numbers(
    cell: Cell, dofs: Array, values: Mapping[str, Any], coulomb: Array
) -> tuple[dict[str, Array], Array, Array]:
    """What the parameters say about the friction of some degrees of freedom.

    Args:
        cell: The cell.
        dofs: Degrees of freedom (n,).
        values: Parameters, (count,) each; the others are nominal.
        coulomb: Dry friction (count, n), in N m or N.

    Returns:
        By ending of `LEVELS`, the numbers (count, n); Stribeck speeds (count, n); extra static friction (count, n).
    """
    twin, count = cell.twin, len(coulomb)
    names, driven = _dof_names(cell.model), {int(dof) for row in cell.dof_addresses for dof in row}

    def column(name: str, otherwise: float) -> Any:
        if name in values:
            return np.broadcast_to(values[name], (count,))
        return twin.parameter(name).nominal if twin.has(name) else otherwise

    number = {ending: np.zeros((count, len(dofs))) for ending in LEVELS}
    stribeck = np.zeros((count, len(dofs)))
    slow = column(f"{_ALL}_stribeck_speed_rad_s", STRIBECK_RAD_S)
    for index, dof in enumerate(dofs.tolist()):
        name = names[dof]
        for ending in LEVELS:
            shared = column(f"{_ALL}_{ending}", 0.0) * float(dof in driven)
            number[ending][:, index] = column(f"{name}_{ending}", 0.0) + shared
        own = twin.has(f"{name}_stribeck_speed_rad_s")
        stribeck[:, index] = column(f"{name}_stribeck_speed_rad_s", 0.0) if own else slow
    scale = np.broadcast_to(column(_SCALE, 0.0), (count,))
    return number, stribeck, number["stiction_extra_nm"] + scale[:, None] * coulomb


def loaded_rows(cell: Cell, field: str, values: Mapping[str, Any], count: int) -> Array:
    """A model field as writing these values leaves it, (count, ...)."""
    patch = cell.twin.patch
    if field in patch.fields(patch.names("model")):
        return patch.rows(values, count, [field])[field]
    owner = cell.model.opt if field.startswith("opt.") else cell.model
    return np.repeat(np.asarray(getattr(owner, field.removeprefix("opt.")))[None], count, axis=0)


def _dof_names(model: mujoco.MjModel) -> list[str]:
    """The joint of each degree of freedom, as parameters are named after it."""
    return [to_identifier(model.joint(int(joint)).name or f"joint{joint}") for joint in model.dof_jntid]


def _squared_gears(model: mujoco.MjModel) -> Array:
    """What an actuator's damping weighs at each degree of freedom, (nu, nv); only joints that it drives directly."""
    weights = np.zeros((model.nu, model.nv))
    for actuator in range(model.nu):
        if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
            joint = int(model.actuator_trnid[actuator, 0])
            weights[actuator, int(model.jnt_dofadr[joint])] = float(model.actuator_gear[actuator, 0]) ** 2
    return weights
