"""Pictures made smaller by averaging, whatever the ratio of the sizes."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array


def averaging(size: int, side: int) -> Array:
    """The matrix (side, size) that averages `size` pixels into `side`: each row sums to one, pixels count by overlap."""
    edges = np.linspace(0.0, size, side + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1.0) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(np.maximum(overlap, 0.0) * (side / size), np.float32)


def shrink(frames: Array, side: int) -> Array:
    """Frames (..., height, width, 3) uint8 as (..., side, side, 3) uint8."""
    height, width = frames.shape[-3:-1]
    if (height, width) == (side, side):
        return frames
    lines = np.moveaxis(np.asarray(frames, np.float32), -1, -3)
    small = averaging(height, side) @ lines @ averaging(width, side).T
    return np.asarray(np.rint(np.moveaxis(small, -3, -1)), np.uint8)
