"""An append-only record: every entry carries the hash of the previous one, so any change is detected.

A chain alone cannot detect that its last entries are missing. Its head (length and last hash) is therefore also stored
elsewhere by the writer; see `registry`. An attacker who can rewrite both places can still forge them: store the head
elsewhere (`twinloop registry verify` prints it) and compare with `--head`.
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
    """One recorded action: its number from 1, time, name, author and details."""

    number: int
    at: str
    action: str
    by: str
    details: Mapping[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True)
class Head:
    """Length and last hash of a chain."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


EMPTY = Head(0, GENESIS)


def parse_head(text: str) -> Head:
    """Parse a printed head, NUMBER:HASH."""
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit() or len(digest) != 64:
        raise TamperedRecord("not the head of a record", got=text[:80], expected="NUMBER:HASH, 64 hex digits")
    return Head(int(number), digest)


def head_of(entries: list[Entry]) -> Head:
    """The head of a chain."""
    return Head(entries[-1].number, entries[-1].hash) if entries else EMPTY


def append(path: Path, entries: list[Entry], action: str, by: str, details: Mapping[str, Any]) -> Entry:
    """Append an entry to a verified chain; durable on return. The caller holds the lock."""
    last = head_of(entries)
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    body = {
        "number": last.number + 1,
        "at": at,
        "action": action,
        "by": by,
        "details": json.loads(json.dumps(dict(details))),
        "previous": last.hash,
    }
    entry = Entry(**body, hash=_digest(body))
    append_jsonl(path, [asdict(entry)])
    return entry


def read_chain(path: Path, anchor: Head | None = None) -> list[Entry]:
    """Every entry, oldest first; raises `TamperedRecord` naming the first that differs from what was written.

    `anchor` is a head stored earlier: the chain must still contain it.
    """
    entries: list[Entry] = []
    lines = path.read_text().split("\n") if path.exists() else [""]
    if lines[-1]:
        raise TamperedRecord(f"{path}: the last entry is truncated", remedy=_REMEDY)
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
                f"{path}: entry {position} does not follow the previous one; entries were deleted, inserted or reordered",
                remedy=_REMEDY,
            )
        entries.append(entry)
    if anchor is not None and anchor.number:
        if len(entries) < anchor.number:
            raise TamperedRecord(
                f"{path} was truncated: it ends with entry {len(entries)}",
                expected=f"at least {anchor.number} entries",
                remedy=_REMEDY,
            )
        if entries[anchor.number - 1].hash != anchor.hash:
            raise TamperedRecord(f"{path} was rewritten: entry {anchor.number} differs", remedy=_REMEDY)
    return entries


def read_aliases(path: Path) -> dict[str, str]:
    """Which policies a record names champion, challenger and shadow, or what is wrong with it."""
    try:
        entries = read_chain(path)
    except TamperedRecord as error:
        return {"problem": error.what}
    names = {e.details["version"]: e.details["policy"] for e in entries if e.action == "register"}
    held = entries[-1].details["aliases"] if entries else {}
    return {alias: f"{names[version]} (version {version})" for alias, version in held.items() if version}


def locked(path: Path) -> AbstractContextManager[None]:
    """Lock the record for reading and writing; a second writer is refused immediately."""
    return hold_lock(
        path.parent,
        f".{path.name}.lock",
        lambda holder: GateError(f"{path} is being written by {holder}", remedy="try again"),
    )


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_REMEDY = "restore registry/record.jsonl from a backup; do not promote from this registry until then"
