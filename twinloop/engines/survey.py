"""What a twin's camera would see at given joint states, with what measuring needs beside the colours: depth, and which geometry is where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.engines.render import open_context
from twinloop.episode import Array
from twinloop.tasks import Cell
from twinloop.twins import apply_appearance
from twinloop.twins.images import make_drawn_model

MOST_GEOMS = 2000


@dataclass(frozen=True, eq=False)
class Survey:
    """Frames of an ideal camera: `frames` (n, height, width, 3) uint8, `depth` (n, height, width) in m along the optical axis, and
    `geoms` (n, height, width), the number of the geometry that a pixel shows, -1 for the sky; `focal_px` is the focal length."""

    frames: Array
    depth: Array
    geoms: Array
    focal_px: float


def survey(
    cell: Cell,
    camera: str,
    qpos: Array,
    mocap: Array,
    values: Mapping[str, float | str] | None = None,
    *,
    unlit: bool = False,
) -> Survey:
    """Draw joint states (n, nq) with moved bodies at `mocap` (n, nmocap, 3), with `values` of the twin's appearance.

    Lens, shutter and sensor do nothing here. There are no shadows. `unlit` gives every surface its own colour, whatever the light.
    """
    declared = next(c for c in cell.twin.cameras if c.name == camera)
    height, width = declared.height, declared.width
    model, changes = make_drawn_model(cell.twin), dict(values or {})
    cell.twin.patch.apply_to_model(model, cell.twin.values(changes))
    apply_appearance(cell.twin, model, changes, make_drawn_model(cell.twin))
    if unlit:
        model.light_active[:] = False
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 1.0, 0.0
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    data = mujoco.MjData(model)
    context = open_context(width, height)
    try:
        return _draw(model, data, camera, qpos, mocap, (height, width))
    finally:
        context.free()


def _draw(
    model: mujoco.MjModel, data: mujoco.MjData, camera: str, qpos: Array, mocap: Array, size: tuple[int, int]
) -> Survey:
    height, width = size
    renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, renderer)
    renderer.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
    scene, option = mujoco.MjvScene(model, maxgeom=MOST_GEOMS), mujoco.MjvOption()
    view = mujoco.MjvCamera()
    view.type = mujoco.mjtCamera.mjCAMERA_FIXED
    view.fixedcamid = model.camera(camera).id
    rectangle = mujoco.MjrRect(0, 0, width, height)
    frames = np.empty((len(qpos), height, width, 3), np.uint8)
    depth = np.empty((len(qpos), height, width))
    geoms = np.full((len(qpos), height, width), -1)
    colours, codes = np.empty((height, width, 3), np.uint8), np.empty((height, width, 3), np.uint8)
    buffer = np.empty((height, width), np.float32)
    extent = model.stat.extent
    near, far = model.vis.map.znear * extent, model.vis.map.zfar * extent
    for row, state in enumerate(qpos):
        data.qpos[:], data.mocap_pos[:] = state, mocap[row]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        mujoco.mjv_updateScene(model, data, option, None, view, mujoco.mjtCatBit.mjCAT_ALL, scene)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            scene.flags[flag] = False
        for coded in (False, True):
            scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = (
                coded
            )
            mujoco.mjr_render(rectangle, scene, renderer)
            mujoco.mjr_readPixels(codes if coded else colours, buffer, rectangle, renderer)
        frames[row] = colours[::-1]
        # A reversed depth buffer holds near / distance, as far as it is from what is infinitely far.
        depth[row] = (near * far / (near + buffer.astype(np.float64) * (far - near)))[::-1]
        geoms[row] = _decoded(scene, codes)[::-1]
    focal = height / 2.0 / math.tan(math.radians(float(model.cam_fovy[view.fixedcamid])) / 2.0)
    renderer.free()
    return Survey(frames, depth, geoms, focal)


def _decoded(scene: mujoco.MjvScene, codes: Array) -> Array:
    """The number of the geometry at each pixel, from colours that stand for places in the scene's list."""
    number = codes.astype(np.int64) @ np.array([1, 256, 65536])
    table = np.full(scene.ngeom + 2, -1)
    for geom in scene.geoms[: scene.ngeom]:
        if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
            table[geom.segid + 1] = geom.objid
    return np.asarray(table[np.minimum(number, scene.ngeom + 1)])
