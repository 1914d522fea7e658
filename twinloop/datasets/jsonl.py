"""Append-only JSON Lines files: appended lines are durable, and an unfinished last line is never read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from twinloop.durable import sync
from twinloop.errors import DamagedDataset

T = TypeVar("T")


def append_jsonl(path: Path, lines: Sequence[Any]) -> None:
    """Append dictionaries or dataclasses, one JSON object per line, durable on return. The caller holds the lock the file needs, if any."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _truncate_unfinished_line(file.fileno())
        file.write(format_jsonl(lines))
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def format_jsonl(lines: Sequence[Any]) -> bytes:
    """Format dictionaries or dataclasses, one JSON object per line."""
    return "".join(json.dumps(line, default=asdict) + "\n" for line in lines).encode()


def read_jsonl(path: Path, make: Callable[..., T], what: str) -> list[T]:
    """Read every line as `make(**line)`, oldest first; a last line cut short by a crash is ignored.

    Args:
        path: The file; a file that does not exist has no lines.
        make: Builds one entry from the keys of a line.
        what: The kind of entry, for error messages ("a label").

    Raises:
        DamagedDataset: The file cannot be read, or a complete line is not such an entry.
    """
    try:
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DamagedDataset(f"{path} cannot be read ({error.strerror or error})") from error
    entries = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entries.append(make(**json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedDataset(
                f"{path}, line {number}, is not {what} ({error})", remedy="correct or delete the line"
            ) from error
    return entries


def _truncate_unfinished_line(descriptor: int) -> None:
    """Drop the partial last line that a crash may have left, so that the next append starts a new line."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    if content and not content.endswith(b"\n"):
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)
