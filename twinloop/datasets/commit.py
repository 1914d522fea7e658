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
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from twinloop.datasets.layout import SIDE, escapes
from twinloop.errors import DamagedDataset, DiskError, LockedDataset, TwinloopError

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

    def unstage(self, relative: str) -> None:
        """Forget a file that could not be written after all."""
        for staged, _ in [move for move in self._moves if move[1] == relative]:
            (self._root / staged).unlink(missing_ok=True)
        # The place keeps its number, so that names of staged files stay unique.
        self._moves = [move if move[1] != relative else ("", "") for move in self._moves]

    def commit(self) -> None:
        """Make every staged file durable, then move all of them into place."""
        moves = [move for move in self._moves if move[1]]
        for staged, _ in moves:
            sync(self._root / staged)
        sync(self._staging)
        write_atomically(self._root / JOURNAL, json.dumps({"moves": moves}).encode())
        finish_journal(self._root)

    def abandon(self) -> None:
        """Forget what was staged, unless the journal says that it is committed already."""
        if not (self._root / JOURNAL).exists():
            shutil.rmtree(self._staging, ignore_errors=True)


def finish_journal(root: Path, *, accept_loss: bool = False) -> bool:
    """Finish an interrupted commit, if there is one, and clear what was never committed; True if it did anything.

    A committed file that is neither staged nor in place is an error, unless `accept_loss`.
    """
    journal = root / JOURNAL
    found = journal.exists()
    if found:
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
                    f"{target} was committed but is gone", remedy="run `twinloop data verify --repair`"
                )
            # A folder made just now must survive too, so every folder above is synced, not only the nearest.
            touched |= {folder for folder in target.parents if folder.is_relative_to(root)}
        for folder in sorted(touched, reverse=True):
            sync(folder)
        journal.unlink()
        sync(journal.parent)
    leftovers = [root / STAGING, *(root / SIDE).glob(".*.tmp")]
    present = [path for path in leftovers if path.exists()]
    for path in present:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found or bool(present)


def load_journal(root: Path) -> list[tuple[str, str]]:
    """The moves (staged name, name in the dataset) of a commit that was decided but not finished."""
    journal = root / JOURNAL
    try:
        moves = [
            (str(staged), str(relative)) for staged, relative in json.loads(journal.read_text())["moves"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedDataset(
            f"{journal} cannot be read ({error})", remedy="run `twinloop data verify --repair`"
        ) from error
    for name in (name for move in moves for name in move):
        if escapes(name):
            raise DamagedDataset(f"{journal} points outside the dataset", got=name)
    return moves


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
    sync(path.parent)


@contextmanager
def hold(root: Path, name: str, busy: Callable[[str], TwinloopError]) -> Iterator[None]:
    """Hold the lock file `name` below `root`; whoever comes second is refused at once with `busy`, given who holds it.

    The operating system drops the lock when the process ends, however it ends.
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
def in_turn(path: Path) -> Iterator[None]:
    """Hold the lock file `path` once nobody else does. The operating system drops it when the process ends, however it ends."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a")
    with opened as file:
        with disk_errors(path.parent):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def writing(root: Path) -> AbstractContextManager[None]:
    """Hold the dataset's writer lock; a second writer is refused at once, saying who holds it."""
    return hold(
        root,
        LOCK,
        lambda holder: LockedDataset(
            f"{root} is being written by {holder}",
            remedy="wait for it, or write to another folder and join them with `twinloop data merge`",
        ),
    )


def is_being_written(root: Path) -> bool:
    """Whether a writer holds the lock right now; changes nothing."""
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
    """What the operating system or a file library complains about becomes an error that a user can act on."""
    try:
        yield
    except BlockingIOError:
        raise
    except (OSError, pa.ArrowException) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else (str(error) or type(error).__name__).splitlines()[0]
        raise DiskError(
            f"{root} cannot be written ({reason})", remedy="check free space and permissions, then try again"
        ) from error


@contextmanager
def unbroken() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done, so that what belongs together happens together."""
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


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
