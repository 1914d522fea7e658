"""Lens effects: Brown-Conrady distortion, defocus and vignetting, as tables made once per episode.

Distortion maps a point of the ideal image, (x, y) in units of the focal length from the centre, to

    x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2),   and likewise y,

the convention of OpenCV and of most calibration files. Where OpenCV is not installed, a table holds, for each pixel of the
distorted image, which four ideal pixels it blends; it is a sparse matrix because multiplying by one is the fastest bilinear
gather NumPy and SciPy offer. Pixels that would lie outside the ideal image repeat its border: render a wider one and say so
with `source_scale`, which `needed_source_scale` computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from twinloop.errors import WrongUse
from twinloop.imperfect import compiled
from twinloop.imperfect.parameters import Array, Value, check_field

_TOLERANCE = 1e-7
_NEWTON_STEPS = 20


@dataclass(frozen=True)
class Lens:
    """One lens, or one per environment with fields (N,).

    `field_of_view_rad` is vertical, as in MJCF. `vignetting` 1 is the cos^4 law of a simple lens, 0 is none.
    `blur_px` is the standard deviation of defocus, a Gaussian. `source_scale` is how much wider the given image is than the camera's, as a ratio of tangents.
    `principal_x`, `principal_y` are how far the principal point lies right of and below the middle, in image heights; the given
    image is drawn around the middle.
    """

    k1: Value = 0.0
    k2: Value = 0.0
    k3: Value = 0.0
    p1: Value = 0.0
    p2: Value = 0.0
    field_of_view_rad: Value = 0.8
    vignetting: Value = 0.0
    blur_px: Value = 0.0
    source_scale: Value = 1.0
    principal_x: Value = 0.0
    principal_y: Value = 0.0

    def __post_init__(self) -> None:
        for name in ("k1", "k2", "k3", "p1", "p2", "principal_x", "principal_y"):
            check_field(self, name)
        check_field(self, "field_of_view_rad", above=0.0, at_most=3.1)
        check_field(self, "vignetting", at_least=0.0)
        check_field(self, "blur_px", at_least=0.0)
        check_field(self, "source_scale", above=0.0)


def focal_px(lens: Lens, height: int) -> float:
    """The focal length of one environment's lens in pixels of an image `height` high."""
    return height / 2.0 / float(np.tan(float(lens.field_of_view_rad) / 2.0))


def distort(lens: Lens, x: Array, y: Array) -> tuple[Array, Array]:
    """Where one environment's lens puts the ideal point (x, y), in focal lengths from the centre."""
    r2 = x * x + y * y
    radial = 1.0 + r2 * (lens.k1 + r2 * (lens.k2 + r2 * lens.k3))
    return (
        x * radial + 2.0 * lens.p1 * x * y + lens.p2 * (r2 + 2.0 * x * x),
        y * radial + lens.p1 * (r2 + 2.0 * y * y) + 2.0 * lens.p2 * x * y,
    )


def undistort(lens: Lens, x: Array, y: Array) -> tuple[Array, Array]:
    """The ideal point that one environment's lens puts at (x, y): Newton's method on `distort`."""
    goal_x, goal_y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    x, y = goal_x.copy(), goal_y.copy()
    for _ in range(_NEWTON_STEPS):
        at_x, at_y = distort(lens, x, y)
        error_x, error_y = at_x - goal_x, at_y - goal_y
        xx, xy, yy = _jacobian(lens, x, y)
        determinant = xx * yy - xy * xy
        if not (determinant > 0.0).all():
            break
        if max(np.abs(error_x).max(), np.abs(error_y).max()) < _TOLERANCE:
            return x, y
        x -= (yy * error_x - xy * error_y) / determinant
        y -= (xx * error_y - xy * error_x) / determinant
    raise WrongUse(
        "the lens distortion folds the image over itself within the field of view",
        got=f"k1={lens.k1}, k2={lens.k2}, k3={lens.k3}, p1={lens.p1}, p2={lens.p2}",
        expected="a distortion that keeps neighbouring points in order",
        remedy="use smaller coefficients, or check field_of_view_rad",
    )


def _jacobian(lens: Lens, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Derivatives of `distort`: d(x)/dx, d(x)/dy = d(y)/dx, d(y)/dy."""
    r2 = x * x + y * y
    radial = 1.0 + r2 * (lens.k1 + r2 * (lens.k2 + r2 * lens.k3))
    growth = 2.0 * (lens.k1 + r2 * (2.0 * lens.k2 + r2 * 3.0 * lens.k3))
    return (
        radial + growth * x * x + 2.0 * lens.p1 * y + 6.0 * lens.p2 * x,
        growth * x * y + 2.0 * lens.p1 * x + 2.0 * lens.p2 * y,
        radial + growth * y * y + 6.0 * lens.p1 * y + 2.0 * lens.p2 * x,
    )


def needed_source_scale(lens: Lens, height: int, width: int) -> float:
    """The smallest `source_scale` with which one environment's lens never looks outside the given image."""
    x, y = _pixel_grid(lens, height, width)
    # The border pixels reach farthest.
    border = np.ones((height, width), dtype=bool)
    border[1:-1, 1:-1] = False
    from_x, from_y = undistort(lens, x[border], y[border])
    return float(max(np.abs(from_x).max() / np.abs(x).max(), np.abs(from_y).max() / np.abs(y).max()))


def make_remap(lens: Lens, height: int, width: int) -> Callable[[Array], Array] | None:
    """What one environment's lens does to images (height, width, 3) float32, or None when nothing moves."""
    coefficients = (lens.k1, lens.k2, lens.k3, lens.p1, lens.p2, lens.principal_x, lens.principal_y)
    if not any(coefficients) and lens.source_scale == 1.0:
        return None
    focal = focal_px(lens, height) / float(lens.source_scale)
    x, y = undistort(lens, *_pixel_grid(lens, height, width))
    columns, rows = focal * x + (width - 1) / 2.0, focal * y + (height - 1) / 2.0
    if compiled.available():
        return partial(compiled.remap, columns=columns.astype(np.float32), rows=rows.astype(np.float32))
    table = _make_table(columns, rows)
    return lambda image: np.asarray((table @ image.ravel()).reshape(image.shape))


def _make_table(columns: Array, rows: Array) -> Any:
    """A sparse matrix that blends four pixels of an image laid out in a row into each place (height, width).

    It is square, with a row and a column for each of the three colours of each pixel, in the order of (height, width, 3).
    """
    height, width = columns.shape
    column, column_part = _cell(columns, width)
    row, row_part = _cell(rows, height)
    corner = (row * width + column).reshape(-1, 1, 1)
    colours = np.arange(3, dtype=np.int32)[:, None]
    indices = 3 * (corner + np.array([0, 1, width, width + 1], dtype=np.int32)) + colours
    weights = np.empty((height * width, 3, 4), dtype=np.float32)
    weights[:] = np.stack(
        [
            (1.0 - row_part) * (1.0 - column_part),
            (1.0 - row_part) * column_part,
            row_part * (1.0 - column_part),
            row_part * column_part,
        ],
        axis=-1,
    ).reshape(-1, 1, 4)
    values = 3 * height * width
    starts = np.arange(0, 4 * values + 1, 4, dtype=np.int32)
    return csr_array((weights.ravel(), indices.ravel(), starts), shape=(values, values), copy=False)


def make_defocus(lens: Lens, height: int, width: int) -> tuple[Any, Any] | None:
    """Sparse matrices (height, height) and (width, width) for `defocus`, or None when the lens is sharp.

    Each row has a pixel's few neighbours. Dense products would be shared among threads, which on busy cores wait for each
    other ten times as long as they compute.
    """
    if float(lens.blur_px) == 0.0:
        return None
    deviation_px = float(lens.blur_px)
    return csr_array(_gaussian(deviation_px, height)), csr_array(_gaussian(deviation_px, width))


def defocus(matrices: tuple[Any, Any], image: Array) -> Array:
    """An image (height, width, colours), defocused down and across."""
    down, across = matrices
    height, width, colours = image.shape
    rows = (down @ image.reshape(height, -1)).reshape(height, width, colours)
    columns = np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(width, -1)
    return np.ascontiguousarray((across @ columns).reshape(width, height, colours).transpose(1, 0, 2))


def _gaussian(deviation_px: float, size: int) -> Array:
    """(size, size) weights of each pixel's neighbours; beyond the border there is nothing, and rows sum to one."""
    away = np.arange(size) - np.arange(size)[:, None]
    weights = np.exp(-0.5 * (away / deviation_px) ** 2)
    weights[weights < 1e-7] = 0.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def make_vignette(lens: Lens, height: int, width: int) -> Array:
    """How much of the light reaches each pixel, (height, width): cos^(4 vignetting) of the angle off axis."""
    x, y = _pixel_grid(lens, height, width)
    vignette: Array = (1.0 + x * x + y * y) ** (-2.0 * float(lens.vignetting))
    return vignette


def _pixel_grid(lens: Lens, height: int, width: int) -> tuple[Array, Array]:
    """The centre of every pixel, in focal lengths from the principal point."""
    focal = focal_px(lens, height)
    x = (np.arange(width) - (width - 1) / 2.0 - float(lens.principal_x) * height) / focal
    y = (np.arange(height) - (height - 1) / 2.0 - float(lens.principal_y) * height) / focal
    shape = (height, width)
    return np.broadcast_to(x, shape), np.broadcast_to(y[:, None], shape)


def _cell(position: Array, size: int) -> tuple[Array, Array]:
    """The pixel before each position and how far past it the position lies; outside, the border."""
    position = np.clip(position, 0.0, size - 1.0)
    whole = np.minimum(position.astype(np.int32), size - 2)
    return whole, position - whole
