"""A cell in PhysX, on the processor, through SAPIEN.

A servo is a drive of the articulation with a target speed, as in Bullet. PhysX computes with 32 bits; gravity torques and
inertia come from MuJoCo, in 64 bits. A scene shares nothing with another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import mujoco
import numpy as np

from twinloop.engines.multibody import FEATHER_KG, Tree, collides, read_shape, require_joint
from twinloop.engines.world import Chain, Surface, World
from twinloop.episode import Array
from twinloop.errors import InvalidTwin, MissingExtra
from twinloop.tasks import Cell, Touch

try:
    import sapien
    from sapien import physx
except ImportError as error:  # the extra is optional; everything that needs it starts here
    raise MissingExtra("engine physx", "sapien", "physx") from error

from twinloop.engines.physx_parts import in_site, make_pose, make_shape, turn_from_x

POSITION_ITERATIONS, VELOCITY_ITERATIONS = 15, 1
CONTACT_OFFSET_M = 0.005
"""Contacts are prepared from this distance on, of each of two shapes."""
BOUNCE_M_S = 0.05
"""Slower impacts do not bounce."""
MOTOR_GAIN = 1e6
"""A drive gives this much torque, within its limit, for each rad/s off its target: enough to be exact to 32 bits."""
COUPLING = 1e5
"""Stiffness of the tendon that couples two joints."""


_CARRIED = (int(mujoco.mjtSensor.mjSENS_FORCE), int(mujoco.mjtSensor.mjSENS_TORQUE))


class PhysxWorld(World):
    """One cell in PhysX."""

    engine = "physx"
    has_rotors = True
    version = str(sapien.__version__)

    def __init__(self, cell: Cell, model: mujoco.MjModel, dt_s: float) -> None:
        gravity = np.asarray(model.opt.gravity, np.float32)
        physx.set_scene_config(
            gravity=gravity,
            bounce_threshold=BOUNCE_M_S,
            enable_enhanced_determinism=True,
            cpu_workers=0,
        )
        physx.set_body_config(POSITION_ITERATIONS, VELOCITY_ITERATIONS, 0.0)
        physx.set_shape_config(CONTACT_OFFSET_M, 0.0)
        self._system = physx.PhysxCpuSystem()
        self._system.set_timestep(dt_s)
        self._scene = sapien.Scene([self._system])
        self._gravity, self._extra_gravity = gravity.astype(np.float64), np.zeros(3)
        self._qpos0 = np.array(model.qpos0)
        self._exact = mujoco.MjData(model)
        super().__init__(cell, model, dt_s)
        self._couple()
        if self._chain is not None:
            self._arm = self._articulations[self._chain.tree]
            self._drives = [self._joint[joint] for joint in self._chain.joints]
        self._damp()

    def close(self) -> None:
        """Free the scene."""
        self._body.clear()
        self._joint.clear()
        self._articulations.clear()
        self._scene = self._system = None

    def _build(self) -> list[tuple[int, ...]]:
        self._body: dict[int, Any] = {}
        self._material: dict[int, list[Any]] = {}
        self._factor: dict[int, float] = {}
        self._joint: dict[int, Any] = {}
        self._articulations: dict[int, Any] = {}
        self._order: dict[int, tuple[int, ...]] = {}
        mujoco.mj_kinematics(self.model, self._exact)
        for number, tree in enumerate(self._trees):
            self._order[number] = self._build_tree(number, tree)
        self._number = {body.name: index for index, body in self._body.items()}
        return [self._order[number] for number in range(len(self._trees))]

    def _build_tree(self, number: int, tree: Tree) -> tuple[int, ...]:
        model = self.model
        moves = any(int(model.body_jntnum[body]) for body in tree.bodies if body != tree.base)
        if not moves:
            for body in tree.bodies:
                self._build_body(body, tree)
            return ()
        return self._build_articulation(number, tree)

    def _build_body(self, body: int, tree: Tree) -> None:
        """A body that moves freely, or that does not move."""
        model = self.model
        component = physx.PhysxRigidDynamicComponent() if tree.free else physx.PhysxRigidStaticComponent()
        if tree.free and body != tree.root:
            raise InvalidTwin(
                f"engine physx cannot build body {model.body(body).name!r}",
                got="a part that is fixed to a body that moves freely",
                expected="one body with all its geoms",
            )
        self._attach_shapes(component, body)
        if tree.free:
            self._weigh(component, body)
        entity = self._enter(component, body)
        entity.set_pose(make_pose(self._exact.xpos[body], self._exact.xquat[body]))
        self._scene.add_entity(entity)

    def _build_articulation(self, number: int, tree: Tree) -> tuple[int, ...]:
        model = self.model
        root = physx.PhysxArticulationLinkComponent(None)
        root.mass, root.inertia = 1.0, np.ones(3)
        entities = [self._enter(root, -1 - number)]
        links = {0: root}
        joints: list[int] = []
        if tree.base is not None:
            raise InvalidTwin(
                f"engine physx cannot build body {model.body(tree.root).name!r}",
                got="joints on a body that moves freely or is placed by hand",
                expected="arms that are fixed to the world",
            )
        for body in tree.bodies:
            above = links[int(model.body_parentid[body])]
            first = int(model.body_jntadr[body])
            own = [require_joint(model, j) for j in range(first, first + int(model.body_jntnum[body]))]
            place, quat = np.asarray(model.body_pos[body]), np.asarray(model.body_quat[body])
            for position, joint in enumerate(own or [-1]):
                last = position == len(own or [-1]) - 1
                link = physx.PhysxArticulationLinkComponent(above)
                if last:
                    self._attach_shapes(link, body)
                    self._weigh(link, body)
                else:
                    link.mass, link.inertia = FEATHER_KG, np.full(3, FEATHER_KG * 1e-3)
                entities.append(self._enter(link, body if last else -1000 - joint))
                self._connect(link.joint, joint, place, quat)
                place, quat, above = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), link
                if joint >= 0:
                    link.joint.name = str(joint)
                    self._joint[joint] = link.joint
                    joints.append(joint)
            links[body] = above
        root.joint.type = "fixed"
        for entity in entities:
            self._scene.add_entity(entity)
        articulation = root.articulation
        self._articulations[number] = articulation
        return tuple(int(active.name) for active in articulation.active_joints)

    def _connect(self, made: Any, joint: int, place: Array, quat: Array) -> None:
        """Set type, frames and limits of the joint between a link and its parent."""
        model = self.model
        if joint < 0:
            made.type = "fixed"
            made.pose_in_parent, made.pose_in_child = make_pose(place, quat), sapien.Pose()
            return
        axis, anchor = turn_from_x(np.asarray(model.jnt_axis[joint])), np.asarray(model.jnt_pos[joint])
        turned, at = np.empty(4), np.empty(3)
        mujoco.mju_mulQuat(turned, quat, axis)
        mujoco.mju_rotVecQuat(at, anchor, quat)
        hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
        limited = bool(model.jnt_limited[joint])
        low, high = (float(x) for x in model.jnt_range[joint] - model.qpos0[model.jnt_qposadr[joint]])
        made.type = ("revolute" if limited else "revolute_unwrapped") if hinge else "prismatic"
        made.pose_in_parent, made.pose_in_child = make_pose(place + at, turned), make_pose(anchor, axis)
        made.limits = np.array([[low, high] if limited else [-np.inf, np.inf]], np.float32)
        dof = int(model.jnt_dofadr[joint])
        made.armature = np.array([model.dof_armature[dof]], np.float32)
        made.friction = 0.0
        made.set_drive_properties(0.0, 0.0, 0.0)

    def _enter(self, component: Any, body: int) -> Any:
        component.name = str(body)
        entity = sapien.Entity()
        entity.add_component(component)
        if body >= 0:
            self._body[body] = component
        return entity

    def _weigh(self, component: Any, body: int) -> None:
        model = self.model
        mass = float(model.body_mass[body])
        component.mass = max(mass, FEATHER_KG)
        component.cmass_local_pose = make_pose(model.body_ipos[body], model.body_iquat[body])
        component.inertia = np.maximum(model.body_inertia[body], FEATHER_KG * 1e-3).astype(np.float32)
        component.set_linear_damping(0.0)
        component.set_angular_damping(0.0)

    def _attach_shapes(self, component: Any, body: int) -> None:
        model = self.model
        first = int(model.body_geomadr[body])
        self._material[body] = []
        for geom in range(first, first + int(model.body_geomnum[body])):
            if not collides(model, geom):
                continue
            material = physx.PhysxMaterial(1.0, 1.0, 0.0)
            shape = make_shape(read_shape(model, geom), material)
            shape.set_collision_groups(
                [int(model.geom_contype[geom]), int(model.geom_conaffinity[geom]), 0, 0]
            )
            component.attach(shape)
            self._material[body].append(material)

    def _couple(self) -> None:
        """A stiff tendon for each joint equality of the MuJoCo model."""
        for first, second, ratio in self.joint_couplings():
            one, other = self._joint[first], self._joint[second]
            if one.parent_link != other.parent_link:
                raise InvalidTwin(
                    "engine physx cannot couple two joints",
                    got=f"{self.model.joint(first).name} and {self.model.joint(second).name}",
                    expected="joints on the same body, as of two fingers",
                )
            one.child_link.articulation.create_fixed_tendon(
                [one.parent_link, one.child_link, other.child_link],
                [0.0, 1.0, -ratio],
                [0.0, 1.0, -1.0 / ratio],
                stiffness=COUPLING,
            )

    def _damp(self) -> None:
        """Damping and dry friction of joints that no servo drives: a motor that wants to stand still, with limited torque."""
        driven = set(self.chain_dofs.tolist())
        for joint, made in self._joint.items():
            dof = int(self.model.jnt_dofadr[joint])
            if dof not in driven and self.model.dof_frictionloss[dof] > 0.0:
                made.set_drive_properties(0.0, MOTOR_GAIN, float(self.model.dof_frictionloss[dof]))

    def set_state(self, qpos: Array, qvel: Array) -> None:
        """Set positions (nq,) and velocities (nv,)."""
        model = self.model
        for number, articulation in self._articulations.items():
            joints = list(self._order[number])
            places, dofs = np.asarray(model.jnt_qposadr)[joints], np.asarray(model.jnt_dofadr)[joints]
            articulation.set_qpos((qpos[places] - self._qpos0[places]).astype(np.float32))
            articulation.set_qvel(qvel[dofs].astype(np.float32))
        for tree in self._trees:
            if tree.free:
                joint = int(model.body_jntadr[tree.root])
                at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
                self._place(tree.root, qpos[at : at + 7], qvel[dof : dof + 6])
        self._mass = None

    def _place(self, body: int, pose: Array, velocity: Array) -> None:
        component = self._body[body]
        component.entity.set_pose(make_pose(pose[:3], pose[3:]))
        turning, reach = np.empty(3), np.empty(3)
        mujoco.mju_rotVecQuat(turning, velocity[3:], pose[3:])
        mujoco.mju_rotVecQuat(reach, np.asarray(self.model.body_ipos[body]), pose[3:])
        component.set_angular_velocity(turning.astype(np.float32))
        component.set_linear_velocity((velocity[:3] + np.cross(turning, reach)).astype(np.float32))

    def qpos_qvel(self) -> tuple[Array, Array]:
        """The state in MuJoCo's coordinates: (nq,) and (nv,)."""
        model, qpos, qvel = self.model, self._qpos0.copy(), np.zeros(self.model.nv)
        for number, articulation in self._articulations.items():
            joints = list(self._order[number])
            qpos[np.asarray(model.jnt_qposadr)[joints]] += articulation.get_qpos()
            qvel[np.asarray(model.jnt_dofadr)[joints]] = articulation.get_qvel()
        for tree in self._trees:
            if tree.free:
                joint = int(model.body_jntadr[tree.root])
                at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
                self._read_free(tree.root, qpos[at : at + 7], qvel[dof : dof + 6])
        return qpos, qvel

    def _read_free(self, body: int, pose: Array, velocity: Array) -> None:
        component = self._body[body]
        found = component.entity_pose
        pose[:3], pose[3:] = found.p, found.q
        pose[3:] /= np.linalg.norm(pose[3:])
        turning = component.get_angular_velocity().astype(np.float64)
        back, reach, inverse = np.empty(3), np.empty(3), np.empty(4)
        mujoco.mju_rotVecQuat(reach, np.asarray(self.model.body_ipos[body]), pose[3:])
        mujoco.mju_negQuat(inverse, pose[3:])
        mujoco.mju_rotVecQuat(back, turning, inverse)
        velocity[:3] = component.get_linear_velocity() - np.cross(turning, reach)
        velocity[3:] = back

    def mass_centres(self) -> dict[int, Array]:
        """Where PhysX has the centres of mass of bodies that can move."""
        found = {}
        for body, component in self._body.items():
            if self.model.body_mass[body] > 0.0 and hasattr(component, "cmass_local_pose"):
                found[body] = np.asarray((component.entity_pose * component.cmass_local_pose).p, np.float64)
        return found

    def gravity_torques(self) -> dict[int, float]:
        """The torques against gravity, by degree of freedom, as PhysX computes them."""
        found = {}
        for number, articulation in self._articulations.items():
            torques = articulation.compute_passive_force(True, False)
            for joint, torque in zip(self._order[number], torques.tolist(), strict=True):
                found[int(self.model.jnt_dofadr[joint])] = float(torque)
        return found

    def push(self, body: int, force_n: Sequence[float], torque_nm: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        """Apply a force and torque to a body at its centre of mass, in the world frame, for the next physics step."""
        self._body[body].add_force_torque(np.array(force_n, np.float32), np.array(torque_nm, np.float32))

    def set_gravity(self, gravity_m_s2: Sequence[float]) -> None:
        """Set the gravity vector; what differs from the scene's own is applied as forces."""
        self._extra_gravity = np.asarray(gravity_m_s2, np.float64) - self._gravity

    def set_surface(self, bodies: Sequence[int], surface: Surface) -> None:
        """Set the contact properties of these bodies; contacts of PhysX are never soft, and do not resist turning on the spot."""
        for body in bodies:
            if surface.friction is not None:
                self._factor[body] = float(surface.friction)
            for material in self._material[body]:
                if surface.restitution is not None:
                    material.restitution = float(surface.restitution) ** 2
        if surface.friction is not None:
            self._write_frictions()

    def _write_frictions(self) -> None:
        """Choose frictions whose means are the products that are asked for, exactly for all contacts of the object.

        With c the object's, another body's is 2 * factor * object's factor - c; c is such that contacts between the others come close.
        """
        role = self.cell.twin.roles.get("object")
        target = -1 if role is None else int(self.model.body(role).id)
        own = self._factor.get(target)
        others = {body: factor for body, factor in self._factor.items() if body != target}
        if own is None or not others:
            frictions = {body: factor * factor for body, factor in others.items()}
        else:
            usual = float(np.median(list(others.values())))
            mine = min(max(2.0 * own * usual - usual * usual, 0.0), 2.0 * own * min(others.values()))
            frictions = {body: 2.0 * factor * own - mine for body, factor in others.items()}
            frictions[target] = mine
        if own is not None and not others:
            frictions[target] = own * own
        for body, friction in frictions.items():
            for material in self._material[body]:
                material.static_friction = material.dynamic_friction = friction

    def _simulate(self) -> None:
        if self._extra_gravity.any():
            for body, component in self._body.items():
                if self.model.body_mass[body] > 0.0 and not isinstance(
                    component, physx.PhysxRigidStaticComponent
                ):
                    force = self._extra_gravity * float(self.model.body_mass[body])
                    component.add_force_torque(force.astype(np.float32), np.zeros(3, np.float32))
        self._system.step()

    def _chain_state(self, chain: Chain) -> tuple[Array, Array]:
        qpos = self._arm.get_qpos().astype(np.float64) + chain.zero
        return qpos, self._arm.get_qvel().astype(np.float64)

    def _dynamics(
        self, chain: Chain, qpos: Array, qvel: Array, with_mass: bool
    ) -> tuple[Array, Array | None]:
        model, data = self.model, self._exact
        data.qpos[chain.addresses], data.qvel[chain.dofs] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        bias = np.empty(model.nv)
        mujoco.mj_rne(model, data, 0, bias)
        if not with_mass:
            return bias[chain.dofs], None
        mujoco.mj_crb(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        mass = full[np.ix_(chain.dofs, chain.dofs)]
        return bias[chain.dofs], mass - np.diag(np.asarray(model.dof_armature)[chain.dofs])

    def _set_motors(self, chain: Chain, speed: Array, torque: Array) -> None:
        for drive, target, most in zip(self._drives, speed.tolist(), torque.tolist(), strict=True):
            drive.set_drive_properties(0.0, MOTOR_GAIN, most)
            drive.set_drive_velocity_target(target)

    def _pairs(self) -> Iterator[tuple[int, int, Any]]:
        for contact in self._system.get_contacts():
            first, second = (int(body.name) for body in contact.bodies)
            yield first, second, contact.points

    def _contact_forces(self, bodies: Iterable[int]) -> Iterator[tuple[int, Array, Array]]:
        # PhysX reports contacts without their friction; what a joint carries is read off the joint instead.
        return iter(())

    def _read_sensors(self, qpos: Array, qvel: Array) -> Array:
        """As everywhere, but forces and torques are those that PhysX found in the joint above a sensor's body."""
        model, readings = self.model, super()._read_sensors(qpos, qvel)
        if self._chain is None:
            return readings
        carried = self._arm.get_link_incoming_joint_forces().astype(np.float64)
        rows = {link.name: row for row, link in zip(carried, self._arm.links, strict=True)}
        frames = {link.name: link.joint.pose_in_child for link in self._arm.links}
        addresses = [address for group in self.cell.sensors for address in group.addresses]
        for sensor in range(model.nsensor):
            kind, address = int(model.sensor_type[sensor]), int(model.sensor_adr[sensor])
            site = int(model.sensor_objid[sensor])
            body = str(int(model.site_bodyid[site]))
            if kind not in _CARRIED or body not in rows or address not in addresses:
                continue
            column = addresses.index(address)
            force, torque = in_site(model, site, frames[body], rows[body])
            readings[0, column : column + 3] = force if kind == mujoco.mjtSensor.mjSENS_FORCE else torque
        return readings

    def _touch(self, first: Iterable[int], second: Iterable[int]) -> Touch:
        ones, others = set(first), set(second)
        force, depth = 0.0, 0.0
        for one, other, points in self._pairs():
            if (one in ones and other in others) or (other in ones and one in others):
                for point in points:
                    force = max(force, float(np.linalg.norm(point.impulse)) / self.dt_s)
                    depth = max(depth, -float(point.separation)) if np.any(point.impulse) else depth
        return Touch(np.array([force > 0.0]), np.array([force]), np.array([depth]))
