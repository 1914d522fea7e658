"""A record that can only grow: every entry carries the hash of the one before, so that a change anywhere shows.

A chain alone cannot tell that its last entries are missing. Its length and last hash, the head, are therefore kept in a
second place by whoever writes it; see `registry`. Somebody who can rewrite both places and knows how can still forge
them: note the head elsewhere (`twinloop registry verify` prints it) and compare with `--head`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import hold_lock
from twinloop.datasets.jsonl import append_jsonl
from twinloop.errors import GateError, TamperedRecord

FOLDER = "registry"
RECORD = "record.jsonl"
GENESIS = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One thing that was done: its number from 1, when, what, by whom, and everything about it."""

    number: int
    at: str
    action: str
    by: str
    details: Mapping[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True)
class Head:
    """How long a chain is and where it ends."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


EMPTY = Head(0, GENESIS)


def parse_head(text: str) -> Head:
    """A head as it is printed: NUMBER:HASH."""
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit() or len(digest) != 64:
        raise TamperedRecord(
            "this is no head of a record", got=text[:80], expected="NUMBER:HASH, 64 hex digits"
        )
    return Head(int(number), digest)


def head_of(entries: list[Entry]) -> Head:
    """The head of a chain."""
    return Head(entries[-1].number, entries[-1].hash) if entries else EMPTY


def append(path: Path, entries: list[Entry], action: str, by: str, details: Mapping[str, Any]) -> Entry:
    """Add an entry to a chain that was read and found whole; durable when this returns. The caller holds the lock."""
    last = head_of(entries)
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    plain = json.loads(json.dumps(dict(details)))
    body = {
        "number": last.number + 1,
        "at": at,
        "action": action,
        "by": by,
        "details": plain,
        "previous": last.hash,
    }
    entry = Entry(**body, hash=_digest(body))
    append_jsonl(path, [asdict(entry)])
    return entry


def read_chain(path: Path, anchor: Head | None = None) -> list[Entry]:
    """Every entry, oldest first, or `TamperedRecord` naming the first that is not what was written.

    `anchor` is a head that was noted earlier: the chain must still hold it.
    """
    entries: list[Entry] = []
    lines = path.read_text().split("\n") if path.exists() else [""]
    if lines[-1]:
        raise TamperedRecord(f"{path}: the last entry is cut short", remedy=_REMEDY)
    for position, line in enumerate(lines[:-1], start=1):
        try:
            entry = Entry(**json.loads(line))
            body = {name: value for name, value in asdict(entry).items() if name != "hash"}
            digest = _digest(body)
        except (ValueError, TypeError) as error:
            raise TamperedRecord(
                f"{path}: entry {position} cannot be read ({error})", remedy=_REMEDY
            ) from error
        if entry.hash != digest:
            raise TamperedRecord(f"{path}: entry {position} was edited", remedy=_REMEDY)
        if (entry.number, entry.previous) != (position, head_of(entries).hash):
            raise TamperedRecord(
                f"{path}: entry {position} does not follow the one before; entries were deleted, inserted or reordered",
                remedy=_REMEDY,
            )
        entries.append(entry)
    if anchor is not None and anchor.number:
        if len(entries) < anchor.number:
            raise TamperedRecord(
                f"{path} was cut: it ends with entry {len(entries)}",
                expected=f"at least {anchor.number} entries",
                remedy=_REMEDY,
            )
        if entries[anchor.number - 1].hash != anchor.hash:
            raise TamperedRecord(
                f"{path} was rewritten: entry {anchor.number} is another one", remedy=_REMEDY
            )
    return entries


def locked(path: Path) -> AbstractContextManager[None]:
    """Hold the record while it is read and written; a second writer is refused at once."""
    return hold_lock(
        path.parent,
        f".{path.name}.lock",
        lambda holder: GateError(f"{path} is being written by {holder}", remedy="try again"),
    )


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_REMEDY = "restore registry/record.jsonl from a backup; do not promote from this registry until then"
