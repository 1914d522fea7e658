"""How far a command is, in a file: written by the command, read by whoever started it. Imports nothing heavy: every command imports it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "TWINLOOP_PROGRESS"
"""Environment variable that names the file."""
EVERY_S = 0.3
LAST_BYTES = 4096
"""Of the file that are read: more than its last line has."""
LONGEST_TEXT = 1000

_written_at = 0.0


@dataclass(frozen=True)
class Progress:
    """What a command said last.

    Attributes:
        what: What it does.
        done: How much of it is done.
        total: Of how much; None where that is not known.
        exit_code: How it ended; None while it runs, and where it was killed.
        error: Why it could not do what was asked.
    """

    what: str | None = None
    done: float | None = None
    total: float | None = None
    exit_code: int | None = None
    error: str | None = None


def report_progress(what: str, done: float, total: float | None) -> None:
    """Write how far this command is, if somebody wants to know; at most three times a second."""
    global _written_at
    if VARIABLE in os.environ and time.monotonic() - _written_at >= EVERY_S:
        _written_at = time.monotonic()
        _write({"what": what[:LONGEST_TEXT], "done": done, "total": total or None})


def report_end(exit_code: int, error: str | None = None) -> None:
    """Write how this command ended, if somebody wants to know."""
    if VARIABLE in os.environ:
        _write({"exit_code": exit_code, "error": error and error[:LONGEST_TEXT]})


def read_progress(file: Path) -> Progress:
    """What a command has said last; nothing where it has not said anything, or nothing that can be read."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = opened.read(LAST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return Progress()
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return _parse(value)
    return Progress()


def _write(value: dict[str, Any]) -> None:
    """Append a line; a disk that is full, or a folder that has gone, is no reason to end the command."""
    try:
        with open(os.environ[VARIABLE], "a") as file:  # noqa: PTH123  pathlib would be one more import for every command
            file.write(json.dumps(value) + "\n")
    except OSError:
        pass


def _parse(value: dict[str, Any]) -> Progress:
    def number(name: str) -> float | None:
        found = value.get(name)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    def text(name: str) -> str | None:
        found = value.get(name)
        return found[:LONGEST_TEXT] if isinstance(found, str) else None

    code = number("exit_code")
    return Progress(
        text("what"), number("done"), number("total"), None if code is None else int(code), text("error")
    )
