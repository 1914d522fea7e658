"""Room on a disk: how much is left, and refusing what would not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

from twinloop.errors import DiskError, TwinloopError

HEADROOM_BYTES = 256 << 20
"""Left free on top: parts that wait to be joined, and everybody else on the disk."""


def free_bytes(folder: Path) -> int:
    """Room on the disk that `folder` is on, or would be on."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(there).free


def check_room(
    folder: Path, needed_bytes: float, *, what: str, remedy: str, error: type[TwinloopError] = DiskError
) -> None:
    """Refuse unless `needed_bytes` and some headroom are free."""
    free = free_bytes(folder)
    if needed_bytes + HEADROOM_BYTES > free:
        raise error(
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
