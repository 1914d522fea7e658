"""`measure_look`: real frames against the twin's of the same joint states, cause by cause, each with the ones before it taken into account.

Where the camera stands and how its lens draws comes from edges; light and colour from surfaces whose colour the twin knows; blur and
noise from edges and flat places; the table's pattern from what remains there, place by place; what covers the lens from what remains
at the same pixels of every frame; clutter from places of the table that are another colour in one run only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import ndimage

from twinloop.engines.survey import Survey, survey
from twinloop.episode import Array, Episode
from twinloop.imperfect.lens import Lens, undistort
from twinloop.looks.clutter import measure_clutter
from twinloop.looks.compression import before_compression
from twinloop.looks.cover import find_cover
from twinloop.looks.evidence import LookEvidence, read_look_evidence
from twinloop.looks.frames import CameraFrames, camera_moves
from twinloop.looks.measured import LookQuantity, MeasuredLook, look_quantity
from twinloop.looks.optics import measure_optics
from twinloop.looks.surface import distance_swept, map_surfaces
from twinloop.looks.textures import measure_textures
from twinloop.measure.images import LUMINANCE
from twinloop.measure.photometry import (
    measure_blur,
    measure_noise,
    measure_response,
    read_surfaces,
)
from twinloop.measure.registration import (
    QUANTITIES,
    Registration,
    find_edges,
    move_points,
    register,
)
from twinloop.stats.bootstrap import resampled_means
from twinloop.tasks import Cell, make_cell
from twinloop.twins import Twin

ROWS = 64
POSE_PASSES = 4
SETTLED = 0.02
"""A pass that changes the camera by less of its prior's spread is the last."""
FEWEST_AGREEING = 0.12
"""Mean agreement of edges below which the camera's pose is not determined."""
GAIN = 0.02
"""A camera is moved only for this much more agreement."""
MODEL_ERROR = np.array([0.004, 0.004, 0.004, 0.001, 0.001, 0.001, 0.02])
"""What edges of a simplified drawing are off by, beside their scatter: on stand-ins whose camera was not moved."""
FAR_ENOUGH_M = 0.1
"""How far a camera moves over a table before its pattern is told from light in the lens."""
RELEVANT = {"rad": 0.012, "m": 0.004, "distortion": 0.05}
RESPONSES = (
    ("exposure_stops", "exposure", "stops", 0.25),
    ("white_balance_red_stops", "red over green", "stops", 0.15),
    ("white_balance_blue_stops", "blue over green", "stops", 0.15),
    ("colour_saturation", "saturation", "1", 0.1),
)


def measure_look(
    episodes: Iterable[Episode], twin: Twin, cameras: Sequence[str], *, rows: int = ROWS, seed: int = 0
) -> MeasuredLook:
    """Measure what real frames show that the twin's frames of the same joint states do not.

    Args:
        episodes: Recorded episodes of the robot, with frames and the joints' positions.
        twin: The robot's twin.
        cameras: The cameras to look at.
        rows: Number of draws of each parameter.
        seed: Random seed for resampling.

    Returns:
        For each of six causes the measured numbers, and the parameters and photographs that give the twin this look.
    """
    recorded, cell, rng = list(episodes), make_cell(twin), np.random.default_rng(seed)
    quantities: list[LookQuantity] = []
    values: dict[str, dict[str, Array]] = {}
    assets: dict[str, dict[str, bytes]] = {}
    missing: list[str] = []
    for camera in cameras:
        evidence = read_look_evidence(cell, recorded, camera)
        if isinstance(evidence, str):
            missing.append(evidence)
            continue
        found = _measure_camera(cell, evidence, rows, rng)
        quantities += found.quantities
        missing += found.missing
        for cause, part in found.values.items():
            # Parameters are shared by all cameras: the first that differs sets them.
            values[cause] = {**part, **values.get(cause, {})}
        for cause, photographs in found.assets.items():
            assets[cause] = {**photographs, **assets.get(cause, {})}
    return MeasuredLook(tuple(quantities), values, assets, tuple(missing))


def _measure_camera(cell: Cell, evidence: LookEvidence, rows: int, rng: np.random.Generator) -> MeasuredLook:
    twin = cell.twin
    quantities: list[LookQuantity] = []
    values: dict[str, dict[str, Array]] = {}
    missing: list[str] = []
    placed = _register(cell, evidence, rng)
    pose: dict[str, float] = {}
    distortion = 0.0
    if placed is None:
        missing.append(f"where {evidence.camera} stands: too few edges of the twin are found in its frames")
    else:
        found, draws = _pose_quantities(twin, evidence.camera, placed, rows, rng)
        quantities += found
        if any(q.differs for q in found if q.cause == "camera pose"):
            names = [f"camera_{name}" for name in QUANTITIES[:6]]
            values["camera pose"] = _kept(twin, dict(zip(names, draws[:, :6].T, strict=True)))
            pose = {name: float(np.median(column)) for name, column in values["camera pose"].items()}
        if any(q.differs for q in found if q.cause == "lens"):
            values["lens"] = _kept(twin, {"lens_distortion": draws[:, 6]})
            distortion = float(np.median(draws[:, 6]))
    frames = _frames(cell, evidence, pose, distortion)
    moves = camera_moves(twin, evidence.camera)
    frames = frames.without(find_cover(frames, frames.textured(twin), moves))
    surfaces = map_surfaces(twin, evidence, pose, frames.lens, frames.cover[..., 3] == 0)
    wide = moves and max((distance_swept(one) for one in surfaces), default=0.0) > FAR_ENOUGH_M
    optics = measure_optics(twin, frames, wide, rows, rng)
    frames = optics.frames
    quantities += optics.quantities
    if optics.values:
        values.setdefault("lens", {}).update(_kept(twin, dict(optics.values)))
    more, parts = _measure_light(twin, frames, rows, rng)
    quantities += more
    for cause, part in parts.items():
        values.setdefault(cause, {}).update(_kept(twin, part))
    textures = measure_textures(twin, frames, surfaces, parts, rows, rng)
    quantities += textures.quantities
    for cause, part in textures.values.items():
        values.setdefault(cause, {}).update(_kept(twin, part))
    clutter = measure_clutter(twin, frames, surfaces, textures, rows, rng)
    quantities += clutter.quantities
    if clutter.values:
        values["occlusion and clutter"] = _kept(twin, dict(clutter.values))
    assets = {
        "texture and background": textures.assets,
        "lens": optics.assets,
        "occlusion and clutter": clutter.assets,
    }
    kept = {cause: part for cause, part in assets.items() if part}
    return MeasuredLook(tuple(quantities), {c: v for c, v in values.items() if v}, kept, tuple(missing))


def _register(cell: Cell, evidence: LookEvidence, rng: np.random.Generator) -> Registration | None:
    """The camera's pose; the twin is drawn again where it was found, because other edges come into view."""
    start: Array | None = None
    found: Registration | None = None
    for _ in range(POSE_PASSES):
        pose = {} if start is None else _pose_values(cell.twin, start)
        seen = survey(cell, evidence.camera, evidence.qpos, evidence.mocap, pose)
        points = find_edges(seen.frames, seen.depth, seen.focal_px, _known(cell, evidence, seen), rng)
        points = points if start is None else move_points(points, start)
        latest = register(evidence.frames, points, seen.focal_px, evidence.runs.tolist(), start)
        if latest is None:
            return found
        moved = np.abs(latest.values - (0.0 if start is None else start)) / MODEL_ERROR
        found, start = latest, latest.values
        if moved.max() < SETTLED / 0.02:
            break
    if found is None or found.score < FEWEST_AGREEING:
        return None
    return found


def _known(cell: Cell, evidence: LookEvidence, seen: Survey) -> Array:
    """Pixels (n, height, width) whose edges are where the recordings say: not those of an object that nothing perceived."""
    if evidence.placed:
        return np.ones(seen.geoms.shape, dtype=bool)
    model = cell.model
    bodies = [model.body(cell.twin.role(role)).id for role in ("object", "target") if role in cell.twin.roles]
    unknown = np.isin(seen.geoms, np.flatnonzero(np.isin(model.geom_bodyid, bodies)))
    return ~np.asarray(ndimage.maximum_filter(unknown, (1, 5, 5)))


def _pose_values(twin: Twin, values: Array) -> dict[str, float]:
    kept = _kept(twin, {f"camera_{name}": values[k : k + 1] for k, name in enumerate(QUANTITIES[:6])})
    return {name: float(column[0]) for name, column in kept.items()}


def _pose_quantities(
    twin: Twin, camera: str, placed: Registration, rows: int, rng: np.random.Generator
) -> tuple[list[LookQuantity], Array]:
    draws = placed.draws(rows, rng) + rng.normal(size=(rows, len(QUANTITIES))) * MODEL_ERROR
    # A camera that edges fit hardly better elsewhere stands where the twin's does.
    if placed.score - placed.before < GAIN:
        draws -= draws.mean(axis=0)
    made = []
    for place, name in enumerate(QUANTITIES):
        unit = "1" if name == "distortion" else name.rpartition("_")[2]
        floor = RELEVANT["distortion" if unit == "1" else unit]
        cause = "lens" if unit == "1" else "camera pose"
        made.append(
            look_quantity(cause, name.rpartition("_")[0] or name, camera, unit, 0.0, draws[:, place], floor)
        )
    return made, draws


def _frames(cell: Cell, evidence: LookEvidence, pose: dict[str, float], distortion: float) -> CameraFrames:
    """The twin's frames as its camera would take them from where it stands, through its lens."""
    seen = survey(cell, evidence.camera, evidence.qpos, evidence.mocap, pose)
    height, width = seen.geoms.shape[1:]
    y, x = np.mgrid[:height, :width].astype(np.float64)
    middle = (width - 1) / 2.0, (height - 1) / 2.0
    if distortion:
        lens = Lens(k1=distortion, k2=distortion**2)
        there = undistort(lens, (x - middle[0]) / seen.focal_px, (y - middle[1]) / seen.focal_px)
        x, y = (side * seen.focal_px + m for side, m in zip(there, middle, strict=True))
    rows = np.clip(np.rint(y), 0, height - 1).astype(np.int64)
    columns = np.clip(np.rint(x), 0, width - 1).astype(np.int64)
    return CameraFrames(
        evidence,
        evidence.frames,
        seen.frames[:, rows, columns],
        seen.geoms[:, rows, columns],
        (rows, columns),
        seen.focal_px,
        _known(cell, evidence, seen)[:, rows, columns],
        np.zeros((height, width, 4), np.uint8),
    )


def _measure_light(
    twin: Twin, frames: CameraFrames, rows: int, rng: np.random.Generator
) -> tuple[list[LookQuantity], dict[str, dict[str, Array]]]:
    """Light and colour, blur and noise, and vignetting, with the parameters that put them in."""
    camera, real, runs = frames.evidence.camera, frames.evidence.frames, frames.evidence.runs.tolist()
    parts: dict[str, dict[str, Array]] = {"light and colour": {}, "blur and noise": {}}
    made = []
    blur = resampled_means(measure_blur(real, frames.sim, _edges(frames), runs), rows, rng)
    labels, unsure = frames.labels(twin, float(np.median(blur)))
    surfaces = read_surfaces(frames.real, frames.sim, labels, runs, unsure)
    response = measure_response(surfaces, rows, rng)
    for place, (parameter, name, unit, floor) in enumerate(RESPONSES):
        nominal = 1.0 if parameter == "colour_saturation" else 0.0
        made.append(look_quantity("light and colour", name, camera, unit, nominal, response[:, place], floor))
    if any(q.differs for q in made if q.cause == "light and colour"):
        parts["light and colour"] = {name: response[:, k] for k, (name, *_) in enumerate(RESPONSES)}
    found = measure_noise(real, runs)
    if frames.evidence.compressed:
        shot, read = (float(part) for part in found.mean(axis=0))
        found = found * before_compression(real, shot, read, rng)
    noise = resampled_means(found, rows, rng)
    for name, draws, unit, floor in (
        ("shot_noise", noise[:, 0], "of full scale", 0.01),
        ("read_noise", noise[:, 1], "of full scale", 0.004),
        ("lens_blur_px", blur, "px", 0.7),
    ):
        words = {"lens_blur_px": "blur"}.get(name, name.replace("_", " "))
        made.append(look_quantity("blur and noise", words, camera, unit, 0.0, draws, floor))
        if made[-1].differs:
            parts["blur and noise"][name] = draws
    return made, parts


def _edges(frames: CameraFrames) -> Array:
    """Pixels (n, height, width) where the twin shows one thing end and another begin."""
    made = []
    for frame, geoms, known in zip(frames.sim, frames.geoms, frames.known, strict=True):
        steep = ndimage.gaussian_gradient_magnitude(frame.astype(np.float64) @ LUMINANCE, 0.7) > 8.0
        border = ndimage.minimum_filter(geoms, 5) != ndimage.maximum_filter(geoms, 5)
        made.append(steep & border & known)
    return np.array(made)


def _kept(twin: Twin, draws: dict[str, Array]) -> dict[str, Array]:
    """Draws of the parameters that the twin has, within their bounds."""
    return {
        name: np.clip(column, *twin.parameter(name).bounds)
        for name, column in draws.items()
        if twin.has(name)
    }
