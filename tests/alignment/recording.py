"""Recordings of a twin's camera that stands elsewhere than the twin says: known truth for tests."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.engines.render import Renderer
from twinloop.episode import Array, Camera, Provenance, Schema, make_episode
from twinloop.imperfect.camera import CameraEffects, Sensor, capture, make_tables
from twinloop.imperfect.lens import Lens
from twinloop.tasks import Cell, make_cell
from twinloop.twins import Twin, camera_parameter, camera_parameters, initial_state, load_twin

WIDER = 1.25
"""The lens may look past the drawn image's border; it is drawn this much wider."""


def small_twin(camera: str, height: int = 150, width: int = 200, name: str = "franka_pick_place") -> Twin:
    return replace(load_twin(name), cameras=(Camera(camera, height, width),))


def draw_frames(
    twin: Twin, camera: str, truth: Mapping[str, float], qpos: Array, look: Mapping[str, float], seed: int
) -> Array:
    """Frames (T, height, width, 3) of a camera whose own quantities are `truth`, drawn twice as fine and through the lens."""
    shown = twin.cameras[0]
    prepared = replace(
        twin,
        parameters=(*twin.parameters, *camera_parameters(camera)),
        cameras=(Camera(camera, 2 * shown.height, 2 * shown.width),),
    )
    cell = make_cell(prepared)
    drawn_rad = math.radians(float(cell.model.camera(camera).fovy[0]))
    field_rad = drawn_rad + truth.get("field_of_view_rad", 0.0)
    wide_rad = 2.0 * math.atan(WIDER * math.tan(field_rad / 2.0))
    pose = {
        camera_parameter(camera, name): value
        for name, value in truth.items()
        if name.endswith(("_m", "_rad"))
    }
    values = {**pose, camera_parameter(camera, "field_of_view_rad"): wide_rad - drawn_rad, **look}
    renderer = Renderer(cell, (camera,))
    try:
        start = initial_state(prepared, {n: np.array([v]) for n, v in values.items()}, 1)
        ideal = renderer.paint(prepared.values(values), seed, qpos, start.mocap_pos[0])[camera]
    finally:
        renderer.close()
    k1 = truth.get("distortion", 0.0)
    lens = Lens(
        k1=k1, k2=k1 * k1, field_of_view_rad=field_rad, source_scale=WIDER,
        principal_x=truth.get("principal_x", 0.0), principal_y=truth.get("principal_y", 0.0),
    )  # fmt: skip
    effects = CameraEffects(lens=lens, sensor=Sensor(full_well_electrons=0.02**-2))
    rng = np.random.default_rng(seed)
    noise = 2.0 * rng.standard_normal((len(ideal), *ideal.shape[1:]), dtype=np.float32)
    seen = capture(make_tables(effects, 1, *ideal.shape[1:3]), ideal, None, noise)
    halves = seen.reshape(len(seen), shown.height, 2, shown.width, 2, 3).astype(np.float32)
    return np.round(halves.mean(axis=(2, 4))).astype(np.uint8)


def draw_poses(
    cell: Cell, count: int, reach_rad: float, rng: np.random.Generator, clutter: float = 0.0
) -> Array:
    """States (T, nq) with the arm around its home; distractors stay where they are."""
    start = initial_state(cell.twin, {"clutter_count": np.array([clutter])}, 1).qpos if clutter else None
    qpos = np.tile(initial_state(cell.twin, {}, 1).qpos if start is None else start, (count, 1))
    arm = cell.qpos_addresses[cell.arm, 0]
    qpos[:, arm] += rng.uniform(-reach_rad, reach_rad, (count, len(arm)))
    return qpos


def record(
    folder: Path,
    twin: Twin,
    camera: str,
    truth: Mapping[str, float],
    *,
    count: int = 12,
    reach_rad: float = 0.5,
    offsets_rad: Mapping[str, float] | None = None,
    look: Mapping[str, float] | None = None,
    clutter: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """A recording of `count` poses at rest, one row each."""
    cell = make_cell(twin)
    qpos = draw_poses(cell, count, reach_rad, np.random.default_rng(seed), clutter)
    frames = draw_frames(twin, camera, truth, qpos, look or {}, seed)
    positions = cell.positions(qpos)
    for name, offset in (offsets_rad or {}).items():
        positions[:, cell.actuators.index(name)] += offset
    signal = cell.observed_actuators()[0]
    schema = Schema((signal,), rate_hz=1.0, cameras=twin.cameras, robot_type=twin.robot)
    with make_dataset(folder, schema) as writer:
        writer.add(
            make_episode(
                schema,
                np.arange(count, dtype=np.float64),
                {signal.name: positions.astype(np.float32)},
                frames={camera: frames},
                provenance=Provenance(source="standin"),
            )
        )
    return open_dataset(folder)
