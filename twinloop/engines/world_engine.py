"""Engines that hold one scene at a time, behind the engine door: a world of its own for every environment and episode.

A world is built anew when an episode begins, from the twin's model with that episode's values written into it, so that nothing is left of
the episode before. Environments share nothing; they are stepped one after the other, and processes are what makes them parallel.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import mujoco
import numpy as np

from twinloop.engines.differences import require_can_vary
from twinloop.engines.protocol import ENGINES, Diverged, EngineOptions, Trajectories, Values
from twinloop.engines.render import Renderer
from twinloop.engines.servos import TwinServos
from twinloop.engines.world import World, twin_surfaces
from twinloop.episode import Array
from twinloop.errors import UnknownName
from twinloop.tasks import Cell, Start, Touch, Truth

BEYOND = 1e10
"""A state beyond this has diverged, as in MuJoCo."""

BULLET_STEPS = 2
"""Steps that Bullet takes in each physics step: its contacts are first order, and hold a grasp no better at half the cost."""


def make_world(
    engine: str, cell: Cell, model: mujoco.MjModel, dt_s: float, *, bullet_steps: int = 1
) -> World:
    """Make one cell in an engine of one scene.

    Args:
        engine: `bullet` or `physx`.
        cell: The cell.
        model: What is simulated.
        dt_s: Time step.
        bullet_steps: Steps that Bullet takes in each of them.

    Raises:
        MissingExtra: The engine is not installed.
        UnknownName: There is no such engine.
        InvalidTwin: The engine cannot build the model.
    """
    if engine == "bullet":
        from twinloop.engines.bullet_world import BulletWorld

        return BulletWorld(cell, model, dt_s, bullet_steps=bullet_steps)
    if engine == "physx":
        from twinloop.engines.physx_world import PhysxWorld

        return PhysxWorld(cell, model, dt_s)
    raise UnknownName("engine of one scene", engine, ["bullet", "physx"])


class WorldEngine(ABC):
    """`count` environments, each a world of its own. See `Engine`."""

    name = ""
    version = ""
    max_environments = 16
    """A world takes up to 30 MB, and more at once would not be faster."""

    def __init__(
        self,
        cell: Cell,
        count: int,
        threads: int,
        varying: Iterable[str],
        options: EngineOptions | None = None,
    ) -> None:
        self.cell, self.count = cell, count
        self._options = options or EngineOptions()
        require_can_vary(self.name, cell.twin, varying)
        model = cell.model
        self._model = cell.twin.make_model()
        self._worlds: list[World | None] = [None] * count
        self._servos: list[TwinServos | None] = [None] * count
        self.qpos = np.tile(np.asarray(model.qpos0), (count, 1))
        self.qvel, self.ctrl = np.zeros((count, model.nv)), np.zeros((count, model.nu))
        self.mocap = np.zeros((count, model.nmocap, 3))
        self.object_inertia_m2 = np.zeros((count, 3))
        self._truths, self._stale = [_blank(cell)] * count, np.zeros(count, dtype=bool)
        self._force: dict[int, Array] = {}
        self._object = int(model.body(cell.twin.role("object")).id) if "object" in cell.twin.roles else -1

    @abstractmethod
    def _make_world(self, environment: int, model: mujoco.MjModel) -> World:
        """The world of one environment."""

    def load(self, ids: Array, values: Values, start: Start) -> None:
        """Begin new episodes in the environments `ids`, with one draw each: arrays (len(ids),)."""
        for row, environment in enumerate(ids.tolist()):
            one = {name: column[row] for name, column in values.items()}
            world = self._begin(environment, one)
            state = Start(
                *(part[row : row + 1] for part in (start.qpos, start.qvel, start.ctrl, start.mocap_pos))
            )
            world.reset(state)
            if self._object >= 0:
                inertia, mass = world.model.body_inertia[self._object], world.model.body_mass[self._object]
                self.object_inertia_m2[environment] = inertia / mass
        self.qpos[ids], self.qvel[ids], self.ctrl[ids] = start.qpos, start.qvel, start.ctrl
        if self.mocap.shape[1]:
            self.mocap[ids] = start.mocap_pos

    def _begin(self, environment: int, values: Mapping[str, Any]) -> World:
        """A new world with these values, nominal otherwise."""
        twin = self.cell.twin
        model = copy.copy(self._model)
        twin.patch.apply_to_model(model, values)
        if (old := self._worlds[environment]) is not None:
            old.close()
        world = self._worlds[environment] = self._make_world(environment, model)
        for body, surface in twin_surfaces(self.cell, model).items():
            world.set_surface([body], surface)
        self._servos[environment] = TwinServos(
            self.cell, world.chain_dofs, copy.copy(model), values, gear_friction=self._options.gear_friction
        )
        self._force.pop(environment, None)
        self._stale[environment] = True
        return world

    def set_state(self, ids: Array, qpos: Array, qvel: Array, ctrl: Array) -> None:
        """Set positions, velocities and commands of the environments `ids`."""
        self.qpos[ids], self.qvel[ids], self.ctrl[ids] = qpos, qvel, ctrl
        for environment in ids.tolist():
            self._restore(environment)

    def _restore(self, environment: int) -> None:
        """Put a world into the state that is kept here, unless no engine could simulate it."""
        world = self._worlds[environment]
        if world is not None and not self._beyond(environment):
            world.set_state(self.qpos[environment], self.qvel[environment])
            self._stale[environment] = True

    def _beyond(self, environment: int) -> bool:
        state = (self.qpos[environment], self.qvel[environment])
        return any(not np.isfinite(part).all() or bool((np.abs(part) > BEYOND).any()) for part in state)

    def step(self, ids: Array, controls: Array) -> Diverged | None:
        """One control step of the environments `ids`: a command per physics step, (len(ids), substeps or 1, nu)."""
        substeps, last = self.cell.twin.substeps, controls.shape[1] - 1
        diverged = []
        for row, environment in enumerate(ids.tolist()):
            world, servos = self._worlds[environment], self._servos[environment]
            assert world is not None and servos is not None
            before = (
                self.qpos[environment].copy(),
                self.qvel[environment].copy(),
                self.ctrl[environment].copy(),
            )
            lost = self._beyond(environment)
            if not lost:
                world.refresh()
                force = self._force.get(environment)
                for substep in range(substeps):
                    if force is not None:
                        world.push(self._object, force.tolist())
                    world.step(servos, controls[row, min(substep, last)])
                self.ctrl[environment] = controls[row, last]
                self.qpos[environment], self.qvel[environment] = world.qpos_qvel()
                self._stale[environment] = True
                lost = self._beyond(environment)
            if lost:
                diverged.append(environment)
                self.qpos[environment], self.qvel[environment], self.ctrl[environment] = before
                self._restore(environment)
        if not diverged:
            return None
        lost_ids = np.array(diverged)
        return Diverged(
            lost_ids, self.qpos[lost_ids].copy(), self.qvel[lost_ids].copy(), self.ctrl[lost_ids].copy()
        )

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
        count, steps = controls.shape[:2]
        qpos, qvel = (
            np.zeros((count, steps, self.qpos.shape[1])),
            np.zeros((count, steps, self.qvel.shape[1])),
        )
        efforts = np.zeros((count, steps, self.ctrl.shape[1])) if effort else None
        failed, substeps = np.zeros(count, dtype=bool), self.cell.twin.substeps
        for row, environment in enumerate(ids.tolist()):
            world = self._begin(environment, {name: column[row] for name, column in values.items()})
            servos = self._servos[environment]
            assert servos is not None
            self.qpos[environment], self.qvel[environment] = start[0][row], start[1][row]
            failed[row] = self._beyond(environment)
            self._restore(environment)
            for step in range(0 if failed[row] else steps):
                if step % substeps == 0:
                    world.refresh()
                if enabled is not None:
                    servos.switch(bool(enabled[row, step]))
                world.step(servos, controls[row, step])
                self.qpos[environment], self.qvel[environment] = world.qpos_qvel()
                if self._beyond(environment):
                    failed[row] = True
                    break
                qpos[row, step], qvel[row, step] = self.qpos[environment], self.qvel[environment]
                if efforts is not None:
                    efforts[row, step] = world.effort
        return Trajectories(qpos, qvel, failed, efforts)

    def truth(self) -> Truth:
        """What is true in every environment now; arrays are copies."""
        for environment, world in enumerate(self._worlds):
            if world is not None and self._stale[environment]:
                self._truths[environment] = world.truth(contacts=self._options.contacts)
        self._stale[:] = False
        return _stacked(self._truths)

    def mass_centres(self, environment: int) -> dict[int, Array]:
        """Where the engine itself has the bodies' centres of mass (3,) in m, by body."""
        world = self._worlds[environment]
        return {} if world is None else world.mass_centres()

    def gravity_torques(self, environment: int) -> dict[int, float]:
        """The torques in N m, or forces in N, against gravity, by degree of freedom."""
        world = self._worlds[environment]
        return {} if world is None else world.gravity_torques()

    def push_object(self, ids: Array, force_n: Array) -> None:
        """Apply forces (len(ids), 3) to the object."""
        for row, environment in enumerate(ids.tolist()):
            if force_n[row].any():
                self._force[environment] = force_n[row].copy()
            else:
                self._force.pop(environment, None)

    def set_gravity(self, ids: Array, gravity_m_s2: Array) -> None:
        """Set gravity (len(ids), 3)."""
        for row, environment in enumerate(ids.tolist()):
            if (world := self._worlds[environment]) is not None:
                world.set_gravity(gravity_m_s2[row].tolist())

    def make_renderer(self, cameras: tuple[str, ...]) -> Renderer:
        """Make a renderer for some of the cell's cameras; MuJoCo renders the states of every engine."""
        return Renderer(self.cell, cameras)


@ENGINES.register("bullet")
class BulletEngine(WorldEngine):
    """The `bullet` engine."""

    name = "bullet"
    needs = ("pybullet", "bullet")

    def __init__(
        self,
        cell: Cell,
        count: int,
        threads: int,
        varying: Iterable[str],
        options: EngineOptions | None = None,
    ) -> None:
        from twinloop.engines import bullet_world  # optional, so not before it is used

        self.version = bullet_world.BulletWorld.version
        self._bullet = bullet_world
        self._clients: dict[int, bullet_world.Client] = {}
        super().__init__(cell, count, threads, varying, options)

    def _make_world(self, environment: int, model: mujoco.MjModel) -> World:
        if environment not in self._clients:
            self._clients[environment] = self._bullet.take_client()
        return self._bullet.BulletWorld(
            self.cell,
            model,
            self.cell.twin.physics_dt_s,
            bullet_steps=BULLET_STEPS,
            client=self._clients[environment],
        )

    def __del__(self) -> None:
        for client in getattr(self, "_clients", {}).values():
            self._bullet.give_back(client)


@ENGINES.register("physx")
class PhysxEngine(WorldEngine):
    """The `physx` engine."""

    name = "physx"
    needs = ("sapien", "physx")
    single_precision = True

    def __init__(
        self,
        cell: Cell,
        count: int,
        threads: int,
        varying: Iterable[str],
        options: EngineOptions | None = None,
    ) -> None:
        from twinloop.engines.physx_world import PhysxWorld  # optional, so not before it is used

        self.version = PhysxWorld.version
        self._make = PhysxWorld
        super().__init__(cell, count, threads, varying, options)

    def _make_world(self, environment: int, model: mujoco.MjModel) -> World:
        return self._make(self.cell, model, self.cell.twin.physics_dt_s)


def _stacked(rows: Sequence[Truth]) -> Truth:
    """Rows of single environments as one truth."""
    columns: dict[str, Any] = {}
    for part in fields(Truth):
        values = [getattr(row, part.name) for row in rows]
        if isinstance(values[0], Touch):
            columns[part.name] = Touch(
                *(np.concatenate([getattr(one, name.name) for one in values]) for name in fields(Touch))
            )
        else:
            columns[part.name] = None if values[0] is None else np.concatenate(values)
    return Truth(**columns)


def _blank(cell: Cell) -> Truth:
    """The truth of an environment that holds no episode."""
    actuators, channels = len(cell.actuators), sum(len(group.elements) for group in cell.sensors)
    untouched = Touch(np.zeros(1, dtype=bool), np.zeros(1), np.zeros(1))
    return Truth(
        time_s=np.zeros(1),
        position=np.zeros((1, actuators)),
        velocity=np.zeros((1, actuators)),
        effort=np.zeros((1, actuators)),
        tool_position=np.zeros((1, 3)),
        tool_matrix=np.zeros((1, 9)),
        object_position=np.zeros((1, 3)),
        object_quat=np.array([[1.0, 0.0, 0.0, 0.0]]),
        object_velocity=np.zeros((1, 6)),
        target_position=np.zeros((1, 3)),
        table_height_m=np.zeros(1),
        robot_object=untouched,
        object_table=untouched,
        robot_table=untouched,
        sensors=np.zeros((1, channels)),
    )
