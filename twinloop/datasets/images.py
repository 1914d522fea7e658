"""Crop and downsample images, for any ratio of sizes."""

from __future__ import annotations

import itertools

import numpy as np

from twinloop.episode import Array


def area_weights(size: int, side: int) -> Array:
    """Return the (side, size) matrix that averages `size` pixels into `side` by overlap; each row sums to one."""
    edges = np.linspace(0.0, size, side + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1.0) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(np.maximum(overlap, 0.0) * (side / size), np.float32)


def crop_size(size: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of the largest crop of an image of `size` with the aspect ratio of `shape`."""
    (tall, wide), (height, width) = size, shape
    if tall * width > wide * height:
        return max(1, round(wide * height / width)), wide
    return tall, max(1, round(tall * width / height))


def crop(frames: Array, shape: tuple[int, int]) -> Array:
    """Center-crop frames (..., height, width, 3) to the aspect ratio of `shape`; returns a view."""
    tall, wide = frames.shape[-3:-1]
    height, width = crop_size((tall, wide), shape)
    top, left = (tall - height) // 2, (wide - width) // 2
    return frames[..., top : top + height, left : left + width, :]


def downsample(frames: Array, side: int) -> Array:
    """Average frames (..., height, width, 3) uint8 down to (..., side, side, 3) uint8."""
    height, width = frames.shape[-3:-1]
    if (height, width) == (side, side):
        return frames
    # No matrix products: for products this small, thread start-up on a busy machine costs more than it saves.
    if height % side == 0 and width % side == 0:
        down, across = height // side, width // side
        total = np.zeros((*frames.shape[:-3], side, side, 3), np.uint32)
        for row, column in itertools.product(range(down), range(across)):
            total += frames[..., row::down, column::across, :]
        small = total / (down * across)
    else:
        lower = np.einsum("sh,...hwc->...swc", area_weights(height, side), np.asarray(frames, np.float32))
        small = np.einsum("sw,...hwc->...hsc", area_weights(width, side), lower)
    return np.asarray(np.rint(small), np.uint8)
