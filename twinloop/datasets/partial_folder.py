"""Folders that appear under their name only when they are complete, and what killed writers leave of them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets.layout import INFO
from twinloop.durable import replace_durably
from twinloop.errors import DatasetError, LockedDataset

_PARTIAL = re.compile(r"\.(?P<target>.+)\.(?P<process>\d+)\.(partial|spool|tmp)")


@dataclass(frozen=True)
class Leftover:
    """A hidden folder or file of a process that ended before it had written `target`."""

    path: Path
    target: Path
    process: int

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        files = [self.path, *self.path.rglob("*")]
        return sum(file.lstat().st_size for file in files if not file.is_dir())


@contextmanager
def partial_folder(out: Path, *, resumable: bool = False, resume: bool = False) -> Iterator[Path]:
    """Yield an empty temporary folder next to `out`, renamed to `out` on success and deleted on failure.

    Args:
        out: The final path, which must not exist or be an empty folder.
        resumable: Keep the temporary folder after Ctrl-C, as after a kill.
        resume: Continue in the newest temporary folder of a process that has ended; it is then not empty.

    Raises:
        LockedDataset: Another process is writing `out`.
        DatasetError: `out` exists and is not empty.
    """
    _require_free(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".{out.name}.{os.getpid()}.partial"
    _require_only_writer(out, temporary)
    stale = [one.path for one in find_leftovers(out.parent) if one.target == out]
    if temporary.exists():
        stale.append(temporary)  # of an earlier process with our id
    stale = sorted(
        (path for path in stale if path.suffix == ".partial"), key=lambda path: path.stat().st_mtime
    )
    if resume and stale:
        stale.pop().rename(temporary)
    for path in stale:
        shutil.rmtree(path, ignore_errors=True)
    temporary.mkdir(exist_ok=True)
    keep = False
    try:
        _require_only_writer(out, temporary)
        yield temporary
        _rename(temporary, out)
    except KeyboardInterrupt:
        keep = resumable
        raise
    finally:
        if not keep:
            shutil.rmtree(temporary, ignore_errors=True)


def find_leftovers(folder: Path, *, below: bool = False) -> list[Leftover]:
    """Find what processes that have ended left of folders and files they were writing.

    Args:
        folder: Where to look.
        below: Look in all folders below as well, except in hidden ones and inside datasets.
    """
    found = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            matched = _PARTIAL.fullmatch(name)
            if matched and not is_process_running(matched["process"]):
                parent = Path(place)
                found.append(Leftover(parent / name, parent / matched["target"], int(matched["process"])))
        inside = below and not Path(place, INFO).exists()
        folders[:] = [name for name in folders if inside and not name.startswith(".")]
    return sorted(found, key=lambda one: one.path)


def remove_leftovers(leftovers: list[Leftover]) -> None:
    """Delete leftovers."""
    for one in leftovers:
        if one.path.is_dir():
            shutil.rmtree(one.path)
        else:
            one.path.unlink(missing_ok=True)


def is_process_running(process: str) -> bool:
    """Return whether a process with this id exists; text that is not an id counts as running."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, PermissionError):
        return True
    return True


def _require_free(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DatasetError(
            f"{out} already exists and is not empty", remedy="choose another folder, or delete this one"
        )


def _rename(temporary: Path, out: Path) -> None:
    _require_free(out)
    try:
        replace_durably(temporary, out)
    except OSError:
        _require_free(out)  # another process was faster
        raise


def _require_only_writer(out: Path, own: Path) -> None:
    """Refuse if another process is writing `out`; our own folder exists already, so two processes see each other."""
    for path in out.parent.glob(f".{out.name}.*.partial"):
        matched = _PARTIAL.fullmatch(path.name)
        if (
            path != own
            and matched
            and matched["target"] == out.name
            and is_process_running(matched["process"])
        ):
            raise LockedDataset(
                f"{out} is being written by process {matched['process']}",
                remedy="wait for it, or choose another folder",
            )
