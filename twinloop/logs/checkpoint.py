"""Checkpoints of an ingest, written after the episodes they cover are committed, so that it can be resumed.

killed before the first checkpoint              starts over
killed between a commit and its checkpoint      episodes committed since are read again but not written again
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.datasets.layout import INGESTS
from twinloop.errors import DatasetError
from twinloop.logs.stream_report import StreamReport

STATE = f"{INGESTS}/state.json"

Signature = tuple[str, int]
"""The name and size in bytes of a log."""


@dataclass(frozen=True)
class Checkpoint:
    """Progress of an ingest: completed logs, episodes and parts of originals so far, reports and notes."""

    plan: str
    logs: tuple[Signature, ...] = ()
    episodes: int = 0
    parts: int = 0
    streams: tuple[StreamReport, ...] = ()
    cameras: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def hash_plan(map_text: str, twin_hash: str | None, skip_unusable: bool) -> str:
    """Hash everything except the logs that determines the episodes."""
    content = json.dumps([map_text, twin_hash, skip_unusable])
    return hashlib.sha256(content.encode()).hexdigest()


def save_checkpoint(root: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint atomically."""
    with disk_errors(root):
        (root / STATE).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(root / STATE, json.dumps(asdict(checkpoint)).encode())


def load_checkpoint(root: Path, plan: str, logs: Sequence[Signature]) -> Checkpoint | None:
    """Load the last checkpoint; None if there is none, an error if it belongs to other logs or another map."""
    try:
        content = json.loads((root / STATE).read_text())
        content["logs"] = tuple((str(name), int(size)) for name, size in content["logs"])
        content["streams"] = tuple(StreamReport(**stream) for stream in content["streams"])
        content["notes"] = tuple(content["notes"])
        checkpoint = Checkpoint(**content)
    except (OSError, ValueError, TypeError, KeyError):
        return None  # written atomically, so an unreadable file is not ours: start over
    if checkpoint.plan != plan:
        what = "the interrupted ingest had a different map, twin or options"
    elif tuple(logs[: len(checkpoint.logs)]) != checkpoint.logs:
        what = "logs read before the interruption have changed"
    else:
        return checkpoint
    raise DatasetError(what, remedy="run it without --resume, which starts over")


def drop_checkpoint(root: Path) -> None:
    """Delete the checkpoint of a completed ingest."""
    (root / STATE).unlink(missing_ok=True)
