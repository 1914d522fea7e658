"""How much room the episodes of a run need."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Schema

BYTES_PER_PIXEL = 0.12
"""Encoded size of a randomized camera image; simple scenes need a third of it."""

EPISODE_BYTES = 12_000
"""Statistics and provenance of one episode."""


def expected_bytes(schema: Schema, rows: int) -> float:
    """Bytes of one episode of `rows` rows, estimated on the large side."""
    row = sum(np.dtype(signal.dtype).itemsize * signal.size for signal in schema.signals) + 8
    pixels = sum(camera.height * camera.width for camera in schema.cameras)
    return EPISODE_BYTES + rows * (row + BYTES_PER_PIXEL * pixels)
