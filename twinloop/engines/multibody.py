"""A compiled MuJoCo model as trees of bodies that other engines can build, also as URDF text: joints, masses, inertias, limits, shapes.

Every tree of bodies that hangs from the world becomes one URDF. A body's joints become one link each, the last of which
carries the body's mass and shapes. Only collision shapes are converted; MuJoCo renders the cell.
Planes become thick boxes, ellipsoids and meshes become convex hulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import InvalidTwin

Element = ElementTree.Element

ENDLESS_M = 5.0
"""Half the edge of a plane that the model does not bound."""

PLANE_DEPTH_M = 0.1

FEATHER_KG = 1e-6
"""Mass of the links between two joints of one body; engines need one."""


@dataclass(frozen=True)
class Tree:
    """One tree of bodies: `urdf`, the hulls it refers to by file name, and whether its base moves freely.

    `bodies` are its bodies, parents before their children.

    `base` is the MuJoCo body that is the URDF's base link, or None where the base is the world itself. Link `body3` is
    MuJoCo's body 3, joint `joint7` its joint 7.
    """

    root: int
    urdf: str
    base: int | None
    free: bool
    bodies: tuple[int, ...]
    hulls: Mapping[str, str] = field(default_factory=dict)


def make_trees(model: mujoco.MjModel) -> list[Tree]:
    """Every tree of the model that can move or be touched."""
    children: dict[int, list[int]] = {}
    for body in range(1, model.nbody):
        children.setdefault(int(model.body_parentid[body]), []).append(body)
    trees = [_make_tree(model, root, children) for root in children.get(0, [])]
    if any(collides(model, geom) for geom in range(model.ngeom) if model.geom_bodyid[geom] == 0):
        trees.append(_make_tree(model, 0, {}))
    return [tree for tree in trees if "<collision" in tree.urdf or "<axis" in tree.urdf or tree.free]


def _make_tree(model: mujoco.MjModel, root: int, children: Mapping[int, list[int]]) -> Tree:
    robot = ElementTree.Element("robot", name=f"tree{root}")
    hulls: dict[str, str] = {}
    free = (
        root > 0
        and _joints(model, root)
        and model.jnt_type[_joints(model, root)[0]] == mujoco.mjtJoint.mjJNT_FREE
    )
    own_base = bool(free) or root == 0 or model.body_mocapid[root] >= 0
    offset: dict[int, Array] = {}
    if own_base:
        robot.append(_link(model, root, np.zeros(3), hulls))
        offset[root] = np.zeros(3)
        waiting = [(root, child) for child in children.get(root, [])]
    else:
        ElementTree.SubElement(robot, "link", name="world")
        waiting = [(0, root)]
    while waiting:
        parent, body = waiting.pop(0)
        above = f"body{parent}" if parent in offset else "world"
        offset[body] = _attach(model, robot, body, above, offset.get(parent, np.zeros(3)))
        robot.append(_link(model, body, offset[body], hulls))
        waiting += [(body, child) for child in children.get(body, [])]
    text = ElementTree.tostring(robot, "unicode")
    return Tree(root, text, root if own_base else None, bool(free), tuple(offset), hulls)


def _attach(model: mujoco.MjModel, robot: Element, body: int, parent: str, shift: Array) -> Array:
    """Add the joints between a body and its parent; returns where the body's last joint sits in the body's frame."""
    place = np.asarray(model.body_pos[body]) - shift
    quat = np.asarray(model.body_quat[body])
    joints = _joints(model, body)
    if not joints:
        _joint(robot, f"fixed{body}", "fixed", parent, f"body{body}", place, quat)
        return np.zeros(3)
    anchor = np.zeros(3)
    for position, joint in enumerate(joints):
        last = position == len(joints) - 1
        name = f"body{body}" if last else f"body{body}_before{joints[position + 1]}"
        step = np.asarray(model.jnt_pos[joint]) - anchor
        place = place + _matrix(quat) @ step if position == 0 else step
        element = _joint(robot, f"joint{joint}", _kind(model, joint), parent, name, place, quat)
        ElementTree.SubElement(element, "axis", xyz=_format(model.jnt_axis[joint]))
        low, high = (float(x) for x in model.jnt_range[joint] - model.qpos0[model.jnt_qposadr[joint]])
        if not model.jnt_limited[joint]:
            low, high = 1.0, -1.0  # Bullet reads an empty range as no limit
        ElementTree.SubElement(
            element, "limit", lower=f"{low:.17g}", upper=f"{high:.17g}", effort="1e6", velocity="1e3"
        )
        if not last:
            robot.append(_feather(name))
        parent, anchor, quat = name, np.array(model.jnt_pos[joint]), np.array([1.0, 0.0, 0.0, 0.0])
    return anchor


def _kind(model: mujoco.MjModel, joint: int) -> str:
    hinge = model.jnt_type[require_joint(model, joint)] == mujoco.mjtJoint.mjJNT_HINGE
    return "revolute" if hinge else "prismatic"


def require_joint(model: mujoco.MjModel, joint: int) -> int:
    """The joint, if it is a hinge or a slide.

    Raises:
        InvalidTwin: It is another one; the message names it.
    """
    if mujoco.mjtJoint(int(model.jnt_type[joint])) not in (
        mujoco.mjtJoint.mjJNT_HINGE,
        mujoco.mjtJoint.mjJNT_SLIDE,
    ):
        raise InvalidTwin(
            f"only MuJoCo can simulate joint {model.joint(joint).name!r}",
            got="a ball or free joint inside a tree",
            expected="hinges and slides; free joints only on bodies of the world",
        )
    return joint


def _joint(
    robot: Element, name: str, kind: str, parent: str, child: str, place: Array, quat: Array
) -> Element:
    element = ElementTree.SubElement(robot, "joint", name=name, type=kind)
    ElementTree.SubElement(element, "parent", link=parent)
    ElementTree.SubElement(element, "child", link=child)
    _origin(element, place, quat)
    return element


def _feather(name: str) -> Element:
    link = ElementTree.Element("link", name=name)
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(inertial, "mass", value=str(FEATHER_KG))
    _inertia(inertial, np.full(3, FEATHER_KG * 1e-3))
    return link


def _link(model: mujoco.MjModel, body: int, shift: Array, hulls: dict[str, str]) -> Element:
    link = ElementTree.Element("link", name=f"body{body}")
    if model.body_mass[body] > 0.0:
        inertial = ElementTree.SubElement(link, "inertial")
        _origin(inertial, model.body_ipos[body] - shift, model.body_iquat[body])
        ElementTree.SubElement(inertial, "mass", value=f"{model.body_mass[body]:.17g}")
        _inertia(inertial, model.body_inertia[body])
    elif body == 0 or int(model.body_parentid[body]) == 0:
        # Without it, Bullet takes the mass for 1 kg and says so on standard output.
        inertial = ElementTree.SubElement(link, "inertial")
        ElementTree.SubElement(inertial, "mass", value="0")
        _inertia(inertial, np.zeros(3))
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if collides(model, geom):
            _collision(model, link, geom, shift, hulls)
    return link


@dataclass(frozen=True, eq=False)
class Shape:
    """A shape that can touch others: its kind, half sizes in m and its pose in its body; a hull has `points` instead.

    Sizes are those of MuJoCo: half lengths of boxes; radius and half length, along z, of capsules and cylinders.
    """

    kind: Literal["box", "sphere", "capsule", "cylinder", "hull"]
    size: Array
    place: Array
    quat: Array
    points: Array | None = None


def read_shape(model: mujoco.MjModel, geom: int) -> Shape:
    """A geom as a shape that other engines have: planes become thick boxes, ellipsoids and meshes become convex hulls.

    Raises:
        InvalidTwin: Other engines have no such shape; the message names the geom.
    """
    size = np.array(model.geom_size[geom])
    place, quat = np.array(model.geom_pos[geom]), np.array(model.geom_quat[geom])
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_PLANE:
        half = np.where(size[:2] > 0.0, size[:2], ENDLESS_M)
        place = place - _matrix(quat) @ np.array([0.0, 0.0, 0.5 * PLANE_DEPTH_M])
        return Shape("box", np.array([*half, 0.5 * PLANE_DEPTH_M]), place, quat)
    if kind in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_ELLIPSOID):
        return Shape("hull", size, place, quat, _hull_points(model, geom, kind))
    if kind not in _PLAIN:
        raise InvalidTwin(
            f"only MuJoCo can simulate the shape of geom {model.geom(geom).name!r}",
            got=kind.name,
            expected="boxes, spheres, capsules, cylinders, planes, ellipsoids or meshes",
        )
    return Shape(_PLAIN[kind], size, place, quat)


_PLAIN: dict[mujoco.mjtGeom, Literal["box", "sphere", "capsule", "cylinder"]] = {
    mujoco.mjtGeom.mjGEOM_BOX: "box",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
}


def _collision(model: mujoco.MjModel, link: Element, geom: int, shift: Array, hulls: dict[str, str]) -> None:
    read = read_shape(model, geom)
    element = ElementTree.SubElement(link, "collision")
    shape = ElementTree.SubElement(element, "geometry")
    if read.kind == "box":
        ElementTree.SubElement(shape, "box", size=_format(2.0 * read.size))
    elif read.kind == "sphere":
        ElementTree.SubElement(shape, "sphere", radius=f"{read.size[0]:.17g}")
    elif read.points is None:
        ElementTree.SubElement(
            shape, read.kind, radius=f"{read.size[0]:.17g}", length=f"{2.0 * read.size[1]:.17g}"
        )
    else:
        name = f"hull{geom}.obj"
        hulls[name] = _hull(read.points)
        ElementTree.SubElement(shape, "mesh", filename=name)
    _origin(element, read.place - shift, read.quat)


def _hull_points(model: mujoco.MjModel, geom: int, kind: mujoco.mjtGeom) -> Array:
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first = int(model.mesh_vertadr[mesh])
        return np.asarray(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])])
    turn, rise = np.meshgrid(np.linspace(0.0, 2 * np.pi, 16, endpoint=False), np.linspace(-1.0, 1.0, 9))
    flat = np.sqrt(1.0 - rise * rise)
    points = np.stack([flat * np.cos(turn), flat * np.sin(turn), rise], axis=-1).reshape(-1, 3)
    return np.asarray(points * np.asarray(model.geom_size[geom]))


def _hull(points: Array) -> str:
    lines = [f"v {_format(point)}" for point in points]
    # Bullet takes the hull of the vertices; faces are only there because its reader wants some.
    lines += [f"f {k} {k + 1} {k + 2}" for k in range(1, len(points) - 1)]
    return "\n".join(lines) + "\n"


def collides(model: mujoco.MjModel, geom: int) -> bool:
    """Whether a geom can touch anything."""
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])


def _joints(model: mujoco.MjModel, body: int) -> list[int]:
    first = int(model.body_jntadr[body])
    return list(range(first, first + int(model.body_jntnum[body])))


def _origin(element: Element, place: Array, quat: Array) -> None:
    ElementTree.SubElement(
        element, "origin", xyz=_format(place), rpy=_format(_rpy(_matrix(np.asarray(quat))))
    )


def _inertia(element: Element, diagonal: Array) -> None:
    moments = {"ixy": "0", "ixz": "0", "iyz": "0"}
    moments |= {f"i{axis}{axis}": f"{value:.17g}" for axis, value in zip("xyz", diagonal, strict=True)}
    ElementTree.SubElement(element, "inertia", moments)


def _matrix(quat: Array) -> Array:
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, quat)
    return flat.reshape(3, 3)


def _rpy(matrix: Array) -> Array:
    """Roll, pitch and yaw as URDF means them."""
    pitch = np.arctan2(-matrix[2, 0], np.hypot(matrix[0, 0], matrix[1, 0]))
    if np.hypot(matrix[0, 0], matrix[1, 0]) < 1e-9:
        return np.array([np.arctan2(-matrix[1, 2], matrix[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(matrix[2, 1], matrix[2, 2]), pitch, np.arctan2(matrix[1, 0], matrix[0, 0])])


def _format(numbers: Array) -> str:
    return " ".join(f"{float(number):.17g}" for number in numbers)
