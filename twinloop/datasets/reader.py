"""Read a dataset: `open_dataset(path)` reads only tables; rows and frames are read with their episode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout, sidecar
from twinloop.datasets.commit import read_errors
from twinloop.datasets.index import EpisodeIndex, load_index
from twinloop.datasets.labels import current_outcomes
from twinloop.datasets.manifest import Manifest, load_manifest
from twinloop.datasets.remote import RemoteView, open_remote
from twinloop.datasets.store import parse_address
from twinloop.datasets.video import FetchedFrames, VideoFrames
from twinloop.episode import Array, Camera, Episode, Event, Outcome, Provenance, Schema, Signal, content_id
from twinloop.errors import DamagedDataset, TwinloopError, WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.windows import Transitions, Windows

OPEN_FILES = 16
"""Parquet files kept open."""

_CLOCK = Signal("time", dtype="float64")

WARM_ROW_GROUPS = 4
"""Decoded row groups kept in memory, so that reading neighbouring episodes does not decode twice."""


def open_dataset(path: str | Path) -> Dataset:
    """Open a dataset written by Twinloop, or any LeRobot v3.0 or v2.1 dataset.

    Args:
        path: A folder, or an address in object storage: s3://bucket/folder, gs://, az://, and what fsspec knows. There, tables are
            fetched, rows are read in place, and videos are fetched when their frames are.

    Raises:
        NoDataset: The path holds no dataset.
        NewerFormat: The layout version is not supported.
        DamagedDataset: A table cannot be read.
    """
    address = parse_address(path)
    remote = open_remote(address) if address else None
    root = remote.root if remote else Path(path)
    info = layout.load_info(root)
    schema, skipped = layout.schema_from_info(info)
    return Dataset(root, schema, info, load_manifest(root), skipped, remote)


class Dataset:
    """Episodes on disk. Reading never changes a file; many readers and one writer may run at the same time."""

    def __init__(
        self,
        root: Path,
        schema: Schema,
        info: Mapping[str, Any],
        manifest: Manifest | None,
        skipped: Mapping[str, str],
        remote: RemoteView | None = None,
    ) -> None:
        self.root = root
        self.remote = remote
        self.schema = schema
        self.manifest = manifest
        self.skipped = skipped
        self._info = info
        self._files: OrderedDict[str, tuple[pq.ParquetFile, Array]] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()

    @property
    def place(self) -> str:
        """Its folder, or its address in object storage."""
        return self.remote.address if self.remote else str(self.root)

    def file(self, name: str) -> Path:
        """A file of the dataset on this machine; one in object storage is fetched first."""
        return self.remote.fetch(name) if self.remote else self.root / name

    def bytes_of(self, name: str) -> int | None:
        """The size of a file; None where there is none."""
        if self.remote:
            return self.remote.bytes_of(name)
        path = self.root / name
        return path.stat().st_size if path.is_file() else None

    def open_parquet(self, name: str) -> pq.ParquetFile:
        """A table of rows, of which nothing but the footer has been read."""
        if self.remote:
            return self.remote.open_parquet(name)
        return pq.ParquetFile(self.root / name, memory_map=True)

    @property
    def id(self) -> str:
        """The id given when it was created; for a foreign dataset, its folder name."""
        return self.manifest.dataset_id if self.manifest else f"foreign:{self.root.name}"

    @property
    def content_hash(self) -> str:
        """A hash of everything in it; of a foreign dataset, which has no checksums, its id."""
        return self.manifest.fingerprint if self.manifest else self.id

    @property
    def layout_version(self) -> str:
        """LeRobot's layout version: v3.0, or v2.1 for older foreign data."""
        return str(self._info["codebase_version"])

    @cached_property
    def index(self) -> EpisodeIndex:
        """Where every episode is stored."""
        return load_index(
            self.root, self._info, self.schema, None if self.manifest is None else self.manifest.files
        )

    def __len__(self) -> int:
        return self.manifest.episodes if self.manifest else len(self.index)

    @property
    def num_frames(self) -> int:
        """Rows in all episodes together."""
        return self.manifest.frames if self.manifest else int(self.index.length.sum())

    @property
    def numbers(self) -> list[int]:
        """The episode numbers: 0 ... N - 1, except in foreign datasets with gaps."""
        return [int(number) for number in self.index.numbers]

    def __iter__(self) -> Iterator[Episode]:
        for number in self.numbers:
            yield self.episode(number)

    def episode(self, number: int) -> Episode:
        """Return the episode with this number; frames are decoded on access.

        Raises:
            WrongUse: No episode has this number.
            DamagedDataset: Its rows or provenance cannot be read.
        """
        place = self._place(number)
        rows = self._read_rows(place)
        signals = {}
        try:
            for signal in self.schema.signals:
                signals[signal.name] = columns.from_arrow(rows.column(signal.name), signal)
            clock = rows.column("time_s" if "time_s" in rows.column_names else "timestamp")
            time_s = columns.from_arrow(clock, _CLOCK)[:, 0]
        except (KeyError, ValueError, pa.ArrowException) as error:
            raise DamagedDataset(
                f"episode {number} of {self.root} cannot be read ({error})",
                remedy="run `twinloop data verify`",
            ) from error
        for array in (time_s, *signals.values()):
            array.flags.writeable = False
        task = self.index.tasks[int(self.index.task_of[place])]
        record = self._read_record(place, time_s, signals, task)
        return Episode(
            schema=self.schema,
            time_s=time_s,
            signals=signals,
            frames={camera.name: self.frames_at(place, camera) for camera in self.schema.cameras},
            task=task,
            **record,
        )

    def transitions(self, state: str = "observation.state", action: str = "action") -> Transitions:
        """Return every (state, action, next state), memory-mapped."""
        from twinloop.datasets.windows import Transitions

        return Transitions(self, state, action)

    def windows(
        self,
        offsets: Mapping[str, Sequence[int]],
        *,
        decoded: bool = False,
        excluded: Array | None = None,
    ) -> Windows:
        """Return a window around every row, memory-mapped; see `Windows` for the arguments."""
        from twinloop.datasets.windows import Windows

        return Windows(self, offsets, decoded=decoded, excluded=excluded)

    @property
    def episode_tables(self) -> list[str]:
        """The names of LeRobot's per-episode tables, in order; none for foreign data."""
        names = sorted(self.manifest.files) if self.manifest else []
        return [name for name in names if name.startswith("meta/episodes/")]

    def provenance_files(self) -> list[Path]:
        """Return the files of the provenance tables, in order; none for foreign data."""
        names = sorted(self.manifest.files) if self.manifest else []
        return [self.root / name for name in names if name.startswith(f"{layout.SIDECAR}/episodes/")]

    def provenance_table(self) -> pa.Table | None:
        """Return provenance, recorded outcome and origin, one row per episode; None for foreign data."""
        if self.manifest is None:
            return None
        return self._provenance_table

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """Outcomes changed by labels since recording, by episode id."""
        return current_outcomes(self.root)

    @cached_property
    def _provenance_table(self) -> pa.Table:
        assert self.manifest is not None
        tables = []
        for path in self.provenance_files():
            with read_errors(path, remedy="run `twinloop data verify --repair`"):
                tables.append(sidecar.read_table(path))
        table = pa.concat_tables(tables).combine_chunks() if tables else sidecar.make_table([])
        if not np.array_equal(table.column("episode_index").to_numpy(), self.index.numbers):
            raise DamagedDataset(
                f"{self.root / layout.SIDECAR}/episodes does not match meta/episodes",
                got=f"{len(table)} rows",
                expected=len(self.index),
                remedy="run `twinloop data verify --repair`",
            )
        return table

    def _place(self, number: int) -> int:
        place = int(np.searchsorted(self.index.numbers, number))
        if place == len(self.index) or self.index.numbers[place] != number:
            expected = f"one of its {len(self.index)} episodes"
            if len(self.index):
                expected += f", numbered {self.index.numbers[0]} to {self.index.numbers[-1]}"
            raise WrongUse(f"{self.place} has no episode {number}", expected=expected)
        return place

    def recorded_outcome(self, number: int) -> tuple[Outcome, tuple[Event, ...]]:
        """What was recorded of an episode, whatever labels say of it now: its outcome and its events."""
        values = self._provenance_row(self._place(number))
        return sidecar.make_outcome(values), sidecar.make_events(values)

    def _read_record(
        self, place: int, time_s: Array, signals: Mapping[str, Array], task: str
    ) -> dict[str, Any]:
        """Read id, events, outcome and provenance of one episode."""
        events: tuple[Event, ...] = ()
        if self.manifest is None:
            provenance = Provenance()
            episode_id = content_id(self.schema, time_s, signals, events, task, provenance)
            return {"id": episode_id, "events": events, "outcome": Outcome(), "provenance": provenance}
        values = self._provenance_row(place)
        try:
            outcome = self.outcomes.get(values["episode_id"], sidecar.make_outcome(values))
            provenance, events = sidecar.make_provenance(values), sidecar.make_events(values)
        except (TwinloopError, TypeError, ValueError) as error:
            raise DamagedDataset(
                f"the provenance of episode {values['episode_index']} is damaged ({error})"
            ) from error
        return {"id": values["episode_id"], "events": events, "outcome": outcome, "provenance": provenance}

    def frames_at(self, place: int, camera: Camera) -> VideoFrames:
        """Return the frames of the episode at this place of the index."""
        video = self.index.video[camera.name]
        name = video.files[int(video.file_of[place])]
        kind = VideoFrames if self.remote is None else partial(FetchedFrames, partial(self.file, name))
        return kind(
            self.root / name,
            int(video.first_frame[place]),
            int(self.index.length[place]),
            camera.height,
            camera.width,
            self.schema.rate_hz,
        )

    def _read_rows(self, place: int) -> pa.Table:
        """Read the rows of one episode."""
        name = self.index.files[int(self.index.file_of[place])]
        length = int(self.index.length[place])
        rows = self._read_slice(name, int(self.index.offset[place]), length)
        if len(rows) != length:
            raise DamagedDataset(
                f"{self.root / name} is too short",
                got=f"{len(rows)} rows of episode {self.index.numbers[place]}",
                expected=length,
                remedy="run `twinloop data verify`",
            )
        return rows

    def _provenance_row(self, place: int) -> dict[str, Any]:
        """Read the provenance of one episode, if possible without reading all tables."""
        file = int(self.index.file_of[place])
        name = self.index.files[file].replace("data/", f"{layout.SIDECAR}/episodes/", 1)
        row = place - int(np.searchsorted(self.index.file_of, file))
        if "_provenance_table" not in self.__dict__ and (self.root / name).exists():
            values: list[dict[str, Any]] = self._read_slice(name, row, 1).to_pylist()
            if values and values[0].get("episode_index") == self.index.numbers[place]:
                return values[0]
        return dict(self._provenance_table.slice(place, 1).to_pylist()[0])

    def _read_slice(self, name: str, offset: int, length: int) -> pa.Table:
        """Read rows of one file; fewer than `length` if the file ends too early."""
        with read_errors(self.root / name):
            file, ends = self._open_file(name)
            low, high = np.searchsorted(ends, [offset, offset + length - 1], side="right").tolist()
            groups = [self._read_group(name, file, group) for group in range(low, min(high + 1, len(ends)))]
            start = int(ends[low - 1]) if low else 0
            table = pa.concat_tables(groups) if groups else file.schema_arrow.empty_table()
        return table.slice(offset - start, length)

    def _open_file(self, name: str) -> tuple[pq.ParquetFile, Array]:
        """Return an open file, and the row at which each of its row groups ends."""
        if name not in self._files:
            file = self.open_parquet(name)
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            self._files[name] = file, np.cumsum(sizes, dtype=np.int64)
            if len(self._files) > OPEN_FILES:
                self._files.popitem(last=False)[1][0].close()
        self._files.move_to_end(name)
        return self._files[name]

    def _read_group(self, name: str, file: pq.ParquetFile, group: int) -> pa.Table:
        key = (name, group)
        if key not in self._groups:
            wanted = {s.name for s in self.schema.signals} | {"time_s", "timestamp", *sidecar.SCHEMA.names}
            present = [column for column in file.schema_arrow.names if column in wanted]
            self._groups[key] = file.read_row_group(group, columns=present)
            if len(self._groups) > WARM_ROW_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]
