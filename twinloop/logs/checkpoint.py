"""Checkpoints of an ingest, written after the episodes they cover are committed, so that it can be resumed.

killed before the first checkpoint              starts over
killed between a commit and its checkpoint      episodes committed since are read again but not written again
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.datasets.layout import INGESTS
from twinloop.errors import DatasetError
from twinloop.logs.stream_report import StreamReport

STATE = f"{INGESTS}/state.json"

Signature = tuple[str, int]
"""The name and size in bytes of a log."""


@dataclass
class Checkpoint:
    """Progress of an ingest: completed logs, episodes and parts of originals so far, reports and notes.

    `columns` maps each signal to its first log and the columns that the map selects there;
    `cameras` maps each camera to how its frames were stored, `skipped` each skipped episode or file to a reason.
    """

    plan: str
    logs: list[Signature] = field(default_factory=list)
    episodes: int = 0
    parts: int = 0
    streams: list[StreamReport] = field(default_factory=list)
    cameras: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    columns: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


def hash_plan(map_text: str, twin_hash: str | None, skip_unusable: bool) -> str:
    """Hash everything except the logs that determines the episodes."""
    content = json.dumps([map_text, twin_hash, skip_unusable])
    return hashlib.sha256(content.encode()).hexdigest()


def save_checkpoint(root: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint atomically."""
    with disk_errors(root):
        write_atomically(root / STATE, json.dumps(asdict(checkpoint)).encode())


def load_checkpoint(root: Path, plan: str, logs: Sequence[Signature]) -> Checkpoint | None:
    """Load the last checkpoint; None if there is none, an error if it belongs to other logs or another map."""
    try:
        checkpoint = TypeAdapter(Checkpoint).validate_json((root / STATE).read_bytes())
    except (OSError, ValueError):
        return None  # written atomically, so an unreadable file is not ours: start over
    if checkpoint.plan != plan:
        what = "the interrupted ingest had a different map, twin or options"
    elif list(logs[: len(checkpoint.logs)]) != checkpoint.logs:
        what = "logs read before the interruption have changed"
    else:
        return checkpoint
    raise DatasetError(what, remedy="run it without --resume, which starts over")
