"""A twin as URDF: one file for everything that stands on the ground, one for each body that moves freely."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinloop.episode import Array
from twinloop.interchange.baked import bake_twin
from twinloop.interchange.export import EXPORTS, ExportRequest
from twinloop.interchange.links import Frame, Joint, Link, Shape, list_links
from twinloop.interchange.plan import LeftOut
from twinloop.interchange.sidecar import write_sidecar

UNKNOWN_SPEED = 1000.0
"""URDF demands a speed limit; a twin's model has none, so this one never binds."""


@EXPORTS.register("urdf")
def write_urdf(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
    """The twin with its values as URDF, and a sidecar with what URDF cannot say."""
    _, model = bake_twin(request.twin)
    links, left_out = list_links(model)
    left_out += [
        LeftOut(shape.name, "geom", f"URDF has no {shape.kind}")
        for link in links
        for shape in link.shapes
        if shape.kind in ("plane", "ellipsoid")
    ]
    loose = _find_loose(links)
    for root in ("", *sorted(set(loose.values()) - {""})):
        members = [link for link in links if loose[link.name] == root]
        name = root or "robot"
        (folder / f"{name}.urdf").write_bytes(_render(name, members, folder))
    return (*left_out, *write_sidecar(request.twin, folder, says_contact=False, says_actuators=False))


def _find_loose(links: Sequence[Link]) -> dict[str, str]:
    """For each link the freely moving link that it belongs to; empty for what stands on the ground."""
    found: dict[str, str] = {}
    for link in links:
        found[link.name] = link.name if link.moving else found.get(link.parent or "", "")
    return found


def _render(name: str, links: Sequence[Link], folder: Path) -> bytes:
    robot = ET.Element("robot", name=name)
    # For MuJoCo's reader, which otherwise fuses fixed links; every other reader passes over it.
    compiler = {"fusestatic": "false", "discardvisual": "false", "strippath": "false"}
    ET.SubElement(ET.SubElement(robot, "mujoco"), "compiler", compiler)
    frames = {link.name: link.frame for link in links}
    for link in links:
        _add_link(robot, link, folder)
    for link in links:
        if link.parent in frames:
            _add_joint(robot, link, frames[link.parent].inverse() @ link.frame)
    ET.indent(robot)
    written: bytes = ET.tostring(robot, encoding="utf-8", xml_declaration=True)
    return written


def _add_link(robot: ET.Element, link: Link, folder: Path) -> None:
    element = ET.SubElement(robot, "link", name=link.name)
    if link.mass_kg > 0.0:
        inertial = ET.SubElement(element, "inertial")
        _add_origin(inertial, Frame(link.inertial.place, np.eye(3)))
        ET.SubElement(inertial, "mass", value=_text(link.mass_kg))
        tensor = link.inertial.turn @ np.diag(link.inertia) @ link.inertial.turn.T
        names = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))
        ET.SubElement(inertial, "inertia", {n: _text(float(tensor[i, j])) for n, i, j in names})
    for shape in link.shapes:
        for frame, geometry in _split(shape, folder):
            for purpose in ("visual", "collision") if shape.collides else ("visual",):
                part = ET.SubElement(element, purpose)
                _add_origin(part, frame)
                part.append(geometry)
                if purpose == "visual":
                    material = ET.SubElement(part, "material", name=f"{link.name}_{shape.name}")
                    ET.SubElement(material, "color", rgba=_texts(shape.rgba))


def _split(shape: Shape, folder: Path) -> list[tuple[Frame, ET.Element]]:
    """A shape as shapes of URDF, which has no capsules: a capsule is a cylinder and two spheres."""

    def at(frame: Frame, tag: str, **values: str) -> tuple[Frame, ET.Element]:
        geometry = ET.Element("geometry")
        ET.SubElement(geometry, tag, values)
        return frame, geometry

    size = shape.size
    if shape.kind == "box":
        return [at(shape.frame, "box", size=_texts(2.0 * size))]
    if shape.kind == "sphere":
        return [at(shape.frame, "sphere", radius=_text(size[0]))]
    if shape.kind in ("cylinder", "capsule"):
        middle = at(shape.frame, "cylinder", radius=_text(size[0]), length=_text(2.0 * size[1]))
        ends = [shape.frame @ Frame(np.array([0.0, 0.0, z]), np.eye(3)) for z in (-size[1], size[1])]
        return [
            middle,
            *(at(end, "sphere", radius=_text(size[0])) for end in ends if shape.kind == "capsule"),
        ]
    if shape.mesh is not None:
        file = folder / "meshes" / f"{shape.name}.stl"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(render_stl(*shape.mesh))
        return [at(shape.frame, "mesh", filename=f"meshes/{file.name}")]
    return []


def render_stl(vertices: Array, triangles: Array) -> bytes:
    """A binary STL file of vertices (V, 3) and triangles (T, 3)."""
    corners = vertices[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    records = np.zeros(len(triangles), dtype=[("numbers", "<f4", 12), ("attribute", "<u2")])
    records["numbers"][:, :3] = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
    records["numbers"][:, 3:] = corners.reshape(-1, 9)
    return b"\0" * 80 + len(triangles).to_bytes(4, "little") + records.tobytes()


def _add_joint(robot: ET.Element, link: Link, frame: Frame) -> None:
    joint = link.joint
    name = joint.name if joint else f"{link.name}_fixed"
    element = ET.SubElement(robot, "joint", name=name, type=_joint_type(joint))
    _add_origin(element, frame)
    ET.SubElement(element, "parent", link=str(link.parent))
    ET.SubElement(element, "child", link=link.name)
    if joint is None:
        return
    ET.SubElement(element, "axis", xyz=_texts(joint.axis))
    ET.SubElement(element, "dynamics", damping=_text(joint.damping), friction=_text(joint.friction))
    limit = {"effort": _text(joint.effort or 0.0), "velocity": _text(UNKNOWN_SPEED)}
    if joint.limits:
        limit |= {"lower": _text(joint.limits[0]), "upper": _text(joint.limits[1])}
    if joint.limits or joint.effort:
        ET.SubElement(element, "limit", limit)


def _joint_type(joint: Joint | None) -> str:
    if joint is None:
        return "fixed"
    if joint.kind == "slide":
        return "prismatic"
    return "revolute" if joint.limits else "continuous"


def _add_origin(element: ET.Element, frame: Frame) -> None:
    roll, pitch, yaw = roll_pitch_yaw(frame.turn)
    ET.SubElement(element, "origin", xyz=_texts(frame.place), rpy=_texts(np.array([roll, pitch, yaw])))


def roll_pitch_yaw(turn: Array) -> tuple[float, float, float]:
    """A rotation matrix (3, 3) as URDF's fixed angles about x, y and z, rad."""
    sine = -float(turn[2, 0])
    pitch = math.asin(min(1.0, max(-1.0, sine)))
    if abs(sine) > 1.0 - 1e-12:
        return 0.0, pitch, math.atan2(-turn[0, 1], turn[1, 1])
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])


def _text(value: float) -> str:
    return f"{float(value):.12g}"


def _texts(values: Array) -> str:
    return " ".join(_text(value) for value in values)
