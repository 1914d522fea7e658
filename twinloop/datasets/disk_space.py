"""Free disk space: measure it, and refuse work that would not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

from twinloop.errors import DiskError, TwinloopError

HEADROOM_BYTES = 256 << 20
"""Kept free on top of what is needed: parts waiting to be joined, and other users of the disk."""


def free_bytes(folder: Path) -> int:
    """Return the free space on the disk that holds, or would hold, `folder`."""
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(existing).free


def check_disk_space(
    folder: Path, needed_bytes: float, *, what: str, remedy: str, error: type[TwinloopError] = DiskError
) -> None:
    """Raise `error` unless `needed_bytes` plus some headroom are free."""
    free = free_bytes(folder)
    if needed_bytes + HEADROOM_BYTES > free:
        raise error(
            f"not enough disk space for {what} in {folder}",
            got=f"{format_bytes(free)} free",
            expected=f"about {format_bytes(needed_bytes + HEADROOM_BYTES)}",
            remedy=remedy,
        )


def format_bytes(count: float) -> str:
    """Format a size for people: 1.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000.0:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} TB"
