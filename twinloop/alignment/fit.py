"""Refine a camera: move the twin's outlines onto the images' edges, by Gauss-Newton steps with ever shorter reach.

Points of the outlines are projected and edges are looked for along their normals (Harris and Stennett's RAPID, 1990); distances are
weighted by Tukey's function, so that edges of other things do not count. What is known before enters as one more measurement.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.alignment.edges import EdgeImage, signed_distance
from twinloop.alignment.frames import Frame
from twinloop.alignment.outline import Outline, Outliner
from twinloop.alignment.view import CameraView, Unknown
from twinloop.episode import Array

TUKEY = 4.685
"""95 % efficient for normal errors."""
LEAST_SCATTER_PX = 0.15
"""Outlines are drawn in whole pixels and edges interpolated: less scatter than this is luck."""
POINTS_A_FRAME = 300
REACHES_PX = ((16.0, 3), (9.0, 3), (5.0, 3), (3.0, 5))
"""How far along normals edges are looked for, at 320 pixels of width, and how many steps that takes."""
REFERENCE_WIDTH = 320.0

SHARED_PX = 0.1
"""How far one side of a part may lie off in all frames alike, one standard deviation: by the shading of its rim, or what lies behind.
From cameras whose truth is known, with seeds from 1000 on; see the benchmark `align`."""


@dataclass(frozen=True)
class Measured:
    """Distances of one frame's outline points from what was seen.

    `distance` (n,) in pixels along the outward normal, NaN where nothing was found; `slope` (n, unknowns) is how the prediction
    moves along the normal; `cluster` (n,) numbers points whose errors go together, `side` (n,) those of one side of a part in all
    frames.
    """

    distance: Array
    slope: Array
    cluster: Array
    side: Array


@dataclass(frozen=True)
class Fit:
    """Where a fit ended: `theta` and `covariance` of the unknowns, `scatter_px` of the distances, and what matched.

    `matched` is the fraction of outline points in the images that found an edge which counts; `information` (unknowns, unknowns)
    is what the frames alone tell, per square pixel of scatter.
    """

    theta: Array
    covariance: Array
    scatter_px: float
    matched: float
    information: Array


class Aligner:
    """One camera, its frames, and the parts of the twin that are looked for in them."""

    def __init__(self, view: CameraView, frames: Sequence[Frame], bodies: Collection[int], seed: int) -> None:
        self.view, self.frames, self.bodies = view, list(frames), bodies
        self.edges = [EdgeImage(frame.image) for frame in frames]
        self.distances = [None if f.mask is None else signed_distance(f.mask) for f in frames]
        self.outliner = Outliner(view.cell.twin.make_model(), view.id, view.height, view.width)
        self._seed = seed

    def close(self) -> None:
        """Give the graphics context back."""
        self.outliner.close()

    def outlines(self, values: dict[str, float]) -> list[Outline]:
        """The outlines in every frame for these values."""
        pos, quat, fovy_rad = self.view.pose(values)
        # Wider than the image, because the lens may draw in what lies beside it.
        wide = 2.0 * np.arctan(1.15 * np.tan(fovy_rad / 2.0))
        rng = np.random.default_rng(self._seed)
        made = []
        for frame in self.frames:
            qpos = self.view.place(frame, values)
            made.append(
                self.outliner.outline(
                    qpos, frame.mocap, pos, quat, wide, self.bodies, most=POINTS_A_FRAME, rng=rng
                )
            )
        return made

    def measure(
        self, unknowns: Sequence[Unknown], theta: Array, outlines: Sequence[Outline], reach_px: float | None
    ) -> list[Measured]:
        """Distances from edges within a reach; with None from the masks' outlines, however far."""
        values = self.view.values(unknowns, theta)
        made = []
        for index, (frame, outline) in enumerate(zip(self.frames, outlines, strict=True)):
            spot, beside = self.view.project(values, frame, outline)
            rows = np.flatnonzero(self._inside(spot) & np.isfinite(beside).all(axis=1))
            outline, spot, beside = outline.pick(rows), spot[rows], beside[rows]
            normal = normals_of(spot, beside, outline.outward)
            if not len(rows):
                distance = np.empty(0)
            elif reach_px is None:
                distance, normal = self._to_mask(index, spot, outline)
            else:
                distance, _ = self.edges[index].cross(spot, normal, reach_px)
            slope = self.view.slopes(unknowns, theta, frame, outline, spot, normal)
            distance = np.where(np.isfinite(slope).all(axis=1), distance, np.nan)
            quarter = 2 * (normal[:, 0] > 0.0) + (normal[:, 1] > 0.0) if len(rows) else outline.part
            cluster, side = index * 10_000 + outline.part, 4 * outline.part + quarter
            made.append(Measured(distance, np.nan_to_num(slope), cluster, side))
        return made

    def _inside(self, spot: Array) -> Array:
        limit = np.array([self.view.width - 3, self.view.height - 3])
        return np.asarray(((spot > 2) & (spot < limit)).all(axis=1))

    def _to_mask(self, index: int, spot: Array, outline: Outline) -> tuple[Array, Array]:
        """Distances from the mask's outline, and the directions in which they grow less."""
        field = self.distances[index]
        assert field is not None
        down, across = np.gradient(field)
        x, y = spot.round().astype(int).T
        normal = np.stack([across[y, x], down[y, x]], axis=1)
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-6)
        return np.where(outline.silhouette, -field[y, x], np.nan), normal

    def refine(
        self, unknowns: Sequence[Unknown], theta: Array, reaches: Sequence[tuple[float | None, int]]
    ) -> Fit:
        """Gauss-Newton steps through several reaches, at 320 pixels of width."""
        scale = self.view.width / REFERENCE_WIDTH
        measured: list[Measured] = []
        for reach_px, steps in reaches:
            scaled = None if reach_px is None else max(2.0, reach_px * scale)
            for _ in range(steps):
                outlines = self.outlines(self.view.values(unknowns, theta))
                measured = self.measure(unknowns, theta, outlines, scaled)
                theta = _step(unknowns, theta, measured)
        return self.judge(unknowns, theta, measured)

    def misfit(self, unknowns: Sequence[Unknown], theta: Array, reach_px: float) -> tuple[float, float]:
        """Root mean square distance in pixels of outline points from edges, where none is nearer than the reach the reach; and the median."""
        outlines = self.outlines(self.view.values(unknowns, theta))
        measured = self.measure(unknowns, theta, outlines, reach_px)
        distance = np.concatenate([one.distance for one in measured])
        if not len(distance):
            return reach_px, reach_px
        away = np.minimum(np.abs(np.nan_to_num(distance, nan=reach_px)), reach_px)
        return float(np.sqrt(np.mean(away**2))), float(np.median(away))

    def judge(self, unknowns: Sequence[Unknown], theta: Array, measured: Sequence[Measured]) -> Fit:
        """Covariance of a fit from how the distances scatter, allowing for errors that go together within a part of a frame."""
        normal = _Normal(measured)
        precision = normal.variance * np.diag([one.prior**-2 for one in unknowns])
        bread = np.linalg.inv(normal.information + precision)
        spread = normal.spread + SHARED_PX**2 * normal.shared + LEAST_SCATTER_PX**2 * normal.information
        covariance = bread @ (spread + normal.variance * precision) @ bread
        told = normal.information / normal.variance
        return Fit(theta, covariance, normal.scatter_px, normal.matched, told)


class _Normal:
    """The normal equations of all distances, robustly weighted.

    Errors go together along a part in a frame, so that its points say less than as many independent ones: `variance` is that of one point
    as if it were independent, by which what was known before is weighed against the images.
    """

    def __init__(self, measured: Sequence[Measured]) -> None:
        distance = np.concatenate([one.distance for one in measured])
        slope = np.concatenate([one.slope for one in measured])
        cluster, side = (
            np.concatenate([getattr(one, name) for one in measured]) for name in ("cluster", "side")
        )
        found = np.isfinite(distance)
        scatter = 1.4826 * float(np.median(np.abs(distance[found]))) if found.any() else 1.0
        self.scatter_px = max(scatter, LEAST_SCATTER_PX)
        ratio = np.nan_to_num(distance, nan=np.inf) / (TUKEY * self.scatter_px)
        weight = np.where(np.abs(ratio) < 1.0, (1.0 - np.minimum(ratio**2, 1.0)) ** 2, 0.0)
        self.matched = float(np.mean(weight > 0.0)) if len(distance) else 0.0
        weighted = slope * weight[:, None]
        self.information = weighted.T @ slope
        self.toward = weighted.T @ np.nan_to_num(distance)
        sums = _sums(cluster, np.nan_to_num(distance)[:, None] * weighted)
        self.spread = sums.T @ sums * len(sums) / max(1, len(sums) - slope.shape[1])
        same = _sums(side, weighted)
        self.shared = same.T @ same
        alone = np.maximum(np.diag(self.information) * self.scatter_px**2, 1e-12)
        self.variance = self.scatter_px**2 * max(1.0, float(np.median(np.diag(self.spread) / alone)))


def _sums(group: Array, values: Array) -> Array:
    """Sums of values (n, k) over the groups of their rows."""
    names, place = np.unique(group, return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, place, values)
    return sums


def normals_of(spot: Array, beside: Array, outward: Array) -> Array:
    """Unit normals (n, 2) of outlines through two neighbouring points each, out of the part."""
    along = beside - spot
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    return np.asarray(normal * np.where((normal * outward).sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0))


def _step(unknowns: Sequence[Unknown], theta: Array, measured: Sequence[Measured]) -> Array:
    """One Gauss-Newton step, towards what was seen and what is known before."""
    normal = _Normal(measured)
    precision = np.array([one.prior**-2 for one in unknowns]) * normal.variance
    start = np.array([one.start for one in unknowns])
    step = np.linalg.solve(
        normal.information + np.diag(precision), normal.toward - precision * (theta - start)
    )
    limit = np.array([0.5 * one.prior for one in unknowns])
    return np.asarray(theta + step * min(1.0, float((limit / np.maximum(np.abs(step), 1e-12)).min())))
