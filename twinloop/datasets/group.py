"""The files of one commit while they are being written: rows, frames and the tables that describe them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout, sidecar
from twinloop.datasets.commit import Transaction, disk_errors, unbroken
from twinloop.datasets.manifest import FileEntry, Manifest
from twinloop.datasets.stats import FrameSampler, Stats, aggregate, feature_stats
from twinloop.datasets.video import VideoEncoder, VideoSettings
from twinloop.episode import Array, Camera, Episode, Schema
from twinloop.errors import DatasetError, DiskError, InvalidEpisode

ROW_GROUP_BYTES = 1 << 20
"""Rows are handed to Parquet in pieces of about this size: small enough to read one episode cheaply."""

GROUP_EPISODES = 5_000
"""A commit at the latest after this many episodes, so that what waits in memory stays small."""

TABLE_EPISODES = 250
"""Episodes are described as Python objects until there are so many, then as a piece of a table: a tenth of the size."""


@dataclass(frozen=True)
class StoredFrames:
    """Frames of one episode and camera that are in a video file already: its number, the first frame, statistics."""

    number: int
    first: int
    stats: Stats


class Group:
    """The files of one commit while they are being written."""

    def __init__(self, root: Path, schema: Schema, manifest: Manifest, settings: VideoSettings) -> None:
        self.root = root
        self.schema = schema
        self.started = time.monotonic()
        self.episodes = 0
        self.rows = 0
        self.stats: dict[str, Stats] = {}
        self.transaction = Transaction(root)
        self.number = manifest.next_data
        self.next_video = manifest.next_video
        self.files: dict[str, Path] = {}
        self.known: dict[str, FileEntry] = {}
        self._settings = settings
        self._encoders: dict[str, tuple[int, VideoEncoder]] = {}
        self._entries: list[columns.EpisodeEntry] = []
        self._side_rows: list[dict[str, Any]] = []
        self._episode_tables: list[pa.Table] = []
        self._side_tables: list[pa.Table] = []
        self._waiting: list[dict[str, Array]] = []
        self._waiting_bytes = 0
        self._bytes = 0
        self._arrow_schema = columns.arrow_schema(schema)
        self._data_path = self.stage(layout.numbered(layout.DATA_PATH, self.number))
        options = columns.parquet_options(self._arrow_schema)
        self._parquet = pq.ParquetWriter(self._data_path, self._arrow_schema, **options)

    def stage(self, relative: str) -> Path:
        """Where to write a file of this commit."""
        self.files[relative] = self.transaction.stage(relative)
        return self.files[relative]

    def take_video(self, camera: Camera, place: Callable[[Path], FileEntry | None]) -> int:
        """Stage a video file that exists already."""
        number, self.next_video = self.next_video, self.next_video + 1
        relative = layout.numbered(layout.VIDEO_PATH, number, video_key=camera.key)
        path = self.stage(relative)
        try:
            entry = place(path)
        except BaseException:
            del self.files[relative]
            self.transaction.unstage(relative)
            raise
        if entry is not None:
            self.known[relative] = entry
        return number

    def encode(self, episode: Episode, camera: Camera) -> StoredFrames:
        """Append an episode's frames to this commit's video; if one is bad, nothing refers to those before it."""
        with disk_errors(self.root):
            number, encoder = self._encoder(camera)
        start = encoder.frames
        sampler = FrameSampler(len(episode), camera.height, camera.width)
        for row, frame in enumerate(episode.frames[camera.name]):
            image = encoder.checked(frame)
            with unbroken(), disk_errors(self.root):
                encoder.add(image, cut=row == 0)
            sampler.add(image)
        if encoder.frames - start != len(episode):
            raise InvalidEpisode(
                f"camera {camera.name!r} gave the wrong number of frames",
                got=encoder.frames - start,
                expected=len(episode),
            )
        return StoredFrames(number, start, sampler.stats())

    def _encoder(self, camera: Camera) -> tuple[int, VideoEncoder]:
        if camera.name not in self._encoders:
            number = self._encoders[next(iter(self._encoders))][0] if self._encoders else self.next_video
            self.next_video = max(self.next_video, number + 1)
            path = self.stage(layout.numbered(layout.VIDEO_PATH, number, video_key=camera.key))
            self._encoders[camera.name] = (
                number,
                VideoEncoder(path, camera, self.schema.rate_hz, self._settings),
            )
        return self._encoders[camera.name]

    def add(
        self,
        episode: Episode,
        index: int,
        first_row: int,
        task_index: int,
        frames: Mapping[str, StoredFrames],
        origin: tuple[str, int],
    ) -> None:
        """Add the rows of one episode, whose frames are stored already."""
        extra = columns.episode_columns(episode, index=index, first_row=first_row, task_index=task_index)
        values = {signal.name: episode.signals[signal.name] for signal in self.schema.signals}
        values |= {name: array[:, None] for name, array in extra.items()}
        stats = feature_stats(values) | {key: stored.stats for key, stored in frames.items()}
        places = {key: (stored.number, stored.first) for key, stored in frames.items()}
        size = sum(array.nbytes for array in values.values())
        self._waiting.append(values)
        self._waiting_bytes += size
        self._bytes += size
        self._entries.append(
            columns.EpisodeEntry(index, episode.task, len(episode), first_row, places, stats)
        )
        self._side_rows.append(sidecar.row(episode, index, *origin))
        self.episodes += 1
        self.rows += len(episode)
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_rows()
        if len(self._entries) >= TABLE_EPISODES:
            self._pack_entries()

    def take(
        self, rows: pa.Table, entries: Sequence[columns.EpisodeEntry], side: Sequence[dict[str, Any]]
    ) -> None:
        """Add episodes whose rows are in a table already, numbered as they will be in this dataset."""
        if self._waiting:
            self._write_rows()
        group_size = max(1, len(rows) * ROW_GROUP_BYTES // max(rows.nbytes, 1))
        self._parquet.write_table(rows, row_group_size=group_size)
        self._bytes += rows.nbytes
        self._entries += entries
        self._side_rows += side
        self.episodes += len(entries)
        self.rows += len(rows)
        if len(self._entries) >= TABLE_EPISODES:
            self._pack_entries()

    def _write_rows(self) -> None:
        arrays = [
            columns.to_arrow(np.concatenate([values[name] for values in self._waiting]))
            for name in self._arrow_schema.names
        ]
        table = pa.Table.from_arrays(arrays, schema=self._arrow_schema)
        self._parquet.write_table(table, row_group_size=len(table))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _pack_entries(self) -> None:
        """Turn the descriptions of the last episodes into pieces of the group's tables."""
        for feature in self._entries[0].stats:
            parts = [entry.stats[feature] for entry in self._entries]
            self.stats[feature] = aggregate([self.stats[feature], *parts] if feature in self.stats else parts)
        self._episode_tables.append(
            columns.episodes_table(self._entries, number=self.number, rate_hz=self.schema.rate_hz)
        )
        self._side_tables.append(sidecar.table(self._side_rows))
        self._entries.clear()
        self._side_rows.clear()

    def full(self) -> bool:
        """Whether the group has reached the size of a LeRobot file."""
        seconds = (
            max((encoder.frames for _, encoder in self._encoders.values()), default=0) / self.schema.rate_hz
        )
        video_bytes = max((encoder.bytes for _, encoder in self._encoders.values()), default=0)
        return (
            self._bytes >= layout.DATA_FILE_MB << 20
            or video_bytes >= layout.VIDEO_FILE_MB << 20
            or seconds >= layout.VIDEO_FILE_S
            or self.episodes >= GROUP_EPISODES
        )

    def finish(self, note: Mapping[str, Any]) -> None:
        """Close every file and write the group's tables, with a note for repairs in one of them."""
        if self._waiting:
            self._write_rows()
        self._close()
        written = pq.read_metadata(self._data_path).num_rows
        if written != self.rows:
            raise DatasetError(
                "rows were lost while writing; nothing was committed", got=written, expected=self.rows
            )
        if self._entries:
            self._pack_entries()
        table = pa.concat_tables(self._episode_tables)
        pq.write_table(table, self.stage(layout.numbered(layout.EPISODES_PATH, self.number)))
        side = sidecar.with_note(pa.concat_tables(self._side_tables), note)
        pq.write_table(
            side,
            self.stage(layout.numbered(layout.SIDE_EPISODES_PATH, self.number)),
            compression="zstd",
            row_group_size=4 * TABLE_EPISODES,
        )

    def abandon(self) -> None:
        """Close what is open and forget it."""
        for file in (self._parquet, *(encoder for _, encoder in self._encoders.values())):
            with suppress(OSError, ValueError, DiskError, pa.ArrowException):
                file.close()
        self.transaction.abandon()

    def _close(self) -> None:
        self._parquet.close()
        for _, encoder in self._encoders.values():
            encoder.close()
