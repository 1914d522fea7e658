"""An image as numbers: a fixed descriptor of what is where, and the plain qualities of a camera's image.

The descriptor needs no weights and no downloads: brightness, colour and edges by direction in a 4 x 4 grid, and energy by
scale. It sees layout, light and texture; it does not know what things are. A learned encoder may replace it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from twinloop.episode import Array

SIZE = 64
CELLS = 4
PLACE_PX, LEAST_DETAIL = 8, 0.02
DIRECTIONS = 8
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
QUALITIES: dict[str, tuple[str, float, str]] = {
    "sharpness": ("1", 0.05, "edge energy at the finest scale over that at the next"),
    "noise": ("levels", 0.5, "standard deviation from pixel to pixel where the image is flat, of 255"),
    "exposure": ("levels", 3.0, "mean brightness, of 255"),
    "contrast": ("levels", 5.0, "distance of the 5th and 95th percentiles of brightness, of 255"),
    "clipped": ("1", 0.01, "fraction of pixels at the dark or the bright end"),
    "colour, red to green": ("1", 0.02, "logarithm of the ratio of means"),
    "colour, blue to green": ("1", 0.02, "logarithm of the ratio of means"),
    "saturation": ("1", 0.02, "mean distance of the channels, relative to brightness"),
}
"""Unit, the smallest visible difference, and a description."""


def describe(frame: Array) -> Array:
    """The descriptor of one image (H, W, 3) uint8: 16 x (2 moments of 3 channels + 8 directions) + 4 scales."""
    small = shrink(frame, SIZE).astype(np.float64) / 255.0
    light = small @ LUMINANCE
    down, across = np.gradient(ndimage.gaussian_filter(light, 1.0))
    size = np.hypot(down, across)
    direction = ((np.arctan2(down, across) + np.pi) / (2 * np.pi) * DIRECTIONS).astype(int) % DIRECTIONS
    step = SIZE // CELLS
    parts: list[Array] = []
    for top in range(0, SIZE, step):
        for left in range(0, SIZE, step):
            where = (slice(top, top + step), slice(left, left + step))
            pixels = small[where].reshape(-1, 3)
            edges = np.bincount(direction[where].ravel(), size[where].ravel(), minlength=DIRECTIONS)
            parts += [pixels.mean(axis=0), pixels.std(axis=0), np.sqrt(edges / step**2)]
    scales = [ndimage.gaussian_filter(light, sigma) for sigma in (0.0, 1.0, 2.0, 4.0, 8.0)]
    parts.append(np.array([np.sqrt(np.mean((a - b) ** 2)) for a, b in itertools.pairwise(scales)]))
    return np.concatenate(parts)


def measure_qualities(frame: Array) -> Array:
    """The numbers of `QUALITIES` of one image (H, W, 3) uint8."""
    pixels = np.asarray(frame, np.float64)
    light = pixels @ LUMINANCE
    low, high = np.percentile(light, [5, 95])
    red, green, blue = pixels.reshape(-1, 3).mean(axis=0) + 1.0
    spread = (pixels.max(axis=2) - pixels.min(axis=2)).mean() / max(float(light.mean()), 1.0)
    clipped = float(np.mean((pixels <= 2).all(axis=2) | (pixels >= 253).all(axis=2)))
    return np.array(
        [
            _sharpness(light),
            _noise(light),
            light.mean(),
            high - low,
            clipped,
            np.log(red / green),
            np.log(blue / green),
            spread,
        ]
    )


def shrink(frame: Array, size: int) -> Array:
    """The image at size x size by area_weights, or by repeating where it is smaller."""
    height, width = frame.shape[:2]
    rows = np.linspace(0, height, size + 1).astype(int)
    columns = np.linspace(0, width, size + 1).astype(int)
    total = np.zeros((height + 1, width + 1, 3))
    total[1:, 1:] = np.asarray(frame, np.float64).cumsum(axis=0).cumsum(axis=1)
    bottom, right = np.maximum(rows[1:], rows[:-1] + 1), np.maximum(columns[1:], columns[:-1] + 1)
    top, left = rows[:-1], columns[:-1]
    sums = (
        total[np.ix_(bottom, right)]
        - total[np.ix_(top, right)]
        - total[np.ix_(bottom, left)]
        + total[np.ix_(top, left)]
    )
    area = np.outer(bottom - top, right - left)[..., None]
    return np.asarray(sums / area)


def _sharpness(light: Array) -> float:
    fine = light - ndimage.gaussian_filter(light, 1.0)
    coarse = ndimage.gaussian_filter(light, 1.0) - ndimage.gaussian_filter(light, 2.0)
    return float(np.sqrt(np.mean(fine**2)) / max(float(np.sqrt(np.mean(coarse**2))), 1e-6))


def _noise(light: Array) -> float:
    """Robust, from a mask that cancels planes and edges (Immerkaer 1996)."""
    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float64)
    return float(1.4826 * np.median(np.abs(ndimage.convolve(light, mask))) / 6.0)


@dataclass(frozen=True)
class FrameLevels:
    """One camera over time: mean level of each frame, and its mean difference from the frame before, of 255, both (T,)."""

    level: Array
    change: Array


def measure_levels(frames: Iterable[Array]) -> FrameLevels:
    """Level and change of every frame (H, W, 3) uint8, in one pass over the video."""
    level, change = [], []
    before: Array | None = None
    for frame in frames:
        # Every second pixel is enough to see a change, and half the work.
        small = np.asarray(frame)[::2, ::2].astype(np.int16)
        level.append(float(small.mean()))
        change.append(0.0 if before is None else float(np.abs(small - before).mean()))
        before = small
    return FrameLevels(np.array(level), np.array(change))


def measure_shift(before: Array, now: Array) -> tuple[float, float]:
    """How far an image (H, W, 3) has moved, in pixels (down, right): phase correlation, to a fraction of a pixel."""
    first, second = (np.asarray(frame, np.float64) @ LUMINANCE for frame in (before, now))
    window = np.outer(np.hanning(first.shape[0]), np.hanning(first.shape[1]))
    a, b = (np.fft.rfft2((light - light.mean()) * window) for light in (first, second))
    cross = b * np.conj(a)
    peak = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-9), s=first.shape)
    row, column = np.unravel_index(int(np.argmax(peak)), peak.shape)
    return _refined(peak[:, column], int(row)), _refined(peak[row, :], int(column))


def measure_dulled(before: Array, now: Array) -> float:
    """The fraction of an image's places (H, W, 3) that had detail and have lost half of it, relative to their brightness.

    Dirt, water and a lens out of focus take detail away; light changes it as much as brightness, and a camera that moves carries it
    elsewhere.
    """
    usual, seen = (_relative_detail(np.asarray(frame, np.float64) @ LUMINANCE) for frame in (before, now))
    detailed = usual > max(LEAST_DETAIL, float(np.median(usual)))
    return float(np.mean(seen[detailed] < 0.5 * usual[detailed])) if detailed.any() else 0.0


def _relative_detail(light: Array) -> Array:
    """Contrast of brightness over a few pixels, relative to the brightness around, averaged over places of `PLACE_PX`."""
    fine = light - ndimage.gaussian_filter(light, 2.0)
    around = ndimage.uniform_filter(light, PLACE_PX) + 1.0
    strength = np.sqrt(ndimage.uniform_filter(fine**2, PLACE_PX)) / around
    return np.asarray(strength[PLACE_PX // 2 :: PLACE_PX, PLACE_PX // 2 :: PLACE_PX])


def _refined(line: Array, at: int) -> float:
    """The vertex of a parabola through a peak and its neighbours, counted from the middle of a circle."""
    left, top, right = line[at - 1], line[at], line[(at + 1) % len(line)]
    bend = left - 2.0 * top + right
    fine = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
    place = at + float(np.clip(fine, -0.5, 0.5))
    return place - len(line) if place > len(line) / 2 else place
