"""How much room a run needs, before it starts and as it goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from twinloop.episode import Schema
from twinloop.errors import GenerationError

HEADROOM_BYTES = 256 << 20
"""Left free on top: parts that wait to be joined, and everybody else on the disk."""

BYTES_PER_PIXEL = 0.12
"""Of a randomized camera picture as encoded; simple scenes need a third of it."""

EPISODE_BYTES = 12_000
"""Statistics and provenance of one episode."""


def expected_bytes(schema: Schema, rows: int) -> float:
    """What one episode of `rows` rows will take, as a guess on the large side."""
    row = sum(np.dtype(signal.dtype).itemsize * signal.size for signal in schema.signals) + 8
    pixels = sum(camera.height * camera.width for camera in schema.cameras)
    return EPISODE_BYTES + rows * (row + BYTES_PER_PIXEL * pixels)


def free_bytes(folder: Path) -> int:
    """Room on the disk that `folder` is on, or would be on."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(there).free


def check_room(folder: Path, needed_bytes: float, *, what: str, remedy: str) -> None:
    """Refuse unless `needed_bytes` and some headroom are free."""
    free = free_bytes(folder)
    if needed_bytes + HEADROOM_BYTES > free:
        raise GenerationError(
            f"not enough room for {what} in {folder}",
            got=f"{in_words(free)} free",
            expected=f"about {in_words(needed_bytes + HEADROOM_BYTES)}",
            remedy=remedy,
        )


def in_words(count: float) -> str:
    """A size for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000.0:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} TB"
