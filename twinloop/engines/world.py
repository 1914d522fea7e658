"""One robot cell in an engine that holds one scene at a time: built from a MuJoCo model, read back in MuJoCo's coordinates.

What is the same in each of these engines is here: which bodies the servos drive, how a command becomes a motor's speed and torque,
and what is true in the cell. MuJoCo computes the kinematics of the state that the engine has found. An engine adds how bodies are made,
stepped and read.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import mujoco
import numpy as np

from twinloop.engines.multibody import collides, make_trees
from twinloop.engines.servos import Servos
from twinloop.episode import Array
from twinloop.errors import InvalidTwin
from twinloop.tasks import Cell, Start, Touch, Truth

TORQUE_MARGIN = 1.02
"""A motor may give this much more than free motion needs, so that its own solver reaches the speed."""


@dataclass(frozen=True)
class Surface:
    """Contact properties of a body; None keeps the engine's default."""

    friction: float | None = None
    torsional_friction_m: float | None = None
    restitution: float | None = None
    stiffness_n_m: float | None = None
    damping_n_s_m: float | None = None


@dataclass(frozen=True)
class Chain:
    """The joints of the tree that servos drive, and MuJoCo's degrees of freedom, addresses and references in the same order."""

    tree: int
    joints: tuple[int, ...]
    dofs: Array
    addresses: Array
    zero: Array
    passive: Array


class World(ABC):
    """One cell; `model` is what is simulated, `dt_s` the time of one step."""

    engine: ClassVar[str]
    has_rotors: ClassVar[bool] = False
    """Whether the engine's joints have the inertia of their motors; where not, contacts feel the arm without it."""

    def __init__(self, cell: Cell, model: mujoco.MjModel, dt_s: float) -> None:
        self.cell, self.model, self.dt_s, self.time_s = cell, model, dt_s, 0.0
        self._trees = make_trees(model)
        self._joints = self._build()
        self._data = mujoco.MjData(model)
        self._tool = model.site(cell.twin.role("tool")).id if "tool" in cell.twin.roles else None
        self._chain = self._find_chain()
        self._mocap = np.zeros((1, model.nmocap, 3))
        self._effort = np.zeros(model.nu)
        self._mass: Array | None = None
        self._inertia = np.zeros(0)
        self._table_top = self._find_table()
        self._sensing: tuple[mujoco.MjModel, mujoco.MjData] | None = None
        self._speed_before = np.zeros(len(self.chain_dofs))

    @abstractmethod
    def _build(self) -> list[tuple[int, ...]]:
        """Make the bodies of all trees; returns each tree's hinges and slides in the engine's order."""

    @abstractmethod
    def set_state(self, qpos: Array, qvel: Array) -> None:
        """Set positions (nq,) and velocities (nv,)."""

    @abstractmethod
    def qpos_qvel(self) -> tuple[Array, Array]:
        """The state in MuJoCo's coordinates: (nq,) and (nv,)."""

    @abstractmethod
    def push(self, body: int, force_n: Sequence[float], torque_nm: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        """Apply a force and torque to a body at its centre of mass, in the world frame, for the next physics step."""

    @abstractmethod
    def set_gravity(self, gravity_m_s2: Sequence[float]) -> None:
        """Set the gravity vector."""

    @abstractmethod
    def set_surface(self, bodies: Sequence[int], surface: Surface) -> None:
        """Set the contact properties of these bodies."""

    @abstractmethod
    def close(self) -> None:
        """Free what the engine holds."""

    @abstractmethod
    def mass_centres(self) -> dict[int, Array]:
        """Where the engine itself has the centres of mass of bodies that can move, by MuJoCo's body, in m."""

    @abstractmethod
    def gravity_torques(self) -> dict[int, float]:
        """The torques or forces against gravity, by degree of freedom, as the engine itself computes them."""

    @abstractmethod
    def _simulate(self) -> None:
        """One physics step."""

    @abstractmethod
    def _chain_state(self, chain: Chain) -> tuple[Array, Array]:
        """Positions, in MuJoCo's coordinates, and speeds of the driven chain."""

    @abstractmethod
    def _dynamics(
        self, chain: Chain, qpos: Array, qvel: Array, with_mass: bool
    ) -> tuple[Array, Array | None]:
        """Gravity and Coriolis torques of the chain (n,), and its mass matrix (n, n) if asked for."""

    @abstractmethod
    def _set_motors(self, chain: Chain, speed: Array, torque: Array) -> None:
        """Let the chain's motors reach `speed` in the next step, with at most `torque`."""

    @abstractmethod
    def _contact_forces(self, bodies: Iterable[int]) -> Iterator[tuple[int, Array, Array]]:
        """Each contact of these bodies: the body, the force on it in N and the point where it acts, in the world frame."""

    @abstractmethod
    def _touch(self, first: Iterable[int], second: Iterable[int]) -> Touch:
        """Contact between two groups of bodies, one row."""

    def reset(self, start: Start) -> None:
        """Set the state at the start of an episode (one row)."""
        self.set_state(start.qpos[0], start.qvel[0])
        self._speed_before = start.qvel[0][self.chain_dofs]
        self._mocap = start.mocap_pos.copy()
        self._effort[:] = 0.0
        self.time_s = 0.0

    def step(self, servos: Servos, command: Array) -> None:
        """Simulate one physics step with the servos at `command` (actuators,)."""
        if self._chain is not None:
            self._drive(self._chain, servos, command)
        self._simulate()
        self.time_s += self.dt_s

    def refresh(self) -> None:
        """Update the arm's inertia that the servos use; call it at the control rate."""
        self._mass = None

    def _drive(self, chain: Chain, servos: Servos, command: Array) -> None:
        qpos, qvel = self._chain_state(chain)
        self._speed_before = qvel
        bias, mass = self._dynamics(chain, qpos, qvel, self._mass is None)
        if mass is not None:
            self._mass = mass
            self._inertia = np.diagonal(mass)
        assert self._mass is not None
        output = servos.step(qpos, qvel, command, bias, self._inertia, self.dt_s)
        self._effort[:] = output.effort
        needed = np.abs(bias + self._mass @ ((output.speed - qvel) / self.dt_s))
        if self.has_rotors:
            needed = needed + np.abs(servos.rotor * (output.speed - qvel)) / self.dt_s
        most = np.maximum(TORQUE_MARGIN * needed, output.blocked)
        most[chain.passive] = 0.0
        self._set_motors(chain, output.speed, most)

    @property
    def chain_dofs(self) -> Array:
        """MuJoCo's degrees of freedom in the order in which servos get them."""
        return np.zeros(0, dtype=np.int64) if self._chain is None else self._chain.dofs

    @property
    def effort(self) -> Array:
        """The servos' forces in the last step (actuators,)."""
        return self._effort.copy()

    @property
    def mocap(self) -> Array:
        """Positions of bodies that are placed by hand (nmocap, 3)."""
        return np.asarray(self._mocap[0])

    @property
    def pose(self) -> tuple[Array, Array]:
        """Copies of qpos and mocap positions as `truth` last found them."""
        return self._data.qpos.copy(), self._data.mocap_pos.copy()

    def truth(self, *, contacts: bool = True) -> Truth:
        """The true state, one row."""
        cell, data = self.cell, self._kinematics()
        qpos, qvel = data.qpos[None].copy(), data.qvel[None].copy()
        none, tool = np.zeros((1, 3)), self._tool
        at, dof = cell.object_qpos, cell.object_dof
        lies = none if at is None else qpos[:, at : at + 3]
        untouched = Touch(np.zeros(1, dtype=bool), np.zeros(1), np.zeros(1))
        touch: Callable[[str, str], Touch] = self._touch_of if contacts else lambda a, b: untouched
        return Truth(
            time_s=np.array([self.time_s]),
            position=cell.positions(qpos),
            velocity=cell.velocities(qvel),
            effort=self._effort[None].copy(),
            tool_position=none if tool is None else data.site_xpos[None, tool].copy(),
            tool_matrix=np.zeros((1, 9)) if tool is None else data.site_xmat[None, tool].copy(),
            object_position=lies,
            object_quat=np.zeros((1, 4)) if at is None else qpos[:, at + 3 : at + 7],
            object_velocity=np.zeros((1, 6)) if dof is None else qvel[:, dof : dof + 6],
            target_position=none if cell.target_mocap is None else self._mocap[:, cell.target_mocap].copy(),
            table_height_m=np.array([self._table_height_m(lies[0].tolist())]),
            robot_object=touch("robot", "object"),
            object_table=touch("object", "table"),
            robot_table=touch("robot", "table"),
            sensors=self._read_sensors(qpos[0], qvel[0]) if cell.sensors else np.zeros((1, 0)),
        )

    def _read_sensors(self, qpos: Array, qvel: Array) -> Array:
        """Force, torque and inertial sensors, (1, channels): what holds the bodies beyond them against motion, weight and contacts."""
        if self._sensing is None:
            model = copy.copy(self.model)
            model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
            self._sensing = model, mujoco.MjData(model)
        model, data = self._sensing
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        data.qacc[:] = 0.0
        if self._chain is not None:
            dofs = self._chain.dofs
            data.qacc[dofs] = (qvel[dofs] - self._speed_before) / self.dt_s
        data.xfrc_applied[:] = 0.0
        for body, force, point in self._contact_forces(self.bodies("robot")):
            data.xfrc_applied[body, :3] += force
            data.xfrc_applied[body, 3:] += np.cross(point - data.xipos[body], force)
        mujoco.mj_rnePostConstraint(model, data)
        mujoco.mj_sensorVel(model, data)
        mujoco.mj_sensorAcc(model, data)
        addresses = [address for group in self.cell.sensors for address in group.addresses]
        return np.asarray(data.sensordata)[None, addresses]

    def bodies(self, part: str) -> tuple[int, ...]:
        """The bodies that can touch something of `robot`, `object` or `table`."""
        if part != "robot":
            return self._role_bodies(part)
        if self._chain is None or self._tool is None:
            return ()
        tree = self._trees[self._chain.tree]
        return tuple(body for body in tree.bodies if _any_collides(self.model, body))

    def _touch_of(self, first: str, second: str) -> Touch:
        return self._touch(self.bodies(first), self.bodies(second))

    def _kinematics(self) -> mujoco.MjData:
        self._data.qpos[:], self._data.qvel[:] = self.qpos_qvel()
        if self.model.nmocap:
            self._data.mocap_pos[:] = self._mocap[0]
        mujoco.mj_kinematics(self.model, self._data)
        return self._data

    def _find_chain(self) -> Chain | None:
        model = self.model
        driven = set(np.asarray(model.jnt_dofadr).tolist()) & set(self.cell.dof_addresses.ravel().tolist())
        if not driven:
            return None
        found = [
            number
            for number, joints in enumerate(self._joints)
            if any(int(model.jnt_dofadr[joint]) in driven for joint in joints)
        ]
        if len(found) != 1 or self._trees[found[0]].free:
            raise InvalidTwin(
                f"engine {self.engine} cannot drive twin {self.cell.twin.name!r}",
                got=f"{len(found)} trees with actuators" if len(found) != 1 else "a base that moves freely",
                expected="every actuator in one arm that is fixed to the world",
            )
        joints = self._joints[found[0]]
        dofs = np.array([int(model.jnt_dofadr[joint]) for joint in joints])
        addresses = np.array([int(model.jnt_qposadr[joint]) for joint in joints])
        zero = np.array([float(model.qpos0[address]) for address in addresses])
        passive = np.array([dof not in driven for dof in dofs.tolist()])
        return Chain(found[0], joints, dofs, addresses, zero, passive)

    def joint_couplings(self) -> list[tuple[int, int, float]]:
        """The joint equalities of the model: joint, other joint, and the ratio of the first to the other."""
        model, found = self.model, []
        for equality in range(model.neq):
            if not model.eq_active0[equality]:
                continue
            first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
            if model.eq_type[equality] != mujoco.mjtEq.mjEQ_JOINT or second < 0:
                raise InvalidTwin(
                    f"engine {self.engine} cannot build an equality",
                    got=model.eq(equality).name,
                    expected="joint equalities",
                )
            found.append((first, second, float(model.eq_data[equality, 1])))
        return found

    def _role_bodies(self, role: str) -> tuple[int, ...]:
        body = int(self.model.body(self.cell.twin.role(role)).id) if role in self.cell.twin.roles else -1
        return (body,) if any(body in tree.bodies for tree in self._trees) else ()

    def _find_table(self) -> tuple[list[float], list[float]] | None:
        """A point of the table's top, and which way is up from it."""
        if "table" not in self.cell.twin.roles:
            return None
        table, up = self.model.body(self.cell.twin.role("table")), np.empty(3)
        mujoco.mju_rotVecQuat(up, np.array([0.0, 0.0, 1.0]), np.asarray(table.quat))
        return table.pos.tolist(), up.tolist()

    def _table_height_m(self, place: Sequence[float]) -> float:
        """Height of the table, which may slope, below `place`."""
        if self._table_top is None:
            return 0.0
        (x, y, z), up = self._table_top
        return z - (up[0] * (place[0] - x) + up[1] * (place[1] - y)) / up[2]


def twin_surfaces(cell: Cell, model: mujoco.MjModel) -> dict[int, Surface]:
    """Contact properties of all bodies, for engines that multiply the frictions of two bodies.

    With an object, each contact has the friction that MuJoCo would give it: all other bodies get the root of the usual friction,
    and the object, whose own friction counts in all its contacts, gets the factor that makes the product right. Without one, each
    body gets the root of its own friction, so that a contact has the geometric mean.
    """
    target = int(model.body(cell.twin.role("object")).id) if "object" in cell.twin.roles else -1
    own = {
        body: friction for body in range(model.nbody) if (friction := body_friction(model, body)) is not None
    }
    root = usual_friction_root(model, target)
    surfaces = {
        body: Surface(friction=root if target in own else max(friction[0], 1e-6) ** 0.5)
        for body, friction in own.items()
        if body != target
    }
    if target in own:
        surfaces[target] = Surface(own[target][0] / root, own[target][1])
    return surfaces


def usual_friction_root(model: mujoco.MjModel, target: int) -> float:
    """The root of the median sliding friction of all bodies but `target`."""
    others = [
        friction[0]
        for body in range(model.nbody)
        if body != target and (friction := body_friction(model, body)) is not None
    ]
    return math.sqrt(max(float(np.median(others)) if others else 1.0, 1e-6))


def body_friction(model: mujoco.MjModel, body: int) -> tuple[float, float] | None:
    """Sliding and torsional friction of the first shape of a body that can touch something."""
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if collides(model, geom):
            return float(model.geom_friction[geom, 0]), float(model.geom_friction[geom, 1])
    return None


def _any_collides(model: mujoco.MjModel, body: int) -> bool:
    first = int(model.body_geomadr[body])
    return any(collides(model, geom) for geom in range(first, first + int(model.body_geomnum[body])))
