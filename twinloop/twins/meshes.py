"""Meshes of a model: how many faces are drawn, and lighter shapes in place of heavy ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import mujoco
import numpy as np

from twinloop.episode import Array

LIGHT_FACES = 500
"""Most faces of a simplified mesh: an arm of ten links then has no more than a low-poly drawing of it."""
FINEST = 512
"""Most cells along a mesh, of the grids that are tried."""


def count_faces(model: mujoco.MjModel) -> dict[str, int]:
    """Faces that a rendered image draws, by mesh, most first; a mesh that several geoms show counts for each."""
    faces: dict[str, int] = {}
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH):
        mesh = int(model.geom_dataid[geom])
        name = model.mesh(mesh).name
        faces[name] = faces.get(name, 0) + int(model.mesh_facenum[mesh])
    return dict(sorted(faces.items(), key=lambda item: -item[1]))


def simplify_meshes(
    spec: mujoco.MjSpec, model: mujoco.MjModel, assets: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Replace every mesh of more than `LIGHT_FACES` faces by a simplified one; bodies keep their masses and inertias.

    Args:
        spec: The model, changed in place; its bodies have names.
        model: The same, compiled.
        assets: The files that it refers to.

    Returns:
        The files that it refers to now.
    """
    fitted = {
        geom.meshname for geom in spec.geoms if geom.meshname and geom.type != mujoco.mjtGeom.mjGEOM_MESH
    }
    kept = dict(assets)
    heavy = [
        mesh
        for mesh in spec.meshes
        if model.mesh(mesh.name).facenum[0] > LIGHT_FACES and mesh.name not in fitted
    ]
    if heavy:
        _fix_inertias(spec, model)
    for mesh in heavy:
        vertices, faces = simplify(*_read_mesh(model, mesh.name), LIGHT_FACES)
        mesh.file = f"{mesh.name}-light.stl"
        kept[mesh.file] = _write_stl(vertices, faces)
        mesh.uservert, mesh.userface, mesh.usernormal, mesh.usertexcoord = [], [], [], []
        mesh.scale, mesh.refpos, mesh.refquat = [1.0] * 3, [0.0] * 3, [1.0, 0.0, 0.0, 0.0]
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # the only one that open surfaces have
    parts = (*spec.meshes, *spec.textures, *spec.hfields, *spec.skins)
    used = {part.file for part in parts} | {face for texture in spec.textures for face in texture.cubefiles}
    kept = {name: content for name, content in kept.items() if name in used}
    spec.assets = kept
    return kept


def simplify(vertices: Array, faces: Array, limit: int) -> tuple[Array, Array]:
    """Merge the vertices in each cell of a grid, the finest that leaves at most `limit` faces.

    This is vertex clustering (Rossignac and Borrel, 1993): it keeps no detail, but never fails on the open and
    self-intersecting surfaces that CAD exports have.

    Args:
        vertices: (V, 3).
        faces: (F, 3) numbers of vertices.
        limit: Most faces.

    Returns:
        Vertices and faces.
    """
    low, high = 1, FINEST
    best = _cluster(vertices, faces, low)
    while low < high:
        cells = (low + high + 1) // 2
        tried = _cluster(vertices, faces, cells)
        if len(tried[1]) <= limit:
            low, best = cells, tried
        else:
            high = cells - 1
    return best if len(best[1]) >= 4 else _box(vertices)


def _cluster(vertices: Array, faces: Array, cells: int) -> tuple[Array, Array]:
    start, span = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max())
    places = np.floor((vertices - start) / (span / cells) + 1e-9).astype(np.int64)
    _, owner, count = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    owner = owner.reshape(-1)
    centres = np.stack([np.bincount(owner, vertices[:, axis]) for axis in range(3)], axis=1) / count[:, None]
    moved = owner[faces]
    open_ = (moved[:, 0] != moved[:, 1]) & (moved[:, 1] != moved[:, 2]) & (moved[:, 2] != moved[:, 0])
    moved = moved[open_]
    _, first = np.unique(np.sort(moved, axis=1), axis=0, return_index=True)
    return centres, moved[np.sort(first)]


def _box(vertices: Array) -> tuple[Array, Array]:
    """The box around vertices, for what is too thin for any grid."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    high = np.maximum(high, low + 1e-4)
    corners = np.array(
        [
            [(low, high)[i][0], (low, high)[j][1], (low, high)[k][2]]
            for i in (0, 1)
            for j in (0, 1)
            for k in (0, 1)
        ]
    )
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    return corners, np.array([face for a, b, c, d in quads for face in ((a, b, c), (a, c, d))])


def _read_mesh(model: mujoco.MjModel, name: str) -> tuple[Array, Array]:
    """Vertices of a compiled mesh, back in the frame of its file, and faces."""
    index = model.mesh(name).id
    first, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.mesh_quat[index])
    centred = np.asarray(model.mesh_vert[first : first + count], np.float64)
    face, faces = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
    vertices = centred @ rotation.reshape(3, 3).T + model.mesh_pos[index]
    return vertices, np.array(model.mesh_face[face : face + faces])


def _fix_inertias(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Write the compiled mass and inertia of every body into the spec, so that they do not follow the meshes."""
    for body in spec.bodies:
        index = model.body(body.name).id
        if index and not body.explicitinertial and model.body_mass[index] > 0.0:
            body.explicitinertial, body.mass = True, float(model.body_mass[index])
            body.ipos, body.iquat = model.body_ipos[index], model.body_iquat[index]
            body.inertia = model.body_inertia[index]
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    spec.compiler.settotalmass = -1.0


def _write_stl(vertices: Array, faces: Array) -> bytes:
    rows = np.zeros(len(faces), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("extra", "<u2")])
    rows["corners"] = vertices[faces]
    return b"\0" * 80 + struct.pack("<I", len(faces)) + rows.tobytes()
