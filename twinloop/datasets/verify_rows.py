"""Verify the rows of data files against the episode tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    check = _RowCheck(ledger, info, schema, index, _task_texts(ledger, index))
    ledger.steps[1] = ledger.steps[0] + len(index.files) + sum(len(v.files) for v in index.video.values())
    for file, name in enumerate(index.files):
        places = np.flatnonzero(index.file_of == file)
        if name not in ledger.broken:
            try:
                check.check_file(name, places)
            except FileNotFoundError:
                ledger.error(name, "missing", index.numbers[places])
            except (OSError, pa.ArrowException, ValueError, KeyError) as error:
                ledger.error(name, f"cannot be read ({first_line(error)})", index.numbers[places])
        ledger.step()


@dataclass(frozen=True)
class _RowCheck:
    ledger: Ledger
    info: Mapping[str, Any]
    schema: Schema
    index: EpisodeIndex
    texts: Sequence[str] | None

    def check_file(self, name: str, places: Array) -> None:
        """Check one data file, which has the rows of the episodes at these places of the index."""
        ledger, index = self.ledger, self.index
        path = ledger.root / name
        ledger.sizes[name] = path.stat().st_size
        with pq.ParquetFile(path) as file:
            total = file.metadata.num_rows
            present = file.schema_arrow.names
            needed = [s.name for s in self.schema.signals] + ["timestamp"]
            if missing := [column for column in needed if column not in present]:
                ledger.error(name, f"column {missing[0]!r} is missing", index.numbers[places])
                return
            foreign = [column for column in present if column not in self.info["features"]]
            if foreign and ledger.version == layout.CODEBASE_VERSION:
                what = (
                    f"columns that {layout.INFO} does not declare: {', '.join(foreign)}; LeRobot rejects them"
                )
                ledger.warning(name, what, remedy="`twinloop data merge` makes a copy without them")
            short = places[index.offset[places] + index.length[places] > total]
            if len(short):
                ledger.error(name, f"ends too early, at row {total}", index.numbers[short])
                places = np.setdiff1d(places, short)
            position = _ranges(index.offset[places], index.length[places])
            if (used := len(np.unique(position))) != total:
                ledger.complain(name, f"{total} rows, of which episodes use {used}")
            rows = file.read(columns=[column for column in _ROW_COLUMNS if column in present])
            self._compare_indices(name, rows, position, places)
            self._compare_tasks(name, rows, position, places)
            if ledger.manifest is None:
                self._read_all_signals(name, file, places)

    def _compare_indices(self, name: str, rows: pa.Table, position: Array, places: Array) -> None:
        ledger, index = self.ledger, self.index
        lengths = index.length[places]
        expected = {
            "episode_index": np.repeat(index.numbers[places], lengths),
            "frame_index": _ranges(np.zeros_like(lengths), lengths),
            "index": _ranges(index.starts[places], lengths),
        }
        for column, want in expected.items():
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
            wrong = index.numbers[np.unique(np.repeat(places, lengths)[got != want])]
            if len(wrong) and (ledger.ours or column == "episode_index"):
                ledger.error(name, f"{column} does not agree with the episode tables", wrong)
            elif len(wrong) and ledger.version == layout.CODEBASE_VERSION:
                ledger.warning(name, f"{column} does not agree with the episode tables", wrong)

    def _compare_tasks(self, name: str, rows: pa.Table, position: Array, places: Array) -> None:
        if self.texts is None or "task_index" not in rows.column_names:
            return
        index, lengths = self.index, self.index.length[places]
        task = rows.column("task_index").to_numpy()[position]
        allowed = (task >= 0) & (task < len(self.texts))
        got = np.array([*self.texts, ""], object)[np.where(allowed, task, len(self.texts))]
        want = np.array([*index.tasks, ""], object)[np.repeat(index.task_of[places], lengths)]
        wrong = index.numbers[np.unique(np.repeat(places, lengths)[~allowed | (got != want)])]
        if len(wrong):
            self.ledger.complain(
                name, "task_index does not agree with the tasks of the episode tables", wrong
            )

    def _read_all_signals(self, name: str, file: pq.ParquetFile, places: Array) -> None:
        """Read every number: without checksums nothing else proves that they are intact."""
        index, before = self.index, 0
        first, last = index.offset[places], index.offset[places] + index.length[places]
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            touched = places[(first < before + size) & (last > before)]
            before += size
            try:
                table = file.read_row_group(group, columns=[s.name for s in self.schema.signals])
                for signal in self.schema.signals:
                    columns.from_arrow(table.column(signal.name), signal)
            except (OSError, pa.ArrowException, ValueError, KeyError) as error:
                self.ledger.error(name, f"cannot be read ({first_line(error)})", index.numbers[touched])


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
    except (OSError, ValueError, KeyError, TypeError, RecursionError, pa.ArrowException) as error:
        if len(index):
            ledger.complain(name, f"the task texts cannot be read ({first_line(error)})")
        return None


def _ranges(first: Array, lengths: Array) -> Array:
    """Return first[0], first[0] + 1, ... (lengths[0] numbers), first[1], ..."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(first - (ends - lengths), lengths))
