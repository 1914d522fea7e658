"""MuJoCo with nothing around it: the scenes and actions of generated episodes, stepped by `mujoco.batch`, or drawn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np

from twinloop.engines.render import open_context
from twinloop.generation.job import Job
from twinloop.randomization import draw_many
from twinloop.twins import BatchWriter, Twin, initial_state

WARM_UP = 20


@dataclass(frozen=True)
class Stepped:
    """What stepping took, and the states (rows, nq) it went through if they were asked for."""

    steps: int
    seconds: float
    cpu_s: float
    states: np.ndarray | None = None


def step(
    job: Job, seed: int, actions: Sequence[np.ndarray], threads: int = 1, keep_states: bool = False
) -> Stepped:
    """Step the scenes of episodes 0 ... with their recorded actions; setting up is not timed."""
    twin, count = job.twin, len(actions)
    batch = mujoco.batch.Batch(twin.make_model(), count, threads)
    drawn = draw_many(job.randomization, seed, range(count)) if job.randomization else {}
    start = initial_state(twin, drawn, count)
    in_model = {name: values for name, values in drawn.items() if name in twin.patch.names("model")}
    BatchWriter(twin.patch, batch, tuple(in_model)).write(in_model)
    control, qpos = batch.bind("ctrl"), batch.bind("qpos")
    qpos[:] = start.qpos
    batch.bind("mocap_pos")[:] = start.mocap_pos
    control[:] = start.ctrl
    lengths = np.array([len(action) for action in actions])
    longest = int(lengths.max())
    held = [np.concatenate([a, np.repeat(a[-1:], longest - len(a), 0)]) for a in actions]
    commands = np.stack(held, axis=1).astype(float)
    states = []
    began, cpu, steps = time.perf_counter(), time.process_time(), 0
    for row in range(longest - 1):
        running = np.flatnonzero(lengths - 1 > row)
        control[running] = commands[row][running]
        batch.step(running, nstep=twin.substeps)
        steps += len(running)
        if keep_states:
            states.append(qpos[running])
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    return Stepped(steps * twin.substeps, seconds, cpu_s, np.concatenate(states) if keep_states else None)


def draw_images(twin: Twin, camera: str, states: np.ndarray) -> float:
    """Processor seconds that MuJoCo's renderer takes to draw these states; shadows and reflections off, as ours."""
    declared = next(c for c in twin.cameras if c.name == camera)
    model = twin.make_model()
    model.vis.global_.offwidth, model.vis.global_.offheight = declared.width, declared.height
    data, option, scene = mujoco.MjData(model), mujoco.MjvOption(), mujoco.MjvScene(model, maxgeom=1000)
    for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
        scene.flags[flag] = False
    view = mujoco.MjvCamera()
    view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(camera).id
    everything = mujoco.mjtCatBit.mjCAT_ALL
    frame = np.empty((declared.height, declared.width, 3), dtype=np.uint8)
    rectangle = mujoco.MjrRect(0, 0, declared.width, declared.height)
    window = open_context(declared.width, declared.height)
    renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, renderer)
    try:
        for row, state in enumerate([*states[:WARM_UP], *states]):
            if row == WARM_UP:  # the first frames set up the graphics library
                began = time.process_time()
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_camlight(model, data)
            mujoco.mjv_updateScene(model, data, option, None, view, everything, scene)
            mujoco.mjr_render(rectangle, scene, renderer)
            mujoco.mjr_readPixels(frame, None, rectangle, renderer)
        return time.process_time() - began
    finally:
        renderer.free()
        window.free()
