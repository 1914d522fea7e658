"""Images made smaller: cut to another shape about the middle, and averaged down whatever the ratio of the sizes."""

from __future__ import annotations

import itertools

import numpy as np

from twinloop.episode import Array


def averaging(size: int, side: int) -> Array:
    """The matrix (side, size) that averages `size` pixels into `side`: each row sums to one, pixels count by overlap."""
    edges = np.linspace(0.0, size, side + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1.0) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(np.maximum(overlap, 0.0) * (side / size), np.float32)


def cut_size(size: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the largest piece of an image of `size` that has the proportions of `shape`."""
    (tall, wide), (height, width) = size, shape
    if tall * width > wide * height:
        return max(1, round(wide * height / width)), wide
    return tall, max(1, round(tall * width / height))


def cut(frames: Array, shape: tuple[int, int]) -> Array:
    """The middle of frames (..., height, width, 3), as large as it can be with the proportions of `shape`: a view."""
    tall, wide = frames.shape[-3:-1]
    height, width = cut_size((tall, wide), shape)
    top, left = (tall - height) // 2, (wide - width) // 2
    return frames[..., top : top + height, left : left + width, :]


def shrink(frames: Array, side: int) -> Array:
    """Frames (..., height, width, 3) uint8 as (..., side, side, 3) uint8."""
    height, width = frames.shape[-3:-1]
    if (height, width) == (side, side):
        return frames
    # No matrix products: on a busy machine the threads that help with so small ones cost far more than they bring.
    if height % side == 0 and width % side == 0:
        down, across = height // side, width // side
        total = np.zeros((*frames.shape[:-3], side, side, 3), np.uint32)
        for row, column in itertools.product(range(down), range(across)):
            total += frames[..., row::down, column::across, :]
        small = total / (down * across)
    else:
        lower = np.einsum("sh,...hwc->...swc", averaging(height, side), np.asarray(frames, np.float32))
        small = np.einsum("sw,...hwc->...hsc", averaging(width, side), lower)
    return np.asarray(np.rint(small), np.uint8)
