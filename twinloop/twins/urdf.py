"""Reading a URDF into a MuJoCo spec: meshes found in its package, mimic joints kept, servos added later."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import mujoco
import numpy as np

from twinloop.errors import InvalidTwin
from twinloop.twins.model_files import ModelFiles, check_sizes, parse_xml

READABLE = (".stl", ".obj", ".msh")


def read_urdf(files: ModelFiles) -> tuple[mujoco.MjSpec, dict[str, bytes]]:
    """The spec of a URDF file and the mesh files it needs, by the names the spec uses."""
    path = files.model
    root = _parse(path)
    check_sizes(root, path)
    if root.find(".//collision") is not None:
        # Visual geometry costs time in physics, and is often in formats MuJoCo does not read.
        for link in root.iter("link"):
            for visual in link.findall("visual"):
                link.remove(visual)
    _check_mimics(root)
    assets = _collect_meshes(files, root)
    for old in root.findall("mujoco"):
        root.remove(old)
    extension = ElementTree.SubElement(root, "mujoco")
    settings = {"strippath": "false", "discardvisual": "false", "fusestatic": "false", "angle": "radian"}
    settings["balanceinertia"] = "true"  # `impossible_inertias` names the links that need it
    ElementTree.SubElement(extension, "compiler", settings)
    try:
        spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"), assets=assets)
    except (ValueError, RecursionError) as error:
        raise InvalidTwin(f"{path} is not a URDF that MuJoCo can read", got=str(error)) from error
    spec.assets = assets
    return spec, assets


def mimic_joints(path: Path) -> set[str]:
    """Joints that follow another one and must not have a servo of their own."""
    root = _parse(path)
    return {joint.get("name", "") for joint in root.iter("joint") if joint.find("mimic") is not None}


def impossible_inertias(path: Path) -> list[str]:
    """Links whose inertia no body can have: about one axis, more than the sum of the other two."""
    found = []
    for link in _parse(path).iter("link"):
        inertia = link.find("inertial/inertia")
        if inertia is None:
            continue
        try:
            xx, yy, zz, xy, xz, yz = (
                float(inertia.get(f"i{axes}", 0)) for axes in ("xx", "yy", "zz", "xy", "xz", "yz")
            )
            low, middle, high = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        except (ValueError, np.linalg.LinAlgError):  # no numbers, or not finite ones
            low, middle, high = 0.0, 0.0, np.inf
        if not low + middle >= high * (1.0 - 1e-6):
            found.append(link.get("name", ""))
    return found


def _parse(path: Path) -> ElementTree.Element:
    return parse_xml(ModelFiles(path).read(path), path)


def _collect_meshes(files: ModelFiles, root: ElementTree.Element) -> dict[str, bytes]:
    path = files.model
    assets: dict[str, bytes] = {}
    names: dict[Path, str] = {}
    for mesh in root.iter("mesh"):
        filename = mesh.get("filename", "")
        file = _find_mesh(files, filename)
        if file is None:
            raise InvalidTwin(
                f"{path} refers to a missing mesh",
                got=filename,
                remedy="keep the meshes in the URDF's package, or name their folder: --asset-folder FOLDER",
            )
        if file.suffix.lower() not in READABLE:
            raise InvalidTwin(
                f"{path} uses a mesh format that MuJoCo does not read",
                got=filename,
                expected=" ".join(READABLE),
                remedy="convert it, for example with `trimesh` or Blender, and change the file name in the URDF",
            )
        if file not in names:
            taken = set(names.values())
            names[file] = file.name if file.name not in taken else f"{len(names)}_{file.name}"
            assets[names[file]] = files.read(file)
        mesh.set("filename", names[file])
    return assets


def _find_mesh(files: ModelFiles, filename: str) -> Path | None:
    if filename.startswith("package://"):
        package, _, inside = filename.removeprefix("package://").partition("/")
        return files.find_in_package(package, PurePosixPath(inside))
    file = files.model.parent / filename.removeprefix("file://")
    return file if file.exists() else None


def _check_mimics(root: ElementTree.Element) -> None:
    """MuJoCo couples mimic joints itself, but only warns, into a file, when the joint to follow is missing."""
    joints = {joint.get("name") for joint in root.findall("joint")}
    for joint in root.findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and mimic.get("joint") not in joints:
            raise InvalidTwin(
                f"joint {joint.get('name')!r} mimics a joint that does not exist", got=mimic.get("joint")
            )
