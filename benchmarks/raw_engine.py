"""MuJoCo with nothing around it: the scenes and actions of generated episodes, stepped by `mujoco.batch`, or drawn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np

from twinloop.generate.job import Job
from twinloop.randomize import draw_many
from twinloop.twin import BatchWriter, Twin, initial_state


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


def draw_pictures(twin: Twin, camera: str, states: np.ndarray) -> float:
    """Processor seconds that `mujoco.Renderer` takes to draw these states; shadows and reflections off, as ours."""
    declared = next(c for c in twin.cameras if c.name == camera)
    model = twin.make_model()
    data = mujoco.MjData(model)
    with mujoco.Renderer(model, declared.height, declared.width) as renderer:
        frame = np.empty((declared.height, declared.width, 3), dtype=np.uint8)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            renderer.scene.flags[flag] = False
        spent = 0.0
        for row, state in enumerate([*states[:20], *states]):
            began = time.process_time()
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_camlight(model, data)
            renderer.update_scene(data, camera)
            renderer.render(out=frame)
            if row >= 20:  # the first frames set up the graphics library
                spent += time.process_time() - began
    return spent
