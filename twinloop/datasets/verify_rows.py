"""Verify the rows of data files against the episode tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout
from twinloop.datasets.index import EpisodeIndex
from twinloop.datasets.verification import Ledger
from twinloop.episode import Array, Schema
from twinloop.errors import first_line

_ROW_COLUMNS = ("episode_index", "frame_index", "index", "task_index")


def check_rows(ledger: Ledger, info: Mapping[str, Any], schema: Schema, index: EpisodeIndex) -> None:
    """Check that every data file contains the rows that the episode tables list."""
    texts = _task_texts(ledger, index)
    starts = index.starts[:-1]
    ledger.steps[1] = ledger.steps[0] + len(index.files) + sum(len(v.files) for v in index.video.values())
    for file, name in enumerate(index.files):
        places = np.flatnonzero(index.file_of == file)
        if name not in ledger.broken:
            try:
                _check_data_file(ledger, name, places, starts, info, schema, index, texts)
            except FileNotFoundError:
                ledger.error(name, "missing", index.numbers[places])
            except (OSError, pa.ArrowException, ValueError, KeyError) as error:
                ledger.error(name, f"cannot be read ({first_line(error)})", index.numbers[places])
        ledger.step()


def _check_data_file(
    ledger: Ledger,
    name: str,
    places: Array,
    starts: Array,
    info: Mapping[str, Any],
    schema: Schema,
    index: EpisodeIndex,
    texts: Sequence[str] | None,
) -> None:
    path = ledger.root / name
    ledger.sizes[name] = path.stat().st_size
    numbers = index.numbers[places]
    with pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
        present = file.schema_arrow.names
        needed = [s.name for s in schema.signals] + ["timestamp"]
        if missing := [column for column in needed if column not in present]:
            ledger.error(name, f"column {missing[0]!r} is missing", numbers)
            return
        foreign = [column for column in present if column not in info["features"]]
        if foreign and ledger.version == layout.CODEBASE_VERSION:
            what = f"columns that {layout.INFO} does not declare: {', '.join(foreign)}; LeRobot rejects them"
            ledger.warning(name, what, remedy="`twinloop data merge` makes a copy without them")
        short = places[index.offset[places] + index.length[places] > total]
        if len(short):
            ledger.error(name, f"ends too early, at row {total}", index.numbers[short])
            places = np.setdiff1d(places, short)
        lengths = index.length[places]
        position = _ranges(index.offset[places], lengths)
        if len(np.unique(position)) != total:
            ledger.complain(name, f"{total} rows, of which episodes use {len(np.unique(position))}")
        rows = file.read(columns=[column for column in _ROW_COLUMNS if column in present])
        _compare_rows(ledger, name, rows, position, places, lengths, starts, index, texts)
        if ledger.manifest is None:
            _read_all_signals(ledger, name, file, schema, places, index)


def _compare_rows(
    ledger: Ledger,
    name: str,
    rows: pa.Table,
    position: Array,
    places: Array,
    lengths: Array,
    starts: Array,
    index: EpisodeIndex,
    texts: Sequence[str] | None,
) -> None:
    expected = {
        "episode_index": np.repeat(index.numbers[places], lengths),
        "frame_index": _ranges(np.zeros_like(lengths), lengths),
        "index": _ranges(starts[places], lengths),
    }
    owner = np.repeat(places, lengths)
    for column, want in expected.items():
        strict = ledger.ours or column == "episode_index"
        if column not in rows.column_names:
            if ledger.ours:
                ledger.error(name, f"column {column!r} is missing", index.numbers[places])
            continue
        values = rows.column(column)
        if values.null_count:
            ledger.error(name, f"column {column!r} has empty values", index.numbers[places])
            continue
        got = values.to_numpy()[position]
        tables_broken = any(file.startswith("meta/episodes/") for file in ledger.broken)
        if column == "index" and len(got) and tables_broken:
            # Earlier episodes are unknown; rows must still be consecutive.
            want = want - want[0] + got[0]
        wrong = index.numbers[np.unique(owner[got != want])]
        if len(wrong) and strict:
            ledger.error(name, f"{column} does not agree with the episode tables", wrong)
        elif len(wrong) and ledger.version == layout.CODEBASE_VERSION:
            ledger.warning(name, f"{column} does not agree with the episode tables", wrong)
    if texts is None or "task_index" not in rows.column_names:
        return
    task = rows.column("task_index").to_numpy()[position]
    allowed = (task >= 0) & (task < len(texts))
    got = np.array([*texts, ""], object)[np.where(allowed, task, len(texts))]
    want = np.array([*index.tasks, ""], object)[np.repeat(index.task_of[places], lengths)]
    wrong = index.numbers[np.unique(owner[~allowed | (got != want)])]
    if len(wrong):
        ledger.complain(name, "task_index does not agree with the tasks of the episode tables", wrong)


def _read_all_signals(
    ledger: Ledger, name: str, file: pq.ParquetFile, schema: Schema, places: Array, index: EpisodeIndex
) -> None:
    """Read every number: without checksums nothing else proves that they are intact."""
    before = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        touched = places[
            (index.offset[places] < before + size) & (index.offset[places] + index.length[places] > before)
        ]
        before += size
        try:
            table = file.read_row_group(group, columns=[s.name for s in schema.signals])
            for signal in schema.signals:
                columns.from_arrow(table.column(signal.name), signal)
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            ledger.error(name, f"cannot be read ({first_line(error)})", index.numbers[touched])


def _task_texts(ledger: Ledger, index: EpisodeIndex) -> list[str] | None:
    """Return the task texts by index; None if the table is broken or missing."""
    name = layout.TASKS if ledger.version == layout.CODEBASE_VERSION else "meta/tasks.jsonl"
    if name in ledger.broken:
        return None
    try:
        if name.endswith(".jsonl"):
            lines = [
                json.loads(line) for line in (ledger.root / name).read_text().splitlines() if line.strip()
            ]
            by_number = {int(line["task_index"]): str(line["task"]) for line in lines}
            return [by_number.get(number, "") for number in range(max(by_number, default=-1) + 1)]
        return columns.task_texts(pq.read_table(ledger.root / name, partitioning=None))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        if len(index):
            ledger.complain(name, f"the task texts cannot be read ({first_line(error)})")
        return None


def _ranges(first: Array, lengths: Array) -> Array:
    """Return first[0], first[0] + 1, ... (lengths[0] numbers), first[1], ..."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(first - (ends - lengths), lengths))
