"""Atomic commits of many files: files are staged, then moved into place under one journal.

The commit point is the rename that creates the journal. A writer killed before it has changed nothing; after it, the
next writer finishes the moves. Readers trust only the files that the manifest lists, and the manifest is moved last,
so a reader never waits and never sees half a commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from twinloop.datasets.layout import SIDECAR, escapes
from twinloop.durable import sync
from twinloop.errors import DamagedDataset, DiskError, LockedDataset, TwinloopError, WrongUse, first_line

STAGING = f"{SIDECAR}/staging"
JOURNAL = f"{SIDECAR}/journal.json"
LOCK = f"{SIDECAR}/lock"
VIEW = ".cache/view_of"
"""In a folder that stands for a dataset in object storage: its address."""


class Transaction:
    """Staged files that are moved into place together, in the order in which they were staged."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._staging = root / STAGING
        self._staging.mkdir(parents=True, exist_ok=True)
        self._moves: list[tuple[str, str]] = []

    def stage(self, relative: str) -> Path:
        """Return the path to write the new content of `relative` to."""
        name = f"{len(self._moves):04d}-{Path(relative).name}"
        self._moves.append((f"{STAGING}/{name}", relative))
        return self._staging / name

    def unstage(self, relative: str) -> None:
        """Remove a staged file that could not be written."""
        for staged, _ in [move for move in self._moves if move[1] == relative]:
            (self._root / staged).unlink(missing_ok=True)
        # The entry stays in the list, so that the numbers in staged names stay unique.
        self._moves = [move if move[1] != relative else ("", "") for move in self._moves]

    def commit(self) -> None:
        """Make every staged file durable, then move all of them into place."""
        moves = [move for move in self._moves if move[1]]
        for staged, _ in moves:
            sync(self._root / staged)
        sync(self._staging)
        write_atomically(self._root / JOURNAL, json.dumps({"moves": moves}).encode())
        finish_journal(self._root)

    def discard(self) -> None:
        """Delete the staged files, unless the journal shows that they are already committed."""
        if not (self._root / JOURNAL).exists():
            shutil.rmtree(self._staging, ignore_errors=True)


def finish_journal(root: Path, *, accept_loss: bool = False) -> bool:
    """Finish an interrupted commit, if there is one, and delete uncommitted files.

    Args:
        root: The dataset.
        accept_loss: Skip a committed file that is neither staged nor in place.

    Returns:
        Whether there was anything to do.

    Raises:
        DamagedDataset: A committed file is missing and `accept_loss` is False.
    """
    journal = root / JOURNAL
    interrupted = journal.exists()
    if interrupted:
        touched = {root}
        for staged, relative in load_journal(root):
            target = root / relative
            if (root / staged).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (root / staged).replace(target)
            elif not target.exists():
                if accept_loss:
                    continue
                raise DamagedDataset(
                    f"{target} was committed but is missing", remedy="run `twinloop data verify --repair`"
                )
            # New folders must survive a crash too, so every folder above the file is synced.
            touched |= {folder for folder in target.parents if folder.is_relative_to(root)}
        for folder in sorted(touched, reverse=True):
            sync(folder)
        journal.unlink()
        sync(journal.parent)
    leftovers = [root / STAGING, *(root / SIDECAR).glob(".*.tmp")]
    present = [path for path in leftovers if path.exists()]
    for path in present:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return interrupted or bool(present)


def load_journal(root: Path) -> list[tuple[str, str]]:
    """Return the moves (staged name, name in the dataset) of an unfinished commit."""
    journal = root / JOURNAL
    try:
        content = json.loads(journal.read_text())
        moves = [(str(staged), str(relative)) for staged, relative in content["moves"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedDataset(
            f"{journal} cannot be read ({error})", remedy="run `twinloop data verify --repair`"
        ) from error
    for name in (name for move in moves for name in move):
        if escapes(name):
            raise DamagedDataset(f"{journal} points outside the dataset", got=name)
    return moves


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader or a crash sees either the old or the new content."""
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
    sync(path.parent)


def make_private_folder(path: Path) -> None:
    """Make a folder, where there is none, that only its owner and, if the umask allows, its group can enter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o770, exist_ok=True)


@contextmanager
def hold_lock(root: Path, name: str, busy: Callable[[str], TwinloopError]) -> Iterator[None]:
    """Hold the lock file `name` below `root`, or raise `busy(holder)` at once if another process holds it.

    The operating system releases the lock when the process ends, however it ends.
    """
    path = root / name
    with disk_errors(root):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+")
    with opened as file:
        try:
            with disk_errors(root):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise busy(file.read().strip() or "another process") from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Wait for the lock file `path` and hold it; the operating system releases it when the process ends."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a")
    with opened as file:
        with disk_errors(path.parent):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def writer_lock(root: Path) -> AbstractContextManager[None]:
    """Hold the dataset's writer lock, or raise `LockedDataset` at once, naming the process that holds it.

    A folder that stands for a dataset in object storage is never written: nobody would see it.
    """
    if os.path.isfile(root / VIEW):  # noqa: PTH113 (Path.is_file fails in a folder without permission)
        raise WrongUse(
            "a dataset in object storage is changed through its source",
            got=(root / VIEW).read_text(),
            remedy="twinloop data pull ADDRESS FOLDER; change it there; twinloop data push FOLDER ADDRESS",
        )
    return hold_lock(
        root,
        LOCK,
        lambda holder: LockedDataset(
            f"{root} is being written by {holder}",
            remedy="wait for it, or write to another folder and join them with `twinloop data merge`",
        ),
    )


def has_active_writer(root: Path) -> bool:
    """Return whether a writer holds the lock; changes nothing."""
    try:
        with (root / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Turn write errors of the operating system or of Arrow into a `DiskError` with a remedy."""
    try:
        yield
    except BlockingIOError:
        raise
    except (OSError, pa.ArrowException) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else first_line(error)
        raise DiskError(
            f"{root} cannot be written ({reason})", remedy="check free space and permissions, then try again"
        ) from error


@contextmanager
def read_errors(path: Path, remedy: str = "run `twinloop data verify`") -> Iterator[None]:
    """Turn errors while reading `path` into a `DamagedDataset` with a remedy."""
    try:
        yield
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise DamagedDataset(f"{path} cannot be read ({first_line(error)})", remedy=remedy) from error


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Defer Ctrl-C until the end of the block, so that the block runs completely."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            before(pressed[0], None)
