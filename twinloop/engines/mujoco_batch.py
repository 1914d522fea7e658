"""MuJoCo, batched: one `mujoco.batch.Batch` whose environments are loaded with draws and stepped by control steps.

The model is the twin's with three contact sensors added, which cost nothing measurable and tell touch, force and depth
without a Python loop over contacts. Everything an environment does depends on its own state and draw: MuJoCo's batch is
bit-identical at any thread count, and loading an environment clears all that the previous episode left (warm start
included), so that the slot an episode runs in does not matter either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import mujoco.batch
import numpy as np
from numpy.typing import NDArray

from twinloop.engines.drive import Drive
from twinloop.engines.joint_friction import loaded_rows
from twinloop.tasks import Cell, Start, Touch, Truth
from twinloop.twins import BatchWriter, Twin

Array = NDArray[Any]

ENGINE = "mujoco"

_DIVERGED = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)
_PER_TOUCH = 5


@dataclass(frozen=True)
class Broken:
    """Environments that left the finite numbers, and the state (n, ...) from which they did."""

    ids: Array
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclass(frozen=True)
class Inertia:
    """Per environment: moments of inertia of the object over its mass, (N, 3) in m^2."""

    specific_m2: Array


def engine_version() -> str:
    """The version of MuJoCo in use."""
    return str(mujoco.__version__)


class MujocoBatch:
    """`count` environments of one cell; `varying` names the parameters that differ between them."""

    def __init__(self, cell: Cell, count: int, threads: int, varying: Iterable[str]) -> None:
        self.cell = cell
        self.count = count
        self._pairs = _contact_pairs(cell)
        self._batch = mujoco.batch.Batch(make_watched_model(cell), count, threads)
        self._writer = BatchWriter(cell.twin.patch, self._batch, varying)
        self._drive = Drive(cell, self._batch, varying)
        bind = self._batch.bind
        self.qpos, self.qvel, self.ctrl = bind("qpos"), bind("qvel"), bind("ctrl")
        self.external_force = bind("xfrc_applied")
        self._time, self.mocap = bind("time"), bind("mocap_pos")
        self._effort, self._sensors = bind("actuator_force"), bind("sensordata")
        self._touches = cell.model.nsensordata
        self._sensed = [address for group in cell.sensors for address in group.addresses]
        self._site_position, self._site_matrix = bind("site_xpos"), bind("site_xmat")
        self._tool = cell.model.site(cell.twin.role("tool")).id if "tool" in cell.twin.roles else None
        self._table_height = np.zeros(count)
        self.inertia = Inertia(np.zeros((count, 3)))
        self._warned = np.zeros(count, dtype=np.int64)

    def expand(self, field: str) -> Array:
        """A model field with a value per environment, (count, ...), to be written between steps."""
        return np.asarray(self._batch.expand(field))

    def load(self, ids: Array, values: Mapping[str, Any], start: Start) -> None:
        """Begin new episodes in the environments `ids`, with one draw each: arrays (len(ids),)."""
        self._batch.reset(ids, stage=int(mujoco.mjtStage.mjSTAGE_NONE))
        model_values = {k: v for k, v in values.items() if k in self.cell.twin.patch.names("model")}
        self._writer.write(model_values, ids)
        self.qpos[ids], self.qvel[ids], self.ctrl[ids] = start.qpos, start.qvel, start.ctrl
        if self.mocap.shape[1]:
            self.mocap[ids] = start.mocap_pos
        if self.cell.twin.has("table_height_m"):
            nominal = self.cell.twin.parameter("table_height_m").nominal
            self._table_height[ids] = values.get("table_height_m", nominal)
        if self.cell.object_qpos is not None:
            body = self._batch.body(self.cell.twin.role("object"))
            self.inertia.specific_m2[ids] = (np.asarray(body.inertia) / np.asarray(body.mass).reshape(-1, 1))[
                ids
            ]
        self._drive.load(ids, values)
        self._batch.forward(ids)
        self._warned[ids] = self._warnings()[ids]

    def loaded_rows(self, field: str, values: Mapping[str, Any], count: int) -> Array:
        """A model field as `load` leaves it for these values, (count, ...)."""
        return loaded_rows(self.cell, field, values, count)

    def step(self, ids: Array, controls: Array) -> Broken | None:
        """One control step of the environments `ids`: a command per physics step, (len(ids), substeps, nu).

        Returns those that diverged, with the state before the step; MuJoCo has put them back to the start.
        """
        before = self._batch.state[ids]
        try:
            if self._drive.active:
                self._step_by_step(ids, controls)
            elif controls.shape[1] == 1:
                self.ctrl[ids] = controls[:, 0]
                self._batch.step(ids, nstep=self.cell.twin.substeps)
            else:
                self._batch.rollout(controls.shape[1], controls, record=(), ids=ids)
            failed = np.zeros(len(ids), dtype=bool)
        except mujoco.batch.SimulationError as error:
            failed = np.isin(ids, error.ids)
        warned = self._warnings()
        failed |= warned[ids] > self._warned[ids]
        failed |= ~np.isfinite(self.qpos[ids]).all(axis=1)
        self._warned = warned
        if not failed.any():
            return None
        self._batch.state[ids[failed]] = before[failed]
        broken = ids[failed]
        return Broken(broken, self.qpos[broken], self.qvel[broken], self.ctrl[broken])

    def _step_by_step(self, ids: Array, controls: Array) -> None:
        """As many physics steps as a control step has, with the drive set before each."""
        last = controls.shape[1] - 1
        for substep in range(self.cell.twin.substeps):
            self._drive.before_step(ids, controls[:, min(substep, last)])
            self._batch.step(ids, nstep=1)

    def truth(self) -> Truth:
        """What is true in every environment now; arrays are copies."""
        cell, count = self.cell, self.count
        at, dof = cell.object_qpos, cell.object_dof
        none = np.zeros((count, 3))
        tool = self._tool
        touches = {pair: self._touch(index) for index, pair in enumerate(self._pairs)}
        untouched = Touch(np.zeros(count, dtype=bool), np.zeros(count), np.zeros(count))
        return Truth(
            time_s=self._time.copy(),
            position=cell.positions(self.qpos),
            velocity=cell.velocities(self.qvel),
            effort=self._effort.copy(),
            tool_position=none if tool is None else self._site_position[:, tool].copy(),
            tool_matrix=np.zeros((count, 9)) if tool is None else self._site_matrix[:, tool].copy(),
            object_position=none if at is None else self.qpos[:, at : at + 3].copy(),
            object_quat=np.zeros((count, 4)) if at is None else self.qpos[:, at + 3 : at + 7].copy(),
            object_velocity=np.zeros((count, 6)) if dof is None else self.qvel[:, dof : dof + 6].copy(),
            target_position=none if cell.target_mocap is None else self.mocap[:, cell.target_mocap].copy(),
            table_height_m=self._table_height.copy(),
            robot_object=touches.get("robot_object", untouched),
            object_table=touches.get("object_table", untouched),
            robot_table=touches.get("robot_table", untouched),
            sensors=self._sensors[:, self._sensed],
        )

    def _touch(self, index: int) -> Touch:
        start = self._touches + _PER_TOUCH * index
        readings = self._sensors[:, start : start + _PER_TOUCH]
        x, y, z = readings[:, 1], readings[:, 2], readings[:, 3]
        return Touch(
            touching=readings[:, 0] > 0.0,
            force_n=np.sqrt(x * x + y * y + z * z),
            depth_m=np.maximum(-readings[:, 4], 0.0),
        )

    def _warnings(self) -> Array:
        counts = self._batch.warning[:, :, 1]
        return np.asarray(sum(counts[:, int(kind)] for kind in _DIVERGED)).astype(np.int64)


def make_watched_model(cell: Cell) -> mujoco.MjModel:
    """The twin's model, nominal values written, with the contact sensors of `Truth`."""
    twin = cell.twin
    pairs = _contact_pairs(cell)
    sensors = "".join(
        f'<contact name="watch_{name}" {sides} num="1" data="found force dist" reduce="mindist"/>'
        for name, sides in pairs.items()
    )
    head, _, _ = twin.mjcf.rpartition("</mujoco>")
    watched = Twin(twin.name, f"{head}<sensor>{sensors}</sensor></mujoco>", assets=twin.assets)
    model = watched.compile_as_written()
    if model.nsensordata != _PER_TOUCH * len(pairs) + twin.patch.model.nsensordata:
        raise AssertionError("a contact sensor gives found, force and distance: five numbers")
    twin.patch.apply_to_model(model, twin.nominal)
    return model


def _contact_pairs(cell: Cell) -> dict[str, str]:
    roles, root = cell.twin.roles, cell.robot_root
    pairs = {}
    if root and "object" in roles:
        pairs["robot_object"] = f'subtree1="{root}" body2="{roles["object"]}"'
    if "object" in roles and "table" in roles:
        pairs["object_table"] = f'body1="{roles["object"]}" body2="{roles["table"]}"'
    if root and "table" in roles:
        pairs["robot_table"] = f'subtree1="{root}" body2="{roles["table"]}"'
    return pairs
