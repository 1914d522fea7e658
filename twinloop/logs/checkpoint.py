"""Where an ingest is, so that a killed one can go on: written after the episodes it speaks of are safe.

killed before the first checkpoint      begins again
killed between a commit and its note    the episodes committed since are read again but not written again
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
    """What is done: logs that are in whole, how many episodes they made, how many parts of originals, what was said."""

    plan: str
    logs: tuple[Signature, ...] = ()
    episodes: int = 0
    parts: int = 0
    streams: tuple[StreamReport, ...] = ()
    cameras: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def plan_of(map_text: str, twin_hash: str | None, skip_unusable: bool) -> str:
    """A name for everything that shapes the episodes besides the logs."""
    words = json.dumps([map_text, twin_hash, skip_unusable])
    return hashlib.sha256(words.encode()).hexdigest()


def save_checkpoint(root: Path, checkpoint: Checkpoint) -> None:
    """Write it in one piece."""
    with disk_errors(root):
        (root / STATE).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(root / STATE, json.dumps(asdict(checkpoint)).encode())


def load_checkpoint(root: Path, plan: str, logs: Sequence[Signature]) -> Checkpoint | None:
    """The last checkpoint, None where there is none; an error where it belongs to other logs or another map."""
    try:
        content = json.loads((root / STATE).read_text())
        content["logs"] = tuple((str(name), int(size)) for name, size in content["logs"])
        content["streams"] = tuple(StreamReport(**stream) for stream in content["streams"])
        content["notes"] = tuple(content["notes"])
        checkpoint = Checkpoint(**content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # it is written in one piece, so this is somebody else's file: begin again
    if checkpoint.plan != plan:
        what = "the interrupted ingest had another map, another twin or other options"
    elif tuple(logs[: len(checkpoint.logs)]) != checkpoint.logs:
        what = "the logs that were read before the interruption have changed"
    else:
        return checkpoint
    raise DatasetError(what, remedy="run it again without --resume, which begins anew")


def drop_checkpoint(root: Path) -> None:
    """The ingest is complete: nothing is left to resume."""
    (root / STATE).unlink(missing_ok=True)
