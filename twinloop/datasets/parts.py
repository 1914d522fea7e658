"""Append a part, a small dataset written on its own, to a larger dataset without reading single episodes.

Rows are copied as whole Arrow tables with shifted index columns, video files are linked and statistics are kept.
Episodes are numbered by their place in the larger dataset, which becomes their origin.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout
from twinloop.datasets.commit import read_errors
from twinloop.datasets.merge import link_file
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.stats import QUANTILES
from twinloop.datasets.writer import DatasetWriter
from twinloop.episode import Array, Camera
from twinloop.errors import DamagedDataset

_SHIFTED = ("min", "max", "mean", *QUANTILES)
"""Statistics that shift when a constant is added to every row."""


def append_part(writer: DatasetWriter, part: str | Path) -> int:
    """Append every episode of the dataset at `part`, in order, and return their number; the part is not changed."""
    dataset = open_dataset(part)
    if dataset.manifest is None:
        raise DamagedDataset(f"{part} is not a part of a dataset", expected="a dataset written by Twinloop")
    writer.finish_commit()
    index = dataset.index
    tasks = [*writer.tasks, *(text for text in index.tasks if text not in writer.tasks)]
    number_of = np.array([tasks.index(text) for text in index.tasks], np.int64)
    entries = _entries(dataset, writer, number_of)
    rows = _rows(dataset, writer, np.repeat(number_of[index.task_of], index.length))
    writer.add_tables(rows, entries, _provenance_rows(dataset, writer), tasks)
    return len(entries)


def _link_videos(writer: DatasetWriter, part: Dataset, camera: Camera) -> list[int]:
    """Link the part's video files into the dataset and return their new numbers."""
    names = part.index.video[camera.name].files
    return [writer.add_video_file(camera, partial(link_file, part, name)) for name in names]


def _entries(part: Dataset, writer: DatasetWriter, number_of: Array) -> list[columns.EpisodeEntry]:
    """Return the entries of the part's episodes, with statistics and indices of their new place."""
    index = part.index
    first_rows = writer.frames + index.starts
    videos = {camera.name: _link_videos(writer, part, camera) for camera in part.schema.cameras}
    paths = [part.root / name for name in part.episode_tables]
    stats = columns.load_episode_stats(paths, columns.feature_shapes(part.schema))
    shifts = {
        "episode_index": np.full(len(index), writer.episodes),
        "index": np.full(len(index), writer.frames),
        "task_index": number_of[index.task_of] - _task_numbers(part)[index.task_of],
    }
    for feature, shift in shifts.items():
        for name in _SHIFTED:
            stats[feature][name] = stats[feature][name] + shift[:, None]
    entries = []
    for i in range(len(index)):
        frames = {}
        for camera in part.schema.cameras:
            video = index.video[camera.name]
            frames[camera.key] = (videos[camera.name][int(video.file_of[i])], int(video.first_frame[i]))
        entries.append(
            columns.EpisodeEntry(
                writer.episodes + i,
                index.tasks[int(index.task_of[i])],
                int(index.length[i]),
                int(first_rows[i]),
                frames,
                {feature: {name: values[i] for name, values in s.items()} for feature, s in stats.items()},
            )
        )
    return entries


def _rows(part: Dataset, writer: DatasetWriter, task_index: Array) -> pa.Table:
    """Return every row of the part, in order, with the index columns of its new place."""
    with read_errors(part.root):
        table = pa.concat_tables([pq.read_table(part.root / name) for name in part.index.files])
    if len(table) != part.num_frames:
        raise DamagedDataset(f"{part.root} is too short", got=f"{len(table)} rows", expected=part.num_frames)
    changed = {
        "episode_index": pc.add(table.column("episode_index"), writer.episodes),
        "index": pc.add(table.column("index"), writer.frames),
        "task_index": pa.chunked_array([pa.array(task_index)]),
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, values)
    schema = columns.arrow_schema(part.schema)
    return table.select(schema.names).cast(schema)


def _provenance_rows(part: Dataset, writer: DatasetWriter) -> list[dict[str, Any]]:
    table = part.provenance_table()
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        number = writer.episodes + row["episode_index"]
        row |= {"episode_index": number, "origin_dataset": writer.dataset_id, "origin_index": number}
    return rows


def _task_numbers(part: Dataset) -> Array:
    """Return the part's own index of each task, in the order of `index.tasks`."""
    texts = columns.task_texts(pq.read_table(part.root / layout.TASKS))
    return np.array([texts.index(text) for text in part.index.tasks], np.int64)
