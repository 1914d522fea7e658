"""Edges of recorded images: how far the nearest is, and exactly where one crosses a line."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from twinloop.episode import Array
from twinloop.errors import MissingExtra

DIRECTIONS = 8
"""Kinds of edges by direction, for searches from far away."""
SMOOTHING_PX = 0.8
FAINTEST = 5.0
"""An edge is at least this many times as strong as the image's median gradient, of which most is noise."""
STEP_PX = 0.5


def import_cv2() -> ModuleType:
    """OpenCV, which only images need."""
    try:
        import cv2
    except ImportError:
        raise MissingExtra("aligning a camera", "cv2", "cameras") from None
    return cv2


class EdgeImage:
    """Gradients of an image (height, width, 3) uint8, or of several what stays: the median of their gradients."""

    def __init__(self, *images: Array) -> None:
        every = [_gradient(image) for image in images]
        self.gradient = every[0] if len(every) == 1 else np.median(every, axis=0).astype(np.float32)
        size = np.sqrt((self.gradient**2).sum(axis=2) / 3.0)
        self.faintest = max(1.5, FAINTEST * float(np.median(size)))
        self._size = size

    def cross(self, spot: Array, normal: Array, reach_px: float) -> tuple[Array, Array]:
        """Where the strongest edge near each spot (n, 2) crosses its normal (n, 2): distance (n,) in pixels, NaN if none, and strength.

        Far edges count less than near ones: the expected position is worth something.
        """
        cv2 = import_cv2()
        along = np.arange(-reach_px, reach_px + STEP_PX / 2, STEP_PX)
        at = spot[:, None, :] + along[None, :, None] * normal[:, None, :]
        height, width = self._size.shape
        inside = ((at >= 1) & (at <= np.array([width - 2, height - 2]))).all(axis=2)
        maps = np.nan_to_num(at, nan=-10.0).astype(np.float32)
        channels = [
            cv2.remap(
                np.ascontiguousarray(self.gradient[..., c]), maps[..., 0], maps[..., 1], cv2.INTER_LINEAR
            )
            for c in range(6)
        ]
        slope = np.stack(
            [channels[c] * normal[:, :1] + channels[c + 3] * normal[:, 1:] for c in range(3)], axis=2
        )
        strength = np.sqrt((slope**2).sum(axis=2) / 3.0)
        strength[~inside] = 0.0
        peak = np.zeros_like(strength, bool)
        peak[:, 1:-1] = (strength[:, 1:-1] >= strength[:, :-2]) & (strength[:, 1:-1] > strength[:, 2:])
        score = np.where(peak & (strength > self.faintest), strength, 0.0)
        score = score * np.exp(-0.5 * (along / (0.6 * reach_px)) ** 2)
        best = np.argmax(score, axis=1)
        every = np.arange(len(spot))
        found = score[every, best] > 0.0
        best = np.clip(best, 1, len(along) - 2)
        left, top, right = (strength[every, best + k] for k in (-1, 0, 1))
        bend = np.minimum(left - 2.0 * top + right, -1e-9)
        fine = np.clip(0.5 * (left - right) / bend, -0.5, 0.5)
        return np.where(found, along[best] + STEP_PX * fine, np.nan), np.where(found, top, 0.0)

    def distances(self, shrink: int) -> Array:
        """For each direction of edges, how far every pixel of the image `shrink` times smaller is from one, (DIRECTIONS, h, w)."""
        cv2 = import_cv2()
        angle = np.arctan2(self.gradient[..., 3:].sum(axis=2), self.gradient[..., :3].sum(axis=2)) % np.pi
        kind = np.round(angle / np.pi * DIRECTIONS).astype(int) % DIRECTIONS
        strong = self._size > self.faintest
        made = []
        for direction in range(DIRECTIONS):
            near = np.isin(kind, [(direction + k) % DIRECTIONS for k in (-2, -1, 0, 1, 2)])
            edges = _shrink(strong & near, shrink)
            made.append(cv2.distanceTransform((~edges).astype(np.uint8), cv2.DIST_L2, 3))
        return np.stack(made)


def _gradient(image: Array) -> Array:
    """Of each channel, across and then down, (height, width, 6)."""
    smooth = import_cv2().GaussianBlur(np.asarray(image, np.float32), (0, 0), SMOOTHING_PX)
    parts = [np.gradient(smooth, axis=1), np.gradient(smooth, axis=0)]
    return np.concatenate(parts, axis=2).astype(np.float32)


def _shrink(mask: Array, shrink: int) -> Array:
    """A mask `shrink` times smaller: true where any pixel is."""
    height, width = (size // shrink * shrink for size in mask.shape)
    blocks = mask[:height, :width].reshape(height // shrink, shrink, width // shrink, shrink)
    return np.asarray(blocks.any(axis=(1, 3)))


def signed_distance(mask: Array) -> Array:
    """How far each pixel is outside the mask, negative inside, in pixels."""
    cv2 = import_cv2()
    inside = np.asarray(mask, np.uint8)
    out = cv2.distanceTransform(1 - inside, cv2.DIST_L2, 5)
    within = cv2.distanceTransform(inside, cv2.DIST_L2, 5)
    return np.asarray(np.where(inside > 0, 0.5 - within, out - 0.5))
