"""Folders that appear under their name only when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinloop.errors import DatasetError


@contextmanager
def partial_folder(out: Path, *, resumable: bool = False, resume: bool = False) -> Iterator[Path]:
    """Yield a temporary folder next to `out`, renamed to `out` on success and deleted on failure.

    Args:
        out: The final path, which must not exist or be an empty folder.
        resumable: Keep the temporary folder after Ctrl-C, as after a kill.
        resume: Continue in the newest temporary folder of a process that has ended.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DatasetError(
            f"{out} already exists and is not empty", remedy="choose another folder, or delete this one"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".{out.name}.{os.getpid()}.partial"
    leftovers = [
        path
        for path in sorted(out.parent.glob(f".{out.name}.*.partial"), key=lambda path: path.stat().st_mtime)
        if path == temporary or not is_process_running(path.suffixes[-2][1:])
    ]
    if resume and leftovers:
        leftovers.pop().rename(temporary)
    for stale in leftovers:
        shutil.rmtree(stale, ignore_errors=True)
    keep = False
    try:
        yield temporary
        if out.exists():
            out.rmdir()
        temporary.rename(out)
    except KeyboardInterrupt:
        keep = resumable
        raise
    finally:
        if not keep:
            shutil.rmtree(temporary, ignore_errors=True)


def is_process_running(process: str) -> bool:
    """Return whether a process with this id exists; text that is not an id counts as running."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, PermissionError):
        return True
    return True
