"""Generation with one camera beside the raw renderer: frames per second of processor time, on the same scene.

Ours steps the physics, draws with textures, lights and camera poses that vary, passes every frame through lens, shutter and
sensor, encodes video and writes a dataset. The raw renderer is MuJoCo's own (mjv_updateScene, mjr_render, mjr_readPixels)
drawing the states of the same episodes at the same size, without shadows and reflections like ours, and throwing the
frames away.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import raw_engine
from benchmarks.report import Section, Settings, Table, Target, spread
from twinloop.datasets.writer import make_dataset
from twinloop.engines.render import open_context
from twinloop.errors import TwinloopError
from twinloop.generation.chunks import CAMERA_CHUNK_EPISODES
from twinloop.generation.rollout import episode_schema, rollout
from twinloop.generation.run import make_job
from twinloop.imperfect import camera, noise
from twinloop.imperfect.camera import CameraEffects, Sensor
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.shutter import Shutter
from twinloop.randomization import load_randomization
from twinloop.twins import load_twin

TWIN = "franka_pick_place"
SEED = 1
LEAST = 0.70
SIDE = 128

PHYSICS = {
    "object_mass_kg": [0.05, 0.4],
    "friction_coefficient": [0.2, 1.1],
    "object_position_noise_cm": [-2, 2],
}
LOOK = {"texture_pool": 200, "lighting_intensity": [0.3, 1.8], "camera_jitter_deg": [-5, 5]}
LENS_AND_SENSOR = {
    "lens_distortion": [-0.12, 0.12],
    "lens_vignetting": [0.0, 1.0],
    "lens_flare": [0.0, 0.3],
    "exposure_stops": [-1.0, 1.0],
    "motion_blur_s": [0.002, 0.02],
    "rolling_shutter_s": [0.002, 0.02],
    "shot_noise": [0.01, 0.06],
    "read_noise": [0.001, 0.01],
}


@dataclass(frozen=True)
class Case:
    title: str
    camera: str
    visual: Mapping[str, Any]


CASES = (
    Case("front, varied look", "front", LOOK),
    Case("front, varied look, lens and sensor", "front", {**LOOK, **LENS_AND_SENSOR}),
    Case("wrist, varied look", "wrist", LOOK),
    Case("wrist, varied look, lens, shutter and sensor", "wrist", {**LOOK, **LENS_AND_SENSOR}),
)


@dataclass(frozen=True)
class Measured:
    """Frames per second of processor time."""

    ours: float
    raw: float

    @property
    def share(self) -> float:
        return self.ours / self.raw


def run(settings: Settings) -> Section:
    try:
        open_context(16, 16).free()
    except TwinloopError as error:
        return Section("camera", TITLE, (), (Target("one camera", str(error), None),))
    steps, repeats = (30, 1) if settings.quick else (150, 3)
    loads = [os.getloadavg()[0]]
    measured: dict[str, list[Measured]] = {case.title: [] for case in CASES}
    for repeat in range(repeats):
        for case in CASES:
            settings.say.print(f"{case.title}: {repeat + 1} of {repeats} ...")
            measured[case.title].append(measure(settings, case, steps))
            loads.append(os.getloadavg()[0])
    rows, targets = [], []
    for case in CASES:
        values = measured[case.title]
        share = statistics.median(m.share for m in values)
        rows.append(
            (
                case.title,
                spread([m.ours for m in values]),
                spread([m.raw for m in values]),
                spread([m.share for m in values], 2),
            )
        )
        promise = f"{case.title}: at least {LEAST:.2f} of the raw renderer's frames/s"
        targets.append(Target(promise, f"{share:.2f}", share >= LEAST))
    columns = ("camera", "ours, frames/s", "raw renderer, frames/s", "share")
    frames = 200 if settings.quick else 600
    return Section(
        "camera",
        TITLE,
        (
            Table(f"{SIDE} x {SIDE}, per second of processor time", columns, tuple(rows)),
            effects_table(frames, repeats),
        ),
        tuple(targets),
        (
            f"Scene: {TWIN}, {CAMERA_CHUNK_EPISODES} episodes of {steps} frames, from the first physics step to the finished "
            "dataset with its video.",
            "The front camera stands still, so shutter effects do nothing to its images. The wrist camera always moves; it "
            "sees fewer shapes, so that drawing is cheaper and everything else weighs more.",
        ),
        loads=tuple(loads),
    )


TITLE = "Generation with one camera, beside the raw renderer"


def measure(settings: Settings, case: Case, steps: int) -> Measured:
    twin = load_twin(TWIN)
    varied = {"physics": PHYSICS, "visual": case.visual}
    randomization = load_randomization({"name": "look", "twin": TWIN, "randomization": varied})
    job = make_job(twin, randomization, cameras=(case.camera,), max_steps=steps)
    out = settings.work / "generated"
    shutil.rmtree(out, ignore_errors=True)
    began, actions = time.process_time(), []
    with make_dataset(out, episode_schema(job)) as writer:
        for episode in rollout(job, SEED, range(CAMERA_CHUNK_EPISODES)):
            writer.add(episode)
            actions.append(episode["action"])
    ours_s = time.process_time() - began
    states = raw_engine.step(job, SEED, actions, keep_states=True).states
    assert states is not None
    shown = states[:: max(1, len(states) // 800)]
    raw_s = raw_engine.draw_images(twin, case.camera, shown)
    return Measured(sum(map(len, actions)) / ours_s, len(shown) / raw_s)


def effects_table(frames: int, repeats: int) -> Table:
    """What each part of the camera costs by itself, and all of them together."""
    lens = Lens(k1=-0.1, vignetting=0.5)
    shutter = Shutter(exposure_s=0.01, line_time_s=0.01 / SIDE)
    sensor = Sensor(exposure=1.2, full_well_electrons=600.0, read_noise_electrons=3.0)
    cases = {
        "decode and encode only": CameraEffects(sensor=Sensor(exposure=1.2)),
        "lens distortion and vignetting": CameraEffects(lens=lens),
        "motion blur": CameraEffects(shutter=Shutter(exposure_s=0.01)),
        "rolling shutter": CameraEffects(shutter=Shutter(line_time_s=0.01 / SIDE)),
        "flare": CameraEffects(flare=Flare(strength=0.2)),
        "shot and read noise": CameraEffects(sensor=sensor),
        "everything": CameraEffects(lens, shutter, Flare(strength=0.2), sensor),
    }
    rng = np.random.default_rng(SEED)
    images = rng.integers(0, 256, (frames, SIDE, SIDE, 3), dtype=np.uint8)
    velocity = rng.normal(0.0, 200.0, (frames, 2))
    seeds = np.full(frames, SEED)
    rows = []
    for name, effects in cases.items():
        spent = []
        for _ in range(repeats):
            began = time.process_time()
            normal = noise.frame_noise(seeds, "camera", np.arange(frames), (SIDE, SIDE, 3))
            tables = camera.make_tables(effects, 1, SIDE, SIDE)
            camera.capture(tables, images, velocity, normal)
            spent.append(1e6 * (time.process_time() - began) / frames)
        rows.append((name, spread(spent)))
    title = f"Camera effects, {SIDE} x {SIDE}, one at a time, with images moving at 200 px/s"
    return Table(title, ("effect", "µs a frame"), tuple(rows))
