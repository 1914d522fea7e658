"""A cell in Bullet: built from a MuJoCo model, driven by servos, read back in MuJoCo's coordinates.

A servo is a velocity motor of Bullet, because motors are solved together with the contacts: stiff gains stay stable and
the gripper holds. Each physics step computes implicitly the speed that servo, damping and rotor would reach in free
motion. It is the motor's target; the torque limit is what free motion needs or, where the joint is blocked, the servo's
torque.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import InvalidTwin, MissingExtra
from twinloop.robots.standin.drive import Drive
from twinloop.robots.standin.multibody import Tree, make_trees
from twinloop.tasks import Cell, Start, Touch, Truth

try:
    import pybullet as bullet
except ImportError as error:  # the extra is optional; everything that needs it starts here
    raise MissingExtra("the stand-in for reality", "pybullet", "bullet") from error


SERVO_DT_S = 0.002
"""Control period of the servos; Bullet takes two steps in each."""

BULLET_STEPS = 2

_TORQUE_MARGIN = 1.02

_Links = dict[int, set[int]]
"""Bullet's links by the number of their tree."""


def engine_version() -> str:
    """The version of Bullet in use."""
    return str(bullet.getAPIVersion())


@dataclass(frozen=True)
class Surface:
    """Contact properties of a body; None keeps Bullet's default."""

    friction: float | None = None
    torsional_friction_m: float | None = None
    restitution: float | None = None
    stiffness_n_m: float | None = None
    damping_n_s_m: float | None = None


@dataclass(frozen=True)
class _Part:
    """A tree in Bullet: its number, and MuJoCo's joint (or body) of each of Bullet's joints (or links)."""

    tree: Tree
    number: int
    joints: tuple[tuple[int, int], ...]
    links: dict[int, int]


class _Client:
    """A connection to Bullet, whose functions are called on it as methods."""

    def __init__(self) -> None:
        self._number = bullet.connect(bullet.DIRECT)

    def __getattr__(self, name: str) -> Any:
        function = partial(getattr(bullet, name), physicsClientId=self._number)
        setattr(self, name, function)  # looked up once: some are called in every physics step
        return function

    def close(self) -> None:
        if self._number >= 0:
            bullet.disconnect(self._number)
            self._number = -1


class World:
    """One cell; `model` is what is simulated, hidden differences from the twin included."""

    def __init__(self, cell: Cell, model: mujoco.MjModel, dt_s: float = SERVO_DT_S) -> None:
        self.cell, self.model, self.dt_s = cell, model, dt_s
        self._bullet = _Client()
        self._configure()
        self._parts = [self._load(tree) for tree in make_trees(model)]
        self._data = mujoco.MjData(model)
        self._tool = model.site(cell.twin.role("tool")).id if "tool" in cell.twin.roles else None
        self._chain = self._find_chain()
        self._robot = self._links_of(self._robot_bodies())
        self._object, self._table = (self._links_of(self._role_bodies(role)) for role in ("object", "table"))
        self._couple()
        self._filter()
        self._damp()
        self._table_top = self._find_table()
        self._qpos0 = np.array(model.qpos0)
        self._readers = [self._reader(part) for part in self._parts]
        self._mass: Array | None = None
        self._inertia = np.zeros(0)
        self._mocap = np.zeros((1, model.nmocap, 3))
        self._effort = np.zeros(model.nu)
        self.time_s = 0.0

    def close(self) -> None:
        """Disconnect from Bullet."""
        self._bullet.close()

    def reset(self, start: Start) -> None:
        """Set the state at the start of an episode (one row)."""
        model, qpos = self.model, start.qpos[0]
        for part in self._parts:
            for joint, mine in part.joints:
                at = int(model.jnt_qposadr[joint])
                self._bullet.resetJointState(part.number, mine, float(qpos[at] - model.qpos0[at]), 0.0)
            if part.tree.free:
                at = int(model.jnt_qposadr[model.body_jntadr[part.tree.root]])
                self._place(part, qpos[at : at + 3], qpos[at + 3 : at + 7])
        self._mocap = start.mocap_pos.copy()
        self._mass = None
        self._effort[:] = 0.0
        self.time_s = 0.0

    def step(self, drive: Drive, command: Array) -> None:
        """Simulate one physics step with the servos at `command` (actuators,)."""
        if self._chain is not None:
            self._drive(self._chain, drive, command)
        self._bullet.stepSimulation()
        self.time_s += self.dt_s

    def refresh(self) -> None:
        """Update the arm's inertia that the servos use; call it at the control rate."""
        self._mass = None

    def push(self, body: int, force_n: Sequence[float], torque_nm: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        """Apply a force and torque to a body at its centre of mass, in the world frame, for the next physics step."""
        part, link = self._where(body)
        if link >= 0:
            place = self._bullet.getLinkState(part.number, link)[0]
        else:
            place = self._bullet.getBasePositionAndOrientation(part.number)[0]
        self._bullet.applyExternalForce(part.number, link, list(force_n), place, bullet.WORLD_FRAME)
        if any(torque_nm):
            self._bullet.applyExternalTorque(part.number, link, list(torque_nm), bullet.WORLD_FRAME)

    def set_gravity(self, gravity_m_s2: Sequence[float]) -> None:
        """Set the gravity vector."""
        self._bullet.setGravity(*gravity_m_s2)

    def set_surface(self, bodies: Sequence[int], surface: Surface) -> None:
        """Set the contact properties of these bodies."""
        properties = {
            "lateralFriction": surface.friction,
            "spinningFriction": surface.torsional_friction_m,
            "restitution": surface.restitution,
            "contactStiffness": surface.stiffness_n_m,
            "contactDamping": surface.damping_n_s_m,
        }
        changes = {name: float(value) for name, value in properties.items() if value is not None}
        for body in bodies:
            part, link = self._where(body)
            if changes:
                self._bullet.changeDynamics(part.number, link, **changes)

    def qpos_qvel(self) -> tuple[Array, Array]:
        """The state in MuJoCo's coordinates: (nq,) and (nv,)."""
        qpos, qvel = self._qpos0.copy(), np.zeros(self.model.nv)
        for reader in self._readers:
            if reader.mine:
                states = self._bullet.getJointStates(reader.number, reader.mine)
                qpos[reader.qpos] += [state[0] for state in states]
                qvel[reader.dofs] = [state[1] for state in states]
            if reader.free is not None:
                self._read_free(reader.number, *reader.free, qpos, qvel)
        return qpos, qvel

    @property
    def pose(self) -> tuple[Array, Array]:
        """Copies of qpos and mocap positions as `truth` last found them."""
        return self._data.qpos.copy(), self._data.mocap_pos.copy()

    def _kinematics(self) -> mujoco.MjData:
        self._data.qpos[:], self._data.qvel[:] = self.qpos_qvel()
        if self.model.nmocap:
            self._data.mocap_pos[:] = self._mocap[0]
        mujoco.mj_kinematics(self.model, self._data)
        return self._data

    def truth(self) -> Truth:
        """The true state, one row."""
        cell, data = self.cell, self._kinematics()
        qpos, qvel = data.qpos[None].copy(), data.qvel[None].copy()
        none, tool = np.zeros((1, 3)), self._tool
        at, dof = cell.object_qpos, cell.object_dof
        lies = none if at is None else qpos[:, at : at + 3]
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
            robot_object=self._touch(self._robot, self._object),
            object_table=self._touch(self._object, self._table),
            robot_table=self._touch(self._robot, self._table),
        )

    def _drive(self, chain: _Chain, drive: Drive, command: Array) -> None:
        number, mine = chain.part.number, chain.mine
        states = self._bullet.getJointStates(number, mine)
        offsets = [state[0] for state in states]
        speeds = [state[1] for state in states]
        bias = np.array(self._bullet.calculateInverseDynamics(number, offsets, speeds, chain.still))
        if self._mass is None:
            mass = self._bullet.calculateMassMatrix(number, offsets)
            self._mass = np.array(mass)
            self._inertia = np.diagonal(self._mass)
        qpos, qvel = np.array(offsets) + chain.zero, np.array(speeds)
        output = drive.step(qpos, qvel, command, bias, self._inertia, self.dt_s)
        self._effort[:] = output.effort
        needed = np.abs(bias + self._mass @ ((output.speed - qvel) / self.dt_s))
        most = np.maximum(_TORQUE_MARGIN * needed, output.blocked)
        most[chain.passive] = 0.0
        self._bullet.setJointMotorControlArray(
            number,
            mine,
            bullet.VELOCITY_CONTROL,
            targetVelocities=output.speed.tolist(),
            forces=most.tolist(),
        )

    def _configure(self) -> None:
        self._bullet.setTimeStep(self.dt_s)
        self._bullet.setGravity(*(float(g) for g in self.model.opt.gravity))
        self._bullet.setPhysicsEngineParameter(
            numSolverIterations=50,
            numSubSteps=BULLET_STEPS,
            contactBreakingThreshold=0.002,
            enableConeFriction=1,
            deterministicOverlappingPairs=1,
        )

    def _load(self, tree: Tree) -> _Part:
        with tempfile.TemporaryDirectory(prefix="twinloop-standin-") as folder:
            path = Path(folder) / "tree.urdf"
            path.write_text(tree.urdf)
            for name, text in tree.hulls.items():
                (Path(folder) / name).write_text(text)
            number = self._bullet.loadURDF(
                str(path), useFixedBase=not tree.free, flags=bullet.URDF_USE_INERTIA_FROM_FILE
            )
        joints, links = [], {} if tree.base is None else {tree.base: -1}
        for mine in range(self._bullet.getNumJoints(number)):
            info = self._bullet.getJointInfo(number, mine)
            name, link = info[1].decode(), info[12].decode()
            if name.startswith("joint"):
                joints.append((int(name.removeprefix("joint")), mine))
            if link.removeprefix("body").isdigit():
                links[int(link.removeprefix("body"))] = mine
        part = _Part(tree, number, tuple(joints), links)
        for _, mine in part.joints:  # by default Bullet brakes every joint
            self._bullet.setJointMotorControl2(number, mine, bullet.VELOCITY_CONTROL, force=0.0)
        for link in (-1, *range(self._bullet.getNumJoints(number))):
            self._bullet.changeDynamics(number, link, linearDamping=0.0, angularDamping=0.0)
        return part

    def _find_chain(self) -> _Chain | None:
        model = self.model
        driven = set(np.asarray(model.jnt_dofadr).tolist()) & set(self.cell.dof_addresses.ravel().tolist())
        if not driven:
            return None
        parts = [p for p in self._parts if any(int(model.jnt_dofadr[j]) in driven for j, _ in p.joints)]
        if len(parts) != 1 or parts[0].tree.free:
            raise InvalidTwin(
                f"the stand-in cannot drive twin {self.cell.twin.name!r}",
                got=f"{len(parts)} trees with actuators" if len(parts) != 1 else "a base that moves freely",
                expected="every actuator in one arm that is fixed to the world",
            )
        part = parts[0]
        dofs = np.array([int(model.jnt_dofadr[joint]) for joint, _ in part.joints])
        zero = np.array([float(model.qpos0[model.jnt_qposadr[joint]]) for joint, _ in part.joints])
        passive = np.array([dof not in driven for dof in dofs.tolist()])
        return _Chain(part, [mine for _, mine in part.joints], [0.0] * len(dofs), dofs, zero, passive)

    @property
    def chain_dofs(self) -> Array:
        """MuJoCo's degrees of freedom in the order in which `Drive` gets them."""
        return np.zeros(0, dtype=np.int64) if self._chain is None else self._chain.dofs

    def _couple(self) -> None:
        """Add a gear constraint for each joint equality of the MuJoCo model."""
        model = self.model
        for equality in range(model.neq):
            if not model.eq_active0[equality]:
                continue
            first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
            if model.eq_type[equality] != mujoco.mjtEq.mjEQ_JOINT or second < 0:
                raise InvalidTwin(
                    "the stand-in cannot build an equality",
                    got=model.eq(equality).name,
                    expected="joint equalities",
                )
            part, mine = self._joint(first)
            other_part, other = self._joint(second)
            gear = self._bullet.createConstraint(
                part.number, mine, other_part.number, other, bullet.JOINT_GEAR, [1, 0, 0], [0] * 3, [0] * 3
            )
            ratio = -float(model.eq_data[equality, 1])
            self._bullet.changeConstraint(gear, gearRatio=ratio, maxForce=1e4, erp=0.5)

    def _filter(self) -> None:
        """Enable collisions for exactly the pairs that MuJoCo collides; a tree never collides with itself."""
        bits = self._collision_bits()
        for a, part in enumerate(self._parts):
            for other in self._parts[a + 1 :]:
                for body, link in part.links.items():
                    for second, second_link in other.links.items():
                        touch = any(
                            (x[0] & y[1]) or (y[0] & x[1])
                            for x in bits.get(body, ())
                            for y in bits.get(second, ())
                        )
                        self._bullet.setCollisionFilterPair(
                            part.number, other.number, link, second_link, int(touch)
                        )

    def _collision_bits(self) -> dict[int, set[tuple[int, int]]]:
        model = self.model
        bits: dict[int, set[tuple[int, int]]] = {}
        for geom in range(model.ngeom):
            pair = int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])
            if any(pair):
                bits.setdefault(int(model.geom_bodyid[geom]), set()).add(pair)
        return bits

    def _damp(self) -> None:
        """Damping and dry friction of joints that no servo drives."""
        model = self.model
        driven = set(self.chain_dofs.tolist())
        for part in self._parts:
            for joint, mine in part.joints:
                dof = int(model.jnt_dofadr[joint])
                if dof not in driven:
                    self._bullet.changeDynamics(part.number, mine, jointDamping=float(model.dof_damping[dof]))
                    self._bullet.setJointMotorControl2(
                        part.number, mine, bullet.VELOCITY_CONTROL, force=float(model.dof_frictionloss[dof])
                    )

    def _place(self, part: _Part, place: Array, quat: Array) -> None:
        """Put a free body's frame at a pose; Bullet wants the pose of its centre of mass."""
        info = self._bullet.getDynamicsInfo(part.number, -1)
        pose = bullet.multiplyTransforms(place.tolist(), _xyzw(quat), info[3], info[4])
        self._bullet.resetBasePositionAndOrientation(part.number, *pose)
        self._bullet.resetBaseVelocity(part.number, [0.0] * 3, [0.0] * 3)

    def _reader(self, part: _Part) -> _Reader:
        model = self.model
        joints = [joint for joint, _ in part.joints]
        free = None
        if part.tree.free:
            joint = int(model.body_jntadr[part.tree.root])
            info = self._bullet.getDynamicsInfo(part.number, -1)
            from_centre = bullet.invertTransform(info[3], info[4])
            free = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint]), from_centre
        return _Reader(
            part.number,
            [mine for _, mine in part.joints],
            np.asarray(model.jnt_qposadr)[joints],
            np.asarray(model.jnt_dofadr)[joints],
            free,
        )

    def _read_free(self, number: int, at: int, dof: int, from_centre: Any, qpos: Array, qvel: Array) -> None:
        centre = self._bullet.getBasePositionAndOrientation(number)
        place, turn = bullet.multiplyTransforms(*centre, *from_centre)
        linear, angular = (np.array(v) for v in self._bullet.getBaseVelocity(number))
        matrix = np.array(bullet.getMatrixFromQuaternion(turn)).reshape(3, 3)
        qpos[at : at + 3] = place
        qpos[at + 3 : at + 7] = (turn[3], *turn[:3])
        (x, y, z), (a, b, c) = (np.array(place) - np.array(centre[0])).tolist(), angular.tolist()
        qvel[dof : dof + 3] = linear + np.array([b * z - c * y, c * x - a * z, a * y - b * x])
        qvel[dof + 3 : dof + 6] = matrix.T @ angular

    def _touch(self, first: _Links, second: _Links) -> Touch:
        force, depth = 0.0, 0.0
        for one, links in first.items():
            for other, other_links in second.items():
                for point in self._bullet.getContactPoints(one, other) or ():
                    if point[3] in links and point[4] in other_links:
                        force, depth = max(force, point[9]), max(depth, -point[8])
        return Touch(np.array([force > 0.0]), np.array([force]), np.array([max(depth, 0.0)]))

    def _links_of(self, bodies: Sequence[int]) -> _Links:
        links: _Links = {}
        for body in bodies:
            part, link = self._where(body)
            links.setdefault(part.number, set()).add(link)
        return links

    def _robot_bodies(self) -> list[int]:
        if self._chain is None or self._tool is None:
            return []
        return [body for body in self._chain.part.links if self._bits_of(body)]

    def _bits_of(self, body: int) -> bool:
        model = self.model
        first = int(model.body_geomadr[body])
        geoms = range(first, first + int(model.body_geomnum[body]))
        return any(model.geom_contype[geom] or model.geom_conaffinity[geom] for geom in geoms)

    def _role_bodies(self, role: str) -> list[int]:
        body = int(self.model.body(self.cell.twin.role(role)).id) if role in self.cell.twin.roles else -1
        return [body] if any(body in part.links for part in self._parts) else []

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

    def _where(self, body: int) -> tuple[_Part, int]:
        for part in self._parts:
            if body in part.links:
                return part, part.links[body]
        raise InvalidTwin("the stand-in has no such body", got=self.model.body(body).name)

    def _joint(self, joint: int) -> tuple[_Part, int]:
        for part in self._parts:
            for theirs, mine in part.joints:
                if theirs == joint:
                    return part, mine
        raise InvalidTwin("the stand-in has no such joint", got=self.model.joint(joint).name)


@dataclass(frozen=True)
class _Reader:
    """Where the state of a part is read: Bullet's joints, MuJoCo's addresses of each, and of the base if it moves freely,
    with the way from its centre of mass to its frame."""

    number: int
    mine: list[int]
    qpos: Array
    dofs: Array
    free: tuple[int, int, Any] | None


@dataclass(frozen=True)
class _Chain:
    """The tree that servos drive: Bullet's joints, and MuJoCo's degrees of freedom in the same order."""

    part: _Part
    mine: list[int]
    still: list[float]
    dofs: Array
    zero: Array
    passive: Array


def _xyzw(quat: Array) -> list[float]:
    w, x, y, z = (float(v) for v in quat)
    return [x, y, z, w]
