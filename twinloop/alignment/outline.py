"""The twin's outlines: points of its surface where a camera sees one part end before what lies behind it.

Segmentation and depth are drawn without lens, shadows or textures. Every point is kept with the body that it lies on, so that it can
be projected again through another pose, another lens and other joint angles without drawing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial import cKDTree

from twinloop.engines.render import open_context
from twinloop.episode import Array

NEIGHBOURS = 11
"""Points of the same part through which an outline's direction is fitted."""
STRAIGHT = 0.2
"""Of these points, how far across the direction they may scatter relative to along it; corners scatter more."""
LEAST_CONTRAST = 0.15
"""Two parts whose colours in the twin differ less, of 1, show no edge between them that can be relied on."""
DEPTH_STEP = 0.015
"""A part in front of another is nearer by at least this fraction of its distance."""


@dataclass(frozen=True)
class Outline:
    """Points on one frame's outlines, n of them.

    `place` and `beside` (n, 3) are two neighbouring points of the outline in the frame of its body `body` (n,); `outward` (n, 2) is
    where in the image, right and down, the part ends. `part` (n,) is the geom; `silhouette` (n,) is whether nothing that is
    looked for lies behind.
    """

    place: Array
    beside: Array
    body: Array
    outward: Array
    part: Array
    silhouette: Array

    def __len__(self) -> int:
        return len(self.body)

    def pick(self, rows: Array) -> Outline:
        """Some of the points."""
        return Outline(
            self.place[rows],
            self.beside[rows],
            self.body[rows],
            self.outward[rows],
            self.part[rows],
            self.silhouette[rows],
        )


class Outliner:
    """Draws which part each pixel shows; holds one graphics context, so close it."""

    def __init__(self, model: mujoco.MjModel, camera: int, height: int, width: int) -> None:
        self.height, self.width = height, width
        self._model, self._camera = model, camera
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        model.vis.quality.offsamples = 0
        self._data = mujoco.MjData(model)
        self._context = open_context(width, height)
        self._renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
        self._renderer.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = mujoco.MjvScene(model, maxgeom=2000)
        for flag in (mujoco.mjtRndFlag.mjRND_SEGMENT, mujoco.mjtRndFlag.mjRND_IDCOLOR):
            self._scene.flags[flag] = True
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = False
        self._option = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._view.fixedcamid = camera
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._depth = np.empty((height, width), np.float32)
        self._parts: Array = np.empty(0, np.int64)
        self._colours = _colours(model)

    def close(self) -> None:
        """Give the graphics context back."""
        self._renderer.free()
        self._context.free()

    def draw(
        self, qpos: Array, mocap: Array, pos: Array, quat: Array, fovy_rad: float
    ) -> tuple[Array, Array]:
        """The geom that each pixel shows, (height, width), -1 for none, and how far away it is in m."""
        model, data = self._model, self._data
        self._context.make_current()
        model.cam_pos[self._camera], model.cam_quat[self._camera] = pos, quat
        model.cam_fovy[self._camera] = np.degrees(fovy_rad)
        data.qpos[:], data.mocap_pos[:] = qpos, mocap
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        every = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, self._option, None, self._view, every, self._scene)
        mujoco.mjr_render(self._rectangle, self._scene, self._renderer)
        mujoco.mjr_readPixels(self._pixels, self._depth, self._rectangle, self._renderer)
        return self._read_parts(), self._read_depth()

    def _read_parts(self) -> Array:
        if len(self._parts) != self._scene.ngeom + 1:
            self._parts = np.full(self._scene.ngeom + 1, -1, np.int64)
            for geom in self._scene.geoms[: self._scene.ngeom]:
                if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                    self._parts[geom.segid + 1] = geom.objid
        pixels = self._pixels[::-1].astype(np.int64)
        number = pixels[..., 0] + 256 * pixels[..., 1] + 65536 * pixels[..., 2]
        return np.asarray(self._parts[np.minimum(number, self._scene.ngeom)])

    def _read_depth(self) -> Array:
        extent = self._model.stat.extent
        near, far = self._model.vis.map.znear * extent, self._model.vis.map.zfar * extent
        inverse = 1.0 / far + self._depth[::-1].astype(np.float64) * (1.0 / near - 1.0 / far)
        return np.asarray(1.0 / inverse)

    def outline(
        self,
        qpos: Array,
        mocap: Array,
        pos: Array,
        quat: Array,
        fovy_rad: float,
        bodies: Collection[int],
        *,
        most: int,
        rng: np.random.Generator,
    ) -> Outline:
        """Points of the outlines of `bodies`, at most `most`, drawn at random."""
        parts, depth = self.draw(qpos, mocap, pos, quat, fovy_rad)
        owner = np.where(parts >= 0, np.asarray(self._model.geom_bodyid)[parts], -1)
        wanted = np.isin(owner, np.fromiter(bodies, np.int64))
        found = [_cracks(parts, depth, wanted, axis) for axis in (0, 1)]
        spot, inside, outward = (np.concatenate(values) for values in zip(*found, strict=True))
        other = inside + outward[:, ::-1].astype(np.int64)
        behind = ~wanted[other[:, 0], other[:, 1]]
        contrast = np.abs(self._colours[parts[tuple(inside.T)]] - self._colours[parts[tuple(other.T)]]).max(
            axis=1
        )
        shows = behind | (contrast > LEAST_CONTRAST)
        spot, inside, outward, behind = spot[shows], inside[shows], outward[shows], behind[shows]
        rows = rng.permutation(len(spot))[: 2 * most]
        part = parts[inside[:, 0], inside[:, 1]]
        direction, straight = _directions(spot, part, rows)
        rows, direction = rows[straight][:most], direction[straight][:most]
        near = depth[inside[rows, 0], inside[rows, 1]]
        body = owner[inside[rows, 0], inside[rows, 1]]
        place = self._local(spot[rows], near, fovy_rad, body)
        beside = self._local(spot[rows] + direction, near, fovy_rad, body)
        return Outline(place, beside, body, outward[rows], part[rows], behind[rows])

    def _local(self, spot: Array, depth: Array, fovy_rad: float, body: Array) -> Array:
        """Points (n, 2) of the image, row and column, at a depth, in the frames of bodies."""
        focal = self.height / 2.0 / np.tan(fovy_rad / 2.0)
        x = (spot[:, 1] - (self.width - 1) / 2.0) / focal * depth
        y = -(spot[:, 0] - (self.height - 1) / 2.0) / focal * depth
        matrix = self._data.cam_xmat[self._camera].reshape(3, 3)
        world = np.stack([x, y, -depth], axis=1) @ matrix.T + self._data.cam_xpos[self._camera]
        turn = self._data.xmat[body].reshape(-1, 3, 3)
        return np.asarray(np.einsum("nij,ni->nj", turn, world - self._data.xpos[body]))


def _cracks(parts: Array, depth: Array, wanted: Array, axis: int) -> tuple[Array, Array, Array]:
    """Where two neighbouring pixels show different parts, one before the other: spots, pixels of the nearer part, directions out of it."""
    first = (slice(None, -1), slice(None)) if axis == 0 else (slice(None), slice(None, -1))
    second = (slice(1, None), slice(None)) if axis == 0 else (slice(None), slice(1, None))
    step = np.minimum(depth[first], depth[second]) * DEPTH_STEP
    differ = (parts[first] != parts[second]) & (np.abs(depth[first] - depth[second]) > step)
    nearer_first = depth[first] < depth[second]
    found = []
    for nearer, toward in ((nearer_first, 1), (~nearer_first, -1)):
        owned = wanted[first] if toward == 1 else wanted[second]
        rows = np.argwhere(differ & nearer & owned)
        inside = rows.copy()
        inside[:, axis] += toward == -1
        spot = rows.astype(np.float64)
        spot[:, axis] += 0.5
        outward = np.zeros((len(rows), 2))
        outward[:, 1 - axis] = toward
        found.append((spot, inside, outward))
    spot, inside, outward = (np.concatenate(values) for values in zip(*found, strict=True))
    return spot, inside, outward


def _colours(model: mujoco.MjModel) -> Array:
    """Colour of every geom, (ngeom + 1, 3); the last one is of nothing."""
    material = np.asarray(model.geom_matid)
    colour = np.array(model.geom_rgba[:, :3], np.float64)
    painted = material >= 0
    colour[painted] = np.asarray(model.mat_rgba)[material[painted], :3]
    return np.concatenate([colour, np.full((1, 3), 2.0)])


def _directions(spot: Array, part: Array, rows: Array) -> tuple[Array, Array]:
    """Direction of the outline, row and column, at some spots, and whether it is straight there."""
    if len(spot) < NEIGHBOURS:
        return np.zeros((len(rows), 2)), np.zeros(len(rows), bool)
    tree = cKDTree(np.column_stack([spot, 1e4 * part]))
    away, near = tree.query(np.column_stack([spot[rows], 1e4 * part[rows]]), k=NEIGHBOURS)
    around = spot[near] - spot[near].mean(axis=1, keepdims=True)
    scatter = np.einsum("nki,nkj->nij", around, around)
    values, vectors = np.linalg.eigh(scatter)
    straight = (values[:, 0] < STRAIGHT**2 * values[:, 1]) & (away[:, -1] < 2.0 * NEIGHBOURS)
    return vectors[:, :, 1], straight
