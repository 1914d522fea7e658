"""A compiled model as links and joints with one joint each, as URDF and USD have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.interchange.plan import LeftOut

HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)
SHAPES = {
    int(mujoco.mjtGeom.mjGEOM_PLANE): "plane", int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule", int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box", int(mujoco.mjtGeom.mjGEOM_MESH): "mesh",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """A place (3,), m, and a rotation matrix (3, 3)."""

    place: Array
    turn: Array

    def inverse(self) -> Frame:
        """The frame that undoes this one."""
        return Frame(-self.turn.T @ self.place, self.turn.T)

    def __matmul__(self, other: Frame) -> Frame:
        return Frame(self.place + self.turn @ other.place, self.turn @ other.turn)

    @property
    def quat(self) -> Array:
        """The rotation as (w, x, y, z)."""
        found = np.zeros(4)
        mujoco.mju_mat2Quat(found, self.turn.reshape(9))
        return found


@dataclass(frozen=True)
class Shape:
    """A geom in its link's frame; `size` is MuJoCo's, `mesh` its vertices (V, 3) and triangles (T, 3)."""

    name: str
    kind: str
    frame: Frame
    size: Array
    rgba: Array
    collides: bool
    friction: float
    mesh: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class Joint:
    """A hinge or slide: axis in the link's frame, limits in rad or m, limits of its force."""

    name: str
    kind: str
    axis: Array
    limits: tuple[float, float] | None
    effort: float | None
    damping: float
    friction: float
    armature: float
    stiffness: float
    servo_damping: float


@dataclass(frozen=True)
class Link:
    """A body whose frame lies on its joint's axis, where all joints are at zero.

    `frame` is the frame in the world, `moving` where it moves freely, `inertial` its centre of mass and principal axes.
    """

    name: str
    body: int
    parent: str | None
    frame: Frame
    mass_kg: float
    inertia: Array
    inertial: Frame
    joint: Joint | None
    moving: bool
    shapes: tuple[Shape, ...] = field(default=())


def list_links(model: mujoco.MjModel) -> tuple[list[Link], list[LeftOut]]:
    """Read a model as links.

    Args:
        model: The model; its world is a link called `world` without mass.

    Returns:
        Links with parents before children, and bodies and geoms that have no counterpart.
    """
    data = mujoco.MjData(model)
    for index in range(model.njnt):
        if int(model.jnt_type[index]) in (HINGE, SLIDE):
            data.qpos[model.jnt_qposadr[index]] = 0.0
    mujoco.mj_kinematics(model, data)
    made: dict[int, Link] = {}
    left_out: list[LeftOut] = []
    for body in range(model.nbody):
        reason = _refuse(model, body, made)
        if reason:
            left_out.append(LeftOut(body_name(model, body), "body", reason))
            continue
        made[body] = _make_link(model, data, body, made)
        left_out += [
            LeftOut(_geom_name(model, geom), "geom", "the format has no such shape")
            for geom in _geoms(model, body)
            if int(model.geom_type[geom]) not in SHAPES
        ]
    return list(made.values()), left_out


def _refuse(model: mujoco.MjModel, body: int, made: dict[int, Link]) -> str | None:
    if body and int(model.body_parentid[body]) not in made:
        return "it hangs on a body that is left out"
    if int(model.body_jntnum[body]) > 1:
        return "several joints in one body: the format has one for each"
    if model.body_jntnum[body] and int(model.jnt_type[model.body_jntadr[body]]) not in (HINGE, SLIDE, FREE):
        return "the format has no ball joints"
    return None


def _make_link(model: mujoco.MjModel, data: mujoco.MjData, body: int, made: dict[int, Link]) -> Link:
    first = int(model.body_jntadr[body])
    kind = int(model.jnt_type[first]) if first >= 0 else -1
    jointed = kind in (HINGE, SLIDE)
    turn = data.xmat[body].reshape(3, 3).copy()
    frame = Frame((data.xanchor[first] if jointed else data.xpos[body]).copy(), turn)
    own = Frame(data.xpos[body].copy(), turn)
    centre = np.zeros(9)
    mujoco.mju_quat2Mat(centre, model.body_iquat[body])
    inertial = frame.inverse() @ own @ Frame(model.body_ipos[body].copy(), centre.reshape(3, 3))
    return Link(
        body_name(model, body),
        body,
        made[int(model.body_parentid[body])].name if body else None,
        frame,
        float(model.body_mass[body]),
        model.body_inertia[body].copy(),
        inertial,
        _make_joint(model, first) if jointed else None,
        kind == FREE,
        tuple(_make_shape(model, geom, frame.inverse() @ own) for geom in _geoms(model, body) if int(model.geom_type[geom]) in SHAPES),
    )  # fmt: skip


def _make_joint(model: mujoco.MjModel, index: int) -> Joint:
    dof = int(model.jnt_dofadr[index])
    effort, stiffness, damping = None, 0.0, 0.0
    for i in range(model.nu):
        drives = int(model.actuator_trntype[i]) == int(mujoco.mjtTrn.mjTRN_JOINT)
        if drives and int(model.actuator_trnid[i, 0]) == index and model.actuator_gear[i, 0] == 1.0:
            effort = float(model.actuator_forcerange[i, 1]) if model.actuator_forcelimited[i] else None
            servo = model.actuator_biasprm[i, 1] == -model.actuator_gainprm[i, 0]
            stiffness = float(model.actuator_gainprm[i, 0]) if servo else 0.0
            damping = -float(model.actuator_biasprm[i, 2]) if servo else 0.0
    low, high = (float(edge) for edge in model.jnt_range[index])
    return Joint(
        model.joint(index).name,
        "hinge" if int(model.jnt_type[index]) == HINGE else "slide",
        model.jnt_axis[index].copy(),
        (low, high) if model.jnt_limited[index] else None,
        effort,
        float(model.dof_damping[dof]),
        float(model.dof_frictionloss[dof]),
        float(model.dof_armature[dof]),
        stiffness,
        damping,
    )


def _make_shape(model: mujoco.MjModel, geom: int, body_in_link: Frame) -> Shape:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    frame = body_in_link @ Frame(model.geom_pos[geom].copy(), turn.reshape(3, 3))
    kind, mesh = SHAPES[int(model.geom_type[geom])], None
    if kind == "mesh":
        index = int(model.geom_dataid[geom])
        vertices, faces = int(model.mesh_vertadr[index]), int(model.mesh_faceadr[index])
        mesh = (
            model.mesh_vert[vertices : vertices + model.mesh_vertnum[index]].copy(),
            model.mesh_face[faces : faces + model.mesh_facenum[index]].copy(),
        )
    material = int(model.geom_matid[geom])
    rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
    friction = float(model.geom_friction[geom, 0])
    size = model.geom_size[geom].copy()
    return Shape(_geom_name(model, geom), kind, frame, size, rgba.copy(), collides, friction, mesh)


def _geoms(model: mujoco.MjModel, body: int) -> Iterator[int]:
    first = int(model.body_geomadr[body])
    return iter(range(first, first + int(model.body_geomnum[body])) if first >= 0 else range(0))


def _geom_name(model: mujoco.MjModel, geom: int) -> str:
    return model.geom(geom).name or f"geom_{geom}"


def body_name(model: mujoco.MjModel, body: int) -> str:
    """The body's name, or one made from its number."""
    return model.body(body).name or f"body_{body}"
