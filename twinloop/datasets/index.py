"""The episode index: where each episode is stored, for Twinloop's own and for foreign v3.0 and v2.1 datasets."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import layout
from twinloop.datasets.commit import read_errors
from twinloop.episode import Array, Schema
from twinloop.errors import DamagedDataset

_LOCATION = ("episode_index", "length", "data/chunk_index", "data/file_index", "dataset_from_index")


@dataclass(frozen=True)
class VideoIndex:
    """For one camera, the file that holds each episode's frames, and the number of the first frame in it."""

    files: tuple[str, ...]
    file_of: Array
    first_frame: Array


@dataclass(frozen=True)
class EpisodeIndex:
    """One entry per episode, in the order of the dataset.

    `numbers` are the dataset's own episode numbers, which in foreign data need not start at zero or be contiguous.
    Episode i is in rows `offset[i]` ... `offset[i] + length[i]` of `files[file_of[i]]`. `skipped` maps numbers of
    unusable foreign episodes to reasons.
    """

    numbers: Array
    length: Array
    tasks: tuple[str, ...]
    task_of: Array
    files: tuple[str, ...]
    file_of: Array
    offset: Array
    video: Mapping[str, VideoIndex]
    skipped: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def starts(self) -> Array:
        """The row of the dataset at which each episode starts, then the number of rows: (N + 1,)."""
        return np.concatenate([[0], np.cumsum(self.length)])


def load_index(
    root: Path, info: Mapping[str, Any], schema: Schema, listed: Collection[str] | None
) -> EpisodeIndex:
    """Read the episode tables among the files that a manifest lists, or all without one; rows and frames are not read."""
    if info["codebase_version"] != layout.CODEBASE_VERSION:
        return _load_v2(root, info, schema)
    if listed is None:
        paths = sorted(root.glob("meta/episodes/*/*.parquet"))
    else:
        paths = [root / name for name in sorted(listed) if name.startswith("meta/episodes/")]
    if not paths:
        # With a manifest, info.json may be one commit ahead and its total is not valid.
        if listed is None and info.get("total_episodes", 0):
            raise DamagedDataset(
                f"{root} has no meta/episodes", expected=f"{info['total_episodes']} episodes"
            )
        return empty_index(schema)
    columns: dict[str, pa.DataType] = dict.fromkeys(_LOCATION, pa.int64()) | {"tasks": pa.list_(pa.string())}
    for camera in schema.cameras:
        columns[f"videos/{camera.key}/chunk_index"] = pa.int64()
        columns[f"videos/{camera.key}/file_index"] = pa.int64()
        columns[f"videos/{camera.key}/from_timestamp"] = pa.float64()
    table = pa.concat_tables([_read_table(path, columns) for path in paths]).combine_chunks()
    return _make_index(table, info, schema)


def _make_index(table: pa.Table, info: Mapping[str, Any], schema: Schema) -> EpisodeIndex:

    def numbers(name: str) -> Array:
        return np.asarray(table.column(name).to_numpy())

    skipped = _find_empty(numbers("episode_index"), numbers("length"))
    if skipped:
        table = table.filter(pa.array(numbers("length") > 0))
    if not len(table):
        return empty_index(schema, skipped)
    if np.any(np.diff(numbers("episode_index")) < 0):
        table = table.take(pa.array(np.argsort(numbers("episode_index"), kind="stable")))
    template = str(info.get("data_path") or layout.DATA_PATH)
    files, file_of = _file_names(template, numbers("data/chunk_index"), numbers("data/file_index"))
    from_row = numbers("dataset_from_index")
    first_row_of_file = np.full(len(files), np.iinfo(np.int64).max)
    np.minimum.at(first_row_of_file, file_of, from_row)
    video = {}
    for camera in schema.cameras:
        chunk, file, start = (
            numbers(f"videos/{camera.key}/{p}") for p in ("chunk_index", "file_index", "from_timestamp")
        )
        template = str(info.get("video_path") or layout.VIDEO_PATH)
        names, which = _file_names(template, chunk, file, video_key=camera.key)
        video[camera.name] = VideoIndex(names, which, np.rint(start * schema.rate_hz).astype(np.int64))
    texts = [(tasks or [""])[0] for tasks in table.column("tasks").to_pylist()]
    tasks, task_of = _distinct(texts)
    return EpisodeIndex(
        numbers("episode_index"),
        numbers("length"),
        tasks,
        task_of,
        files,
        file_of,
        from_row - first_row_of_file[file_of],
        video,
        skipped,
    )


def _load_v2(root: Path, info: Mapping[str, Any], schema: Schema) -> EpisodeIndex:
    path = root / "meta/episodes.jsonl"
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        lines.sort(key=lambda line: int(line["episode_index"]))
        numbers = np.array([int(line["episode_index"]) for line in lines], np.int64)
        length = np.array([int(line["length"]) for line in lines], np.int64)
        skipped = _find_empty(numbers, length)
        lines = [line for line, rows in zip(lines, length, strict=True) if rows > 0]
        numbers, length = numbers[length > 0], length[length > 0]
        texts = [str((line.get("tasks") or [""])[0]) for line in lines]
        chunk_size = int(info.get("chunks_size") or layout.FILES_PER_CHUNK)

        def names(template: str, **more: str) -> tuple[str, ...]:
            return tuple(
                layout.fill_template(template, episode_chunk=n // chunk_size, episode_index=n, **more)
                for n in numbers.tolist()
            )

        files = names(info["data_path"])
        file_of = np.arange(len(numbers))
        zeros = np.zeros(len(numbers), np.int64)
        video = {
            camera.name: VideoIndex(names(info["video_path"], video_key=camera.key), file_of, zeros)
            for camera in schema.cameras
        }
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DamagedDataset(
            f"{path} cannot be read ({error!r})", expected="one JSON object per episode"
        ) from error
    for names_of in (files, *(video[camera.name].files for camera in schema.cameras)):
        _refuse_escapes(root, names_of)
    tasks, task_of = _distinct(texts)
    return EpisodeIndex(numbers, length, tasks, task_of, files, file_of, zeros, video, skipped)


def _find_empty(numbers: Array, length: Array) -> dict[int, str]:
    empty = length <= 0
    return {int(n): f"its length is {rows}" for n, rows in zip(numbers[empty], length[empty], strict=True)}


def _read_table(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    with read_errors(path, remedy="run `twinloop data verify --repair`"):
        table = pq.read_table(path, columns=list(columns), partitioning=None).select(list(columns))
        table = table.cast(pa.schema(list(columns.items())))
        if empty := [name for name in columns if name != "tasks" and table.column(name).null_count]:
            raise ValueError(f"{empty[0]} has empty values")
        return table


def _file_names(template: str, chunk: Array, file: Array, **more: str) -> tuple[tuple[str, ...], Array]:
    changes = np.flatnonzero((np.diff(chunk) != 0) | (np.diff(file) != 0)) + 1
    firsts = np.concatenate([[0], changes]) if len(chunk) else changes
    pairs, run = np.unique(np.stack([chunk[firsts], file[firsts]], axis=1), axis=0, return_inverse=True)
    file_of = np.repeat(run.reshape(-1), np.diff(np.append(firsts, len(chunk))))
    names = tuple(
        layout.fill_template(template, chunk_index=int(c), file_index=int(f), **more) for c, f in pairs
    )
    _refuse_escapes(Path(), names)
    return names, file_of


def _refuse_escapes(root: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if layout.escapes(name):
            raise DamagedDataset(f"{root / layout.INFO} points outside the dataset", got=name)


def _distinct(texts: list[str]) -> tuple[tuple[str, ...], Array]:
    number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return tuple(number), np.array([number[text] for text in texts], np.int64)


def empty_index(schema: Schema, skipped: Mapping[int, str] | None = None) -> EpisodeIndex:
    """Return an index without episodes."""
    none = np.zeros(0, np.int64)
    video = {camera.name: VideoIndex((), none, none) for camera in schema.cameras}
    return EpisodeIndex(none, none, (), none, (), none, none, video, skipped or {})
