"""A twin's shapes, materials, lights and cameras as values, for viewers that draw by themselves.

Images come from `render`. A viewer that turns the scene needs the geometry instead: `read_geometry` reads it off the compiled
model, as one draw of the parameters makes it look, and `body_poses` says where the bodies are in a state.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.twins import Twin, apply_appearance, initial_state
from twinloop.twins.meshes import LIGHT_FACES, simplify

SHOWN_GROUPS = 3
"""Geoms of the groups below this number are drawn, as by default in MuJoCo's own viewer; the others are for collisions only."""
MOST_SHAPES = 2_000
MOST_FACES = 60_000
"""Limits of a scene: a browser turns it smoothly, and a model that somebody sent cannot make it larger."""
TEXTURE_PX = 64

_KINDS = {
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_ELLIPSOID: "ellipsoid",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
    mujoco.mjtGeom.mjGEOM_BOX: "box",
    mujoco.mjtGeom.mjGEOM_MESH: "mesh",
    mujoco.mjtGeom.mjGEOM_SDF: "mesh",
}
_UNSET_RGBA = (0.5, 0.5, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Shape:
    """One drawn geom: its kind, MuJoCo's sizes (m), its pose in its body (quaternion w first), and its surface.

    `size` holds half lengths of boxes and planes (0: without end), radius and half length of cylinders and capsules,
    half axes of ellipsoids. `mesh` and `texture` number those of the geometry. The texture repeats `repeat` times, per metre if `per_metre`.
    """

    kind: str
    body: int
    size: tuple[float, float, float]
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    rgba: tuple[float, float, float, float]
    specular: float = 0.0
    shininess: float = 0.0
    mesh: int | None = None
    texture: int | None = None
    repeat: tuple[float, float] = (1.0, 1.0)
    per_metre: bool = False


@dataclass(frozen=True, eq=False)
class BodyPose:
    """A body's name, and its pose in the world: position (m) and quaternion (w first)."""

    name: str
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh in the frame of its geom: vertices (V, 3) in m and faces (F, 3)."""

    vertices: tuple[tuple[float, float, float], ...]
    faces: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Texture:
    """A small image: `rgb` holds its rows from the top, three bytes a pixel, in base64."""

    width: int
    height: int
    rgb: str


@dataclass(frozen=True, eq=False)
class Light:
    """A light: where it is, where it shines, its colour, and whether it is like the sun."""

    position: tuple[float, float, float]
    direction: tuple[float, float, float]
    diffuse: tuple[float, float, float]
    directional: bool


@dataclass(frozen=True, eq=False)
class CameraPose:
    """A camera that policies see through: pose in the world, looking along its -z, with its vertical field of view."""

    name: str
    body: int
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    fovy_deg: float
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a viewer draws of a twin; `ambient` is light from everywhere, `headlight` from the viewer.

    Positions are those in which an episode starts. `centre` and `extent_m` say where to look and how far away.
    """

    twin: str
    version: str
    content_hash: str
    bodies: tuple[BodyPose, ...]
    shapes: tuple[Shape, ...]
    meshes: tuple[Mesh, ...]
    textures: tuple[Texture, ...]
    lights: tuple[Light, ...]
    cameras: tuple[CameraPose, ...]
    ambient: tuple[float, float, float]
    headlight: tuple[float, float, float]
    centre: tuple[float, float, float]
    extent_m: float


def read_geometry(twin: Twin, values: Mapping[str, float | str] | None = None) -> Geometry:
    """Read what a viewer draws of a twin.

    Args:
        twin: The twin.
        values: Values of its parameters, such as one draw of a randomization; the others are nominal.

    Returns:
        Shapes with their bodies, meshes of at most `LIGHT_FACES` faces, materials, lights and cameras, at the start of an episode.

    Raises:
        UnknownName: The twin has no such parameter.
        InvalidTwin: A value is outside its bounds.
        WrongUse: The model has more than `MOST_SHAPES` shapes or `MOST_FACES` faces to draw.
    """
    changed = twin.values(values)
    model = twin.make_model(changed)
    apply_appearance(twin, model, changed)
    start = initial_state(twin, changed, 1)
    data = _place(model, start.qpos[0], start.mocap_pos[0])
    drawn = [g for g in range(model.ngeom) if _is_drawn(model, g)]
    if len(drawn) > MOST_SHAPES:
        raise WrongUse(
            f"twin {twin.name!r} has too many shapes to draw", got=len(drawn), expected=MOST_SHAPES
        )
    numbers = sorted({int(model.geom_dataid[g]) for g in drawn if _kind(model, g) == "mesh"})
    textures = sorted({t for g in drawn if (t := _texture_of(model, g)) is not None})
    meshes = tuple(_mesh(model, number) for number in numbers)
    if (faces := sum(len(mesh.faces) for mesh in meshes)) > MOST_FACES:
        raise WrongUse(f"twin {twin.name!r} has too many faces to draw", got=faces, expected=MOST_FACES)
    return Geometry(
        twin=twin.name,
        version=twin.version,
        content_hash=twin.content_hash,
        bodies=tuple(
            BodyPose(model.body(b).name, _three(data.xpos[b]), _four(data.xquat[b])) for b in range(model.nbody)
        ),
        shapes=tuple(_shape(model, g, numbers, textures) for g in drawn),
        meshes=meshes,
        textures=tuple(_texture(model, number) for number in textures),
        lights=tuple(_light(model, data, n) for n in range(model.nlight) if model.light_active[n]),
        cameras=tuple(
            _camera(model, data, camera.name, camera.width, camera.height) for camera in twin.cameras
        ),
        ambient=_three(model.vis.headlight.ambient),
        headlight=_three(model.vis.headlight.diffuse),
        centre=_three(model.stat.center),
        extent_m=float(model.stat.extent),
    )  # fmt: skip


def body_poses(
    twin: Twin, qpos: Array, mocap_pos: Array | None = None, values: Mapping[str, float | str] | None = None
) -> tuple[Array, Array]:
    """Compute where the bodies of a twin are, by its kinematics.

    Args:
        twin: The twin.
        qpos: States (T, nq).
        mocap_pos: Positions of bodies that are placed by hand (T, nmocap, 3); default: as at the start of an episode.
        values: Values of its parameters; the others are nominal.

    Returns:
        Positions (T, bodies, 3) in m and quaternions (T, bodies, 4), w first.
    """
    changed = twin.values(values)
    model = twin.make_model(changed)
    if mocap_pos is None:
        mocap_pos = np.tile(initial_state(twin, changed, 1).mocap_pos, (len(qpos), 1, 1))
    data = mujoco.MjData(model)
    places, turns = np.empty((len(qpos), model.nbody, 3)), np.empty((len(qpos), model.nbody, 4))
    for row, (state, mocap) in enumerate(zip(qpos, mocap_pos, strict=True)):
        data.qpos[:], data.mocap_pos[:] = state, mocap
        mujoco.mj_kinematics(model, data)
        places[row], turns[row] = data.xpos, data.xquat
    return places, turns


def _place(model: mujoco.MjModel, qpos: Array, mocap_pos: Array) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[:], data.mocap_pos[:] = qpos, mocap_pos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    return data


def _is_drawn(model: mujoco.MjModel, geom: int) -> bool:
    shown = int(model.geom_group[geom]) < SHOWN_GROUPS and _rgba(model, geom)[3] > 0.0
    return shown and mujoco.mjtGeom(int(model.geom_type[geom])) in _KINDS


def _kind(model: mujoco.MjModel, geom: int) -> str:
    return _KINDS[mujoco.mjtGeom(int(model.geom_type[geom]))]


def _rgba(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    """A geom's own colour counts where it was set, as in MuJoCo's viewer, else that of its material."""
    own = _four(model.geom_rgba[geom])
    material = int(model.geom_matid[geom])
    return own if material < 0 or own != _UNSET_RGBA else _four(model.mat_rgba[material])


def _texture_of(model: mujoco.MjModel, geom: int) -> int | None:
    material = int(model.geom_matid[geom])
    if material < 0:
        return None
    texture = int(model.mat_texid[material, int(mujoco.mjtTextureRole.mjTEXROLE_RGB)])
    flat = texture >= 0 and model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_2D
    return texture if flat else None


def _shape(model: mujoco.MjModel, geom: int, meshes: list[int], textures: list[int]) -> Shape:
    material, texture, kind = int(model.geom_matid[geom]), _texture_of(model, geom), _kind(model, geom)
    surface = material >= 0
    return Shape(
        kind=kind,
        body=int(model.geom_bodyid[geom]),
        size=_three(model.geom_size[geom]),
        position=_three(model.geom_pos[geom]),
        quaternion=_four(model.geom_quat[geom]),
        rgba=_rgba(model, geom),
        specular=float(model.mat_specular[material]) if surface else 0.0,
        shininess=float(model.mat_shininess[material]) if surface else 0.0,
        mesh=meshes.index(int(model.geom_dataid[geom])) if kind == "mesh" else None,
        texture=None if texture is None else textures.index(texture),
        repeat=(float(model.mat_texrepeat[material, 0]), float(model.mat_texrepeat[material, 1]))
        if surface
        else (1.0, 1.0),
        per_metre=bool(surface and model.mat_texuniform[material]),
    )


def _mesh(model: mujoco.MjModel, number: int) -> Mesh:
    first, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
    vertices = np.asarray(model.mesh_vert[first : first + count], np.float64)
    first, count = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
    faces = np.asarray(model.mesh_face[first : first + count])
    if count > LIGHT_FACES:
        vertices, faces = simplify(vertices, faces, LIGHT_FACES)
    return Mesh(
        tuple(map(tuple, np.round(vertices, 5).tolist())), tuple(map(tuple, np.asarray(faces).tolist()))
    )


def _texture(model: mujoco.MjModel, number: int) -> Texture:
    """A texture made smaller by leaving out rows and columns, without what lies beyond three channels."""
    height, width = int(model.tex_height[number]), int(model.tex_width[number])
    channels, first = int(model.tex_nchannel[number]), int(model.tex_adr[number])
    pixels = np.asarray(model.tex_data[first : first + height * width * channels]).reshape(
        height, width, channels
    )
    pixels = np.repeat(pixels, 3, axis=2) if channels < 3 else pixels[..., :3]
    rows, columns = (np.linspace(0, size - 1, min(size, TEXTURE_PX)).astype(int) for size in (height, width))
    small = np.ascontiguousarray(pixels[rows][:, columns], np.uint8)
    return Texture(len(columns), len(rows), base64.b64encode(small.tobytes()).decode())


def _light(model: mujoco.MjModel, data: mujoco.MjData, number: int) -> Light:
    return Light(
        _three(data.light_xpos[number]),
        _three(data.light_xdir[number]),
        _three(model.light_diffuse[number]),
        bool(model.light_type[number] == mujoco.mjtLightType.mjLIGHT_DIRECTIONAL),
    )


def _camera(model: mujoco.MjModel, data: mujoco.MjData, name: str, width: int, height: int) -> CameraPose:
    number = model.camera(name).id
    turn = np.empty(4)
    mujoco.mju_mat2Quat(turn, data.cam_xmat[number])
    return CameraPose(
        name,
        int(model.cam_bodyid[number]),
        _three(data.cam_xpos[number]),
        _four(turn),
        float(model.cam_fovy[number]),
        width,
        height,
    )


def _three(values: Array) -> tuple[float, float, float]:
    x, y, z = (round(float(v), 6) for v in values)
    return x, y, z


def _four(values: Array) -> tuple[float, float, float, float]:
    w, x, y, z = (round(float(v), 6) for v in values)
    return w, x, y, z
