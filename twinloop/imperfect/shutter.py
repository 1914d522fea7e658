"""Motion blur over the exposure, and rolling-shutter skew over the readout.

The image is taken to move as a whole, by `velocity_px_s` (x to the right, y down); `image_velocity_px_s` gives it for
a moving camera. Row r is exposed from r `line_time_s` on, for `exposure_s`. An image here is (height, width, 3) float32,
in linear light.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from twinloop.imperfect import compiled
from twinloop.imperfect.parameters import Array, Value, check_field


@dataclass(frozen=True)
class Shutter:
    """`line_time_s` is the time between the starts of two rows; 0 is a global shutter."""

    exposure_s: Value = 0.0
    line_time_s: Value = 0.0

    def __post_init__(self) -> None:
        check_field(self, "exposure_s", at_least=0.0)
        check_field(self, "line_time_s", at_least=0.0)


def image_velocity_px_s(
    focal_px: float, turning_rad_s: Array, moving_m_s: Array | None = None, distance_m: Value = 1.0
) -> Array:
    """How fast the middle of the image moves, (N, 2), when the camera turns and moves, both (N, 3).

    Camera axes: x right, y down, z forward. `distance_m` is how far away the scene is.
    """
    turning = np.asarray(turning_rad_s, dtype=np.float64)
    velocity = focal_px * np.stack([-turning[:, 1], turning[:, 0]], axis=-1)
    if moving_m_s is not None:
        ratio = np.reshape(focal_px / np.asarray(distance_m, dtype=np.float64), (-1, 1))
        velocity -= ratio * np.asarray(moving_m_s)[:, :2]
    return velocity


def blur(image: Array, across_px: float, down_px: float) -> Array:
    """The image averaged while it moves by (across, down) pixels, half before and half after."""
    weights = _blur_weights(across_px, down_px)
    if len(weights) == 1:
        return image
    if compiled.available():
        return compiled.convolve(image, weights)
    height, width, colours = image.shape
    reach_down = max(abs(down) for down, _ in weights)
    reach_across = max(abs(across) for _, across in weights)
    padded = _padded(image, reach_down, reach_across)
    # A move by whole pixels is a shift of the padded image laid out in a row; what wraps around lands in the padding.
    line, blurred = padded.ravel(), np.empty_like(padded)
    row = padded.shape[1] * colours
    start = reach_down * row + reach_across * colours
    size = line.size - 2 * start
    total, part = blurred.ravel()[start : start + size], np.empty(size, dtype=image.dtype)
    np.multiply(line[start : start + size], weights.pop((0, 0)), out=total)
    for (down, across), weight in weights.items():
        if (down, across) > (0, 0):  # the path is symmetric: each move has an opposite one of the same weight
            move = down * row + across * colours
            np.add(line[start - move :][:size], line[start + move :][:size], out=part)
            part *= weight
            total += part
    return blurred[reach_down : reach_down + height, reach_across : reach_across + width]


def roll(image: Array, across_px: float, down_px: float) -> Array:
    """The image read row by row while it moves by (across, down) pixels from one row to the next."""
    if not (across_px or down_px):
        return image
    if compiled.available():
        return compiled.shear(image, across_px, down_px)
    height, width, _ = image.shape
    rows = np.arange(height)
    if down_px:
        position = np.clip(rows * (1.0 - down_px), 0.0, height - 1.0)
        above = np.minimum(position.astype(np.int64), height - 2)
        part = (position - above).astype(np.float32)[:, None, None]
        rolled = np.empty(image.shape, dtype=image.dtype)
        for first, last in _runs(above - rows):
            top, bottom = int(above[first]), int(above[first]) + last - first
            _mix(image[top:bottom], image[top + 1 : bottom + 1], part[first:last], rolled[first:last])
        image = rolled
    if across_px:
        shift = rows * across_px
        whole = np.floor(shift)
        part = (shift - whole).astype(np.float32)[:, None, None]
        moves = np.clip(whole, -width, width).astype(np.int64)
        reach = int(np.abs(moves).max()) + 1
        padded = _padded(image, 0, reach)
        rolled = np.empty(image.shape, dtype=image.dtype)
        for first, last in _runs(moves):
            left = reach - int(moves[first])
            near = padded[first:last, left : left + width]
            far = padded[first:last, left - 1 : left - 1 + width]
            _mix(near, far, part[first:last], rolled[first:last])
        image = rolled
    return image


def _mix(near: Array, far: Array, part: Array, out: Array) -> None:
    """`near` where `part` is 0, `far` where it is 1."""
    np.subtract(far, near, out=out)
    out *= part
    out += near


def _runs(values: Array) -> list[tuple[int, int]]:
    """Stretches (first, one past the last) of equal values: few slices are much faster than an index per pixel."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return list(pairwise(edges))


def _blur_weights(across_px: float, down_px: float) -> dict[tuple[int, int], float]:
    """The path of the image as whole-pixel moves (down, across) and their weights, which sum to 1."""
    samples = 4 * int(np.ceil(max(abs(across_px), abs(down_px)))) + 1
    weights = {(0, 0): 1.0 / samples}
    for sample in range(1, samples // 2 + 1):
        across, down = sample / samples * across_px, sample / samples * down_px
        column, row = math.floor(across), math.floor(down)
        right, low = across - column, down - row
        for move, weight in (
            ((row, column), (1 - low) * (1 - right)),
            ((row, column + 1), (1 - low) * right),
            ((row + 1, column), low * (1 - right)),
            ((row + 1, column + 1), low * right),
        ):
            if weight > 0.0:
                for way in (move, (-move[0], -move[1])):
                    weights[way] = weights.get(way, 0.0) + weight / samples
    return weights


def _padded(image: Array, down: int, across: int) -> Array:
    """The image with its border repeated outwards: a tenth of the time of `np.pad`."""
    height, width, colours = image.shape
    padded = np.empty((height + 2 * down, width + 2 * across, colours), dtype=image.dtype)
    middle = padded[down : down + height]
    middle[:, across : across + width] = image
    middle[:, :across] = image[:, :1]
    middle[:, across + width :] = image[:, -1:]
    padded[:down] = middle[:1]
    padded[down + height :] = middle[-1:]
    return padded
