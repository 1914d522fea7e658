"""Recordings of cameras whose truth is known: drawn twice as fine as they are kept, through a lens of their own, with noise.

The frames show what the twin does not know: a texture on table and floor, other light, distractors, and an object that lies elsewhere in
every frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.engines.render import Renderer
from twinloop.episode import Array, Camera, Provenance, Schema, make_episode
from twinloop.imperfect.camera import CameraEffects, Sensor, capture, make_tables
from twinloop.imperfect.lens import Lens
from twinloop.tasks import Cell, make_cell
from twinloop.twins import Twin, camera_parameter, camera_parameters, initial_state, load_twin

WIDER = 1.3
"""The lens may look past the drawn image's border; it is drawn this much wider."""
FULL_WELL_ELECTRONS = 2500.0
POSE = ("x_m", "y_m", "z_m", "pitch_rad", "yaw_rad", "roll_rad")


@dataclass(frozen=True)
class Filmed:
    """A twin whose camera is not where the real one is, and the recording of the real one.

    `truth` holds the camera's own quantities, `start` those that the twin has; `offsets_rad` by actuator.
    """

    twin: Twin
    camera: str
    dataset: Dataset
    truth: Mapping[str, float]
    offsets_rad: Mapping[str, float] = field(default_factory=dict)


def twin_with_camera(name: str, camera: str, height: int, width: int, start: Mapping[str, float]) -> Twin:
    """A built-in twin with this one camera, placed by `start`."""
    twin = replace(load_twin(name), cameras=(Camera(camera, height, width),))
    twin = replace(twin, parameters=(*twin.parameters, *camera_parameters(camera)))
    return twin.with_values({camera_parameter(camera, key): value for key, value in start.items()})


def look_from(twin: Twin, camera: str, place: Array, at: Array) -> dict[str, float]:
    """Shifts and turns that put a camera of the world somewhere and aim it."""
    model = twin.patch.model
    view = model.camera(camera)
    back = (place - at) / np.linalg.norm(place - at)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    wanted = Rotation.from_matrix(np.stack([right, np.cross(back, right), back], axis=1))
    drawn = Rotation.from_quat(view.quat, scalar_first=True)
    shift = drawn.inv().apply(place - view.pos)
    turn = (drawn.inv() * wanted).as_euler("XYZ")
    return dict(zip(POSE, [*map(float, shift), *map(float, turn)], strict=True))


def turned(
    start: Mapping[str, float], degrees: float, shift_m: float, rng: np.random.Generator
) -> dict[str, float]:
    """A pose this many degrees away about any axis, and shifted by about this much."""
    axis = rng.normal(size=3)
    turn = Rotation.from_rotvec(np.radians(degrees) * axis / np.linalg.norm(axis))
    angles = [start.get(name, 0.0) for name in POSE[3:]]
    moved = (Rotation.from_euler("XYZ", angles) * turn).as_euler("XYZ")
    away = rng.normal(0.0, shift_m, 3)
    shifts = [start.get(name, 0.0) + d for name, d in zip(POSE[:3], away, strict=True)]
    return dict(zip(POSE, [*map(float, shifts), *map(float, moved)], strict=True))


def draw_poses(cell: Cell, count: int, reach_rad: float, rng: np.random.Generator) -> Array:
    """States (T, nq) with the arm around its home, clear of the table, the object and distractors anywhere."""
    model, data = cell.model, mujoco.MjData(cell.model)
    values = {"clutter_count": np.array([3.0]), "clutter_layout": np.array([float(rng.integers(9999))])}
    start = initial_state(cell.twin, {n: v for n, v in values.items() if cell.twin.has(n)}, 1).qpos[0]
    arm = cell.qpos_addresses[cell.arm, 0]
    made: list[Array] = []
    while len(made) < count:
        qpos = start.copy()
        qpos[arm] = np.clip(
            qpos[arm] + rng.uniform(-reach_rad, reach_rad, len(arm)),
            cell.control_low[cell.arm],
            cell.control_high[cell.arm],
        )
        if cell.object_qpos is not None:
            qpos[cell.object_qpos : cell.object_qpos + 2] += rng.uniform(-0.1, 0.1, 2)
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        if not (data.contact.dist < -0.002).any():
            made.append(qpos)
    return np.array(made)


def draw_motion(cell: Cell, count: int, rate_hz: float) -> Array:
    """States (T, nq) of a smooth motion of all joints of the arm around home."""
    qpos = np.tile(initial_state(cell.twin, {}, 1).qpos, (count, 1))
    time_s = np.arange(count)[:, None] / rate_hz
    arm = cell.qpos_addresses[cell.arm, 0]
    qpos[:, arm] += 0.25 * np.sin(2.0 * time_s + np.arange(len(arm)))
    return qpos


def draw_frames(
    twin: Twin,
    camera: str,
    truth: Mapping[str, float],
    qpos: Array,
    look: Mapping[str, float],
    rng: np.random.Generator,
) -> Array:
    """Frames (T, height, width, 3) of a camera whose own quantities are `truth`."""
    shown = twin.cameras[0]
    fine = replace(twin, cameras=(Camera(camera, 2 * shown.height, 2 * shown.width),))
    cell = make_cell(fine)
    drawn_rad = math.radians(float(cell.model.camera(camera).fovy[0]))
    field_rad = drawn_rad + truth.get("field_of_view_rad", 0.0)
    wide_rad = 2.0 * math.atan(WIDER * math.tan(field_rad / 2.0))
    values = {camera_parameter(camera, name): truth.get(name, 0.0) for name in POSE}
    values[camera_parameter(camera, "field_of_view_rad")] = wide_rad - drawn_rad
    for name in ("principal_x", "principal_y", "distortion"):
        values[camera_parameter(camera, name)] = 0.0
    values |= {name: value for name, value in look.items() if fine.has(name)}
    renderer = Renderer(cell, (camera,))
    try:
        start = initial_state(fine, {}, 1)
        ideal = renderer.paint(fine.values(values), 0, qpos, start.mocap_pos[0])[camera]
    finally:
        renderer.close()
    k1 = truth.get("distortion", 0.0)
    lens = Lens(
        k1=k1, k2=k1 * k1, field_of_view_rad=field_rad, source_scale=WIDER,
        principal_x=truth.get("principal_x", 0.0), principal_y=truth.get("principal_y", 0.0),
    )  # fmt: skip
    effects = CameraEffects(lens=lens, sensor=Sensor(full_well_electrons=FULL_WELL_ELECTRONS))
    tables = make_tables(effects, 1, *ideal.shape[1:3])
    made = np.empty((len(ideal), shown.height, shown.width, 3), np.uint8)
    for row, frame in enumerate(ideal):
        # Noise of a kept pixel: twice that of each of its four parts.
        noise = 2.0 * rng.standard_normal(frame.shape, dtype=np.float32)
        seen = capture(tables, frame[None], None, [noise])[0]
        parts = seen.reshape(shown.height, 2, shown.width, 2, 3).astype(np.float32)
        made[row] = np.round(parts.mean(axis=(1, 3)))
    return made


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
    late_rows: int = 0,
    rate_hz: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """A recording of `count` poses at rest, one row each; with `late_rows`, of one motion whose images are that many rows late."""
    rng = np.random.default_rng(seed)
    cell = make_cell(twin)
    qpos = draw_motion(cell, count, rate_hz) if late_rows else draw_poses(cell, count, reach_rad, rng)
    shown = qpos[np.maximum(np.arange(count) - late_rows, 0)]
    frames = draw_frames(twin, camera, truth, shown, look or {}, rng)
    positions = cell.positions(qpos)
    for name, offset in (offsets_rad or {}).items():
        positions[:, cell.actuators.index(name)] += offset
    signal = cell.observed_actuators()[0]
    schema = Schema((signal,), rate_hz=rate_hz, cameras=twin.cameras, robot_type=twin.robot)
    with make_dataset(folder, schema) as writer:
        writer.add(
            make_episode(
                schema,
                np.arange(count) / rate_hz,
                {signal.name: positions.astype(np.float32)},
                frames={camera: frames},
                provenance=Provenance(source="standin"),
            )
        )
    return open_dataset(folder)
