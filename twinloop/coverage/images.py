"""What a camera saw, as numbers: light, contrast, sharpness and colour that have names, and a small image that has none.

The image is shrunk to a few pixels: enough to detect a lamp, a table cloth or a hand in view, without a trained network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.coverage.variables import Variable
from twinloop.episode import Array, Episode

SIDE = 8
"""The small image is this many pixels high and wide."""
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
NAMED = ("light", "contrast", "sharpness", "warmth")


@dataclass(frozen=True, eq=False)
class Look:
    """Named values (N, V) and image vectors (N, D) of frames."""

    variables: tuple[Variable, ...]
    values: Array
    vectors: Array

    @staticmethod
    def joined(looks: Sequence[Look]) -> Look:
        """One after the other."""
        return Look(
            looks[0].variables,
            np.concatenate([look.values for look in looks]),
            np.concatenate([look.vectors for look in looks]),
        )


def look_at(episode: Episode, cameras: Sequence[str], rows: Array) -> Look:
    """Describe these rows of an episode through each camera; the video is decoded once."""
    variables, values, vectors = [], [], []
    for name in cameras:
        frames = episode.frames[name]
        wanted = set(rows.tolist())
        picked = [np.asarray(frame) for row, frame in enumerate(frames) if row in wanted]
        variables += [Variable(f"{name} {word}", "1", "nowhere") for word in NAMED]
        values.append(np.array([describe(frame) for frame in picked]))
        vectors.append(np.array([shrink(frame, SIDE).ravel() for frame in picked]))
    return Look(tuple(variables), np.concatenate(values, axis=1), np.concatenate(vectors, axis=1))


def describe(frame: Array) -> Array:
    """Light (mean luminance, 0 to 1), contrast (its deviation), sharpness (mean edge), warmth (red minus blue)."""
    scaled = frame.astype(np.float32) / 255.0
    grey = scaled @ _LUMINANCE
    edges = np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean()
    warmth = scaled[..., 0].mean() - scaled[..., 2].mean()
    return np.array([grey.mean(), grey.std(), edges, warmth])


def shrink(frame: Array, side: int) -> Array:
    """The frame averaged down to `side` x `side` pixels, 0 to 1."""
    height, width = frame.shape[:2]
    top = np.linspace(0, height, side + 1).astype(int)[:-1]
    left = np.linspace(0, width, side + 1).astype(int)[:-1]
    summed = np.add.reduceat(np.add.reduceat(frame.astype(np.float32), top, axis=0), left, axis=1)
    ones = np.ones((height, width, 1), dtype=np.float32)
    count = np.add.reduceat(np.add.reduceat(ones, top, axis=0), left, axis=1)
    return np.asarray(summed / count / 255.0)
