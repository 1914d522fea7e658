"""All or nothing on disk: files are staged aside, then moved into place under one journal.

The commit point is the rename that creates the journal. Killed before it, nothing has happened; killed after it, the
next writer finishes the moves. Readers trust only what the manifest lists, and the manifest is moved last, so a
reader never has to wait and never sees half a commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinloop.dataset.layout import SIDE
from twinloop.errors import DamagedDataset, LockedDataset

STAGING = f"{SIDE}/staging"
JOURNAL = f"{SIDE}/journal.json"
LOCK = f"{SIDE}/lock"


class Transaction:
    """Files that will appear together, in the order in which they were staged."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._staging = root / STAGING
        self._staging.mkdir(parents=True, exist_ok=True)
        self._moves: list[tuple[str, str]] = []

    def stage(self, relative: str) -> Path:
        """A path to write the future content of `relative` to."""
        name = f"{len(self._moves):04d}-{Path(relative).name}"
        self._moves.append((f"{STAGING}/{name}", relative))
        return self._staging / name

    def commit(self) -> None:
        """Make every staged file durable, then move all of them into place."""
        for staged, _ in self._moves:
            _sync(self._root / staged)
        _sync(self._staging)
        write_atomically(self._root / JOURNAL, json.dumps({"moves": self._moves}).encode())
        finish_journal(self._root)

    def abandon(self) -> None:
        """Forget what was staged, unless the journal says that it is committed already."""
        if not (self._root / JOURNAL).exists():
            shutil.rmtree(self._staging, ignore_errors=True)


def finish_journal(root: Path) -> bool:
    """Finish an interrupted commit, if there is one, and clear what was never committed; True if it did anything."""
    journal = root / JOURNAL
    found = journal.exists()
    if found:
        try:
            moves = json.loads(journal.read_text())["moves"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedDataset(
                f"{journal} cannot be read ({error})", remedy="delete it if no writer is running"
            ) from error
        touched = set()
        for staged, relative in moves:
            target = root / relative
            if (root / staged).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (root / staged).replace(target)
            elif not target.exists():
                raise DamagedDataset(
                    f"{target} was committed but is gone", remedy="run `twinloop data verify --repair`"
                )
            touched.add(target.parent)
        for folder in touched:
            _sync(folder)
        journal.unlink()
        _sync(journal.parent)
    leftover = (root / STAGING).exists()
    shutil.rmtree(root / STAGING, ignore_errors=True)
    return found or leftover


def write_atomically(path: Path, content: bytes) -> None:
    """Replace one file so that a reader sees the old or the new content and a crash leaves one of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the data set's writer lock; a second writer is refused at once, saying who holds it.

    The operating system drops the lock when the process ends, however it ends.
    """
    path = root / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise LockedDataset(
                f"{root} is being written by {holder}",
                remedy="wait for it, or write to another folder and join them with `twinloop data merge`",
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
