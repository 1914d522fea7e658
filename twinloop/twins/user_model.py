"""Make a twin from a user's own MJCF or URDF."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from twinloop.episode import Camera
from twinloop.errors import InvalidTwin, WrongUse
from twinloop.twins.appearance import appearance_parameters
from twinloop.twins.declare import (
    body_parameters,
    is_position_servo,
    is_rotary,
    joint_parameters,
    moving_joints,
    servo_parameters,
    to_identifier,
)
from twinloop.twins.hardware import (
    encoder_parameters,
    gear_parameters,
    latency_parameters,
    lens_parameters,
    load_parameters,
    object_pose_parameters,
    sensor_parameters,
)
from twinloop.twins.meshes import simplify_meshes
from twinloop.twins.model_files import ModelFiles, check_content, check_mjcf, check_timestep, parse_xml
from twinloop.twins.parameter import Parameter
from twinloop.twins.scene import scene_parameters, target_parameters
from twinloop.twins.servos import add_servos, replace_by_servos
from twinloop.twins.twin import Twin, check_twin
from twinloop.twins.urdf import mimic_joints, read_urdf

UNNAMED = ("MuJoCo Model", "")
"""What MuJoCo calls a model whose file gives it no name."""
FILE_WORDS = ("scene", "model", "robot", "main", "mjcf", "urdf", "xml")
"""Names of files that say nothing about the robot in them; their folder's name does."""


def make_twin_from_model(
    path: str | Path,
    *,
    name: str | None = None,
    control_hz: float = 50.0,
    angle: Literal["radian", "degree"] | None = None,
    servos: Collection[str] = (),
    light_meshes: bool = False,
    asset_folders: Sequence[str | Path] = (),
) -> Twin:
    """Make a twin of the cell in an MJCF or URDF file.

    Nominal values are the file's. A model without actuators gets a position servo on every joint. An actuator is called
    after the joint that it drives alone. `check_model` finds what is wrong with a model.

    Args:
        path: The model; meshes, textures and included files are taken along from its folder or ROS package.
        name: Name of the twin; by default the model's own, or else the file's.
        control_hz: Rate of commands and readings in Hz; the nearest rate is used whose period is a whole number of physics
            steps.
        angle: Unit of the angles in an MJCF; by default what its `<compiler angle=...>` says, or else degrees.
        servos: Joints whose actuator, such as a torque motor, becomes a position servo with gains from the inertia and the
            weight that it moves.
        light_meshes: Simplify meshes of more than 500 faces; masses and inertias stay.
        asset_folders: Further folders that the model may take files from.

    Returns:
        The twin, with parameters for every joint, actuator and free body of the model.

    Raises:
        WrongUse: There is no such file, or no such joint.
        InvalidTwin: The file is no model that MuJoCo compiles, refers to files elsewhere, or nothing in it moves.
    """
    file = Path(path)
    spec, assets, followers = read_model(file, angle, asset_folders)
    _name_everything(spec)
    model = _compile(file, spec)
    if model.njnt == 0:
        raise InvalidTwin(f"{file} has no joints", expected="at least one joint")
    if is_urdf(file):
        _exclude_overlaps(spec, model)
    if model.nu == 0:
        add_servos(spec, model, followers)
    if servos:
        replace_by_servos(spec, model, servos)
    if light_meshes:
        assets = simplify_meshes(spec, model, assets)
    model = _compile(file, spec)
    substeps = max(1, round(1.0 / (control_hz * model.opt.timestep)))
    free, placed = _free_bodies(model), _placed_bodies(model)
    robot = _robot_name(file, spec)
    _require_different_names(file, model)
    twin = Twin(
        name or robot,
        spec.to_xml(),
        parameters=_parameters(model, free, placed),
        assets=assets,
        control_hz=round(1.0 / (substeps * model.opt.timestep), 9),
        cameras=tuple(Camera(model.camera(i).name, 128, 128) for i in range(model.ncam)),
        home=_home(model),
        roles=_roles(free, placed),
        robot=robot,
        description=f"made from {file.name}",
    )
    check_twin(twin)
    return twin


def read_model(
    file: Path,
    angle: Literal["radian", "degree"] | None = None,
    asset_folders: Sequence[str | Path] = (),
) -> tuple[mujoco.MjSpec, dict[str, bytes], set[str]]:
    """Read an MJCF or URDF file.

    Args:
        file: The model.
        angle: Unit of the angles in an MJCF; default: as the file says.
        asset_folders: Further folders that the model may take files from.

    Returns:
        The spec with everything included, the files that it refers to by name, and the joints that follow another one.
    """
    if not file.is_file():
        raise WrongUse(f"{file} is not a file", expected="an MJCF (.xml) or URDF (.urdf) model")
    files = ModelFiles(file, asset_folders)
    if is_urdf(file):
        if angle is not None:
            raise WrongUse("angles in a URDF are in radians", got=f"angle={angle!r}", remedy="leave it out")
        spec, assets = read_urdf(files)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        return spec, assets, mimic_joints(file)
    spec, assets = _read_mjcf(files)
    if angle is not None:
        spec.compiler.degree = angle == "degree"
    return spec, assets, set()


def _robot_name(file: Path, spec: mujoco.MjSpec) -> str:
    """The model's own name, or else the file's, or that of its folder where the file's says nothing."""
    if spec.modelname not in UNNAMED and to_identifier(spec.modelname) not in FILE_WORDS:
        return to_identifier(spec.modelname).removesuffix("_scene")
    stem = to_identifier(file.stem)
    return stem if stem not in FILE_WORDS else to_identifier(file.resolve().parent.name)


def _require_different_names(file: Path, model: mujoco.MjModel) -> None:
    """Refuse joints or actuators whose parameters would have the same names."""
    for names in (moving_joints(model), [model.actuator(i).name for i in range(model.nu)]):
        written = [to_identifier(name) for name in names]
        same = [name for name, short in zip(names, written, strict=True) if written.count(short) > 1]
        if same:
            raise InvalidTwin(
                f"names in {file} differ only in capitals or punctuation",
                got=", ".join(same),
                remedy="rename one of them: parameters are named after them in lower case letters, digits and _",
            )


def is_urdf(file: Path) -> bool:
    """Return whether a model is a URDF; raises if it is neither that nor an MJCF."""
    root = parse_xml(ModelFiles(file).read(file), file).tag
    if root not in ("mujoco", "robot"):
        raise InvalidTwin(
            f"{file} is not a robot model", got=f"<{root}>", expected="<mujoco> (MJCF) or <robot> (URDF)"
        )
    return root == "robot"


def _read_mjcf(files: ModelFiles) -> tuple[mujoco.MjSpec, dict[str, bytes]]:
    """The spec with includes merged, and every file it refers to under a name without folders."""
    file = files.model
    check_mjcf(files)
    try:
        spec = mujoco.MjSpec.from_file(str(file))
    except ValueError as error:
        repeated = "repeated name" in str(error)
        raise InvalidTwin(
            f"{file} is not an MJCF that MuJoCo can read",
            got=str(error),
            remedy="give every joint, body and geom a name of its own" if repeated else None,
        ) from error
    assets: dict[str, bytes] = {}
    meshes, textures = file.parent / spec.meshdir, file.parent / spec.texturedir
    for folder, parts in (
        (meshes, spec.meshes),
        (meshes, spec.skins),
        (meshes, spec.hfields),
        (textures, spec.textures),
    ):
        for part in parts:
            if part.file:
                part.file = _add_asset(
                    folder / part.file, assets, files, height_field=isinstance(part, mujoco.MjsHField)
                )
    for texture in spec.textures:
        for index, face in enumerate(texture.cubefiles):
            if face:
                texture.cubefiles[index] = _add_asset(textures / face, assets, files)
    spec.meshdir = spec.texturedir = ""
    spec.assets = assets
    return spec, assets


def _add_asset(
    source: Path, assets: dict[str, bytes], files: ModelFiles, *, height_field: bool = False
) -> str:
    content = files.read(source)
    check_content(content, source.name, height_field=height_field)
    key = source.name
    while key in assets and assets[key] != content:
        key = f"_{key}"
    assets[key] = content
    return key


def _name_everything(spec: mujoco.MjSpec) -> None:
    """Parameters find their targets by name, so every joint, actuator, camera and free body's geom needs one."""
    for what, parts in (("joint", spec.joints), ("camera", spec.cameras)):
        for index, part in enumerate(parts):
            part.name = part.name or f"{what}_{index + 1}"
    _name_actuators(spec)
    for number, body in enumerate(spec.bodies):
        if not body.name and number:
            body.name = f"body_{number}"
    for body in spec.bodies:
        for index, geom in enumerate(body.geoms):
            if not geom.name:
                geom.name = f"{body.name}_geom_{index + 1}"


def _name_actuators(spec: mujoco.MjSpec) -> None:
    """Call an actuator after the joint that it drives alone: recordings name joints, and so do a twin's signals."""
    driven = [a.target for a in spec.actuators if a.trntype == mujoco.mjtTrn.mjTRN_JOINT]
    taken = {actuator.name for actuator in spec.actuators}
    for index, actuator in enumerate(spec.actuators):
        old, joint = actuator.name, actuator.target
        alone = actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT and driven.count(joint) == 1
        if alone and joint not in taken:
            actuator.name = joint
        elif not old:
            actuator.name = f"actuator_{index + 1}"
        taken.add(actuator.name)
        for sensor in spec.sensors:
            if old and sensor.objtype == mujoco.mjtObj.mjOBJ_ACTUATOR and sensor.objname == old:
                sensor.objname = actuator.name


def _compile(file: Path, spec: mujoco.MjSpec) -> mujoco.MjModel:
    try:
        model = spec.compile()
    except ValueError as error:
        raise InvalidTwin(f"the model in {file} does not compile", got=str(error).strip()) from error
    check_timestep(model, file)
    return model


def _exclude_overlaps(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Stop links of a URDF that touch in the home pose from colliding with each other.

    MuJoCo collides convex hulls of meshes, and the hulls of neighbouring links overlap where the links themselves
    only meet.
    """
    data = mujoco.MjData(model)
    for joint, position in _home(model).items():
        data.joint(joint).qpos[0] = position
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(model.geom_bodyid[[c.geom1, c.geom2]].tolist())) for c in data.contact}
    for first, second in sorted(pairs):
        spec.add_exclude(bodyname1=model.body(first).name, bodyname2=model.body(second).name)


def _parameters(model: mujoco.MjModel, free: list[str], placed: list[str]) -> tuple[Parameter, ...]:
    actuators = [model.actuator(i).name for i in range(model.nu)]
    turning = [name for name in actuators if is_rotary(model, model.actuator(name).id)]
    made = [
        *joint_parameters(model, moving_joints(model)),
        *servo_parameters(model, actuators),
        *latency_parameters(),
        *(encoder_parameters(turning) if turning else ()),
        *load_parameters([name for name in turning if is_position_servo(model, name)]),
    ]
    if model.nu:
        made += gear_parameters(("servo",))
    for body in free:
        made += body_parameters(model, body, "object" if len(free) == 1 else None)
    if len(free) == 1:
        made += [*scene_parameters(distractors=0), *object_pose_parameters()]
    elif len(placed) == 1:
        made += target_parameters()
    made += sensor_parameters(model)
    if model.ncam:
        made += [
            *appearance_parameters(max(model.nlight, 1), textured=False, object_colour=False),
            *lens_parameters(moving=bool((np.asarray(model.cam_bodyid) > 0).any())),
        ]
    return tuple(made)


def _free_bodies(model: mujoco.MjModel) -> list[str]:
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    bodies = [int(model.jnt_bodyid[joint]) for joint in free]
    # A body that carries others is a robot on a floating base, not an object.
    return [model.body(body).name for body in bodies if not (model.body_parentid == body).any()]


def _placed_bodies(model: mujoco.MjModel) -> list[str]:
    """Bodies of the world that a scene places: those with mocap."""
    return [model.body(int(body)).name for body in np.flatnonzero(np.asarray(model.body_mocapid) >= 0)]


def _roles(free: list[str], placed: list[str]) -> dict[str, str]:
    """The only free body is the object, the only placed one the target; of several, the user chooses."""
    found = {"object": free, "target": placed}
    return {role: bodies[0] for role, bodies in found.items() if len(bodies) == 1}


def _home(model: mujoco.MjModel) -> dict[str, float]:
    """Joint positions of the first keyframe, or the model's own, moved into the joint ranges."""
    qpos = np.array(model.key_qpos[0] if model.nkey else model.qpos0)
    home = {}
    for name in moving_joints(model):
        joint = model.joint(name).id
        position = float(qpos[model.jnt_qposadr[joint]])
        if model.jnt_limited[joint]:
            position = float(np.clip(position, *model.jnt_range[joint]))
        home[name] = position
    return home
