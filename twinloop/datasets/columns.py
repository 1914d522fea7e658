"""Arrow columns of signals, and the per-episode tables of LeRobot's `meta/episodes`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twinloop.datasets.layout import FILES_PER_CHUNK, INDEX_COLUMNS
from twinloop.datasets.stats import NAMES, Stats
from twinloop.episode import Array, Episode, Schema, Signal


def column_type(shape: Sequence[int], dtype: str) -> pa.DataType:
    """Return the Arrow type LeRobot expects: a scalar for (1,), a fixed list for a vector, else nested lists."""
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
    """Return the columns of a data file."""
    columns = [(s.name, column_type(s.shape, s.dtype)) for s in schema.signals]
    columns.append(("time_s", pa.float64()))
    columns += [(name, pa.float32() if name == "timestamp" else pa.int64()) for name in INDEX_COLUMNS]
    return pa.schema(columns)


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the encoding of a data file: byte stream split for floats, dictionaries for the rest.

    Float signals rarely repeat a value: dictionary encoding made files larger than the raw numbers and writing four
    times slower.
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
    """Convert (T, *shape) numbers to one column."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.shape[1:] == (1,):
        return flat
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return _nested_lists(values)


def _nested_lists(values: Array) -> pa.Array:
    """Convert (n, *shape) to nested variable-length lists, the type pandas gives LeRobot's own files."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        lists = int(np.prod(values.shape[:axis]))
        offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * values.shape[axis])
        flat = pa.ListArray.from_arrays(offsets, flat)
    return flat


def from_arrow(column: pa.ChunkedArray | pa.Array, signal: Signal) -> Array:
    """Convert one column to (T, *shape) numbers; raises ValueError if it does not hold them."""
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
    return _convert(flat, signal).reshape(rows, *signal.shape)


def _convert(flat: Array, signal: Signal) -> Array:
    """Convert to the declared type; overflow is an error, rounding to a shorter float is not."""
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
    """Return the columns of a data file other than the signals: time and indices."""
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
    """A row of `meta/episodes`: where one episode is stored, and its statistics.

    `frames` maps each camera key to the number of the video file and the first frame in it.
    """

    index: int
    task: str
    length: int
    first_row: int
    frames: Mapping[str, tuple[int, int]]
    stats: Mapping[str, Stats]


def episodes_table(entries: Sequence[EpisodeEntry], *, number: int, rate_hz: float) -> pa.Table:
    """Return LeRobot's per-episode table for the episodes of commit `number`."""
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
            columns[f"stats/{feature}/{name}"] = _nested_lists(stacked)
    columns["meta/episodes/chunk_index"] = np.full(count, chunk, np.int64)
    columns["meta/episodes/file_index"] = np.full(count, file, np.int64)
    return pa.table(columns)


def feature_shapes(schema: Schema) -> dict[str, tuple[int, ...]]:
    """Return the shape of the statistics of every feature of a dataset."""
    shapes = {signal.name: signal.shape for signal in schema.signals}
    shapes |= dict.fromkeys(("time_s", *INDEX_COLUMNS), (1,))
    return shapes | {camera.key: (3, 1, 1) for camera in schema.cameras}


def load_episode_stats(paths: Sequence[Path], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Stats]:
    """Load the statistics of every episode from `meta/episodes` tables.

    Args:
        paths: The tables, in order.
        shapes: The features to load and the shapes of their statistics, as from `feature_shapes`.

    Returns:
        By feature, then by statistic, an array (episodes, *shape).
    """
    wanted = [f"stats/{feature}/{name}" for feature in shapes for name in (*NAMES, "count")]
    tables = [pq.read_table(path, columns=wanted, partitioning=None) for path in paths]
    if not tables:
        return {}
    table = pa.concat_tables(tables)
    return {
        feature: {
            name: _from_lists(table.column(f"stats/{feature}/{name}"), (1,) if name == "count" else shape)
            for name in (*NAMES, "count")
        }
        for feature, shape in shapes.items()
    }


def _from_lists(column: pa.ChunkedArray, shape: tuple[int, ...]) -> Array:
    kind = column.type
    while pa.types.is_nested(kind):
        kind = kind.value_type
    dtype = "bool" if pa.types.is_boolean(kind) else str(np.dtype(kind.to_pandas_dtype()))
    return from_arrow(column, Signal("stats", shape, dtype=dtype))


_TASK_TEXT = "__index_level_0__"
"""The name pandas gives to an unnamed index, where LeRobot expects the task text."""


def tasks_table(tasks: Sequence[str]) -> pa.Table:
    """Return `meta/tasks.parquet`, in which pandas reads the task text as the index."""
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
    """Return the task texts by task index, whatever the text column is called; raises ValueError without one."""
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            order = np.argsort(table.column("task_index").to_numpy())
            return list(column.take(pa.array(order)).to_pylist())
    raise ValueError("no column holds the task text")
