"""Images to learn from: every video is decoded once, averaged down, and kept beside the dataset for the next epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.datasets.cache import cached_frames
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Camera


class Images:
    """The images of some cameras of a dataset, by row; where its own are of another shape, their middle."""

    def __init__(self, dataset: Dataset, cameras: Sequence[Camera], side: int) -> None:
        self._side = side
        self._frames = [
            cached_frames(dataset, camera.name, side, (camera.height, camera.width)) for camera in cameras
        ]

    def take(self, rows: Array) -> Array:
        """(rows, cameras, side, side, 3) uint8."""
        made = np.empty((len(rows), len(self._frames), self._side, self._side, 3), np.uint8)
        for index, frames in enumerate(self._frames):
            made[:, index] = frames[rows]
        return made
