"""What a disk may hold after the power has failed, computed from a trace of `disk.c`.

Model: creations, renames and deletions reach the disk in their order, as on ext4, XFS and btrfs, and for certain with an
fsync of a folder that they concern; data reach it in any order, and for certain with an fsync of the file. So a crash
leaves every change up to some moment not before the last fsync of a folder, and of the data that no fsync has made safe
all, nothing or a half.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Tree = dict[str, "File | None"]
"""Files and folders (None) by path below the root."""


@dataclass
class File:
    """A file, whatever its names: what it holds, and what an fsync has made safe."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""


@dataclass(frozen=True)
class Change:
    """One line of a trace."""

    op: str
    first: int
    second: int
    data: bytes
    path: str
    other: str


@dataclass(frozen=True)
class State:
    """What may be on the disk after a crash: content by path, None for folders; and the marks passed before."""

    content: dict[str, bytes | None]
    marks: tuple[str, ...]

    def digest(self) -> str:
        """A hash of all of it."""
        hashed = hashlib.blake2b(repr(self.marks).encode())
        for path, content in sorted(self.content.items()):
            hashed.update(f"{path} {len(content) if content is not None else 'folder'}\n".encode())
            hashed.update(content or b"")
        return hashed.hexdigest()

    def write(self, folder: Path) -> None:
        """Put it into an empty folder; a trace knows no permissions, so files are private, as keys must be."""
        for path, content in sorted(self.content.items()):
            place = folder / path
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                place.chmod(0o600)


def read_trace(path: Path, root: Path) -> list[Change]:
    """Read a trace, as far as it goes; paths are made relative to the root."""
    content, changes, place = path.read_bytes(), [], 0

    def inside(name: bytes) -> str:
        return os.path.relpath(os.fsdecode(name), root) if name.startswith(b"/") else os.fsdecode(name)

    while (end := content.find(b"\n", place)) >= 0:
        op, first, second, size, one, other = content[place:end].split(b"\t")
        place = end + 1 + int(size)
        data = content[end + 1 : place]
        if len(data) < int(size):
            break  # the process was killed while it wrote the trace
        changes.append(Change(op.decode(), int(first), int(second), data, inside(one), inside(other)))
    return changes


class Disk:
    """A disk while a trace is played on it."""

    def __init__(self, start: Path) -> None:
        self._start = self._load(start)
        self._files: dict[int, File] = {}
        self._names: list[tuple[Change, File | None]] = []
        self._safe_names = 0
        self._now = dict(self._start)
        self.marks: tuple[str, ...] = ()

    @staticmethod
    def _load(start: Path) -> Tree:
        found: Tree = {}
        known: dict[int, File] = {}
        for path in sorted(start.rglob("*")):
            if path.is_dir():
                found[str(path.relative_to(start))] = None
                continue
            inode = path.stat().st_ino
            if inode not in known:
                content = path.read_bytes()
                known[inode] = File(bytearray(content), content)
            found[str(path.relative_to(start))] = known[inode]
        return found

    def play(self, change: Change) -> None:
        """Carry out one change."""
        match change.op:
            case "#":
                pass
            case "m":
                self.marks += (change.path,)
            case "c" if change.second:
                self._files[change.first] = File()
                self._rename(change, self._files[change.first])
            case "c":
                self._file(change).data = bytearray()
            case "w":
                data, end = self._file(change).data, change.second + len(change.data)
                data.extend(bytes(max(0, end - len(data))))
                data[change.second : end] = change.data
            case "t":
                data = self._file(change).data
                del data[change.second :]
                data.extend(bytes(change.second - len(data)))
            case "s" if change.second:
                for number in range(self._safe_names, len(self._names)):
                    names = filter(None, (self._names[number][0].path, self._names[number][0].other))
                    if change.path in (str(Path(name).parent) for name in names):
                        self._safe_names = number + 1
            case "s":
                file = self._file(change)
                file.safe = bytes(file.data)
            case _:
                self._rename(change, None)

    def _file(self, change: Change) -> File:
        """The file of an inode; one that was there at the start is found by its name."""
        if change.first not in self._files:
            found = self._now[change.path]
            assert found is not None
            self._files[change.first] = found
        return self._files[change.first]

    def _rename(self, change: Change, file: File | None) -> None:
        self._names.append((change, file))
        _apply(self._now, change, file)

    def states(self, rng: random.Random) -> Iterator[tuple[str, State]]:
        """What may be found after a crash at this moment, by a name for each."""
        last, safe = len(self._names), self._safe_names
        yield "killed", self._state(last, lambda file: bytes(file.data))
        yield "data lost", self._state(last, lambda file: file.safe)
        yield "names and data lost", self._state(safe, lambda file: file.safe)
        yield "names lost", self._state(safe, lambda file: bytes(file.data))
        fates: dict[int, int] = {}

        def torn(file: File) -> bytes:
            fate = fates.setdefault(id(file), rng.randrange(3))
            half = file.data[: (len(file.safe) + len(file.data)) // 2]
            return bytes((file.data, file.safe, half)[fate])

        yield "torn", self._state(rng.randint(safe, last), torn)

    def _state(self, names: int, content_of: object) -> State:
        tree = dict(self._start)
        for change, file in self._names[:names]:
            _apply(tree, change, file)
        assert callable(content_of)
        return State(
            {path: None if file is None else content_of(file) for path, file in tree.items()}, self.marks
        )


def _apply(tree: Tree, change: Change, file: File | None) -> None:
    """Carry out a change of names."""
    match change.op:
        case "c":
            tree[change.path] = file
        case "d":
            tree[change.path] = None
        case "u":
            del tree[change.path]
        case "l":
            tree[change.other] = tree[change.path]
        case "r":
            _move(tree, _take(tree, change.path), change.other)
        case "x":
            one, other = _take(tree, change.path), _take(tree, change.other)
            _move(tree, one, change.other)
            _move(tree, other, change.path)


def _take(tree: Tree, path: str) -> Tree:
    """Remove a path with all below it; returns it with names seen from the path."""
    names = [name for name in tree if name == path or name.startswith(f"{path}/")]
    return {name[len(path) :]: tree.pop(name) for name in names}


def _move(tree: Tree, taken: Tree, path: str) -> None:
    tree.update({path + name: file for name, file in taken.items()})
