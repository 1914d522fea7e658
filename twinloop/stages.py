"""Stages of a long path: each is made once for the same inputs, resumes when killed, and says what it found.

A stage is a name, a function that fills a folder and returns what it found, and what that function is given: plain values,
twins and other things with a content hash, earlier stages. The stage's key is the hash of name, what is given and version of
this package, an earlier stage counting by what it found. So a change runs again exactly what depends on it, and a stage that
comes out the same as before holds up nothing after it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import hold, write_atomically
from twinloop.errors import WorkspaceError
from twinloop.version import __version__

DONE = "stage.json"
RUNNING = "running.json"
REACHED = "reached.json"
"""Folders of the stages that the newest run came through."""
LOCK = "lock"

Found = Mapping[str, Any]
Progress = Callable[[int, int], None]
Make = Callable[..., Found]
"""Called with its folder, `progress` to tell (done, total), and what the stage is given."""


@dataclass(frozen=True)
class Done:
    """A finished stage: where its files are, what it found, and the hash of both that later stages depend on."""

    name: str
    key: str
    folder: Path
    content: str
    found: Found
    seconds: float
    finished_at: str
    again: bool = False
    """Whether it was there already."""


class Listener:
    """Hears how stages go; this one does nothing about it."""

    def begun(self, name: str) -> None:
        """A stage begins or goes on."""

    def moved(self, name: str, done: int, total: int) -> None:
        """How far it is."""

    def ended(self, done: Done) -> None:
        """It is done, or was."""


class FarEnough(Exception):
    """The stage that was asked for is done; what comes after it is left for another run."""


class Stages:
    """The stages below one folder. Only one process at a time may make any; after the one named `until` they are `FarEnough`."""

    def __init__(self, root: str | Path, listener: Listener | None = None, until: str | None = None) -> None:
        self.root = Path(root)
        self._listener, self._until = listener or Listener(), until
        self._reached: list[str] = []

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock; a second process is refused at once and told who holds it."""
        return hold(
            self.root,
            LOCK,
            lambda holder: WorkspaceError(
                f"another loop is at work in {self.root.parent}",
                got=holder,
                remedy="wait for it, or use another workspace",
            ),
        )

    def run(self, name: str, make: Make, /, **given: Any) -> Done:
        """The stage, made now or before. `make` gets a folder that may hold what an interrupted run left of it."""
        inputs = {key: _plain(value) for key, value in given.items()}
        key = hash_of({"stage": name, "inputs": inputs, "twinloop": __version__})
        folder = self.root / f"{name}-{key[:12]}"
        there = read_done(folder)
        if there is not None:
            self._reach(there)
            return there
        self._listener.begun(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.root / RUNNING, json.dumps({"stage": name, "folder": folder.name}).encode())

        def progress(done: int, total: int) -> None:
            self._listener.moved(name, done, total)

        began = time.monotonic()
        found = json.loads(json.dumps(make(folder, progress=progress, **given)))
        files = {str(p.relative_to(folder)): p.stat().st_size for p in _files(folder)}
        done = Done(
            name=name,
            key=key,
            folder=folder,
            content=hash_of({"stage": name, "found": found}),
            found=found,
            seconds=round(time.monotonic() - began, 1),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        words = asdict(done) | {"folder": folder.name, "inputs": inputs, "files": files}
        words.pop("again")
        write_atomically(folder / DONE, json.dumps(words, indent=1).encode())
        (self.root / RUNNING).unlink(missing_ok=True)
        self._reach(done)
        return done

    def _reach(self, done: Done) -> None:
        self._reached.append(done.folder.name)
        write_atomically(self.root / REACHED, json.dumps(self._reached).encode())
        self._listener.ended(done)
        if done.name == self._until:
            raise FarEnough(done.name)

    def finished(self) -> list[Done]:
        """The stages that the newest run came through, in its order; not those of earlier rounds or for other inputs."""
        try:
            names = json.loads((self.root / REACHED).read_text())
        except (OSError, ValueError):
            return []
        found = [read_done(self.root / str(name)) for name in names]
        return [done for done in found if done is not None]

    def running(self) -> str | None:
        """The stage that is at work, or was when a process died."""
        try:
            return str(json.loads((self.root / RUNNING).read_text())["stage"])
        except (OSError, ValueError, KeyError):
            return None


def read_done(folder: Path) -> Done | None:
    """A finished stage; None if it is not, or if one of its files is gone or cut short."""
    try:
        words = json.loads((folder / DONE).read_text())
        intact = all((folder / name).stat().st_size == size for name, size in words.pop("files").items())
    except (OSError, ValueError, KeyError):
        return None
    words.pop("inputs")
    return Done(**(words | {"folder": folder, "again": True})) if intact else None


def hash_of(value: Any) -> str:
    """A 128-bit name of plain values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    """What stands for a value in a stage's key: the same on every machine."""
    if isinstance(value, Done):
        return value.content
    if hasattr(value, "content_hash"):
        return value.content_hash
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Path):
        raise TypeError(f"a stage cannot depend on a place: {value}")
    return value


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DONE)
