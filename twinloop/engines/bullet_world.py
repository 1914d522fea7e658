"""A cell in Bullet.

A servo is a velocity motor of Bullet, because motors are solved together with the contacts: stiff gains stay stable and
the gripper holds. Each physics step computes implicitly the speed that servo, damping and rotor would reach in free
motion. It is the motor's target; the torque limit is what free motion needs or, where the joint is blocked, the servo's
torque.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from twinloop.engines.multibody import Tree
from twinloop.engines.world import Chain, Surface, World
from twinloop.episode import Array
from twinloop.errors import InvalidTwin, MissingExtra
from twinloop.tasks import Cell, Touch

try:
    import pybullet as bullet
except ImportError as error:  # the extra is optional; everything that needs it starts here
    raise MissingExtra("engine bullet", "pybullet", "bullet") from error


@dataclass(frozen=True)
class _Part:
    """A tree in Bullet: its number, and MuJoCo's joint (or body) of each of Bullet's joints (or links)."""

    tree: Tree
    number: int
    joints: tuple[tuple[int, int], ...]
    links: dict[int, int]


_Links = dict[int, set[int]]
"""Bullet's links by the number of their tree."""


class Client:
    """A connection to Bullet, whose functions are called on it as methods."""

    def __init__(self) -> None:
        self._number = bullet.connect(bullet.DIRECT)

    def __getattr__(self, name: str) -> Any:
        function = partial(getattr(bullet, name), physicsClientId=self._number)
        setattr(self, name, function)  # looked up once: some are called in every physics step
        return function

    def close(self) -> None:
        """Disconnect from Bullet."""
        if self._number >= 0:
            bullet.disconnect(self._number)
            self._number = -1


_FREE: list[Client] = []


def take_client() -> Client:
    """A connection that nothing uses, else a new one: each takes 30 MB, which closing it does not give back."""
    return _FREE.pop() if _FREE else Client()


def give_back(client: Client) -> None:
    """Keep a connection for the next one that needs it."""
    _FREE.append(client)


class BulletWorld(World):
    """One cell in Bullet, which takes `bullet_steps` steps of its own in each physics step.

    A `client` that is given is emptied first, and stays connected when the world is closed.
    """

    engine = "bullet"
    version = str(bullet.getAPIVersion())

    def __init__(
        self,
        cell: Cell,
        model: mujoco.MjModel,
        dt_s: float,
        *,
        bullet_steps: int = 1,
        client: Client | None = None,
    ) -> None:
        self._bullet, self._lent = client or Client(), client is not None
        if self._lent:
            self._bullet.resetSimulation()
        self._bullet_steps = bullet_steps
        super().__init__(cell, model, dt_s)
        if self._chain is not None:
            self._number = self._parts[self._chain.tree].number
            self._mine = [mine for _, mine in self._parts[self._chain.tree].joints]
            self._still = [0.0] * len(self._mine)
        self._groups = {name: self._links_of(self.bodies(name)) for name in ("robot", "object", "table")}
        self._couple()
        self._filter()
        self._damp()
        self._qpos0 = np.array(model.qpos0)
        self._readers = [self._reader(part) for part in self._parts]

    def close(self) -> None:
        """Disconnect from Bullet, unless the client was lent."""
        if not self._lent:
            self._bullet.close()

    def set_state(self, qpos: Array, qvel: Array) -> None:
        """Set positions (nq,) and velocities (nv,)."""
        model = self.model
        for part in self._parts:
            for joint, mine in part.joints:
                at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
                self._bullet.resetJointState(
                    part.number, mine, float(qpos[at] - model.qpos0[at]), float(qvel[dof])
                )
            if part.tree.free:
                joint = int(model.body_jntadr[part.tree.root])
                at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
                self._place(part, qpos[at : at + 7], qvel[dof : dof + 6])
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

    def mass_centres(self) -> dict[int, Array]:
        """Where Bullet has the centres of mass of bodies that can move."""
        found = {}
        for part in self._parts:
            for body, link in part.links.items():
                if link < 0:
                    place = self._bullet.getBasePositionAndOrientation(part.number)[0]
                else:
                    place = self._bullet.getLinkState(part.number, link, computeForwardKinematics=1)[0]
                if self.model.body_mass[body] > 0.0:
                    found[body] = np.array(place)
        return found

    def gravity_torques(self) -> dict[int, float]:
        """The torques against gravity, by degree of freedom, as Bullet computes them."""
        found = {}
        for part in self._parts:
            mine = [mine for _, mine in part.joints]
            if mine and not part.tree.free:
                offsets, still = (
                    [state[0] for state in self._bullet.getJointStates(part.number, mine)],
                    [0.0] * len(mine),
                )
                torques = self._bullet.calculateInverseDynamics(part.number, offsets, still, still)
                for (joint, _), torque in zip(part.joints, torques, strict=True):
                    found[int(self.model.jnt_dofadr[joint])] = float(torque)
        return found

    def _simulate(self) -> None:
        self._bullet.stepSimulation()

    def _chain_state(self, chain: Chain) -> tuple[Array, Array]:
        states = self._bullet.getJointStates(self._number, self._mine)
        self._offsets = [state[0] for state in states]
        self._speeds = [state[1] for state in states]
        return np.array(self._offsets) + chain.zero, np.array(self._speeds)

    def _dynamics(
        self, chain: Chain, qpos: Array, qvel: Array, with_mass: bool
    ) -> tuple[Array, Array | None]:
        bias = self._bullet.calculateInverseDynamics(self._number, self._offsets, self._speeds, self._still)
        mass = np.array(self._bullet.calculateMassMatrix(self._number, self._offsets)) if with_mass else None
        return np.array(bias), mass

    def _set_motors(self, chain: Chain, speed: Array, torque: Array) -> None:
        self._bullet.setJointMotorControlArray(
            self._number,
            self._mine,
            bullet.VELOCITY_CONTROL,
            targetVelocities=speed.tolist(),
            forces=torque.tolist(),
        )

    def _build(self) -> list[tuple[int, ...]]:
        self._configure()
        self._parts = [self._load(tree) for tree in self._trees]
        return [tuple(joint for joint, _ in part.joints) for part in self._parts]

    def _configure(self) -> None:
        self._bullet.setTimeStep(self.dt_s)
        self._bullet.setGravity(*(float(g) for g in self.model.opt.gravity))
        self._bullet.setPhysicsEngineParameter(
            numSolverIterations=50,
            numSubSteps=self._bullet_steps,
            contactBreakingThreshold=0.002,
            enableConeFriction=1,
            deterministicOverlappingPairs=1,
        )

    def _load(self, tree: Tree) -> _Part:
        with tempfile.TemporaryDirectory(prefix="twinloop-bullet-") as folder:
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

    def _couple(self) -> None:
        """Add a gear constraint for each joint equality of the MuJoCo model."""
        for first, second, ratio in self.joint_couplings():
            part, mine = self._joint(first)
            other_part, other = self._joint(second)
            gear = self._bullet.createConstraint(
                part.number, mine, other_part.number, other, bullet.JOINT_GEAR, [1, 0, 0], [0] * 3, [0] * 3
            )
            self._bullet.changeConstraint(gear, gearRatio=-ratio, maxForce=1e4, erp=0.5)

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

    def _place(self, part: _Part, pose: Array, velocity: Array) -> None:
        """Put a free body's frame at a pose with a velocity; Bullet wants those of its centre of mass."""
        info = self._bullet.getDynamicsInfo(part.number, -1)
        centre = bullet.multiplyTransforms(pose[:3].tolist(), _xyzw(pose[3:]), info[3], info[4])
        self._bullet.resetBasePositionAndOrientation(part.number, *centre)
        matrix = np.array(bullet.getMatrixFromQuaternion(_xyzw(pose[3:]))).reshape(3, 3)
        turning = matrix @ velocity[3:]
        linear = velocity[:3] + np.cross(turning, np.array(centre[0]) - pose[:3])
        self._bullet.resetBaseVelocity(part.number, linear.tolist(), turning.tolist())

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

    def _contact_forces(self, bodies: Iterable[int]) -> Iterator[tuple[int, Array, Array]]:
        for body in bodies:
            part, link = self._where(body)
            for point in self._bullet.getContactPoints(bodyA=part.number, linkIndexA=link) or ():
                # The normal points at the first body; friction is given as it acts on the second.
                force = (
                    point[9] * np.array(point[7])
                    - point[10] * np.array(point[11])
                    - point[12] * np.array(point[13])
                )
                yield body, force, np.array(point[5])

    def _touch_of(self, first: str, second: str) -> Touch:
        return self._between(self._groups[first], self._groups[second])

    def _touch(self, first: Iterable[int], second: Iterable[int]) -> Touch:
        return self._between(self._links_of(first), self._links_of(second))

    def _between(self, first: _Links, second: _Links) -> Touch:
        force, depth = 0.0, 0.0
        for one, links in first.items():
            for other, other_links in second.items():
                for point in self._bullet.getContactPoints(one, other) or ():
                    if point[3] in links and point[4] in other_links:
                        force, depth = max(force, point[9]), max(depth, -point[8])
        return Touch(np.array([force > 0.0]), np.array([force]), np.array([max(depth, 0.0)]))

    def _links_of(self, bodies: Iterable[int]) -> _Links:
        links: _Links = {}
        for body in bodies:
            part, link = self._where(body)
            links.setdefault(part.number, set()).add(link)
        return links

    def _where(self, body: int) -> tuple[_Part, int]:
        for part in self._parts:
            if body in part.links:
                return part, part.links[body]
        raise InvalidTwin("engine bullet has no such body", got=self.model.body(body).name)

    def _joint(self, joint: int) -> tuple[_Part, int]:
        for part in self._parts:
            for theirs, mine in part.joints:
                if theirs == joint:
                    return part, mine
        raise InvalidTwin("engine bullet has no such joint", got=self.model.joint(joint).name)


@dataclass(frozen=True)
class _Reader:
    """Where the state of a part is read: Bullet's joints, MuJoCo's addresses of each, and of the base if it moves freely,
    with the way from its centre of mass to its frame."""

    number: int
    mine: list[int]
    qpos: Array
    dofs: Array
    free: tuple[int, int, Any] | None


def _xyzw(quat: Array) -> list[float]:
    w, x, y, z = (float(v) for v in quat)
    return [x, y, z, w]
