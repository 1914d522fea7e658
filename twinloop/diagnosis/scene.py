"""Sensing, object, environment and human: measured from the perceived object, the gripper and the verdicts.

The table is where the target lies; what the object's perceived height has beyond that and half its size is an error of
perception. A gripper pushes what it holds to its middle, so along the direction in which it closes the perceived object and
the tool must agree. An object moves by itself only when something pushes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from twinloop.diagnosis.evidence import Run, RunEvidence
from twinloop.diagnosis.measured import Measured, Quantity, quantity, set_draws
from twinloop.diagnosis.pushes import measure_pushes
from twinloop.episode import Array
from twinloop.measure.noise import noise_of
from twinloop.measure.tracker import FROZEN, measure_dropouts, measure_frozen, measure_hidden_distance
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.scenes import SCENES
from twinloop.stats.bootstrap import resampled_means
from twinloop.tasks import Cell
from twinloop.tasks.place import target_radius_m

NEEDS_POSE = "needs the perceived object (observation.environment_state)"
GRASP_M = np.array([0.015, 0.003, 0.012])
"""How far off its middle a gripper holds an object: along its fingers' width, along its closing, along its approach."""
BIAS_M, SCALE_ERROR = 0.02, 0.01
SLOW_M_S = 0.06
"""A pose that is seen late is right only while the tool is slower than this."""
ROW_M = 0.004
"""How far single readings of a held object are off, slipping included."""
FAR = 3.0
"""An object this many radii off the target is not on it, however late or shaky the tracker is."""
SHORT = 8
UNSEEN = ("not_at_rest", "not_released")
"""Failures that a perceived place cannot contradict."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where things are: per policy run (R, ...) the start of the object, its turn and the target; and shared by all runs.

    `bias` (rows, 3) and `scale` (rows,) are draws of the error of perception, `size_m` (rows,) of the object's size,
    `height_m` (R,) the table under the object, `tilt` (2,) its slope about x and y.
    """

    place: Array
    yaw: Array
    target: Array | None
    height_m: Array
    tilt: Array
    bias: Array
    scale: Array
    size_m: Array | None
    beyond: Array


def read_layout(
    real: RunEvidence, sim: RunEvidence, rows: int, rng: np.random.Generator, weak: bool = False
) -> Layout | None:
    """None where no object is perceived; a `weak` gripper says nothing about the object's size."""
    seen = [(run, run.place, run.columns) for run in real.runs]
    cell = real.cell
    places, turns, targets = [], [], []
    for run, place_rows, column_rows in seen:
        if place_rows is None or column_rows is None:
            return None
        places.append(run.start(place_rows))
        turns.append(run.start(column_rows))
        if run.target is not None:
            targets.append(run.start(run.target))
    if not places:
        return None
    place, columns = np.array(places), np.array(turns)
    yaw = np.arctan2(columns[:, 1], columns[:, 0])
    target = np.array(targets) if len(targets) == len(places) else None
    normal = np.median(np.cross(columns[:, :3], columns[:, 3:]), axis=0)
    tilt = np.array([-normal[1], normal[0]])
    tilt = np.where(np.abs(tilt) > 0.01, tilt, 0.0)
    size = None if weak else _held_size(real, sim, rows, rng)
    nominal = _nominal_rest(cell)
    size_ratio = 1.0 if size is None else float(np.median(size)) / _twin_size(real)
    level = _nominal_target_z(cell)
    top = 0.0 if target is None else float(np.median(target[:, 2])) - level
    slope = np.array([tilt[1], -tilt[0]])
    away = place[:, :2] - (target[:, :2] if target is not None else place[:, :2])
    height = top - away @ slope
    rise = place[:, 2] - nominal[2] * size_ratio - height
    bias, scale = _perception(real, sim, rows, rng)
    bias[:, 2] = resampled_means(rise, rows, rng)
    start = (place[:, :2] - bias[:, :2].mean(axis=0)) / (1.0 + scale.mean()) - nominal[:2]
    beyond = np.any(np.abs(start) > 1.1 * SCENES["object_offset_x_m"][1], axis=1)
    return Layout(place, yaw, target, height, tilt, bias, scale, size, beyond)


def first_scenes(real: RunEvidence, of_run: Array, unseen: Randomization, seed: int) -> dict[str, Array]:
    """Training scenes nearest to those of the runs, before anything is known about errors of perception.

    Where nothing perceives the object, scenes are drawn from `unseen`, so that the policy is tried in as varied ones as on the robot.
    """
    if any(run.place is None for run in real.runs):
        return dict(draw_many(unseen.over(len(of_run)), seed, range(len(of_run))))
    nominal = _nominal_rest(real.cell)
    start = (
        np.array([run.start(run.place) for run in real.runs if run.place is not None])[:, :2] - nominal[:2]
    )
    names = ("object_offset_x_m", "object_offset_y_m")
    return {
        name: np.clip(start[:, axis], SCENES[name][0], SCENES[name][1])[of_run]
        for axis, name in enumerate(names)
        if real.twin.has(name)
    }


def measure_sensing(
    real: RunEvidence, sim: RunEvidence, layout: Layout | None, rows: int, rng: np.random.Generator
) -> Measured:
    """Noise of joints and poses, lost and hidden poses, and constant errors of the perceived place."""
    twin, cell = real.twin, real.cell
    quantities: list[Quantity] = []
    values: dict[str, Array] = {}
    turning = cell.arm[cell.turning[cell.arm]]

    def noise(
        name: str, parameter: str, unit: str, mine: list[float], theirs: list[float], least: float
    ) -> None:
        if not mine:
            return
        usual = float(np.median(theirs)) if theirs else 0.0
        draws = np.sqrt(np.maximum(resampled_means(np.array(mine), rows, rng) ** 2 - usual**2, 0.0))
        found = quantity(name, unit, 0.0, draws, least)
        quantities.append(found)
        if found.differs:
            set_draws(values, twin, parameter, draws)

    def both(read: Any) -> tuple[list[float], list[float]]:
        return [read(run) for run in real.all], [read(run) for run in sim.runs]

    def of(rows_: Array) -> float:
        return float(np.mean(noise_of(rows_, quiet=True))) if len(rows_) > 8 else 0.0

    def alike(rows_: Array) -> float:
        return _alike(noise_of(rows_, quiet=True)) if len(rows_) > SHORT else 0.0

    noise("encoder noise", "encoder_noise_rad", "rad", *both(lambda r: alike(r.position[:, turning])), 5e-4)
    noise("speed noise", "velocity_noise_rad_s", "rad/s", _shaken(real, sim, turning), [], 0.01)
    if layout is None:
        return Measured("sensing", tuple(quantities), values, (f"errors of the object's pose: {NEEDS_POSE}",))
    still = "noise of the perceived object"
    noise(still, "object_pose_noise_m", "m", *both(lambda r: of(r.place[r.apart])), 5e-4)
    turn = "noise of its perceived turn"
    noise(turn, "object_pose_noise_rad", "rad", *both(lambda r: of(r.columns[r.apart][:, :2])), 0.005)
    noisy = "object_pose_noise_m" in values
    repeats = [_dropouts(run, noisy) for run in real.all]
    known = np.array([share for share in repeats if share is not None])
    if len(known):
        tracks = [run.track for run in real.all if run.track is not None]
        distances = [measure_hidden_distance(track) for track in tracks]
        hidden = np.array([distance for distance in distances if distance is not None])
        frozen = float(np.mean([measure_frozen(track) for track in tracks if track.carrying.any()] or [0.0]))
        if frozen > FROZEN and len(hidden):
            draws = rng.choice(hidden, rows)
            quantities.append(quantity("pose hidden when the hand is within", "m", 0.0, draws, 0.01))
            set_draws(values, twin, "object_pose_hidden_m", draws)
        else:
            draws = resampled_means(known, rows, rng)
            found = quantity("poses that repeat the last", "1", 0.0, draws, 0.03)
            quantities.append(found)
            if found.differs:
                set_draws(values, twin, "object_pose_drop_probability", draws)
    for axis, least in enumerate((0.004, 0.004, 0.003)):
        draws = layout.bias[:, axis]
        found = quantity(f"error of the perceived {'xyz'[axis]}", "m", 0.0, draws, least)
        quantities.append(found)
        if found.differs:
            set_draws(values, twin, f"object_pose_bias_{'xyz'[axis]}_m", draws)
    found = quantity("error of the perceived scale", "1", 0.0, layout.scale, 0.012)
    quantities.append(found)
    if found.differs:
        set_draws(values, twin, "object_pose_scale_error", layout.scale)
    missing = (
        ()
        if any(run.carrying.any() for run in real.all)
        else ("offsets of the perceived place: needs grasps",)
    )
    return Measured("sensing", tuple(quantities), values, missing)


def _alike(each: Array) -> float:
    """One noise of all joints (J,): a sensor is noisy at every joint, so where they differ much the least noisy one counts."""
    return float(np.mean(each) if np.min(each) > 0.5 * np.mean(each) else np.min(each))


def _shaken(real: RunEvidence, sim: RunEvidence, joints: Array) -> list[float]:
    """Noise of joints' speeds in each run, beyond what trembling commands make of it in the twin."""

    def both(run: Run) -> tuple[Array, Array]:
        return noise_of(run.velocity[:, joints], quiet=True), noise_of(run.action[:, joints], quiet=True)

    mine, theirs = ([both(run) for run in side if len(run) > SHORT] for side in (real.all, sim.runs))
    follows = np.median([read / (asked + 1e-9) for read, asked in theirs], axis=0) if theirs else 0.0
    return [_alike(np.sqrt(np.maximum(read**2 - (follows * asked) ** 2, 0.0))) for read, asked in mine]


def measure_object(real: RunEvidence, layout: Layout | None, weak: bool = False) -> Measured:
    """The object's size, as wide as the gripper stays open around it; not where the gripper is too `weak` to close."""
    missing = ("mass, inertia and centre of the object: need a wrist sensor, or lifts with and without it",)
    if layout is None or layout.size_m is None or weak or not real.twin.has("object_size_m"):
        return Measured(
            "object", missing=("size: needs a grasp by a gripper that reports its opening", *missing)
        )
    own = _twin_size(real)
    found = quantity("size", "m", own, layout.size_m, 0.003)
    values = {"object_size_m": layout.size_m} if found.differs else {}
    return Measured("object", (found,), values, missing)


def measure_environment(
    real: RunEvidence, layout: Layout | None, of_run: Array, rng: np.random.Generator
) -> tuple[Measured, dict[str, Array]]:
    """Where things lie, the table's height and slope, and what pushes the object; and the scenes without all that.

    `of_run` (rows,) says which run's scene a row has.
    """
    if layout is None:
        return Measured("environment", missing=(f"scenes: {NEEDS_POSE}",)), {}
    twin, cell, rows = real.twin, real.cell, len(of_run)
    nominal = _nominal_rest(cell)
    start = (layout.place[:, :2] - layout.bias[:, :2].mean(axis=0)) / (1.0 + layout.scale.mean()) - nominal[
        :2
    ]
    found = {"object_offset_x_m": start[:, 0], "object_offset_y_m": start[:, 1], "object_yaw_rad": layout.yaw}
    if layout.target is not None:
        away = layout.target[:, :2] - _nominal_target(cell)[:2]
        found |= {"target_offset_x_m": away[:, 0], "target_offset_y_m": away[:, 1]}
    base, values, quantities = {}, {}, []
    beyond = 0.0
    for name, column in found.items():
        if not twin.has(name):
            continue
        low, high = SCENES[name]
        base[name] = np.clip(column, low, high)[of_run]
        bounded = np.clip(column, *twin.parameter(name).bounds)
        beyond = max(beyond, float(np.max(np.maximum(low - bounded, bounded - high) / (high - low))))
        values[name] = bounded[of_run]
    reach = quantity(
        "distance of the scene outside the training range, fraction of it",
        "1",
        0.0,
        np.full(rows, max(beyond, 0.0)),
        0.15,
    )
    quantities.append(reach)
    if not reach.differs:
        values = {}
    middle = float(np.median(layout.height_m))
    height = quantity("table height", "m", 0.0, np.full(rows, middle), 0.002)
    quantities.append(height)
    if height.differs or layout.tilt.any():
        set_draws(values, twin, "table_height_m", layout.height_m[of_run])
    for axis, name in enumerate(("table_tilt_x_rad", "table_tilt_y_rad")):
        slope = quantity(
            f"slope of the table about {'xy'[axis]}", "rad", 0.0, np.full(rows, layout.tilt[axis]), 0.01
        )
        quantities.append(slope)
        if layout.tilt.any():
            set_draws(values, twin, name, np.full(rows, layout.tilt[axis]))
    measure_pushes(real, of_run, rng, quantities, values)
    return Measured("environment", tuple(quantities), values, ("clutter: needs a camera or a label",)), base


def measure_human(real: RunEvidence, rows: int, rng: np.random.Generator) -> Measured:
    """Verdicts that the signals contradict: the object in place but judged a failure, or the other way round."""
    judged = [run for run in real.runs if run.success is not None and run.failure not in UNSEEN]
    checked = [(run.success, seen) for run in judged if (seen := _in_place(real.cell, run)) is not None]
    missing = ("bumps into the arm: need a contact sensor or a person's note",)
    if not checked:
        return Measured("human", missing=(f"wrong verdicts: {NEEDS_POSE}", *missing))
    wrong = np.array([float(said != seen) for said, seen in checked])
    share = quantity(
        "verdicts that the signals contradict", "1", 0.0, resampled_means(wrong, rows, rng), 0.05
    )
    few = wrong.sum() < 2
    rate = 0.0 if few or not share.differs else float(wrong.mean())
    return Measured("human", (share,), missing=missing, wrong_verdicts=rate)


def _in_place(cell: Cell, run: Run) -> bool | None:
    """Whether the last readings show the object let go on the target; None where they cannot."""
    if run.place is None or run.target is None or run.tool is None or cell.target_mocap is None:
        return None
    place, target = np.median(run.place[-5:], axis=0), np.median(run.target[-5:], axis=0)
    away = float(np.linalg.norm(place[:2] - target[:2]))
    radius = target_radius_m(cell)
    if 0.75 * radius < away < 1.3 * radius:
        return None
    if (
        away > FAR * radius
    ):  # moving or not, unless it is shown where it was grasped and has not been seen since
        grasped = int(np.argmax(run.holding)) if run.holding.any() else -1
        return None if grasped >= 0 and np.array_equal(run.place[-1], run.place[grasped]) else False
    moved = np.linalg.norm(np.ptp(run.place[-5:], axis=0)) - 8.0 * float(
        np.max(noise_of(run.place[-40:], quiet=True))
    )
    if moved > 0.004:
        return None
    return away < radius and not bool(run.holding[-1])


def _held_size(real: RunEvidence, sim: RunEvidence, rows: int, rng: np.random.Generator) -> Array | None:
    mine, usual = _openings(real.all), _openings(sim.runs)
    if len(mine) == 0 or len(usual) == 0:
        return None
    wider = resampled_means(mine, rows, rng) - float(np.median(usual))
    return np.asarray(_twin_size(real) + _opening_m(real.cell) * wider)


def _opening_m(cell: Cell) -> float:
    """How much wider a hand opens for one more unit of its reading: a sliding one's metre, or as far as a turning jaw's tip moves."""
    assert cell.gripper is not None
    if not cell.turning[cell.gripper]:
        return 1.0
    model, data = cell.model, mujoco.MjData(cell.model)
    mujoco.mj_kinematics(model, data)
    joint = int(model.dof_jntid[cell.dof_addresses[cell.gripper, 0]])
    reach = data.site(cell.twin.role("tool")).xpos - data.xanchor[joint]
    return float(np.linalg.norm(np.cross(data.xaxis[joint], reach)))


def _openings(runs: tuple[Run, ...]) -> Array:
    """How far the gripper stays open while it carries, by run."""
    made = [float(np.median(r.position[r.carrying, r.gripper])) for r in runs if r.carrying.sum() > 10]
    return np.array(made)


def _perception(
    real: RunEvidence, sim: RunEvidence, rows: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of bias (rows, 3) and scale error (rows,) of the perceived place, from objects in the gripper.

    Linear least squares with priors: perceived place minus tool = what the hand holds off its middle, turned with the tool
    and different in each run, + bias + scale error * place.
    """
    squares, rights = [], []
    for run in real.all:
        if run.place is None or run.tool is None or run.frame is None or run.carrying.sum() < 10:
            continue
        if run.track is None or measure_frozen(run.track) > FROZEN:
            continue
        slow = np.linalg.norm(np.gradient(run.tool, run.time_s, axis=0), axis=1) < SLOW_M_S
        picked = np.flatnonzero(run.carrying & slow)[::5]
        if len(picked) < 2:
            continue
        frame, place = run.frame[picked], run.place[picked]
        design = np.concatenate([np.broadcast_to(np.eye(3), frame.shape), place[:, :, None]], axis=2).reshape(
            -1, 4
        )
        held, seen = frame.reshape(-1, 3), (place - run.tool[picked]).reshape(-1)
        weight = 5.0 / len(picked) / ROW_M**2
        middle = np.linalg.inv(weight * held.T @ held + np.diag(1.0 / GRASP_M**2))
        square = weight * design.T @ design - weight**2 * design.T @ held @ middle @ held.T @ design
        right = weight * design.T @ seen - weight**2 * design.T @ held @ middle @ (held.T @ seen)
        squares.append(square)
        rights.append(right)
    prior = np.diag([1.0 / BIAS_M**2] * 3 + [1.0 / SCALE_ERROR**2])
    total = prior + (np.sum(squares, axis=0) if squares else 0.0)
    mean = np.linalg.solve(total, np.sum(rights, axis=0)) if rights else np.zeros(4)
    if not squares:  # nothing was held: nothing is claimed
        return np.zeros((rows, 3)), np.zeros(rows)
    drawn = rng.multivariate_normal(mean, np.linalg.inv(total), rows)
    return drawn[:, :3], drawn[:, 3]


def _dropouts(run: Run, noisy: bool) -> float | None:
    """Fraction of poses that repeat the one before where they should not: under noise, or while carried."""
    return None if run.track is None else measure_dropouts(run.track, run.apart if noisy else run.carrying)


def _twin_size(real: RunEvidence) -> float:
    return float(real.twin.parameter("object_size_m").nominal) if real.twin.has("object_size_m") else 1.0


def _nominal_rest(cell: Cell) -> Array:
    return np.array(cell.model.body(cell.twin.role("object")).pos)


def _nominal_target(cell: Cell) -> Array:
    return np.array(cell.model.body(cell.twin.role("target")).pos)


def _nominal_target_z(cell: Cell) -> float:
    return float(_nominal_target(cell)[2]) if "target" in cell.twin.roles else 0.0
