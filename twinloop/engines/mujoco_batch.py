"""The `mujoco` engine: one `mujoco.batch.Batch` whose environments are loaded with draws and stepped by control steps.

The model is the twin's with three contact sensors added, which cost nothing measurable and measure touch, force and depth
without a Python loop over contacts. Everything an environment does depends on its own state and draw: MuJoCo's batch is
bit-identical at any thread count, and loading an environment clears everything that the previous episode left (warm start
included), so that the slot an episode runs in does not matter either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import mujoco
import mujoco.batch
import numpy as np

from twinloop.engines.drive import Drive
from twinloop.engines.protocol import DEFAULT_ENGINE, ENGINES, Diverged, EngineOptions, Trajectories, Values
from twinloop.engines.render import Renderer
from twinloop.episode import Array
from twinloop.tasks import Cell, Start, Touch, Truth
from twinloop.twins import BatchWriter, Twin

_DIVERGED = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)
_PER_TOUCH = 5


@ENGINES.register(DEFAULT_ENGINE)
class MujocoBatch:
    """`count` environments of one cell; `varying` names the parameters that differ between them. See `Engine`."""

    name = DEFAULT_ENGINE
    version = str(mujoco.__version__)

    def __init__(
        self,
        cell: Cell,
        count: int,
        threads: int,
        varying: Iterable[str],
        options: EngineOptions | None = None,
    ) -> None:
        self.cell = cell
        self.count = count
        options, varying = options or EngineOptions(), frozenset(varying)
        self._pairs = _contact_pairs(cell) if options.contacts else {}
        model = make_watched_model(cell) if options.contacts else cell.twin.make_model()
        self._batch = mujoco.batch.Batch(model, count, threads)
        self._writer = BatchWriter(cell.twin.patch, self._batch, varying)
        self._drive = Drive(
            cell,
            self._batch,
            varying,
            switched=options.switched_servos,
            gear_friction=options.gear_friction,
        )
        bind = self._batch.bind
        self.qpos, self.qvel, self.ctrl = bind("qpos"), bind("qvel"), bind("ctrl")
        self._external_force = bind("xfrc_applied")
        self._gravity: Array | None = None
        self._time, self.mocap = bind("time"), bind("mocap_pos")
        self._effort, self._sensors = bind("actuator_force"), bind("sensordata")
        self._touches = cell.model.nsensordata
        self._sensed = [address for group in cell.sensors for address in group.addresses]
        self._site_position, self._site_matrix = bind("site_xpos"), bind("site_xmat")
        self._tool = cell.model.site(cell.twin.role("tool")).id if "tool" in cell.twin.roles else None
        self._table_height = np.zeros(count)
        self.object_inertia_m2 = np.zeros((count, 3))
        self._warned = np.zeros(count, dtype=np.int64)

    def load(self, ids: Array, values: Values, start: Start) -> None:
        """Begin new episodes in the environments `ids`, with one draw each: arrays (len(ids),)."""
        self._set_parameters(ids, values)
        self.qpos[ids], self.qvel[ids], self.ctrl[ids] = start.qpos, start.qvel, start.ctrl
        if self.mocap.shape[1]:
            self.mocap[ids] = start.mocap_pos
        if self.cell.twin.has("table_height_m"):
            nominal = self.cell.twin.parameter("table_height_m").nominal
            self._table_height[ids] = values.get("table_height_m", nominal)
        if self.cell.object_qpos is not None:
            body = self._batch.body(self.cell.twin.role("object"))
            self.object_inertia_m2[ids] = (np.asarray(body.inertia) / np.asarray(body.mass).reshape(-1, 1))[
                ids
            ]
        self._drive.load(ids, values)
        self._batch.forward(ids)
        self._warned[ids] = self._warnings()[ids]

    def set_state(self, ids: Array, qpos: Array, qvel: Array, ctrl: Array) -> None:
        """Set positions, velocities and commands of the environments `ids`."""
        self.qpos[ids], self.qvel[ids], self.ctrl[ids] = qpos, qvel, ctrl

    def push_object(self, ids: Array, force_n: Array) -> None:
        """Apply forces (len(ids), 3) to the object."""
        body = self.cell.model.body(self.cell.twin.role("object")).id
        self._external_force[ids, body, :3] = force_n

    def set_gravity(self, ids: Array, gravity_m_s2: Array) -> None:
        """Set gravity (len(ids), 3); each environment has its own from the first call on."""
        if self._gravity is None:
            self._gravity = np.asarray(self._batch.expand("opt.gravity"))
        self._gravity[ids] = gravity_m_s2

    def make_renderer(self, cameras: tuple[str, ...]) -> Renderer:
        """Make a renderer for some of the cell's cameras."""
        return Renderer(self.cell, cameras)

    def step(self, ids: Array, controls: Array) -> Diverged | None:
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
        diverged = ids[failed]
        return Diverged(diverged, self.qpos[diverged], self.qvel[diverged], self.ctrl[diverged])

    def _step_by_step(self, ids: Array, controls: Array) -> None:
        """As many physics steps as a control step has, with the drive set before each."""
        last = controls.shape[1] - 1
        for substep in range(self.cell.twin.substeps):
            self._drive.before_step(ids, controls[:, min(substep, last)])
            self._batch.step(ids, nstep=1)

    def roll(
        self,
        ids: Array,
        values: Values,
        start: tuple[Array, Array],
        controls: Array,
        *,
        enabled: Array | None = None,
        effort: bool = False,
    ) -> Trajectories:
        """Simulate open loop from given states, a command (len(ids), steps, nu) for each physics step."""
        self._set_parameters(ids, values)
        self.qpos[ids], self.qvel[ids] = start
        warned = self._warnings()[ids]
        if self._drive.active:
            self._drive.load(ids, values)
            self._batch.forward(ids)
            with quiet_warnings():
                rolled = self._roll_by_step(ids, controls, enabled, effort)
        else:
            with quiet_warnings():
                rolled = self._roll_at_once(ids, start, controls, effort)
        # MuJoCo puts a simulation that diverged back to the start and goes on; only its warnings say so.
        diverged = rolled.diverged | (self._warnings()[ids] > warned)
        return replace(rolled, diverged=diverged | ~np.isfinite(rolled.qpos).all(axis=(1, 2)))

    def _set_parameters(self, ids: Array, values: Values) -> None:
        """Clear what the last episodes left and write the values that change the model."""
        self._batch.reset(ids, stage=int(mujoco.mjtStage.mjSTAGE_NONE))
        names = self.cell.twin.patch.names("model")
        self._writer.write({name: column for name, column in values.items() if name in names}, ids)

    def _roll_at_once(
        self, ids: Array, start: tuple[Array, Array], controls: Array, effort: bool
    ) -> Trajectories:
        """All physics steps in one call; environments that did not diverge are simulated again where others did."""
        steps, control = controls.shape[1], controls if controls.shape[2] else None
        record = ("qpos", "qvel", "actuator_force") if effort else ("qpos", "qvel")
        try:
            states = self._batch.rollout(steps, control, record=record, ids=ids)
            failed = np.zeros(len(ids), dtype=bool)
        except mujoco.batch.SimulationError as error:
            failed = np.isin(ids, error.ids)
            model = self.cell.model
            widths = {"qpos": model.nq, "qvel": model.nv, "actuator_force": model.nu}
            states = {name: np.zeros((len(ids), steps, widths[name])) for name in record}
            if not failed.all():
                good = ids[~failed]
                self._batch.reset(good, stage=int(mujoco.mjtStage.mjSTAGE_NONE))
                self.qpos[good], self.qvel[good] = start[0][~failed], start[1][~failed]
                kept = None if control is None else control[~failed]
                for name, rows in self._batch.rollout(steps, kept, record=record, ids=good).items():
                    states[name][~failed] = rows
        return Trajectories(states["qpos"], states["qvel"], failed, states.get("actuator_force"))

    def _roll_by_step(self, ids: Array, controls: Array, enabled: Array | None, effort: bool) -> Trajectories:
        """One physics step at a time, with the drive set before each."""
        count, steps = controls.shape[:2]
        positions = np.zeros((steps, count, self.qpos.shape[1]))
        speeds = np.zeros((steps, count, self.qvel.shape[1]))
        efforts = np.zeros((steps, count, controls.shape[2])) if effort else None
        failed, going = np.zeros(count, dtype=bool), np.arange(count)
        for step in range(steps):
            on = None if enabled is None else enabled[going, step]
            self._drive.before_step(ids[going], controls[going, step], on)
            try:
                self._batch.step(ids[going], nstep=1)
            except mujoco.batch.SimulationError as error:
                failed |= np.isin(ids, error.ids)
                going = np.flatnonzero(~failed)
            positions[step, going], speeds[step, going] = self.qpos[ids[going]], self.qvel[ids[going]]
            if efforts is not None:
                efforts[step, going] = self._effort[ids[going]]
        if efforts is not None:
            efforts = efforts.swapaxes(0, 1)
        return Trajectories(positions.swapaxes(0, 1), speeds.swapaxes(0, 1), failed, efforts)

    def mass_centres(self, environment: int) -> dict[int, Array]:
        """Where the engine itself has the bodies' centres of mass (3,) in m, by body."""
        places = self._batch.bind("xipos")
        self._batch.forward(np.array([environment]))
        moving = np.flatnonzero(np.asarray(self.cell.model.body_mass) > 0.0)
        return {int(body): np.array(places[environment, body]) for body in moving}

    def gravity_torques(self, environment: int) -> dict[int, float]:
        """The torques in N m, or forces in N, against gravity, by degree of freedom."""
        torques = self._batch.bind("qfrc_bias")
        self._batch.forward(np.array([environment]))
        return dict(enumerate(np.asarray(torques[environment]).tolist()))

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


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """MuJoCo does not print its warnings: callers learn of simulations that diverged, and a grasp at the edge of slipping warns thousands of times."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
