"""The sidecar table: provenance, outcome, events and origin, one row per episode, next to LeRobot's own tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.episode import Episode, Event, Outcome, Provenance

_EVENTS = pa.list_(pa.struct([("time_s", pa.float64()), ("kind", pa.string()), ("detail", pa.string())]))

SCHEMA = pa.schema(
    [
        ("episode_index", pa.int64()),
        ("episode_id", pa.string()),
        ("origin_dataset", pa.string()),
        ("origin_index", pa.int64()),
        ("duration_s", pa.float64()),
        ("success", pa.bool_()),
        ("failure", pa.string()),
        ("events", _EVENTS),
        ("source", pa.string()),
        ("engine", pa.string()),
        ("engine_version", pa.string()),
        ("twin", pa.string()),
        ("twin_version", pa.string()),
        ("twin_hash", pa.string()),
        ("randomization", pa.string()),
        ("draw", pa.map_(pa.string(), pa.float64())),
        ("draw_text", pa.map_(pa.string(), pa.string())),
        ("seed", pa.int64()),
        ("actor", pa.string()),
        ("actor_id", pa.string()),
        ("robot_serial", pa.string()),
        ("site", pa.string()),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
        ("consent", pa.string()),
        ("parents", pa.list_(pa.string())),
        ("software", pa.map_(pa.string(), pa.string())),
    ]
)
"""Numeric draws are in `draw`, categorical ones in `draw_text`, so that SQL can compare both."""

_PROVENANCE_FIELDS = [f.name for f in fields(Provenance)]


def make_row(episode: Episode, index: int, origin_dataset: str, origin_index: int) -> dict[str, Any]:
    """Return one episode as a row of `SCHEMA`."""
    provenance = {name: getattr(episode.provenance, name) for name in _PROVENANCE_FIELDS}
    draw: Mapping[str, float | str] = provenance["draw"]
    return provenance | {
        "episode_index": index,
        "episode_id": episode.id,
        "origin_dataset": origin_dataset,
        "origin_index": origin_index,
        "duration_s": episode.duration_s,
        "success": episode.outcome.success,
        "failure": episode.outcome.failure,
        "events": [{"time_s": e.time_s, "kind": e.kind, "detail": e.detail} for e in episode.events],
        "draw": [(name, value) for name, value in draw.items() if not isinstance(value, str)],
        "draw_text": [(name, value) for name, value in draw.items() if isinstance(value, str)],
        "parents": list(episode.provenance.parents),
        "software": list(episode.provenance.software.items()),
    }


def make_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Return rows as a table."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def read_table(path: Path) -> pa.Table:
    """Read the rows of one file."""
    return pq.read_table(path, partitioning=None).select(SCHEMA.names).cast(SCHEMA)


_NOTE = b"twinloop"


def with_note(table: pa.Table, note: Mapping[str, Any]) -> pa.Table:
    """Return the table with a JSON note in its metadata."""
    return table.replace_schema_metadata({_NOTE: json.dumps(note)})


def load_note(path: Path) -> dict[str, Any] | None:
    """Return the note in a table's file, or None if there is no readable one."""
    try:
        note = json.loads((pq.read_schema(path).metadata or {})[_NOTE])
    except (OSError, pa.ArrowException, KeyError, ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def make_provenance(values: Mapping[str, Any]) -> Provenance:
    """Return the provenance in one row of `table.to_pylist()`."""
    columns = {name: values[name] for name in _PROVENANCE_FIELDS}
    columns["draw"] = dict(values["draw"]) | dict(values["draw_text"])
    columns["software"] = dict(values["software"])
    columns["parents"] = tuple(values["parents"])
    if columns["recorded_at"] is not None:
        columns["recorded_at"] = columns["recorded_at"].astimezone(UTC)
    return Provenance(**columns)


def make_outcome(values: Mapping[str, Any]) -> Outcome:
    """Return the recorded outcome in one row; labels may have corrected it since."""
    return Outcome(values["success"], values["failure"])


def make_events(values: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the events in one row."""
    return tuple(Event(**event) for event in values["events"])
