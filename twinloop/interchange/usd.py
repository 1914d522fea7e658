"""A twin as a USD stage with UsdPhysics schemas, in metres and kilograms, with z up."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import MissingExtra
from twinloop.interchange.baked import bake_twin
from twinloop.interchange.export import EXPORTS, ExportRequest
from twinloop.interchange.links import Frame, Joint, Link, Shape, list_links
from twinloop.interchange.plan import LeftOut
from twinloop.interchange.sidecar import write_sidecar

FILE = "twin.usda"
DEGREE = math.pi / 180.0


def import_usd(needed_for: str) -> Any:
    """Pixar's Python package, imported when it is needed."""
    try:
        import pxr
        from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade  # noqa: F401
    except ImportError as error:
        raise MissingExtra(needed_for, "pxr", "usd") from error
    return pxr


@EXPORTS.register("usd")
def write_usd(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
    """The twin with its values as a USD stage with physics schemas, and a sidecar with what they cannot say."""
    pxr = import_usd("exporting USD")
    _, model = bake_twin(request.twin)
    links, left_out = list_links(model)
    stage = pxr.Usd.Stage.CreateNew(str(folder / FILE))
    pxr.UsdGeom.SetStageUpAxis(stage, pxr.UsdGeom.Tokens.z)
    pxr.UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    pxr.UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    root = pxr.UsdGeom.Xform.Define(stage, f"/{prim_name(request.twin.name)}")
    stage.SetDefaultPrim(root.GetPrim())
    scene = pxr.UsdPhysics.Scene.Define(stage, root.GetPath().AppendChild("physics"))
    gravity = float(np.linalg.norm(model.opt.gravity))
    scene.CreateGravityMagnitudeAttr(gravity)
    scene.CreateGravityDirectionAttr(pxr.Gf.Vec3f(*(model.opt.gravity / (gravity or 1.0)).tolist()))
    _write_links(pxr, stage, root.GetPath(), links)
    stage.GetRootLayer().Save()
    if any(shape.kind == "ellipsoid" for link in links for shape in link.shapes):
        left_out.append(
            LeftOut("ellipsoids", "geoms", "they are spheres with a scale, which PhysX takes for meshes")
        )
    return (*left_out, *write_sidecar(request.twin, folder, says_contact=False, says_actuators=False))


def prim_name(name: str) -> str:
    """A name as USD allows it for a prim."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def _write_links(pxr: Any, stage: Any, root: Any, links: Sequence[Link]) -> None:
    moves = _find_moving(links)
    paths: dict[str, Any] = {}
    for link in links:
        path = root.AppendChild(prim_name(link.name))
        paths[link.name] = path
        prim = pxr.UsdGeom.Xform.Define(stage, path)
        _place(pxr, prim, link.frame)
        if moves[link.name]:
            _write_mass(pxr, prim.GetPrim(), link)
        names: set[str] = set()
        for shape in link.shapes:
            name = prim_name(shape.name)
            while name in names:
                name += "_"
            names.add(name)
            _write_shape(pxr, stage, path.AppendChild(name), shape)
    frames = {link.name: link.frame for link in links}
    for link in links:
        if moves[link.name] and not link.moving and link.parent is not None:
            parent = paths[link.parent] if moves[link.parent] else None
            grounded = Frame(np.zeros(3), np.eye(3)) if parent is None else frames[link.parent]
            _write_joint(pxr, stage, root, link, (parent, paths[link.name]), grounded.inverse() @ link.frame)
            if parent is None:
                pxr.UsdPhysics.ArticulationRootAPI.Apply(stage.GetPrimAtPath(paths[link.name]))


def _find_moving(links: Sequence[Link]) -> dict[str, bool]:
    """Which links are rigid bodies: those with a joint, on one, or that carry one; the rest stands still."""
    by_name = {link.name: link for link in links}
    found = {
        link.name: link.moving or link.joint is not None or found_above
        for link in links
        for found_above in [_is_above(by_name, link)]
    }
    for link in reversed(links):
        if found[link.name] and not link.moving and link.parent not in (None, "world"):
            found[str(link.parent)] = True
    return found | {"world": False}


def _is_above(by_name: dict[str, Link], link: Link) -> bool:
    """Whether any link that this one hangs on moves."""
    while link.parent is not None:
        link = by_name[link.parent]
        if link.moving or link.joint is not None:
            return True
    return False


def _place(pxr: Any, prim: Any, frame: Frame) -> None:
    w, x, y, z = frame.quat.tolist()
    prim.AddTranslateOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(pxr.Gf.Vec3d(*frame.place.tolist()))
    prim.AddOrientOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(pxr.Gf.Quatd(w, x, y, z))


def _write_mass(pxr: Any, prim: Any, link: Link) -> None:
    pxr.UsdPhysics.RigidBodyAPI.Apply(prim)
    mass = pxr.UsdPhysics.MassAPI.Apply(prim)
    mass.CreateMassAttr(link.mass_kg)
    mass.CreateDiagonalInertiaAttr(pxr.Gf.Vec3f(*link.inertia.tolist()))
    mass.CreateCenterOfMassAttr(pxr.Gf.Vec3f(*link.inertial.place.tolist()))
    mass.CreatePrincipalAxesAttr(pxr.Gf.Quatf(*link.inertial.quat.tolist()))


def _write_shape(pxr: Any, stage: Any, path: Any, shape: Shape) -> None:
    geometry, size = pxr.UsdGeom, shape.size.tolist()
    scale = None
    if shape.kind == "box":
        made = geometry.Cube.Define(stage, path)
        made.CreateSizeAttr(2.0)
        scale = size
    elif shape.kind in ("sphere", "ellipsoid"):
        made = geometry.Sphere.Define(stage, path)
        made.CreateRadiusAttr(size[0] if shape.kind == "sphere" else 1.0)
        scale = None if shape.kind == "sphere" else size
    elif shape.kind in ("cylinder", "capsule"):
        made = (geometry.Cylinder if shape.kind == "cylinder" else geometry.Capsule).Define(stage, path)
        made.CreateRadiusAttr(size[0])
        made.CreateHeightAttr(2.0 * size[1])
        made.CreateAxisAttr("Z")
    elif shape.kind == "plane":
        made = geometry.Plane.Define(stage, path)
        made.CreateAxisAttr("Z")
        made.CreateWidthAttr(2.0 * (size[0] or 50.0))
        made.CreateLengthAttr(2.0 * (size[1] or 50.0))
    else:
        assert shape.mesh is not None
        made = _write_mesh(pxr, stage, path, *shape.mesh)
    _place(pxr, made, shape.frame)
    if scale is not None:
        made.AddScaleOp().Set(pxr.Gf.Vec3f(*scale))
    made.CreateDisplayColorAttr([pxr.Gf.Vec3f(*shape.rgba[:3].tolist())])
    if shape.collides:
        pxr.UsdPhysics.CollisionAPI.Apply(made.GetPrim())
        _bind_friction(pxr, stage, made.GetPrim(), shape.friction)
    else:
        made.CreatePurposeAttr(geometry.Tokens.render)


def _write_mesh(pxr: Any, stage: Any, path: Any, vertices: Array, triangles: Array) -> Any:
    made = pxr.UsdGeom.Mesh.Define(stage, path)
    made.CreatePointsAttr([pxr.Gf.Vec3f(*point) for point in vertices.tolist()])
    made.CreateFaceVertexCountsAttr([3] * len(triangles))
    made.CreateFaceVertexIndicesAttr(triangles.reshape(-1).tolist())
    made.CreateSubdivisionSchemeAttr("none")
    pxr.UsdPhysics.MeshCollisionAPI.Apply(made.GetPrim()).CreateApproximationAttr("convexHull")
    return made


def _bind_friction(pxr: Any, stage: Any, prim: Any, friction: float) -> None:
    """A physics material for each friction, shared by all shapes that have it."""
    name = "friction_" + f"{friction:.6g}".replace(".", "_").replace("-", "m").replace("+", "p")
    path = stage.GetDefaultPrim().GetPath().AppendChild("materials").AppendChild(name)
    material = pxr.UsdShade.Material.Define(stage, path)
    physics = pxr.UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    physics.CreateStaticFrictionAttr(friction)
    physics.CreateDynamicFrictionAttr(friction)
    pxr.UsdShade.MaterialBindingAPI.Apply(prim).Bind(
        material, pxr.UsdShade.Tokens.weakerThanDescendants, "physics"
    )


def _write_joint(pxr: Any, stage: Any, root: Any, link: Link, bodies: tuple[Any, Any], frame: Frame) -> None:
    """The joint of a link, with frames whose x axis is the joint's axis; `frame` is the link's in its parent's."""
    joint, physics = link.joint, pxr.UsdPhysics
    path = root.AppendChild("joints").AppendChild(prim_name(joint.name if joint else f"{link.name}_fixed"))
    kind = {None: physics.FixedJoint, "hinge": physics.RevoluteJoint, "slide": physics.PrismaticJoint}
    made = kind[joint.kind if joint else None].Define(stage, path)
    parent, child = bodies
    if parent is not None:
        made.CreateBody0Rel().SetTargets([parent])
    made.CreateBody1Rel().SetTargets([child])
    own = Frame(np.zeros(3), _turn_x_to(joint.axis) if joint else np.eye(3))
    for end, place in (("0", frame @ own), ("1", own)):
        getattr(made, f"CreateLocalPos{end}Attr")(pxr.Gf.Vec3f(*place.place.tolist()))
        getattr(made, f"CreateLocalRot{end}Attr")(pxr.Gf.Quatf(*place.quat.tolist()))
    if joint is not None:
        made.CreateAxisAttr("X")
        unit = DEGREE if joint.kind == "hinge" else 1.0
        if joint.limits:
            made.CreateLowerLimitAttr(joint.limits[0] / unit)
            made.CreateUpperLimitAttr(joint.limits[1] / unit)
        _write_drive(pxr, made.GetPrim(), joint, unit)


def _write_drive(pxr: Any, prim: Any, joint: Joint, unit: float) -> None:
    """The servo as a drive, which USD gives per degree, and what PhysX adds to the schemas: armature and friction."""
    if joint.stiffness > 0.0 or joint.effort is not None:
        drive = pxr.UsdPhysics.DriveAPI.Apply(prim, "angular" if joint.kind == "hinge" else "linear")
        drive.CreateTypeAttr("force")
        drive.CreateStiffnessAttr(joint.stiffness * unit)
        drive.CreateDampingAttr(joint.servo_damping * unit)
        if joint.effort is not None:
            drive.CreateMaxForceAttr(joint.effort)
    prim.AddAppliedSchema("PhysxJointAPI")
    kind = pxr.Sdf.ValueTypeNames.Float
    prim.CreateAttribute("physxJoint:armature", kind).Set(joint.armature)
    for name, value in (("dryFriction", joint.friction), ("viscousFriction", joint.damping)):
        prim.CreateAttribute(f"twinloop:{name}", kind).Set(value)


def _turn_x_to(axis: Array) -> Array:
    """A rotation (3, 3) that turns the x axis to this one."""
    x = axis / np.linalg.norm(axis)
    helper = np.eye(3)[int(np.argmin(np.abs(x)))]
    y = np.cross(helper, x)
    y /= np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)
