"""Where a camera stands and how its lens draws, from edges: those that a simulated frame has at known places, found in real frames.

Colours, light and textures differ between a simulation and a robot's cell; where robot, table and target end does not. Each edge pixel of
a simulated frame is a point in space with a direction. A pose is good when, at the pixels where it puts these points, real frames have
edges of the same direction. Only the direction counts, and whether there is an edge at all: strength depends on light and paint.

Poses are relative to the simulated camera, in MuJoCo's camera axes (x right, y up, z backwards).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, optimize
from scipy.spatial.transform import Rotation

from twinloop.episode import Array
from twinloop.measure.images import LUMINANCE
from twinloop.stats.interval import Interval, normal_interval

QUANTITIES = ("pitch_rad", "yaw_rad", "roll_rad", "x_m", "y_m", "z_m", "distortion")
SPREAD = np.array([0.2, 0.2, 0.2, 0.05, 0.05, 0.05, 0.25])
"""Standard deviations of a weak prior: what edges leave open stays near the simulated camera."""
PRIOR_WEIGHT = 0.004
"""Score, between 0 and 1, that a camera this far away from the simulated one has to make up for."""
SCALES_PX = (3.0, 1.5, 0.8)
REACH_RAD, STEP_RAD = 0.32, 0.032
"""Turns in pitch and yaw that are tried first."""
TURNS, POPULATION, GENERATIONS = 6, 72, (4, 6, 4)
"""So many of the turns, the best, are where a search with this many draws at a time begins."""
FAINT = 2.0
"""Brightness gradient, in levels per pixel after blurring, that is told from noise."""
POINTS = 120
"""Edge pixels of a frame that are used, drawn evenly."""
SHORTEST_EDGE = 8.0
"""Levels per pixel of a simulated edge: simulation is drawn without noise."""
DRAWS = 400


@dataclass(frozen=True, eq=False)
class EdgePoints:
    """Edge pixels of simulated frames: `place` (n, 3) in camera axes, `direction` (n, 2) as twice the angle, `frame` (n,)."""

    place: Array
    direction: Array
    frame: Array


@dataclass(frozen=True, eq=False)
class Registration:
    """A real camera relative to the simulated one, in the order of `QUANTITIES`, with the covariance (7, 7).

    `score` is the mean agreement of edges, from -1 to 1, and `before` that of the camera as simulated.
    """

    values: Array
    covariance: Array
    score: float
    before: float

    def interval(self, name: str) -> Interval:
        """One quantity with its 95 % interval."""
        place = QUANTITIES.index(name)
        unit = {"rad": "rad", "m": "m"}.get(name.rpartition("_")[2], "1")
        return normal_interval(float(self.values[place]), float(np.sqrt(self.covariance[place, place])), unit)

    def draws(self, rows: int, rng: np.random.Generator) -> Array:
        """What the camera could be: (rows, 7)."""
        return np.asarray(rng.multivariate_normal(self.values, self.covariance, rows, method="eigh"))


def find_edges(
    frames: Array, depth: Array, focal_px: float, allowed: Array, rng: np.random.Generator
) -> EdgePoints:
    """Edges of simulated frames.

    Args:
        frames: (n, height, width, 3) uint8, drawn by an ideal camera.
        depth: (n, height, width) distance of what they show along the optical axis, in m.
        focal_px: Focal length in pixels.
        allowed: (n, height, width) pixels whose edges count.
        rng: Source of randomness.

    Returns:
        At most `POINTS` edge pixels of each frame.
    """
    height, width = frames.shape[1:3]
    places, directions, owners = [], [], []
    for index, frame in enumerate(frames):
        down, across = _gradient(frame, 0.7)
        strength = np.hypot(down, across)
        # An edge belongs to what is nearer: the farther side is seen elsewhere as soon as the camera moves.
        near = ndimage.minimum_filter(depth[index], 3)
        good = allowed[index] & (strength > SHORTEST_EDGE) & np.isfinite(near)
        rows, columns = np.nonzero(good)
        if not len(rows):
            continue
        picked = rng.permutation(len(rows))[:POINTS]
        rows, columns = rows[picked], columns[picked]
        distance = near[rows, columns]
        x = (columns - (width - 1) / 2.0) / focal_px * distance
        y = -(rows - (height - 1) / 2.0) / focal_px * distance
        places.append(np.stack([x, y, -distance], axis=1))
        directions.append(_doubled(down, across, 0.0)[rows, columns])
        owners.append(np.full(len(rows), index))
    if not places:
        return EdgePoints(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0, np.int64))
    return EdgePoints(np.concatenate(places), np.concatenate(directions), np.concatenate(owners))


def move_points(points: EdgePoints, values: Array) -> EdgePoints:
    """Points that were found by a camera moved by `values`, in the axes of the camera that was not moved."""
    turn = _turn(values)
    return EdgePoints(turn.apply(points.place) + values[3:6], points.direction, points.frame)


def register(
    real: Array, points: EdgePoints, focal_px: float, runs: Sequence[int], start: Array | None = None
) -> Registration | None:
    """Find the camera pose and distortion with which real frames have edges where simulation has them.

    Args:
        real: (n, height, width, 3) uint8.
        points: Edges of simulated frames of the same moments.
        focal_px: Focal length of the simulated camera.
        runs: The run of each frame: frames of one run are not independent.
        start: Where to begin; None tries turns up to `REACH_RAD` first.

    Returns:
        The pose with its covariance; None where simulation shows no edges.
    """
    if len(points.frame) < 50:
        return None
    owner = np.asarray(runs)[points.frame]
    values = np.zeros(len(QUANTITIES)) if start is None else np.array(start, np.float64)
    fields = {scale: edge_fields(real, scale) for scale in SCALES_PX}
    coarse, finest = fields[SCALES_PX[0]], fields[SCALES_PX[-1]]
    few = EdgePoints(points.place[::3], points.direction[::3], points.frame[::3])
    rng = np.random.default_rng(0)
    begun = [np.zeros(len(QUANTITIES)) if start is None else np.array(start, np.float64)]
    turned = _likely_turns(coarse, few, focal_px) if start is None else begun
    searched = [_searched(fields, few, focal_px, one, rng) for one in turned]
    starts = [*begun, max(searched, key=lambda one: _objective(finest, few, focal_px, one))]
    values = max(
        (_refined(fields, points, focal_px, one) for one in starts),
        key=lambda one: _objective(fields[SCALES_PX[-1]], points, focal_px, one),
    )
    covariance = _covariance(finest, points, focal_px, values, owner)
    before = float(agreement(finest, points, focal_px, np.zeros(len(QUANTITIES))).mean())
    return Registration(values, covariance, float(agreement(finest, points, focal_px, values).mean()), before)


def edge_fields(frames: Array, scale_px: float) -> Array:
    """Direction of edges at each pixel of frames as twice their angle, (n, height, width, 2), shorter where edges are faint."""
    made = [_doubled(*_gradient(frame, scale_px), FAINT) for frame in frames]
    return np.asarray(made, np.float32)


def agreement(fields: Array, points: EdgePoints, focal_px: float, values: Array) -> Array:
    """How well real edges agree with each point (n,), on average from -1 to 1; 0 where a point is outside the frame.

    Points count in proportion to their distance: a gripper has most edges in a wrist camera's view, but only what is far away tells a
    turn from a shift.
    """
    height, width = fields.shape[1:3]
    turn = _turn(values)
    place = turn.inv().apply(points.place - values[3:6])
    depth = np.maximum(-place[:, 2], 1e-3)
    x, y = place[:, 0] / depth, -place[:, 1] / depth
    k1 = float(values[6])
    square = x * x + y * y
    radial = 1.0 + square * (k1 + k1 * k1 * square)
    columns = focal_px * x * radial + (width - 1) / 2.0
    rows = focal_px * y * radial + (height - 1) / 2.0
    inside = (columns > 0) & (columns < width - 1) & (rows > 0) & (rows < height - 1)
    left, top = np.clip(columns, 0, width - 1.001), np.clip(rows, 0, height - 1.001)
    c, r = left.astype(np.int64), top.astype(np.int64)
    u, v = (left - c)[:, None], (top - r)[:, None]
    frame = points.frame
    seen = (1 - v) * ((1 - u) * fields[frame, r, c] + u * fields[frame, r, c + 1]) + v * (
        (1 - u) * fields[frame, r + 1, c] + u * fields[frame, r + 1, c + 1]
    )
    # A camera that rolls one way turns its image the other way; twice the angle turns twice as far.
    angle = 2.0 * float(values[2])
    across = points.direction[:, 0] * np.cos(angle) - points.direction[:, 1] * np.sin(angle)
    down = points.direction[:, 0] * np.sin(angle) + points.direction[:, 1] * np.cos(angle)
    weight = -points.place[:, 2] / float(np.mean(-points.place[:, 2]))
    return np.where(inside, weight * (across * seen[:, 0] + down * seen[:, 1]), 0.0)


def _objective(fields: Array, points: EdgePoints, focal_px: float, values: Array) -> float:
    prior = PRIOR_WEIGHT * float(np.sum((values / SPREAD) ** 2))
    return float(agreement(fields, points, focal_px, values).mean()) - prior


def _likely_turns(coarse: Array, few: EdgePoints, focal_px: float) -> list[Array]:
    """The best of many turns in pitch and yaw: edges that are farther away than they are wide pull nowhere."""
    turns = np.arange(-REACH_RAD, REACH_RAD + 1e-9, STEP_RAD)
    tried = [np.array([pitch, yaw, 0.0, 0.0, 0.0, 0.0, 0.0]) for pitch in turns for yaw in turns]
    return sorted(tried, key=lambda values: -_objective(coarse, few, focal_px, values))[:TURNS]


def _searched(
    fields: Mapping[float, Array], few: EdgePoints, focal_px: float, values: Array, rng: np.random.Generator
) -> Array:
    """The cross-entropy method (Rubinstein 1999): draw around the best so far, keep the best quarter, and again."""
    spread = 0.35 * SPREAD
    for scale, generations in zip(SCALES_PX, GENERATIONS, strict=True):
        for _ in range(generations):
            drawn = values + rng.normal(size=(POPULATION, len(QUANTITIES))) * spread
            drawn[0] = values
            scores = np.array([_objective(fields[scale], few, focal_px, one) for one in drawn])
            elite = drawn[np.argsort(-scores)[: POPULATION // 4]]
            values, spread = elite.mean(axis=0), np.maximum(elite.std(axis=0), 0.005 * SPREAD)
    return np.asarray(values)


def _refined(fields: Mapping[float, Array], points: EdgePoints, focal_px: float, values: Array) -> Array:
    for scale in SCALES_PX[1:]:
        # The optimizer sees quantities in units of their prior's spread.
        found = optimize.minimize(
            lambda scaled, s=scale: -_objective(fields[s], points, focal_px, scaled * SPREAD),
            values / SPREAD,
            method="BFGS",
            options={"maxiter": 25, "gtol": 1e-4, "eps": 1e-3},
        )
        values = found.x * SPREAD
    return values


def _covariance(fields: Array, points: EdgePoints, focal_px: float, values: Array, owner: Array) -> Array:
    """Sandwich of the curvature and the scatter of slopes from run to run (Huber 1967)."""
    steps = 0.02 * SPREAD
    count = len(QUANTITIES)

    def scores(offset: Array) -> Array:
        return agreement(fields, points, focal_px, values + offset)

    shifts = np.diag(steps)
    slopes = np.stack([(scores(d) - scores(-d)) / 0.04 for d in shifts], axis=1)
    middle = float(scores(np.zeros(count)).mean())
    curvature = 2.0 * PRIOR_WEIGHT * np.eye(count)
    for i in range(count):
        for j in range(i + 1):
            a, b = 3.0 * shifts[i], 3.0 * shifts[j]
            if i == j:
                bend = (float(scores(a).mean()) + float(scores(-a).mean()) - 2.0 * middle) / 0.06**2
            else:
                corners = [scores(a + b), scores(-a - b), scores(a - b), scores(b - a)]
                plus, minus, one, other = (float(corner.mean()) for corner in corners)
                bend = (plus + minus - one - other) / (4.0 * 0.06**2)
            curvature[i, j] -= bend
            if i != j:
                curvature[j, i] -= bend
    groups = np.unique(owner)
    sums = np.stack([slopes[owner == group].sum(axis=0) for group in groups]) / len(points.frame)
    # Where too few runs scatter too little by chance, the scatter of single points stands in.
    single = slopes.T @ slopes / len(points.frame) ** 2
    scatter = sums.T @ sums * len(groups) / max(len(groups) - 1, 1) + single
    vectors = np.linalg.eigh(curvature)
    bent = np.maximum(vectors[0], 2.0 * PRIOR_WEIGHT)
    inverse = (vectors[1] / bent) @ vectors[1].T
    return np.asarray(inverse @ scatter @ inverse * np.outer(SPREAD, SPREAD))


def _turn(values: Array) -> Rotation:
    # MuJoCo's cameras turn in pitch about x, then yaw about y, then roll about z, each about the axis as already turned.
    return Rotation.from_euler("XYZ", values[:3])


def _gradient(frame: Array, scale_px: float) -> tuple[Array, Array]:
    """Change of brightness down and across, in levels per pixel of an edge's steepest place."""
    light = np.asarray(frame, np.float32) @ LUMINANCE.astype(np.float32)
    return (
        ndimage.gaussian_filter(light, scale_px, order=(1, 0), mode="nearest"),
        ndimage.gaussian_filter(light, scale_px, order=(0, 1), mode="nearest"),
    )


def _doubled(down: Array, across: Array, faint: float) -> Array:
    """Directions as twice their angle, so that an edge from dark to bright is the same as one from bright to dark."""
    size = down * down + across * across + faint * faint + 1e-12
    return np.stack([(across * across - down * down) / size, 2.0 * across * down / size], axis=-1)
