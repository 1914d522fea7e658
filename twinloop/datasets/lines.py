"""Files of one JSON object per line that only ever grow: what was written is durable, a half line is never read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from twinloop.datasets.commit import sync
from twinloop.errors import DamagedDataset

T = TypeVar("T")


def append_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Add lines; they are on the disk when this returns. The caller holds whatever lock the file needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _cut_half_line(file.fileno())
        file.write(format_lines(lines))
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def format_lines(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """One JSON object per line."""
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def read_lines(path: Path, make: Callable[..., T], what: str) -> list[T]:
    """Every line as `make(**line)`, oldest first. A last line cut short by a crash was never promised and is ignored."""
    try:
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DamagedDataset(f"{path} cannot be read ({error.strerror or error})") from error
    found = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            found.append(make(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise DamagedDataset(
                f"{path}, line {number}, is not {what} ({error})", remedy="correct or delete the line"
            ) from error
    return found


def _cut_half_line(descriptor: int) -> None:
    """Drop the unfinished last line that a crash may have left, so that the next one starts a line of its own."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    if content and not content.endswith(b"\n"):
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)
