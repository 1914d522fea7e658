"""Alignment of cameras whose truth is known: standing and on the hand, 2 to 10 degrees off, with noise and distractors; joints 10 to 17
degrees off; one pose alone.

The width of intervals was set on cameras of other seeds (`benchmarks/tuned.yaml`), which are no evidence here.
"""

from __future__ import annotations

import shutil
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.filmed import Filmed, look_from, record, turned, twin_with_camera
from benchmarks.report import Section, Settings, Table, Target
from twinloop.alignment.frames import Frame
from twinloop.alignment.result import Alignment
from twinloop.alignment.run import AlignConfig, align
from twinloop.alignment.view import LENS, POSE, CameraView
from twinloop.episode import Array
from twinloop.tasks import make_cell

TITLE = "Alignment of cameras, beside the truth"
HEIGHT, WIDTH = 480, 640
POSES = 20
CAMERAS = 20
OFFSETS = 4
WORKERS = 2
TWINS = ("franka_pick_place", "so101_pick_place")
CENTRES = {"franka_pick_place": (0.3, 0.0, 0.35), "so101_pick_place": (0.15, 0.0, 0.12)}
DISTANCES_M = {"franka_pick_place": (1.2, 1.7), "so101_pick_place": (0.5, 0.75)}
SHIFTS_M = {"front": 0.03, "wrist": 0.008}


@dataclass(frozen=True)
class Scored:
    """One aligned camera beside its truth."""

    name: str
    verdict: str
    reprojection_px: float
    place_mm: float
    turn_deg: float
    covered: tuple[bool, ...]
    z: tuple[float, ...]
    processor_s: float
    start_px: float


def film(
    work: Path, seed: int, *, offset_deg: float = 0.0, poses: int = POSES, reach_rad: float = 0.6
) -> Filmed:
    """The recording of one seed: even seeds stand, odd ones are on the hand; every other pair is the other robot."""
    rng = np.random.default_rng([32, seed])
    camera, name = ("front", "wrist")[seed % 2], TWINS[seed // 2 % 2]
    start: dict[str, float] = {}
    plain = twin_with_camera(name, camera, HEIGHT, WIDTH, {})
    if camera == "front":
        azimuth, height = rng.uniform(-1.2, 1.2), rng.uniform(0.35, 0.75)
        far = rng.uniform(*DISTANCES_M[name])
        centre = np.array(CENTRES[name])
        away = far * np.array(
            [np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)]
        )
        start = look_from(plain, camera, centre + away, centre)
    twin = twin_with_camera(name, camera, HEIGHT, WIDTH, start)
    truth = turned(start, rng.uniform(2.0, 10.0), SHIFTS_M[camera], rng)
    truth |= {
        "field_of_view_rad": float(rng.normal(0.0, 0.03)),
        "principal_x": float(rng.normal(0.0, 0.01)),
        "principal_y": float(rng.normal(0.0, 0.01)),
        "distortion": float(rng.normal(0.0, 0.05)),
    }
    look = {
        "texture_index": float(rng.integers(1, 200)),
        "light_intensity": float(rng.uniform(0.7, 1.3)),
        "light_azimuth_rad": float(rng.uniform(-1.0, 1.0)),
    }
    offsets = {}
    if offset_deg:
        arm = make_cell(twin).arm
        joint = make_cell(twin).actuators[int(rng.choice(arm[1:4]))]
        offsets = {joint: float(np.radians(offset_deg) * rng.choice([-1.0, 1.0]))}
    shutil.rmtree(work, ignore_errors=True)
    dataset = record(
        work,
        twin,
        camera,
        truth,
        count=poses,
        reach_rad=reach_rad,
        offsets_rad=offsets,
        look=look,
        seed=seed,
    )
    return Filmed(twin, camera, dataset, truth, offsets)


def score(filmed: Filmed, name: str, found: Alignment, processor_s: float) -> Scored:
    """Errors of what was found."""
    values = {e.name: e.value for e in found.estimates}
    view = CameraView(make_cell(filmed.twin), filmed.camera, HEIGHT, WIDTH)
    place, turn = _pose_error(view, values, filmed.truth)
    sure = [
        (e.low <= filmed.truth[e.name] <= e.high, (e.value - filmed.truth[e.name]) / e.standard_deviation)
        for e in found.estimates
        if e.name in filmed.truth
    ]
    return Scored(
        name,
        found.verdict,
        _reprojection_px(view, values, filmed.truth),
        place,
        turn,
        tuple(bool(inside) for inside, _ in sure),
        tuple(float(z) for _, z in sure),
        processor_s,
        _reprojection_px(view, view.base, filmed.truth),
    )


def _pose_error(view: CameraView, values, truth) -> tuple[float, float]:
    """Distance in mm and angle in degrees between two poses."""
    (there, quat, _), (here, other, _) = view.pose({**view.base, **values}), view.pose({**view.base, **truth})
    angle = 2.0 * np.arccos(min(1.0, abs(float(quat @ other))))
    return 1e3 * float(np.linalg.norm(there - here)), float(np.degrees(angle))


def _reprojection_px(view: CameraView, values, truth) -> float:
    """Median distance in the image between where both cameras show points in the real one's view, 0.6 to 1.4 times as far as the robot."""
    rng = np.random.default_rng(0)
    there, quat, fovy_rad = view.pose({**view.base, **truth})
    high = np.tan(fovy_rad / 2.0)
    far_m = _distance_m(view, there) if view.camera == "front" else 0.3
    depth = rng.uniform(0.6, 1.4, 400) * far_m
    x, y = rng.uniform(-1.0, 1.0, (2, 400)) * np.array([[high * WIDTH / HEIGHT], [high]])
    points = np.stack([x * depth, y * depth, -depth], axis=1)
    local = Rotation.from_quat(quat, scalar_first=True).apply(points) + there
    model = view.model
    frame = Frame(0, 0, np.empty(0), model.qpos0.copy(), np.zeros(model.nq), view.data.mocap_pos.copy())
    bodies = np.full(400, view.body)
    seen: Array = view.project_points({**view.base, **values}, frame, local, bodies)
    real: Array = view.project_points({**view.base, **truth}, frame, local, bodies)
    inside = ((real >= 0) & (real < np.array([WIDTH, HEIGHT]))).all(axis=1)
    away = np.linalg.norm(np.nan_to_num(seen - real, nan=1e3), axis=1)[inside]
    return float(np.median(away))


def _distance_m(view: CameraView, place: Array) -> float:
    return float(np.linalg.norm(place - np.array(CENTRES[view.cell.twin.name])))


def align_one(work: Path, seed: int) -> tuple[Scored, str]:
    """One camera, and a line about it."""
    filmed = film(work, seed)
    began = time.process_time()
    found = align(filmed.twin, filmed.dataset, filmed.camera, config=AlignConfig(seed=seed))
    spent = time.process_time() - began
    name = f"{filmed.twin.name.split('_')[0]} {filmed.camera} {seed}"
    scored = score(filmed, name, found, spent)
    line = (
        f"{name}: {scored.verdict}, {scored.reprojection_px:.2f} px, {scored.place_mm:.1f} mm, "
        f"{scored.turn_deg:.2f}°, {sum(scored.covered)}/{len(scored.covered)} covered, {spent:.0f} s {found.offsets}"
    )
    return scored, line


def find_offset(work: Path, seed: int) -> tuple[tuple[str, str, str, bool], str]:
    """Which joint was off and which was named, and a line about it."""
    rng = np.random.default_rng([33, seed])
    filmed = film(work, 2 * seed, offset_deg=float(rng.uniform(10.0, 17.0)))
    found = align(filmed.twin, filmed.dataset, filmed.camera, config=AlignConfig(seed=seed))
    ((joint, offset),) = filmed.offsets_rad.items()
    named = {e.joint: e for e in found.estimates if e.joint}
    right = set(named) == {joint} and bool(abs(named[joint].value - offset) < np.radians(2.0))
    row = (
        f"{filmed.twin.name.split('_')[0]} {joint}",
        f"{np.degrees(offset):+.1f}°",
        "; ".join(found.offsets) or "none",
        right,
    )
    return row, " ".join(map(str, row))


def try_one_pose(work: Path, seed: int) -> tuple[Alignment, str]:
    """A recording of one pose alone, which is to be refused, and a line about it."""
    still = film(work, seed, reach_rad=0.0, poses=8)
    refused = align(still.twin, still.dataset, still.camera)
    return refused, f"one pose: {refused.verdict}"


def run(settings: Settings) -> Section:
    count = 4 if settings.quick else CAMERAS
    jobs = [(align_one, seed) for seed in range(count)]
    jobs += [(find_offset, 50 + seed) for seed in range(1 if settings.quick else OFFSETS)]
    jobs.append((try_one_pose, 90))
    results: list[Any] = []
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(job, settings.work / f"filmed-{seed}", seed) for job, seed in jobs]
        for future in futures:
            result, line = future.result()
            settings.say.print(line)
            results.append(result)
    scored, offsets, refused = results[:count], results[count:-1], results[-1]
    covered = [inside for one in scored for inside in one.covered]
    targets = _targets(scored, offsets, covered, refused)
    rows = tuple(
        (
            one.name, one.verdict, f"{one.start_px:.0f}", f"{one.reprojection_px:.2f}", f"{one.place_mm:.1f}",
            f"{one.turn_deg:.2f}", f"{sum(one.covered)} of {len(one.covered)}", f"{one.processor_s:.0f}",
        )
        for one in scored
    )  # fmt: skip
    columns = (
        "camera", "verdict", "reprojection before, px", "after, px", "place, mm", "turn, °", "intervals that cover", "processor, s",
    )  # fmt: skip
    return Section(
        "align",
        TITLE,
        (
            Table(f"{WIDTH} x {HEIGHT}, {POSES} poses recorded, 12 fitted", columns, rows),
            Table(
                "A joint that is off", ("joint", "true offset", "named"), tuple(row[:3] for row in offsets)
            ),
        ),
        targets,
        (
            "Cameras are 2 to 10 degrees and some centimetres (on the hand: millimetres) off, with another field of view, principal "
            "point and distortion than the twin's. Frames have noise, another texture and light, distractors, and an object that "
            "moves from frame to frame.",
            f"Quantities of each camera: {', '.join((*POSE, *LENS))}. The width of intervals was set on cameras of other seeds.",
            "Reprojection is the median over points in the real camera's view, at 0.6 to 1.4 times the robot's distance (on the hand: "
            "of 0.3 m).",
            "A joint that is off is not the robot's first one: its zero cannot be told from the place of a camera on a stand.",
            f"One pose alone: {refused.verdict}, {refused.reason}; {len(refused.poses_to_record)} poses to record were named.",
        ),
        cases=tuple(str(seed) for seed in range(count)),
    )


def _targets(scored, offsets, covered, refused) -> tuple[Target, ...]:
    px = statistics.median(one.reprojection_px for one in scored)
    mm = statistics.median(one.place_mm for one in scored)
    deg = statistics.median(one.turn_deg for one in scored)
    slowest = max(one.processor_s for one in scored)
    share = sum(covered) / len(covered)
    named = sum(row[3] for row in offsets)
    return (
        Target("median reprojection at most 2 px", f"{px:.2f} px", px <= 2.0),
        Target("median place at most 5 mm", f"{mm:.1f} mm", mm <= 5.0),
        Target("median turn at most 0.5°", f"{deg:.2f}°", deg <= 0.5),
        Target("95 % intervals cover 90 to 98 %", f"{share:.1%} of {len(covered)}", 0.90 <= share <= 0.98),
        Target("at most 120 s of processor time each", f"{slowest:.0f} s", slowest <= 120.0),
        Target(
            "a joint 10 to 17° off is found and named", f"{named} of {len(offsets)}", named == len(offsets)
        ),
        Target("one pose alone is refused", refused.verdict, refused.verdict == "not determined"),
    )
