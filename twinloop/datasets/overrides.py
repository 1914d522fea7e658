"""Decisions to use episodes in spite of a blocking finding: appended to `quality/overrides.jsonl`, never changed.

An override names the episodes it is for, so that what is recorded later under the same fault is not let through.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import disk_errors, writing
from twinloop.datasets.layout import OVERRIDES
from twinloop.datasets.lines import append_lines, format_lines, read_lines
from twinloop.errors import WrongUse


@dataclass(frozen=True)
class OverrideLine:
    """Who lets which episodes pass in spite of which finding, and why."""

    code: str
    episode_ids: Sequence[str]
    by: str
    reason: str
    at: str

    def only(self, episode_ids: Container[str]) -> OverrideLine:
        """The same decision for those of its episodes that are in `episode_ids`."""
        return replace(self, episode_ids=[e for e in self.episode_ids if e in episode_ids])


def add_override(root: Path, code: str, episode_ids: Sequence[str], by: str, reason: str) -> OverrideLine:
    """Record the decision; durable when this returns."""
    if not by.strip() or not reason.strip():
        raise WrongUse("an override needs a name and a reason", remedy="--by NAME --reason TEXT")
    if not episode_ids:
        raise WrongUse(f"nothing is blocked by {code!r}, so there is nothing to override")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    line = OverrideLine(code, list(episode_ids), by.strip(), reason.strip(), at)
    with writing(root), disk_errors(root):
        append_lines(root / OVERRIDES, [asdict(line)])
    return line


def load_overrides(root: Path) -> list[OverrideLine]:
    """Every override ever given, oldest first."""
    return read_lines(root / OVERRIDES, OverrideLine, "an override")


def format_overrides(lines: Sequence[OverrideLine]) -> bytes:
    """Overrides as lines of the file."""
    return format_lines([asdict(line) for line in lines])
