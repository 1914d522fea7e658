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
from twinloop.datasets.commit import Transaction, defer_interrupt, disk_errors
from twinloop.datasets.manifest import FileEntry, Manifest
from twinloop.datasets.stats import FrameSampler, Stats, aggregate, feature_stats
from twinloop.datasets.video import VideoEncoder, VideoSettings
from twinloop.episode import Array, Camera, Episode, Schema
from twinloop.errors import DatasetError, DiskError, InvalidEpisode

ROW_GROUP_BYTES = 1 << 20
"""Approximate size of a Parquet row group: small enough to read one episode cheaply."""

MAX_EPISODES = 5_000
"""A commit holds at most this many episodes, which bounds the memory of uncommitted ones."""

TABLE_EPISODES = 250
"""Python objects that describe episodes are packed into tables, a tenth of the size, after this many."""


@dataclass(frozen=True)
class StoredFrames:
    """Frames of one episode and camera in a video file: its number, the first frame, statistics."""

    number: int
    first: int
    stats: Stats


class PendingCommit:
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
        self.file_entries: dict[str, FileEntry] = {}
        self._settings = settings
        self._encoders: dict[str, tuple[int, VideoEncoder]] = {}
        self._entries: list[columns.EpisodeEntry] = []
        self._provenance_rows: list[dict[str, Any]] = []
        self._episode_tables: list[pa.Table] = []
        self._provenance_tables: list[pa.Table] = []
        self._buffered: list[dict[str, Array]] = []
        self._buffered_bytes = 0
        self._bytes = 0
        self._arrow_schema = columns.arrow_schema(schema)
        self._data_path = self.stage(layout.numbered(layout.DATA_PATH, self.number))
        options = columns.parquet_options(self._arrow_schema)
        self._parquet = pq.ParquetWriter(self._data_path, self._arrow_schema, **options)

    def stage(self, relative: str) -> Path:
        """Return the path to write a file of this commit to."""
        self.files[relative] = self.transaction.stage(relative)
        return self.files[relative]

    def add_video_file(self, camera: Camera, write: Callable[[Path], FileEntry | None]) -> int:
        """Add an existing video file, which `write` links or copies to the staged path; returns its number."""
        number, self.next_video = self.next_video, self.next_video + 1
        relative = layout.numbered(layout.VIDEO_PATH, number, video_key=camera.key)
        path = self.stage(relative)
        try:
            entry = write(path)
        except BaseException:
            del self.files[relative]
            self.transaction.unstage(relative)
            raise
        if entry is not None:
            self.file_entries[relative] = entry
        return number

    def encode(self, episode: Episode, camera: Camera) -> StoredFrames:
        """Append an episode's frames to this commit's video; after a bad frame, no episode refers to those before it."""
        with disk_errors(self.root):
            number, encoder = self._encoder(camera)
        start = encoder.frames
        sampler = FrameSampler(len(episode), camera.height, camera.width)
        for row, frame in enumerate(episode.frames[camera.name]):
            image = encoder.check_frame(frame)
            with defer_interrupt(), disk_errors(self.root):
                encoder.add(image, keyframe=row == 0)
            sampler.add(image)
        if encoder.frames - start != len(episode):
            raise InvalidEpisode(
                f"camera {camera.name!r} has the wrong number of frames",
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
        """Add the rows of one episode, whose frames are already stored."""
        extra = columns.episode_columns(episode, index=index, first_row=first_row, task_index=task_index)
        values = {signal.name: episode.signals[signal.name] for signal in self.schema.signals}
        values |= {name: array[:, None] for name, array in extra.items()}
        stats = feature_stats(values) | {key: stored.stats for key, stored in frames.items()}
        places = {key: (stored.number, stored.first) for key, stored in frames.items()}
        size = sum(array.nbytes for array in values.values())
        self._buffered.append(values)
        self._buffered_bytes += size
        self._bytes += size
        self._entries.append(
            columns.EpisodeEntry(index, episode.task, len(episode), first_row, places, stats)
        )
        self._provenance_rows.append(sidecar.make_row(episode, index, *origin))
        self.episodes += 1
        self.rows += len(episode)
        if self._buffered_bytes >= ROW_GROUP_BYTES:
            self._write_rows()
        if len(self._entries) >= TABLE_EPISODES:
            self._pack_entries()

    def add_tables(
        self, rows: pa.Table, entries: Sequence[columns.EpisodeEntry], provenance: Sequence[dict[str, Any]]
    ) -> None:
        """Add episodes as tables, already numbered for this dataset."""
        if self._buffered:
            self._write_rows()
        group_size = max(1, len(rows) * ROW_GROUP_BYTES // max(rows.nbytes, 1))
        self._parquet.write_table(rows, row_group_size=group_size)
        self._bytes += rows.nbytes
        self._entries += entries
        self._provenance_rows += provenance
        self.episodes += len(entries)
        self.rows += len(rows)
        if len(self._entries) >= TABLE_EPISODES:
            self._pack_entries()

    def _write_rows(self) -> None:
        arrays = [
            columns.to_arrow(np.concatenate([values[name] for values in self._buffered]))
            for name in self._arrow_schema.names
        ]
        table = pa.Table.from_arrays(arrays, schema=self._arrow_schema)
        self._parquet.write_table(table, row_group_size=len(table))
        self._buffered.clear()
        self._buffered_bytes = 0

    def _pack_entries(self) -> None:
        """Pack the entries of the latest episodes into tables."""
        for feature in self._entries[0].stats:
            parts = [entry.stats[feature] for entry in self._entries]
            self.stats[feature] = aggregate([self.stats[feature], *parts] if feature in self.stats else parts)
        self._episode_tables.append(
            columns.episodes_table(self._entries, number=self.number, rate_hz=self.schema.rate_hz)
        )
        self._provenance_tables.append(sidecar.make_table(self._provenance_rows))
        self._entries.clear()
        self._provenance_rows.clear()

    def is_full(self) -> bool:
        """Return whether the commit has reached the size of a LeRobot file."""
        encoders = [encoder for _, encoder in self._encoders.values()]
        return (
            self._bytes >= layout.DATA_FILE_MB << 20
            or self.episodes >= MAX_EPISODES
            or any(encoder.bytes >= layout.VIDEO_FILE_MB << 20 for encoder in encoders)
            or any(encoder.frames / self.schema.rate_hz >= layout.VIDEO_FILE_S for encoder in encoders)
        )

    def finish(self, note: Mapping[str, Any]) -> None:
        """Close every file and write the tables; `note` is stored in one of them for repairs."""
        if self._buffered:
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
        provenance = sidecar.with_note(pa.concat_tables(self._provenance_tables), note)
        pq.write_table(
            provenance,
            self.stage(layout.numbered(layout.SIDECAR_EPISODES_PATH, self.number)),
            compression="zstd",
            row_group_size=4 * TABLE_EPISODES,
        )

    def discard(self) -> None:
        """Close and delete the files."""
        for file in (self._parquet, *(encoder for _, encoder in self._encoders.values())):
            with suppress(OSError, ValueError, DiskError, pa.ArrowException):
                file.close()
        self.transaction.discard()

    def _close(self) -> None:
        self._parquet.close()
        for _, encoder in self._encoders.values():
            encoder.close()
