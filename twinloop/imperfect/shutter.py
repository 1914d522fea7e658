"""What a shutter does to a picture that moves: blur over the exposure, skew over the readout.

The picture is taken to move as a whole, by `velocity_px_s` (x to the right, y down); `image_velocity_px_s` gives it for
a moving camera. Row r is exposed from r `line_time_s` on, for `exposure_s`. A picture here is planes first:
(3, height, width) float32, in linear light.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """How fast the middle of the picture moves, (N, 2), when the camera turns and moves, both (N, 3).

    Camera axes: x right, y down, z forward. `distance_m` is how far away the scene is.
    """
    turning = np.asarray(turning_rad_s, dtype=np.float64)
    velocity = focal_px * np.stack([-turning[:, 1], turning[:, 0]], axis=-1)
    if moving_m_s is not None:
        ratio = np.reshape(focal_px / np.asarray(distance_m, dtype=np.float64), (-1, 1))
        velocity -= ratio * np.asarray(moving_m_s)[:, :2]
    return velocity


def blur(planes: Array, across_px: float, down_px: float) -> Array:
    """The picture averaged while it moves by (across, down) pixels, half before and half after."""
    taps = _blur_taps(across_px, down_px)
    if len(taps) == 1:
        return planes
    _, height, width = planes.shape
    reach_down = max(abs(down) for down, _, _ in taps)
    reach_across = max(abs(across) for _, across, _ in taps)
    padded = _padded(planes, reach_down, reach_across)
    blurred = np.zeros_like(planes)
    part = np.empty_like(planes)
    for down, across, weight in taps:
        top, left = reach_down - down, reach_across - across
        np.multiply(padded[:, top : top + height, left : left + width], weight, out=part)
        blurred += part
    return blurred


def roll(planes: Array, across_px: float, down_px: float) -> Array:
    """The picture read row by row while it moves by (across, down) pixels from one row to the next."""
    channels, height, width = planes.shape
    rows = np.arange(height)
    if down_px:
        position = np.clip(rows * (1.0 - down_px), 0.0, height - 1.0)
        above = np.minimum(position.astype(np.int64), height - 2)
        part = (position - above).astype(np.float32)[:, None]
        upper = planes[:, above]
        planes = upper + part * (planes[:, above + 1] - upper)
    if across_px:
        shift = rows * across_px
        whole = np.floor(shift)
        part = (shift - whole).astype(np.float32)[:, None]
        right = np.arange(width) - whole.astype(np.int64)[:, None]
        start = rows[:, None] * width
        flat = planes.reshape(channels, -1)
        near = flat.take(start + np.clip(right, 0, width - 1), axis=1)
        planes = flat.take(start + np.clip(right - 1, 0, width - 1), axis=1)
        planes -= near
        planes *= part
        planes += near
    return planes


def _blur_taps(across_px: float, down_px: float) -> list[tuple[int, int, float]]:
    """The path of the picture as whole-pixel moves (down, across) and their weights, which sum to 1."""
    samples = 4 * int(np.ceil(max(abs(across_px), abs(down_px)))) + 1
    when = (np.arange(samples) + 0.5) / samples - 0.5
    weights: dict[tuple[int, int], float] = {}
    for along in when.tolist():
        across, down = along * across_px, along * down_px
        column, row = int(np.floor(across)), int(np.floor(down))
        right, low = across - column, down - row
        for move, weight in (
            ((row, column), (1 - low) * (1 - right)),
            ((row, column + 1), (1 - low) * right),
            ((row + 1, column), low * (1 - right)),
            ((row + 1, column + 1), low * right),
        ):
            if weight > 0.0:
                weights[move] = weights.get(move, 0.0) + weight / samples
    return [(down, across, weight) for (down, across), weight in weights.items()]


def _padded(planes: Array, down: int, across: int) -> Array:
    """The picture with its border repeated outwards: a tenth of the time of `np.pad`."""
    channels, height, width = planes.shape
    padded = np.empty((channels, height + 2 * down, width + 2 * across), dtype=planes.dtype)
    middle = padded[:, down : down + height]
    middle[:, :, across : across + width] = planes
    middle[:, :, :across] = planes[:, :, :1]
    middle[:, :, across + width :] = planes[:, :, -1:]
    padded[:, :down] = middle[:, :1]
    padded[:, down + height :] = middle[:, -1:]
    return padded
