"""A folder of this machine, or of a shared disk, as a place to push datasets to: the same promises as object storage."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.datasets.store import Changed, Stored

GUARD = ".twinloop-put.lock"


class LocalFolder:
    """A folder whose writes are conditional: one process at a time compares and replaces."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.root / name).read_bytes()

    def head(self, name: str) -> Stored | None:
        """What is known of a file; None where there is none."""
        path = self.root / name
        if not path.is_file():
            return None
        status = path.stat()
        digest = hashlib.blake2b(
            f"{status.st_ino} {status.st_size} {status.st_mtime_ns}".encode(), digest_size=8
        )
        return Stored(name, status.st_size, digest.hexdigest())

    def open(self, name: str) -> Any:
        """A file."""
        return (self.root / name).open("rb")

    def list(self, prefix: str = "") -> list[Stored]:
        """Files below a prefix; hidden ones are not part of a dataset."""
        found = []
        for place, folders, files in os.walk(self.root / prefix):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for file in sorted(files):
                stored = self.head(str((Path(place) / file).relative_to(self.root)))
                if stored is not None and not file.startswith("."):
                    found.append(stored)
        return found

    def put(self, name: str, content: bytes | Path, *, replaces: str | None = None) -> str:
        """Create a file, or replace the version that is named."""
        with self._guarded():
            found = self.head(name)
            if (found.version if found else None) != replaces:
                raise Changed(f"{self.root / name} has been written by someone else")
            write_atomically(self.root / name, content.read_bytes() if isinstance(content, Path) else content)
            done = self.head(name)
        assert done is not None
        return done.version

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.root / name).unlink(missing_ok=True)

    def filesystem(self) -> Any:
        """fsspec's filesystem of this machine."""
        import fsspec

        return fsspec.filesystem("file"), str(self.root.resolve())

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            opened = (self.root / GUARD).open("a")
        with opened as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with disk_errors(self.root):
                yield
