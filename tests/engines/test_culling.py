"""Shapes outside the view are left out of drawing, and no pixel changes."""

import mujoco
import numpy as np
import pytest

from twinloop.engines.render import Renderer, open_context
from twinloop.tasks import make_cell
from twinloop.tasks.place import start_at_rest
from twinloop.twins import load_twin

CELL = make_cell(load_twin("franka_pick_place"))


def drawn_whole(camera, qpos, mocap):
    """Frames of MuJoCo's renderer with every shape and the sky."""
    model = CELL.twin.make_model()
    declared = next(c for c in CELL.twin.cameras if c.name == camera)
    model.vis.global_.offwidth, model.vis.global_.offheight = declared.width, declared.height
    data, scene = mujoco.MjData(model), mujoco.MjvScene(model, maxgeom=1000)
    for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
        scene.flags[flag] = False
    view = mujoco.MjvCamera()
    view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(camera).id
    window = open_context(declared.width, declared.height)
    context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
    rectangle, made = mujoco.MjrRect(0, 0, declared.width, declared.height), []
    for state in qpos:
        data.qpos[:], data.mocap_pos[:] = state, mocap
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        frame = np.empty((declared.height, declared.width, 3), np.uint8)
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, view, mujoco.mjtCatBit.mjCAT_ALL, scene)
        mujoco.mjr_render(rectangle, scene, context)
        mujoco.mjr_readPixels(frame, None, rectangle, context)
        made.append(frame[::-1])
    context.free()
    window.free()
    return np.array(made)


@pytest.mark.parametrize("camera", ["wrist", "front"])
def test_no_pixel_changes(camera):
    rng = np.random.default_rng(0)
    rest = start_at_rest(CELL, {}, 1)
    qpos = np.tile(rest.qpos, (24, 1))
    qpos[:, :7] += rng.uniform(-0.9, 0.9, (24, 7))
    whole = drawn_whole(camera, qpos, rest.mocap_pos[0])
    renderer = Renderer(CELL, (camera,))
    frames = renderer.paint({}, 0, qpos, rest.mocap_pos[0])[camera]
    again = renderer.paint({}, 0, qpos, rest.mocap_pos[0])[camera]
    renderer.close()
    assert np.array_equal(frames, whole) and np.array_equal(again, whole)
