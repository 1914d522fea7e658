"""Quality overrides: decisions to use episodes despite a blocking finding, appended to `quality/overrides.jsonl`.

An override lists the episodes it covers, so episodes recorded later with the same fault are still blocked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import disk_errors, writer_lock
from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.datasets.layout import OVERRIDES
from twinloop.errors import WrongUse


@dataclass(frozen=True)
class Override:
    """Which finding is overridden for which episodes, by whom, why and when."""

    code: str
    episode_ids: Sequence[str]
    by: str
    reason: str
    at: str


def add_override(root: Path, code: str, episode_ids: Sequence[str], by: str, reason: str) -> Override:
    """Append an override to the dataset at `root`; durable on return."""
    if not by.strip() or not reason.strip():
        raise WrongUse("an override needs a name and a reason", remedy="--by NAME --reason TEXT")
    if not episode_ids:
        raise WrongUse(f"no episode is blocked by {code!r}, so there is nothing to override")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    override = Override(code, list(episode_ids), by.strip(), reason.strip(), at)
    with writer_lock(root), disk_errors(root):
        append_jsonl(root / OVERRIDES, [override])
    return override


def load_overrides(root: Path) -> list[Override]:
    """Load every override of a dataset, oldest first."""
    return read_jsonl(root / OVERRIDES, Override, "an override")
