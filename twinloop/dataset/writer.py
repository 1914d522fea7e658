"""Write episodes: streaming, appending, and safe against being killed at any moment.

Episodes go into one group of files (rows, frames, tables) that is staged aside. A commit closes the group and makes
all of it part of the data set at once; what was not committed when the process dies is lost, nothing else is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.dataset import columns, layout, sidecar
from twinloop.dataset.commit import Transaction, finish_journal, writing
from twinloop.dataset.manifest import Manifest, file_entry, load_manifest, new_manifest, with_files
from twinloop.dataset.stats import FrameSampler, Stats, aggregate, feature_stats, from_json, to_json
from twinloop.dataset.video import VideoEncoder, VideoSettings
from twinloop.episode import Episode, Schema
from twinloop.errors import DamagedDataset, DatasetError, InvalidEpisode

ROW_GROUP_BYTES = 4 << 20
"""Rows are handed to Parquet in pieces of about this size: small enough to read one episode cheaply."""

GROUP_EPISODES = 20_000
"""A commit at the latest after this many episodes, so that what waits in memory stays small."""


def make_dataset(
    path: str | Path,
    schema: Schema,
    *,
    commit_every_s: float = 30.0,
    video: VideoSettings | None = None,
    history: tuple[str, tuple[str, ...], str] = ("recorded", (), ""),
) -> DatasetWriter:
    """Start a new data set at `path`, which must not exist or be an empty folder."""
    root = Path(path)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        remedy = "choose another folder, or delete this one"
        if (root / layout.MANIFEST).exists():
            remedy = "use append_to(path) to add episodes, or choose another folder"
        raise DatasetError(f"{root} already exists and is not empty", remedy=remedy)
    root.mkdir(parents=True, exist_ok=True)
    return DatasetWriter(root, schema, new_manifest(*history), commit_every_s, video or VideoSettings())


def append_to(
    path: str | Path,
    *,
    commit_every_s: float = 30.0,
    video: VideoSettings | None = None,
    schema: Schema | None = None,
) -> DatasetWriter:
    """Continue a data set that Twinloop wrote; with `schema`, refuse at once if it declares something else."""
    root = Path(path)
    info = layout.load_info(root)
    if load_manifest(root) is None:
        raise DatasetError(
            f"{root} was not written by Twinloop, so it is never changed in place",
            remedy=f"copy it first: twinloop data merge {root} --out NEW",
        )
    on_disk, _ = layout.schema_from_info(info)
    if schema is not None and (difference := on_disk.difference(schema)):
        raise DatasetError(f"cannot append to {root}: {difference}")
    return DatasetWriter(root, on_disk, None, commit_every_s, video or VideoSettings())


class DatasetWriter:
    """Adds episodes to one data set; use it as a context manager.

    Leaving the block commits every whole episode, also when an exception or Ctrl-C is the reason for leaving.
    """

    def __init__(
        self,
        root: Path,
        schema: Schema,
        manifest: Manifest | None,
        commit_every_s: float,
        video: VideoSettings,
    ) -> None:
        self.root = root
        self.schema = schema
        self._video = video
        self._commit_every_s = commit_every_s
        self._open = ExitStack()
        self._open.enter_context(writing(root))
        try:
            finish_journal(root)
            self._group: _Group | None = None
            self._tasks: list[str] = []
            self._stats: dict[str, Stats] = {}
            if manifest is None:
                manifest = self._load_state()
                self._manifest = manifest
            else:
                self._manifest = manifest
                self._commit_files([], [], Transaction(root))
        except BaseException:
            self._open.close()
            raise

    @property
    def committed(self) -> int:
        """Episodes that are safe on disk."""
        return self._manifest.episodes

    @property
    def episodes(self) -> int:
        """Episodes added so far, committed or not."""
        return self._manifest.episodes + (len(self._group.entries) if self._group else 0)

    @property
    def dataset_id(self) -> str:
        """The data set's identity, kept for life."""
        return self._manifest.dataset_id

    def add(self, episode: Episode, *, origin: tuple[str, int] | None = None) -> int:
        """Add one episode and return its index; `origin` is (data set id, index) for one copied from elsewhere."""
        if difference := self.schema.difference(episode.schema):
            raise InvalidEpisode(
                f"the episode does not fit {self.root}: {difference}",
                remedy="convert it first, or write it to a data set of its own",
            )
        if self._group is None:
            self._group = _Group(self.root, self.schema, self._manifest.commits, self._video)
        index = self.episodes
        task_index = self._task_index(episode.task)
        first_row = self._manifest.frames + self._group.rows
        self._group.add(episode, index, first_row, task_index, origin or (self.dataset_id, index))
        if self._group.full() or time.monotonic() - self._group.started > self._commit_every_s:
            self.commit()
        return index

    def commit(self) -> None:
        """Make everything added so far part of the data set; all of it or, on an error, none of it."""
        group, self._group = self._group, None
        if group is None or not group.entries:
            if group is not None:
                group.abandon()
            return
        try:
            files = group.finish()
            self._commit_files(group.entries, files, group.transaction)
        except BaseException:
            group.transaction.abandon()
            raise

    def close(self) -> None:
        """Commit and let the next writer in."""
        try:
            self.commit()
        finally:
            self._open.close()

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _task_index(self, task: str) -> int:
        if task not in self._tasks:
            self._tasks.append(task)
        return self._tasks.index(task)

    def _load_state(self) -> Manifest:
        manifest = load_manifest(self.root)
        if manifest is None:
            raise DatasetError(f"{self.root} has no manifest")
        try:
            self._tasks = columns.task_texts(pq.read_table(self.root / layout.TASKS))
            self._stats = from_json(json.loads((self.root / layout.STATS).read_text()))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise DamagedDataset(
                f"cannot append to {self.root} ({error})", remedy="run `twinloop data verify --repair`"
            ) from error
        return manifest

    def _commit_files(
        self, entries: list[columns.EpisodeEntry], files: list[tuple[str, Path]], moves: Transaction
    ) -> None:
        """Stage the tables that describe the whole data set after this group's files, the manifest last."""
        stats = dict(self._stats)
        if entries:
            for feature in entries[0].stats:
                parts = [e.stats[feature] for e in entries]
                stats[feature] = aggregate([stats[feature], *parts] if feature in stats else parts)
        manifest = self._manifest
        episodes = manifest.episodes + len(entries)
        frames = manifest.frames + sum(e.length for e in entries)
        video_info = (
            self._video.as_info(self.schema.cameras[0], self.schema.rate_hz) if self.schema.cameras else {}
        )
        info = layout.info_json(
            self.schema, episodes=episodes, frames=frames, tasks=len(self._tasks), video_info=video_info
        )

        def stage(relative: str, write: Callable[[Path], Any]) -> None:
            path = moves.stage(relative)
            write(path)
            files.append((relative, path))

        stage(layout.TASKS, lambda path: pq.write_table(columns.tasks_table(self._tasks), path))
        stage(layout.STATS, lambda path: path.write_text(json.dumps(to_json(stats))))
        stage(layout.INFO, lambda path: path.write_text(json.dumps(info, indent=4)))
        manifest = with_files(
            manifest,
            {relative: file_entry(path) for relative, path in files},
            commits=manifest.commits + bool(entries),
            episodes=episodes,
            frames=frames,
        )
        moves.stage(layout.MANIFEST).write_bytes(manifest.to_bytes())
        moves.commit()
        self._manifest, self._stats = manifest, stats


class _Group:
    """The files of one commit while they are being written."""

    def __init__(self, root: Path, schema: Schema, number: int, video: VideoSettings) -> None:
        self.schema = schema
        self.number = number
        self.started = time.monotonic()
        self.entries: list[columns.EpisodeEntry] = []
        self.rows = 0
        self.transaction = Transaction(root)
        self._side_rows: list[dict[str, Any]] = []
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._bytes = 0
        self._files: list[tuple[str, Path]] = []
        self._arrow_schema = columns.arrow_schema(schema)
        self._parquet = pq.ParquetWriter(
            self._stage(layout.numbered(layout.DATA_PATH, number)),
            self._arrow_schema,
            compression="zstd",
            compression_level=1,
        )
        self._video = {
            camera.name: VideoEncoder(
                self._stage(layout.numbered(layout.VIDEO_PATH, number, video_key=camera.key)),
                camera,
                schema.rate_hz,
                video,
            )
            for camera in schema.cameras
        }

    def _stage(self, relative: str) -> Path:
        path = self.transaction.stage(relative)
        self._files.append((relative, path))
        return path

    def add(
        self, episode: Episode, index: int, first_row: int, task_index: int, origin: tuple[str, int]
    ) -> None:
        """Encode the frames first: if a frame is bad, nothing refers to those already written."""
        first_frame, stats = {}, {}
        for camera in self.schema.cameras:
            first_frame[camera.key], stats[camera.key] = self._add_frames(episode, camera.name)
        extra = columns.episode_columns(episode, index=index, first_row=first_row, task_index=task_index)
        values = {name: episode.signals[name] for name in (s.name for s in self.schema.signals)}
        arrays = [columns.to_arrow(array) for array in values.values()]
        arrays += [pa.array(array) for array in extra.values()]
        for name, array in values.items():
            stats[name] = feature_stats(array)
        for name, array in extra.items():
            stats[name] = feature_stats(array[:, None])
        table = pa.Table.from_arrays(arrays, schema=self._arrow_schema)
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        self._bytes += table.nbytes
        self.entries.append(
            columns.EpisodeEntry(index, episode.task, len(episode), first_row, first_frame, stats)
        )
        self._side_rows.append(sidecar.row(episode, index, *origin))
        self.rows += len(episode)
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_rows()

    def _add_frames(self, episode: Episode, camera: str) -> tuple[int, Stats]:
        encoder = self._video[camera]
        start = encoder.frames
        frames = episode.frames[camera]
        sampler = FrameSampler(len(episode), *frames.shape[1:3])
        for row, frame in enumerate(frames):
            encoder.add(np.asarray(frame), cut=row == 0)
            sampler.add(np.asarray(frame))
        if encoder.frames - start != len(episode):
            raise InvalidEpisode(
                f"camera {camera!r} gave the wrong number of frames",
                got=encoder.frames - start,
                expected=len(episode),
            )
        return start, sampler.stats()

    def _write_rows(self) -> None:
        table = pa.concat_tables(self._waiting).combine_chunks()
        self._parquet.write_table(table, row_group_size=len(table))
        self._waiting.clear()
        self._waiting_bytes = 0

    def full(self) -> bool:
        """Whether the group has reached the size of a LeRobot file."""
        longest = max((encoder.frames for encoder in self._video.values()), default=0) / self.schema.rate_hz
        videos = [
            path.stat().st_size for name, path in self._files if name.endswith(".mp4") and path.exists()
        ]
        return (
            self._bytes >= layout.DATA_FILE_MB << 20
            or max(videos, default=0) >= layout.VIDEO_FILE_MB << 20
            or longest >= layout.VIDEO_FILE_S
            or len(self.entries) >= GROUP_EPISODES
        )

    def finish(self) -> list[tuple[str, Path]]:
        """Close every file and write the group's tables; returns (relative path, staged path) of each."""
        if self._waiting:
            self._write_rows()
        self._parquet.close()
        for encoder in self._video.values():
            encoder.close()
        written = pq.read_metadata(self._files[0][1]).num_rows
        if written != self.rows:
            raise DatasetError(
                "rows were lost while writing; nothing was committed", got=written, expected=self.rows
            )
        chunk, file = divmod(self.number, layout.FILES_PER_CHUNK)
        table = columns.episodes_table(self.entries, chunk=chunk, file=file, rate_hz=self.schema.rate_hz)
        pq.write_table(table, self._stage(layout.numbered(layout.EPISODES_PATH, self.number)))
        side = sidecar.table(self._side_rows)
        pq.write_table(
            side, self._stage(layout.numbered(layout.SIDE_EPISODES_PATH, self.number)), compression="zstd"
        )
        return self._files

    def abandon(self) -> None:
        """Drop a group that holds no whole episode."""
        self._parquet.close()
        for encoder in self._video.values():
            if encoder.frames:
                encoder.close()
        self.transaction.abandon()
