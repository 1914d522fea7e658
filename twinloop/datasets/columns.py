"""Signals to and from Arrow columns, and the per-episode tables of LeRobot's `meta/episodes`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinloop.datasets.layout import FILES_PER_CHUNK, INDEX_COLUMNS
from twinloop.datasets.stats import NAMES, Stats
from twinloop.episode import Array, Episode, Schema, Signal


def column_type(shape: Sequence[int], dtype: str) -> pa.DataType:
    """The Arrow type LeRobot expects: a scalar for (1,), a fixed list for a vector, nested lists above that."""
    scalar = pa.bool_() if dtype == "bool" else pa.from_numpy_dtype(np.dtype(dtype))
    if tuple(shape) == (1,):
        return scalar
    if len(shape) == 1:
        return pa.list_(scalar, shape[0])
    nested = scalar
    for _ in shape:
        nested = pa.list_(nested)
    return nested


def arrow_schema(schema: Schema) -> pa.Schema:
    """Columns of a data file."""
    columns = [(s.name, column_type(s.shape, s.dtype)) for s in schema.signals]
    columns.append(("time_s", pa.float64()))
    columns += [(name, pa.float32() if name == "timestamp" else pa.int64()) for name in INDEX_COLUMNS]
    return pa.schema(columns)


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """How a data file is encoded: bytes of floats side by side by significance, dictionaries for the rest.

    Float signals hardly repeat a value: a dictionary made files larger than the raw numbers and four times slower
    to write.
    """
    floats: list[str] = []
    others: list[str] = []
    for field in schema:
        kind, leaf = field.type, field.name
        while pa.types.is_nested(kind):
            kind, leaf = kind.value_type, f"{leaf}.list.element"
        repeats = field.name in ("time_s", "timestamp")
        (floats if pa.types.is_floating(kind) and not repeats else others).append(leaf)
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": others,
        "use_byte_stream_split": floats,
    }


def to_arrow(values: Array) -> pa.Array:
    """(T, *shape) numbers as one column."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.shape[1:] == (1,):
        return flat
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    for axis in range(values.ndim - 1, 0, -1):
        lists = int(np.prod(values.shape[:axis]))
        offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * values.shape[axis])
        flat = pa.ListArray.from_arrays(offsets, flat)
    return flat


def from_arrow(column: pa.ChunkedArray | pa.Array, signal: Signal) -> Array:
    """One column as (T, *shape) numbers; raises ValueError if it does not hold them."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    rows = len(column)
    while pa.types.is_nested(column.type):
        if column.null_count:
            raise ValueError(f"{signal.name} has empty rows")
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            if len(sizes := pc.unique(pc.list_value_length(column))) > 1:
                raise ValueError(f"{signal.name} has rows of different sizes: {sizes.to_pylist()[:4]}")
        elif not pa.types.is_fixed_size_list(column.type):
            raise ValueError(f"{signal.name} holds {column.type}, not numbers")
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"{signal.name} has empty values")
    if not (pa.types.is_boolean(column.type) or pa.types.is_primitive(column.type)):
        raise ValueError(f"{signal.name} holds {column.type}, not numbers")
    flat = column.to_numpy(zero_copy_only=False)
    if flat.size != rows * signal.size:
        raise ValueError(f"{signal.name} has {flat.size} numbers in {rows} rows of {signal.size}")
    return _converted(flat, signal).reshape(rows, *signal.shape)


def _converted(flat: Array, signal: Signal) -> Array:
    """In the declared type; a number that does not fit it is an error, rounding to a shorter float is not."""
    if flat.dtype == signal.dtype:
        return flat
    with np.errstate(over="ignore", invalid="ignore"):
        converted = np.asarray(flat.astype(signal.dtype))
    if converted.dtype.kind == "f":
        fits = np.array_equal(np.isfinite(converted), np.isfinite(flat))
    else:
        fits = np.array_equal(converted, flat)
    if not fits:
        raise ValueError(f"{signal.name} holds {flat.dtype} numbers that do not fit {signal.dtype}")
    return converted


def episode_columns(episode: Episode, *, index: int, first_row: int, task_index: int) -> dict[str, Array]:
    """Everything but the signals that a data file holds for this episode."""
    rows = np.arange(len(episode), dtype=np.int64)
    return {
        "time_s": episode.time_s,
        "timestamp": (rows / episode.schema.rate_hz).astype(np.float32),
        "frame_index": rows,
        "episode_index": np.full(len(rows), index, np.int64),
        "index": rows + first_row,
        "task_index": np.full(len(rows), task_index, np.int64),
    }


@dataclass(frozen=True)
class EpisodeEntry:
    """Where one episode is, and its statistics: a row of `meta/episodes`.

    `frames` says for each camera key in which video file (by number) the frames are, and where they start in it.
    """

    index: int
    task: str
    length: int
    first_row: int
    frames: Mapping[str, tuple[int, int]]
    stats: Mapping[str, Stats]


def episodes_table(entries: Sequence[EpisodeEntry], *, number: int, rate_hz: float) -> pa.Table:
    """LeRobot's per-episode table for the episodes of commit `number`."""
    chunk, file = divmod(number, FILES_PER_CHUNK)
    count = len(entries)
    lengths = np.array([e.length for e in entries], np.int64)
    first_rows = np.array([e.first_row for e in entries], np.int64)
    columns: dict[str, Any] = {
        "episode_index": np.array([e.index for e in entries], np.int64),
        "tasks": pa.array([[e.task] for e in entries], pa.list_(pa.string())),
        "length": lengths,
        "data/chunk_index": np.full(count, chunk, np.int64),
        "data/file_index": np.full(count, file, np.int64),
        "dataset_from_index": first_rows,
        "dataset_to_index": first_rows + lengths,
    }
    for key in entries[0].frames:
        video, start = np.array([e.frames[key] for e in entries], np.int64).T
        columns[f"videos/{key}/chunk_index"] = video // FILES_PER_CHUNK
        columns[f"videos/{key}/file_index"] = video % FILES_PER_CHUNK
        columns[f"videos/{key}/from_timestamp"] = start / rate_hz
        columns[f"videos/{key}/to_timestamp"] = (start + lengths) / rate_hz
    for feature in entries[0].stats:
        for name in (*NAMES, "count"):
            stacked = np.stack([e.stats[feature][name] for e in entries])
            columns[f"stats/{feature}/{name}"] = _as_lists(stacked)
    columns["meta/episodes/chunk_index"] = np.full(count, chunk, np.int64)
    columns["meta/episodes/file_index"] = np.full(count, file, np.int64)
    return pa.table(columns)


def _as_lists(stacked: Array) -> pa.Array:
    """(n, *shape) as nested variable-length lists, the type pandas gives LeRobot's own files."""
    flat = pa.array(stacked.reshape(-1))
    for axis in range(stacked.ndim - 1, 0, -1):
        lists = int(np.prod(stacked.shape[:axis]))
        flat = pa.ListArray.from_arrays(
            pa.array(np.arange(lists + 1, dtype=np.int32) * stacked.shape[axis]), flat
        )
    return flat


_TASK_TEXT = "__index_level_0__"
"""What pandas calls an index without a name; LeRobot finds the task text there."""


def tasks_table(tasks: Sequence[str]) -> pa.Table:
    """`meta/tasks.parquet`: pandas reads the task text as the index."""
    numbers = {
        "name": "task_index",
        "field_name": "task_index",
        "pandas_type": "int64",
        "numpy_type": "int64",
    }
    texts = {"name": None, "field_name": _TASK_TEXT, "pandas_type": "unicode", "numpy_type": "object"}
    note = {
        "index_columns": [_TASK_TEXT],
        "column_indexes": [],
        "columns": [numbers | {"metadata": None}, texts | {"metadata": None}],
        "pandas_version": "2.0.0",
    }
    columns = {
        "task_index": np.arange(len(tasks), dtype=np.int64),
        _TASK_TEXT: pa.array(list(tasks), pa.string()),
    }
    return pa.table(columns).replace_schema_metadata({"pandas": json.dumps(note)})


def task_texts(table: pa.Table) -> list[str]:
    """The task texts by task index, whatever the text column is called; raises ValueError if there is none."""
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            order = np.argsort(table.column("task_index").to_numpy())
            return list(column.take(pa.array(order)).to_pylist())
    raise ValueError("no column holds the task text")
