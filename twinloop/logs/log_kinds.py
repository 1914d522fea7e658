"""Kinds of logs in a folder: those with the same channels, which one map can describe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from twinloop.errors import LogError
from twinloop.logs.guess import Guess, map_line
from twinloop.logs.log_layout import load_samples
from twinloop.logs.reader import Channel
from twinloop.logs.sources import Log

MAX_LOGS = 200
"""Logs whose channels are looked at."""

MAX_LISTED = 50
"""Files that are listed by name where no pattern fits them."""

FEWEST_ROWS = 3
"""Samples of a recording; files with fewer hold parameters."""


@dataclass(frozen=True)
class LogKind:
    """Logs with the same channels, but for numbers in their names; `channels` are those of the first."""

    logs: tuple[Log, ...]
    channels: Mapping[str, Channel]

    @property
    def series(self) -> list[str]:
        """Channels that may hold one value per time."""
        return [
            name
            for name, channel in self.channels.items()
            if not channel.constant
            and channel.dtype != "text"
            and (channel.count or FEWEST_ROWS) >= FEWEST_ROWS
        ]

    @property
    def is_recording(self) -> bool:
        """Whether its first log has series of several samples."""
        return any(len(block) >= FEWEST_ROWS for block in load_samples(self.logs[0], self.series).values())


def find_kinds(logs: Sequence[Log]) -> list[LogKind]:
    """Find the kinds of logs: recordings before files of parameters, then the most frequent and richest first.

    Raises:
        LogError: No log can be read.
    """
    groups: dict[tuple[str, frozenset[str]], list[Log]] = {}
    first: dict[tuple[str, frozenset[str]], dict[str, Channel]] = {}
    problem: LogError | None = None
    for log in logs[:MAX_LOGS]:
        try:
            channels = log.channels()
        except LogError as error:
            problem = problem or error
            continue
        key = log.format, frozenset(re.sub(r"\d+", "#", name) for name in channels)
        groups.setdefault(key, []).append(log)
        first.setdefault(key, channels)
    if problem is not None and not groups:
        raise problem
    kinds = [LogKind(tuple(members), first[key]) for key, members in groups.items()]
    return sorted(kinds, key=lambda kind: (not kind.is_recording, -len(kind.logs), -len(kind.series)))


def describe_files(kind: LogKind, logs: Sequence[Log]) -> list[str]:
    """Return the lines of a map that choose these logs among those of a folder."""
    names = [log.name for log in kind.logs]
    others = [log.name for log in logs if log.name not in names]
    folders = sorted({str(PurePosixPath(name).parent) for name in names})
    if others:
        shown = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
        files = _find_pattern(names, others)
        return [
            f"# Not of this kind, with other channels: {shown} ({len(others)} of {len(logs)} logs). "
            "Propose a map for them from their own path.",
            *([map_line("files", json.dumps(files))] if files else []),
        ]
    if len(folders) > 1:
        listed = ", ".join(folders[:3]) + (" ..." if len(folders) > 3 else "")
        reason = f"{len(folders)} folders ({listed}) have the same channels, of one robot or of several"
        return [map_line("files", '"*"', Guess("", 0.5, reason))]
    return []


def _find_pattern(names: Sequence[str], others: Sequence[str]) -> str | list[str] | None:
    """Find a pattern that fits these names and no others; else the names themselves, if they are few."""
    start = re.sub(r"\d+$", "", _shared_start(names))
    pattern = f"{start}*{_shared_start([name[::-1] for name in names])[::-1]}"
    if len(names) > 1 and not any(fnmatch(other, pattern) for other in others):
        return pattern
    return list(names) if len(names) <= MAX_LISTED else None


def _shared_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
