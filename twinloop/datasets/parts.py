"""Take a finished part, a small dataset written on its own, into a larger one without looking at single episodes.

Rows are copied as whole Arrow tables with their index columns shifted, video files are linked, statistics of signals
and images are kept. A part is numbered by its place in the whole, so its episodes count as first written there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout
from twinloop.datasets.manifest import FileEntry
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.stats import NAMES, QUANTILES, Stats
from twinloop.datasets.writer import DatasetWriter, PartPlace, PartTables
from twinloop.episode import Array, Camera, Signal
from twinloop.errors import DamagedDataset

_SHIFTED = ("min", "max", "mean", *QUANTILES)
"""Statistics that move along when a constant is added to every row."""


def take_part(writer: DatasetWriter, part: str | Path) -> int:
    """Add every episode of the dataset at `part`, in order; returns how many. The part itself is left as it is."""
    dataset = open_dataset(part)
    if dataset.manifest is None:
        raise DamagedDataset(f"{part} is not a part of a dataset", expected="one that Twinloop wrote")
    videos = {camera.key: _link_videos(writer, dataset, camera) for camera in dataset.schema.cameras}
    return writer.add_part(lambda place: _tables(dataset, place, videos))


def _link_videos(writer: DatasetWriter, part: Dataset, camera: Camera) -> list[int]:
    """The number under which the dataset knows each of the part's video files."""
    numbers = []
    for name in part.index.video[camera.name].files:

        def place(target: Path, name: str = name) -> FileEntry | None:
            try:
                os.link(part.root / name, target)
            except OSError:
                shutil.copyfile(part.root / name, target)
            return part.manifest.files.get(name) if part.manifest else None

        numbers.append(writer.link_video(camera, place))
    return numbers


def _tables(part: Dataset, place: PartPlace, videos: dict[str, list[int]]) -> PartTables:
    index = part.index
    tasks = [*place.tasks, *(text for text in index.tasks if text not in place.tasks)]
    number_of = np.array([tasks.index(text) for text in index.tasks], np.int64)
    first_rows = place.row + index.starts[:-1]
    stats = _episode_stats(part)
    shifts = {
        "episode_index": np.full(len(index), place.episode),
        "index": np.full(len(index), place.row),
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
            frames[camera.key] = (videos[camera.key][int(video.file_of[i])], int(video.first_frame[i]))
        entries.append(
            columns.EpisodeEntry(
                place.episode + i,
                index.tasks[int(index.task_of[i])],
                int(index.length[i]),
                int(first_rows[i]),
                frames,
                {feature: {name: values[i] for name, values in s.items()} for feature, s in stats.items()},
            )
        )
    rows = _rows(part, place, np.repeat(number_of[index.task_of], index.length))
    return PartTables(rows, entries, _side(part, place), tasks)


def _rows(part: Dataset, place: PartPlace, task_index: Array) -> pa.Table:
    """Every row of the part, in order, with the index columns of its new place."""
    try:
        table = pa.concat_tables([pq.read_table(part.root / name) for name in part.index.files])
    except (OSError, pa.ArrowException) as error:
        raise DamagedDataset(f"{part.root} cannot be read ({str(error).splitlines()[0]})") from error
    if len(table) != part.num_frames:
        raise DamagedDataset(f"{part.root} is too short", got=f"{len(table)} rows", expected=part.num_frames)
    changed = {
        "episode_index": pc.add(table.column("episode_index"), place.episode),
        "index": pc.add(table.column("index"), place.row),
        "task_index": pa.chunked_array([pa.array(task_index)]),
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table.select(columns.arrow_schema(part.schema).names).cast(columns.arrow_schema(part.schema))


def _side(part: Dataset, place: PartPlace) -> list[dict[str, Any]]:
    side = part.side_table()
    assert side is not None
    rows: list[dict[str, Any]] = side.to_pylist()
    for row in rows:
        number = place.episode + row["episode_index"]
        row |= {"episode_index": number, "origin_dataset": place.dataset_id, "origin_index": number}
    return rows


def _task_numbers(part: Dataset) -> Array:
    """The part's own number of each of its tasks, in the order of `index.tasks`."""
    texts = columns.task_texts(pq.read_table(part.root / layout.TASKS))
    return np.array([texts.index(text) for text in part.index.tasks], np.int64)


def _episode_stats(part: Dataset) -> dict[str, Stats]:
    """Statistics of every episode by feature and name, stacked: (episodes, *shape)."""
    assert part.manifest is not None
    names = [name for name in sorted(part.manifest.files) if name.startswith("meta/episodes/")]
    table = pa.concat_tables([pq.read_table(part.root / name) for name in names])
    shapes = {signal.name: signal.shape for signal in part.schema.signals}
    shapes |= dict.fromkeys(("time_s", *layout.INDEX_COLUMNS), (1,))
    shapes |= {camera.key: (3, 1, 1) for camera in part.schema.cameras}
    stats: dict[str, Stats] = {}
    for feature, shape in shapes.items():
        stats[feature] = {}
        for name in (*NAMES, "count"):
            column = table.column(f"stats/{feature}/{name}").combine_chunks()
            stats[feature][name] = _stacked(column, (1,) if name == "count" else shape)
    return stats


def _stacked(column: pa.Array, shape: tuple[int, ...]) -> Array:
    kind = column.type
    while pa.types.is_nested(kind):
        kind = kind.value_type
    dtype = "bool" if pa.types.is_boolean(kind) else str(np.dtype(kind.to_pandas_dtype()))
    return columns.from_arrow(column, Signal("stats", shape, dtype=dtype))
