"""An append-only record: every entry carries the hash of the previous one, so any change is detected.

Hashes alone show that entries fit each other, not who wrote them nor that the last ones are still there: signatures
(`keys`) and the heads that are stored outside the folder (`known`, `anchor`) show that; `record` puts them together.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import defer_interrupt, disk_errors, hold_lock, make_private_folder
from twinloop.datasets.jsonl import format_jsonl
from twinloop.durable import sync
from twinloop.errors import GateError, TamperedRecord
from twinloop.promotion.keys import SigningKey

FOLDER = "registry"
RECORD = "record.jsonl"
GENESIS = "0" * 64
MAX_RECORD_BYTES = 64_000_000
"""A promotion takes about a kilobyte: a larger file is no record."""
LOCK_WAIT_S = 60.0
"""A writer waits this long for another one, whose slowest step is MLflow's first import, 2 to 5 s."""
_TEXT_OR_NONE = (str, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "number": (int,), "at": (str,), "action": (str,), "by": (str,), "details": (dict,), "intent": (str,),
    "previous": (str,), "key": _TEXT_OR_NONE, "hash": (str,), "signature": _TEXT_OR_NONE,
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One recorded action.

    `number` counts from 1. `intent` is the same for the same command with the same arguments, so that a command that is
    repeated is recognized. `key` is the fingerprint of the key that `signature` was made with, None if unsigned.
    """

    number: int
    at: str
    action: str
    by: str
    details: Mapping[str, Any]
    intent: str
    previous: str
    key: str | None
    hash: str
    signature: str | None


@dataclass(frozen=True)
class Head:
    """Length and last hash of a chain."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    def is_in(self, entries: list[Entry]) -> bool:
        """Whether a chain still contains this head."""
        return self.number == 0 or (
            self.number <= len(entries) and entries[self.number - 1].hash == self.hash
        )


EMPTY = Head(0, GENESIS)


def parse_head(text: str) -> Head:
    """Parse a printed head, NUMBER:HASH."""
    number, colon, digest = text.partition(":")
    if not colon or not (number.isascii() and number.isdigit()) or len(number) > 12 or len(digest) != 64:
        raise TamperedRecord("not the head of a record", got=text[:80], expected="NUMBER:HASH, 64 hex digits")
    return Head(int(number), digest)


def head_of(entries: list[Entry]) -> Head:
    """The head of a chain."""
    return Head(entries[-1].number, entries[-1].hash) if entries else EMPTY


def find_intent(action: str, by: str, arguments: Mapping[str, Any]) -> str:
    """The intent of a command: the same for the same words, whenever they are typed."""
    return _digest({"action": action, "by": by, "arguments": dict(arguments)})[:16]


def make_entry(
    entries: list[Entry],
    action: str,
    by: str,
    details: Mapping[str, Any],
    intent: str,
    key: SigningKey | None,
) -> Entry:
    """The next entry of a chain, signed if there is a key."""
    last = head_of(entries)
    body = {
        "number": last.number + 1,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "action": action,
        "by": by,
        "details": json.loads(json.dumps(dict(details))),
        "intent": intent,
        "previous": last.hash,
        "key": key.fingerprint if key else None,
    }
    digest = _digest(body)
    return Entry(**body, hash=digest, signature=key.sign(digest) if key else None)


def append_entry(path: Path, entry: Entry) -> None:
    """Append an entry, durable on return; after an error the file is as it was. The caller holds the lock."""
    with disk_errors(path.parent), defer_interrupt(), _open_private(path) as file:
        size = os.fstat(file).st_size
        content = format_jsonl([asdict(entry)])
        try:
            while content:
                content = content[os.write(file, content) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        sync(path.parent)


def read_chain(path: Path) -> list[Entry]:
    """Every entry, oldest first; raises `TamperedRecord` naming the first that differs from what was written."""
    entries: list[Entry] = []
    lines = _read(path).split(b"\n")
    if lines[-1]:
        raise TamperedRecord(
            f"{path}: entry {len(lines)} is incomplete: its writer was killed, or the disk was full",
            remedy="twinloop registry repair",
        )
    for position, line in enumerate(lines[:-1], start=1):
        entry, problem = parse_entry(line)
        if entry is None:
            raise TamperedRecord(f"{path}: entry {position} {problem}", remedy=RESTORE)
        if (entry.number, entry.previous) != (position, head_of(entries).hash):
            raise TamperedRecord(
                f"{path}: entry {position} does not follow the previous one; entries were deleted, inserted or reordered",
                remedy=RESTORE,
            )
        entries.append(entry)
    return entries


def parse_entry(line: bytes) -> tuple[Entry | None, str]:
    """The entry in a line, or None and what is wrong with it."""
    try:
        entry = Entry(**json.loads(line))
        for name, kinds in _TYPES.items():
            if type(getattr(entry, name)) not in kinds:
                raise ValueError(f"{name} is not {kinds[0].__name__}")
        body = {name: value for name, value in asdict(entry).items() if name not in ("hash", "signature")}
        digest = _digest(body)
    except (ValueError, TypeError, RecursionError) as error:
        return None, f"cannot be read ({error})"
    return (entry, "") if entry.hash == digest else (None, "was edited")


def require_head(path: Path, entries: list[Entry], head: Head, remedy: str, seen: str = "") -> None:
    """Require that a chain still contains a head that was stored earlier; `seen` says where it was."""
    if head.is_in(entries):
        return
    where = f" ({seen})" if seen else ""
    if len(entries) < head.number:
        raise TamperedRecord(
            f"{path} was truncated: it ends with entry {len(entries)}",
            expected=f"at least {head.number} entries{where}",
            remedy=remedy,
        )
    raise TamperedRecord(f"{path} was rewritten: entry {head.number} differs{where}", remedy=remedy)


def set_aside_torn_line(path: Path) -> Path | None:
    """Complete or set aside an unfinished last line. The caller holds the lock.

    Returns:
        The file with what was set aside; None if the line lacked only its end, and was completed, or if no line is torn.
    """
    content = _read(path)
    torn = content[content.rfind(b"\n") + 1 :]
    if not torn:
        return None
    with disk_errors(path.parent):
        if parse_entry(torn)[0] is not None:
            with _open_private(path) as file:
                os.write(file, b"\n")
                os.fsync(file)
            return None
        aside = path.with_name(f"{path.stem}.torn-{hashlib.sha256(torn).hexdigest()[:8]}")
        with _open_private(aside) as file:
            os.ftruncate(file, 0)
            os.write(file, torn)
            os.fsync(file)
        sync(path.parent)
        with _open_private(path) as file:
            os.ftruncate(file, len(content) - len(torn))
            os.fsync(file)
    return aside


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file for reading and writing; a second writer waits, and is refused after `LOCK_WAIT_S`."""

    def busy(holder: str) -> GateError:
        return GateError(f"{path} is being written by {holder}", remedy="wait for it, or end it; try again")

    name = f".{path.name}.lock"
    with disk_errors(path.parent), _open_private(path.parent / name):
        deadline = time.monotonic() + LOCK_WAIT_S
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(hold_lock(path.parent, name, busy))
                break
            except GateError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)
        yield


@contextmanager
def _open_private(path: Path) -> Iterator[int]:
    """A descriptor for appending to a file that, where it is made, others than its owner and group cannot read."""
    make_private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o660)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        if not path.exists():
            return b""
        with path.open("rb") as file:
            content = file.read(MAX_RECORD_BYTES + 1)
    except OSError as error:
        raise TamperedRecord(f"{path} cannot be read ({error.strerror})", remedy=RESTORE) from error
    if len(content) > MAX_RECORD_BYTES:
        raise TamperedRecord(
            f"{path} is too large", expected=f"at most {MAX_RECORD_BYTES} bytes", remedy=RESTORE
        )
    return content


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


RESTORE = "restore registry/record.jsonl from a backup; do not promote from this registry until then"
