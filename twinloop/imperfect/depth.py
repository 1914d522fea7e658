"""Depth cameras: noise that grows with distance, ragged edges, and holes.

A stereo or structured-light camera measures disparity, focal x baseline / depth. Noise and steps of the disparity are
therefore errors of depth that grow with its square: sigma = depth^2 disparity_noise / (focal x baseline). Near edges a
pixel may see what lies a little to the side, or nothing. Shiny surfaces leave holes in patches. A missing reading is 0,
as in the cameras' own drivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from twinloop.errors import WrongUse
from twinloop.imperfect.noise import frame_noise
from twinloop.imperfect.parameters import Array, Value, broadcast, check_field

_SHIFT_X, _SHIFT_Y, _DISPARITY, _EDGE, _PATCH = range(5)


@dataclass(frozen=True)
class DepthNoise:
    """`reflective_dropout` is the chance of a hole where the reflectivity is 1; `edge_dropout` that beside a depth step.

    `edge_shift_px` is the standard deviation of the sideways error, and `patch_px` the size of the holes. The default
    focal x baseline is that of a small stereo camera: 385 px x 50 mm.
    """

    focal_baseline_px_m: Value = 19.25
    disparity_noise_px: Value = 0.0
    disparity_step_px: Value = 0.0
    edge_shift_px: Value = 0.0
    edge_step_m: Value = 0.05
    edge_dropout: Value = 0.0
    reflective_dropout: Value = 0.0
    nearest_m: Value = 0.0
    farthest_m: Value = np.inf
    patch_px: int = 8

    def __post_init__(self) -> None:
        check_field(self, "focal_baseline_px_m", above=0.0)
        for name in ("disparity_noise_px", "disparity_step_px", "edge_shift_px", "edge_step_m", "nearest_m"):
            check_field(self, name, at_least=0.0)
        for name in ("edge_dropout", "reflective_dropout"):
            check_field(self, name, at_least=0.0, at_most=1.0)
        check_field(self, "farthest_m", at_least=0.0, infinite=True)
        check_field(self, "patch_px", at_least=2)


def draw_noise(seeds: Sequence[int] | Array, frame: int | Array, height: int, width: int) -> Array:
    """The noise `apply` needs for one frame of every environment: (N, 5, height, width)."""
    return np.stack(frame_noise(seeds, "depth", frame, (5, height, width)))


def apply(params: DepthNoise, depth_m: Array, noise: Array, reflectivity: Array | None = None) -> Array:
    """What the camera reports for `depth_m` (N, height, width); 0 is "no reading".

    `noise` (N, 5, height, width) is standard normal, and `reflectivity` (N, height, width) runs from 0 to 1.
    """
    depth = np.asarray(depth_m, dtype=np.float32)
    _check(params, depth, noise, reflectivity)
    true_edges = _beside_step(depth, _narrow(params.edge_step_m, depth.shape))
    seen = _shifted(params, depth, noise)
    measured = _with_disparity_errors(params, seen, noise[:, _DISPARITY])
    lost = true_edges & (noise[:, _EDGE] < _narrow(ndtri(np.asarray(params.edge_dropout)), depth.shape))
    if reflectivity is not None:
        chance = reflectivity * _narrow(params.reflective_dropout, depth.shape)
        lost |= _holes(chance, noise[:, _PATCH], params.patch_px)
    with np.errstate(invalid="ignore"):
        lost |= ~(measured > 0.0) | ~np.isfinite(measured)
        lost |= measured < _narrow(params.nearest_m, depth.shape)
        lost |= measured > _narrow(params.farthest_m, depth.shape)
    measured[lost] = 0.0
    return measured


def _narrow(value: Value, shape: tuple[int, ...]) -> Array:
    """A parameter ready to meet (N, height, width) without making it float64."""
    return broadcast(value, shape).astype(np.float32)


def _shifted(params: DepthNoise, depth: Array, noise: Array) -> Array:
    """Each pixel sees a neighbour a few pixels away."""
    if not np.any(params.edge_shift_px):
        return depth
    environments, height, width = depth.shape
    size = _narrow(params.edge_shift_px, depth.shape)
    across = np.rint(noise[:, _SHIFT_X] * size).astype(np.int64)
    down = np.rint(noise[:, _SHIFT_Y] * size).astype(np.int64)
    columns = np.clip(np.arange(width) + across, 0, width - 1)
    rows = np.clip(np.arange(height)[:, None] + down, 0, height - 1)
    shifted: Array = depth[np.arange(environments)[:, None, None], rows, columns]
    return shifted


def _with_disparity_errors(params: DepthNoise, depth: Array, normal: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        focal_baseline = _narrow(params.focal_baseline_px_m, depth.shape)
        disparity = focal_baseline / depth
        disparity += _narrow(params.disparity_noise_px, depth.shape) * normal
        step = _narrow(params.disparity_step_px, depth.shape)
        if step.any():
            stepped = np.rint(disparity / np.where(step > 0, step, 1)) * step
            disparity = np.where(step > 0, stepped, disparity)
        measured: Array = focal_baseline / disparity
    return measured


def _beside_step(depth: Array, step_m: Array) -> Array:
    """Pixels whose neighbour, above, below or beside, is more than `step_m` nearer or farther."""
    beside = np.zeros(depth.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        down = np.abs(np.diff(depth, axis=1)) > step_m
        across = np.abs(np.diff(depth, axis=2)) > step_m
    beside[:, 1:] |= down
    beside[:, :-1] |= down
    beside[:, :, 1:] |= across
    beside[:, :, :-1] |= across
    return beside


def _holes(chance: Array, normal: Array, patch_px: int) -> Array:
    """Pixels in holes: each with its own chance, neighbours together.

    A coarse grid of normals is blended over the pixels and scaled back to unit variance, so that comparing it with a
    quantile gives every pixel exactly its chance.
    """
    _, height, width = normal.shape
    down, across = _blend(height, patch_px), _blend(width, patch_px)
    coarse = np.ascontiguousarray(normal[:, : down.shape[1], : across.shape[1]])
    field = down @ coarse @ across.T
    possible = chance > 0.0
    holes = np.zeros(chance.shape, dtype=bool)
    holes[possible] = field[possible] < ndtri(chance[possible])
    return holes


@lru_cache(maxsize=64)
def _blend(size: int, patch_px: int) -> Array:
    """(size, cells) weights that blend cells of `patch_px` over pixels, with unit variance at every pixel."""
    position = np.arange(size) / patch_px
    before = position.astype(np.int64)
    part = position - before
    cells = min(int(before[-1]) + 2, size)
    weights = np.zeros((size, cells), dtype=np.float32)
    weights[np.arange(size), before] += 1.0 - part
    weights[np.arange(size), np.minimum(before + 1, cells - 1)] += part
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    weights.flags.writeable = False
    return weights


def _check(params: DepthNoise, depth: Array, noise: Array, reflectivity: Array | None) -> None:
    if depth.ndim != 3 or noise.shape != (len(depth), 5, *depth.shape[1:]):
        raise WrongUse(
            "depth and noise do not fit each other",
            got=f"depth {depth.shape} and noise {noise.shape}",
            expected="(N, height, width) and (N, 5, height, width)",
            remedy="draw the noise with twinloop.imperfect.depth.draw_noise",
        )
    if reflectivity is None and np.any(params.reflective_dropout):
        raise WrongUse(
            "DepthNoise.reflective_dropout needs to know what is reflective",
            got="no reflectivity",
            expected="an array (N, height, width) from 0 to 1",
        )
    if reflectivity is not None and reflectivity.shape != depth.shape:
        raise WrongUse("reflectivity does not fit the depth", got=reflectivity.shape, expected=depth.shape)
