"""Check a data set against everything it says about itself, and name every file and episode that does not fit.

Nothing is changed and nothing is decoded unless asked for. Other people's data sets have no checksums, so there every
number is read instead.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.dataset import columns, layout, sidecar
from twinloop.dataset.commit import JOURNAL, STAGING, is_being_written
from twinloop.dataset.index import EpisodeIndex, load_index
from twinloop.dataset.labels import load_labels
from twinloop.dataset.manifest import FileEntry, Manifest, file_entry, load_manifest
from twinloop.dataset.video import decode as decode_frames
from twinloop.dataset.video import video_extent
from twinloop.episode import Array, Camera, Schema
from twinloop.errors import DamagedDataset, NoDataset, TwinloopError

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

REPAIR = "run `twinloop data verify --repair`"
STRAY = "does not belong to the data set, but LeRobot would read it"
FOREIGN = "copy what is intact: `twinloop data merge --skip-unusable`"

_ROW_COLUMNS = ("episode_index", "frame_index", "index", "task_index")
_REWRITTEN = frozenset({layout.INFO, layout.STATS, layout.TASKS})
"""Files that every commit replaces, so that a running writer may be ahead of the manifest we read."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. An "error" makes data unreadable or wrong; a "warning" does not."""

    severity: Literal["error", "warning"]
    file: str
    episodes: tuple[int, ...]
    what: str
    remedy: str


@dataclass(frozen=True)
class Verification:
    """What a check found; `findings` is empty for a data set without fault."""

    root: Path
    findings: tuple[Finding, ...]
    episodes: int
    frames: int
    files: int
    bytes: int
    layout_version: str
    checksums: bool

    @property
    def ok(self) -> bool:
        """Whether every episode can be trusted."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def broken_episodes(self) -> dict[int, str]:
        """Episodes that cannot be trusted, and the first reason for each."""
        reasons: dict[int, str] = {}
        for finding in self.findings:
            if finding.severity == "error":
                for number in finding.episodes:
                    reasons.setdefault(number, f"{finding.file}: {finding.what}")
        return dict(sorted(reasons.items()))

    @property
    def broken_files(self) -> tuple[str, ...]:
        """Files that something is wrong with, each once."""
        return tuple(dict.fromkeys(f.file for f in self.findings if f.severity == "error"))


def verify(
    path: str | Path,
    *,
    decode: bool = False,
    progress: Progress | None = None,
    holding_lock: bool = False,
) -> Verification:
    """Check one data set, ours or anybody's; with `decode`, decode every frame as well.

    Whoever calls this while holding the writer lock says so; otherwise what a writer is changing is left alone.

    Raises `NoDataset` or `NewerFormat` where there is nothing that could be checked; damage is never an exception.
    """
    root = Path(path)
    try:
        return _Check(root, decode, progress, busy=not holding_lock and is_being_written(root)).run()
    except OSError as error:
        raise DamagedDataset(f"{root} cannot be checked ({error.strerror or error})") from error


class _Check:
    def __init__(self, root: Path, decode: bool, progress: Progress | None, *, busy: bool) -> None:
        self.root = root
        self.busy = busy
        self.decode = decode
        self.progress = progress
        self.findings: list[Finding] = []
        self.sizes: dict[str, int] = {}
        self.broken: dict[str, str] = {}
        self.manifest: Manifest | None = None
        self.ours = False
        self.version = layout.CODEBASE_VERSION
        self._steps = [0, 0]

    def run(self) -> Verification:
        info = self._info()
        self._manifest()
        self._commits()
        schema = self._schema(info)
        index: EpisodeIndex | None = None
        self._check_files()
        if info is not None and schema is not None:
            listed = self._listed()
            index, unreadable = self._index(info, schema, listed)
            self._report_broken(schema, index, unreadable, listed)
            self._check_index(index)
            self._check_rows(info, schema, index)
            for camera in schema.cameras:
                self._check_videos(camera, schema.rate_hz, index)
            if self.ours:
                self._check_side(index, listed)
                self._check_labels(listed)
            self._check_totals(info, index)
        else:
            self._report_broken(None, None, {}, self._listed())
        self._check_strays(index)
        findings = sorted(self.findings, key=lambda finding: (finding.severity, finding.file))
        return Verification(
            self.root,
            tuple(findings),
            len(index) if index else 0,
            int(index.length.sum()) if index else 0,
            len(self.sizes),
            sum(self.sizes.values()),
            self.version,
            self.manifest is not None,
        )

    def _error(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        numbers = tuple(sorted({int(number) for number in episodes}))
        remedy = remedy or (REPAIR if self.ours else FOREIGN)
        self.findings.append(Finding("error", file, numbers, what, remedy))

    def _warning(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        numbers = tuple(sorted({int(number) for number in episodes}))
        self.findings.append(Finding("warning", file, numbers, what, remedy))

    def _step(self) -> None:
        self._steps[0] += 1
        if self.progress:
            self.progress(min(self._steps[0], self._steps[1]), self._steps[1])

    def _info(self) -> dict[str, Any] | None:
        try:
            info = layout.load_info(self.root)
            self.version = str(info["codebase_version"])
            return info
        except NoDataset as error:
            if not looks_like_ours(self.root):
                raise
            self._error(layout.INFO, error.what.removeprefix(f"{self.root} "), remedy=REPAIR)
        except DamagedDataset as error:
            self._error(layout.INFO, _told(error, self.root))
        return None

    def _manifest(self) -> None:
        self.ours = looks_like_ours(self.root)
        try:
            self.manifest = load_manifest(self.root)
            if self.ours and self.manifest is None:
                self._error(layout.MANIFEST, "missing", remedy=REPAIR)
        except DamagedDataset as error:
            self._error(layout.MANIFEST, _told(error, self.root), remedy=REPAIR)

    def _commits(self) -> None:
        if self.busy:
            return
        if (self.root / JOURNAL).exists():
            what = "a commit was interrupted; our own reader is not affected, LeRobot may be"
            self._error(JOURNAL, what, remedy=f"{REPAIR}, or open it with a writer: both finish the commit")
        elif (self.root / STAGING).exists():
            what = "left by a writer that was killed; holds nothing that was committed"
            self._warning(STAGING, what, remedy="nothing to do: the next writer removes it")

    def _schema(self, info: Mapping[str, Any] | None) -> Schema | None:
        if info is None:
            return None
        try:
            schema, skipped = layout.schema_from_info(info)
        except DamagedDataset as error:
            self._error(layout.INFO, _told(error, self.root))
            return None
        for name, reason in skipped.items():
            self._warning(layout.INFO, f"feature {name!r} is left out: {reason}")
        return schema

    def _listed(self) -> dict[str, FileEntry]:
        """The data set's files: what the manifest lists, or else what LeRobot would find."""
        if self.manifest is not None:
            return dict(self.manifest.files)
        found: list[Path] = []
        for pattern in ("meta/episodes/*/*.parquet", f"{layout.SIDE}/episodes/*/*.parquet"):
            found += self.root.glob(pattern)
        return {str(path.relative_to(self.root)): FileEntry(0, "") for path in sorted(found)}

    def _check_files(self) -> None:
        """Sizes and checksums; needs no understanding of what the files hold."""
        if self.manifest is None:
            return
        self._steps[1] = 2 * len(self.manifest.files)
        for name, entry in self.manifest.files.items():
            path = self.root / name
            try:
                self.sizes[name] = path.stat().st_size
                if self.busy and name in _REWRITTEN:
                    continue
                if self.sizes[name] != entry.bytes:
                    self.broken[name] = f"wrong size; got {self.sizes[name]} bytes, expected {entry.bytes}"
                elif file_entry(path).blake2b != entry.blake2b:
                    self.broken[name] = "wrong checksum: the content has changed since it was committed"
            except FileNotFoundError:
                self.broken[name] = "missing"
            except OSError as error:
                self.broken[name] = f"cannot be read ({error.strerror or error})"
            self._step()

    def _index(
        self, info: Mapping[str, Any], schema: Schema, listed: Mapping[str, FileEntry]
    ) -> tuple[EpisodeIndex, dict[str, str]]:
        """The index of every episode table that can be read, and why the others cannot."""
        stand_in = self.manifest or Manifest("stand-in")
        usable = {name: entry for name, entry in listed.items() if name not in self.broken}
        unreadable: dict[str, str] = {}
        if self.version != layout.CODEBASE_VERSION:
            try:
                return load_index(self.root, info, schema, None), unreadable
            except DamagedDataset as error:
                unreadable["meta/episodes.jsonl"] = _told(error, self.root)
                return load_index(
                    self.root, {"codebase_version": "v3.0"}, schema, Manifest("none")
                ), unreadable
        try:
            return load_index(self.root, info, schema, replace(stand_in, files=usable)), unreadable
        except DamagedDataset:
            for name in [name for name in usable if name.startswith("meta/episodes/")]:
                try:
                    load_index(self.root, info, schema, replace(stand_in, files={name: usable[name]}))
                except DamagedDataset as error:
                    unreadable[name] = _told(error, self.root)
                    del usable[name]
        try:
            return load_index(self.root, info, schema, replace(stand_in, files=usable)), unreadable
        except DamagedDataset as error:
            self._error(layout.INFO, _told(error, self.root))
            return load_index(self.root, info, schema, replace(stand_in, files={})), unreadable

    def _report_broken(
        self,
        schema: Schema | None,
        index: EpisodeIndex | None,
        unreadable: Mapping[str, str],
        listed: Mapping[str, FileEntry],
    ) -> None:
        self.broken |= unreadable
        for name, what in self.broken.items():
            self._error(name, what, self._episodes_of(name, schema, index, listed))

    def _episodes_of(
        self, name: str, schema: Schema | None, index: EpisodeIndex | None, listed: Mapping[str, FileEntry]
    ) -> list[int]:
        """Episodes that need this file."""
        if schema is None or index is None:
            return []
        if name in index.files:
            return [int(n) for n in index.numbers[index.file_of == index.files.index(name)]]
        for video in index.video.values():
            if name in video.files:
                return [int(n) for n in index.numbers[video.file_of == video.files.index(name)]]
        for prefix, other in (
            ("meta/episodes/", f"{layout.SIDE}/episodes/"),
            (f"{layout.SIDE}/episodes/", "meta/episodes/"),
        ):
            if name.startswith(prefix):
                # Files of one commit share one number, so each table knows which episodes its sister described.
                return _numbers_in(self.root / other / name.removeprefix(prefix)) or _numbers_in(
                    self.root / "data" / Path(name).parent.name / Path(name).name
                )
        return []

    def _check_index(self, index: EpisodeIndex) -> None:
        for number, reason in index.skipped.items():
            self._warning(_tables(self.version), f"episode {number} is left out: {reason}", [number])
        numbers = index.numbers
        repeated = numbers[1:][np.diff(numbers) == 0]
        if len(repeated):
            self._error(_tables(self.version), "episode numbers are used twice", repeated)
        if self.version == layout.CODEBASE_VERSION and not np.array_equal(numbers, np.arange(len(numbers))):
            what = f"episode numbers are not 0 ... {len(numbers) - 1}, which LeRobot requires"
            if self.ours and not self.broken:
                self._error("meta/episodes", what)
            elif not self.ours:
                self._warning("meta/episodes", what, remedy="`twinloop data merge` numbers them afresh")

    def _check_rows(self, info: Mapping[str, Any], schema: Schema, index: EpisodeIndex) -> None:
        texts = self._task_texts(index)
        starts = index.starts[:-1]
        self._steps[1] = self._steps[0] + len(index.files) + sum(len(v.files) for v in index.video.values())
        for file, name in enumerate(index.files):
            places = np.flatnonzero(index.file_of == file)
            if name not in self.broken:
                try:
                    self._check_data_file(name, places, starts, info, schema, index, texts)
                except FileNotFoundError:
                    self._error(name, "missing", index.numbers[places])
                except (OSError, pa.ArrowException, ValueError, KeyError) as error:
                    reason = str(error).splitlines()[0]
                    self._error(name, f"cannot be read ({reason})", index.numbers[places])
            self._step()

    def _check_data_file(
        self,
        name: str,
        places: Array,
        starts: Array,
        info: Mapping[str, Any],
        schema: Schema,
        index: EpisodeIndex,
        texts: Sequence[str] | None,
    ) -> None:
        path = self.root / name
        self.sizes[name] = path.stat().st_size
        numbers = index.numbers[places]
        with pq.ParquetFile(path) as file:
            total = file.metadata.num_rows
            present = file.schema_arrow.names
            needed = [s.name for s in schema.signals] + ["timestamp"]
            if missing := [column for column in needed if column not in present]:
                self._error(name, f"column {missing[0]!r} is missing", numbers)
                return
            foreign = [column for column in present if column not in info["features"]]
            if foreign and self.version == layout.CODEBASE_VERSION:
                what = (
                    f"columns that {layout.INFO} does not declare: {', '.join(foreign)}; LeRobot refuses them"
                )
                self._warning(name, what, remedy="`twinloop data merge` makes a copy without them")
            short = places[index.offset[places] + index.length[places] > total]
            if len(short):
                self._error(name, f"ends too early, at row {total}", index.numbers[short])
                places = np.setdiff1d(places, short)
            lengths = index.length[places]
            position = _ranges(index.offset[places], lengths)
            if len(np.unique(position)) != total:
                complain = self._error if self.ours else self._warning
                complain(name, f"{total} rows, of which episodes use {len(np.unique(position))}")
            rows = file.read(columns=[column for column in _ROW_COLUMNS if column in present])
            self._compare_rows(name, rows, position, places, lengths, starts, index, texts)
            if self.manifest is None:
                self._read_everything(name, file, schema, places, index)

    def _compare_rows(
        self,
        name: str,
        rows: pa.Table,
        position: Array,
        places: Array,
        lengths: Array,
        starts: Array,
        index: EpisodeIndex,
        texts: Sequence[str] | None,
    ) -> None:
        expected = {
            "episode_index": np.repeat(index.numbers[places], lengths),
            "frame_index": _ranges(np.zeros_like(lengths), lengths),
            "index": _ranges(starts[places], lengths),
        }
        owner = np.repeat(places, lengths)
        for column, want in expected.items():
            strict = self.ours or column == "episode_index"
            if column not in rows.column_names:
                if self.ours:
                    self._error(name, f"column {column!r} is missing", index.numbers[places])
                continue
            values = rows.column(column)
            if values.null_count:
                self._error(name, f"column {column!r} has empty values", index.numbers[places])
                continue
            got = values.to_numpy()[position]
            if (
                column == "index"
                and len(got)
                and any(name.startswith("meta/episodes/") for name in self.broken)
            ):
                # Episodes before these are unknown; rows must still follow one another.
                want = want - want[0] + got[0]
            wrong = index.numbers[np.unique(owner[got != want])]
            if len(wrong) and strict:
                self._error(name, f"{column} does not agree with the episode tables", wrong)
            elif len(wrong) and self.version == layout.CODEBASE_VERSION:
                self._warning(name, f"{column} does not agree with the episode tables", wrong)
        if texts is None or "task_index" not in rows.column_names:
            return
        task = rows.column("task_index").to_numpy()[position]
        allowed = (task >= 0) & (task < len(texts))
        told = np.array([*texts, ""], object)[np.where(allowed, task, len(texts))]
        meant = np.array([*index.tasks, ""], object)[np.repeat(index.task_of[places], lengths)]
        wrong = index.numbers[np.unique(owner[~allowed | (told != meant)])]
        if len(wrong):
            complain = self._error if self.ours else self._warning
            complain(name, "task_index does not agree with the tasks of the episode tables", wrong)

    def _read_everything(
        self, name: str, file: pq.ParquetFile, schema: Schema, places: Array, index: EpisodeIndex
    ) -> None:
        """Without checksums the only proof that the numbers are there is to read them."""
        before = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            touched = places[
                (index.offset[places] < before + size)
                & (index.offset[places] + index.length[places] > before)
            ]
            before += size
            try:
                table = file.read_row_group(group, columns=[s.name for s in schema.signals])
                for signal in schema.signals:
                    columns.from_arrow(table.column(signal.name), signal)
            except (OSError, pa.ArrowException, ValueError, KeyError) as error:
                self._error(name, f"cannot be read ({str(error).splitlines()[0]})", index.numbers[touched])

    def _check_videos(self, camera: Camera, rate_hz: float, index: EpisodeIndex) -> None:
        video = index.video[camera.name]
        for file, name in enumerate(video.files):
            places = np.flatnonzero(video.file_of == file)
            if name not in self.broken:
                self._check_video(name, camera, rate_hz, places, index)
            self._step()

    def _check_video(
        self, name: str, camera: Camera, rate_hz: float, places: Array, index: EpisodeIndex
    ) -> None:
        path = self.root / name
        video = index.video[camera.name]
        numbers = index.numbers[places]
        ends = video.first_frame[places] + index.length[places]
        if not path.is_file():
            self._error(name, "missing", numbers)
            return
        self.sizes[name] = path.stat().st_size
        try:
            extent = video_extent(path, rate_hz)
            if self.decode:
                deque(decode_frames(path, 0, extent.length, rate_hz), maxlen=0)
        except DamagedDataset as error:
            self._error(name, _told(error, self.root), numbers)
            return
        if (extent.height, extent.width) != (camera.height, camera.width):
            what = f"shows {extent.height} x {extent.width} pixels, expected {camera.height} x {camera.width}"
            self._error(name, what, numbers)
        if len(short := numbers[ends > extent.length]):
            self._error(name, f"has {extent.length} frames, expected {int(ends.max())}", short)
        if extent.packets < extent.length:
            missing = extent.length - extent.packets
            self._warning(name, f"{missing} frames were dropped when it was recorded; the next one stands in")

    def _check_side(self, index: EpisodeIndex, listed: Mapping[str, FileEntry]) -> None:
        described: set[int] = set()
        for name in [name for name in listed if name.startswith(f"{layout.SIDE}/episodes/")]:
            if name in self.broken:
                continue
            try:
                table = pq.read_table(self.root / name, partitioning=None).select(sidecar.SCHEMA.names)
                rows = table.cast(sidecar.SCHEMA).to_pylist()
            except (OSError, pa.ArrowException, KeyError) as error:
                what = f"cannot be read ({str(error).splitlines()[0]})"
                self._error(name, what, _numbers_in(self.root / name.replace(f"{layout.SIDE}/", "meta/", 1)))
                continue
            for row in rows:
                described.add(row["episode_index"])
                try:
                    sidecar.provenance(row)
                    sidecar.outcome(row)
                    sidecar.events(row)
                except (TwinloopError, TypeError, ValueError) as error:
                    what = f"the provenance is damaged ({str(error).splitlines()[0]})"
                    self._error(name, what, [row["episode_index"]])
        already = {number for finding in self.findings for number in finding.episodes}
        if bare := {int(n) for n in index.numbers} - described - already:
            self._error(f"{layout.SIDE}/episodes", "episodes have no provenance row", bare)
        if extra := described - {int(n) for n in index.numbers} - already:
            self._error("meta/episodes", "episodes have a provenance row and nothing else", extra)

    def _check_labels(self, listed: Mapping[str, FileEntry]) -> None:
        try:
            labels = load_labels(self.root)
        except DamagedDataset as error:
            self._error(layout.LABELS, _told(error, self.root))
            return
        if not labels:
            return
        known: set[str] = set()
        for name in listed:
            if name.startswith(f"{layout.SIDE}/episodes/"):
                known |= set(_column(self.root / name, "episode_id"))
        unknown = {label.episode_id for label in labels} - known
        if unknown and not self.broken:
            what = (
                f"{len(unknown)} labelled episodes are not in this data set: {', '.join(sorted(unknown)[:3])}"
            )
            self._warning(layout.LABELS, what, remedy="nothing to do: labels of absent episodes are ignored")

    def _task_texts(self, index: EpisodeIndex) -> list[str] | None:
        """The task texts by number; None where the table is broken or there is none."""
        name = layout.TASKS if self.version == layout.CODEBASE_VERSION else "meta/tasks.jsonl"
        if name in self.broken:
            return None
        try:
            if name.endswith(".jsonl"):
                lines = [
                    json.loads(line) for line in (self.root / name).read_text().splitlines() if line.strip()
                ]
                by_number = {int(line["task_index"]): str(line["task"]) for line in lines}
                return [by_number.get(number, "") for number in range(max(by_number, default=-1) + 1)]
            return columns.task_texts(pq.read_table(self.root / name, partitioning=None))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            if len(index):
                reason = str(error).splitlines()[0]
                complain = self._error if self.ours else self._warning
                complain(name, f"the task texts cannot be read ({reason})")
            return None

    def _check_totals(self, info: Mapping[str, Any], index: EpisodeIndex) -> None:
        if self.broken and self.ours:
            return
        totals = {"total_episodes": len(index), "total_frames": int(index.length.sum())}
        for key, counted in totals.items():
            if not self.busy and info.get(key) != counted:
                what = f"{key} is {info.get(key)!r}, the tables say {counted}"
                complain = self._error if self.ours else self._warning
                complain(layout.INFO, what)
        if self.manifest is not None:
            pairs = {"episodes": self.manifest.episodes, "frames": self.manifest.frames}
            for (name, said), counted in zip(pairs.items(), totals.values(), strict=True):
                if said != counted:
                    self._error(layout.MANIFEST, f"{name} is {said}, the tables say {counted}")
        if self.ours and not self.busy:
            try:
                json.loads((self.root / layout.STATS).read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                if layout.STATS not in self.broken:
                    self._error(layout.STATS, f"cannot be read ({error})")

    def _check_strays(self, index: EpisodeIndex | None) -> None:
        """Files LeRobot would read because of where they are, though they do not belong to the data set."""
        if self.version != layout.CODEBASE_VERSION or self.busy:
            return
        known = set(self.manifest.files) if self.manifest else set(index.files if index else ())
        waiting = (self.root / JOURNAL).exists()
        for path in sorted(
            [*self.root.glob("data/*/*.parquet"), *self.root.glob("meta/episodes/*/*.parquet")]
        ):
            name = str(path.relative_to(self.root))
            if name in known or waiting or (self.manifest is None and name.startswith("meta/episodes/")):
                continue
            if index is None and self.manifest is None:
                continue
            self._error(name, STRAY, remedy=REPAIR if self.ours else "move it out of the data set")


def looks_like_ours(root: Path) -> bool:
    """Whether Twinloop wrote this folder, even if the files that would say so are damaged."""
    try:
        return (root / layout.MANIFEST).exists() or (root / layout.SIDE / "episodes").is_dir()
    except OSError:
        return False


def _told(error: TwinloopError, root: Path) -> str:
    """The first sentence of an error, without the path, which a finding names already."""
    line = str(error).splitlines()[0].rstrip(".")
    return line.replace(f"{root}/", "")


def _tables(version: str) -> str:
    return "meta/episodes" if version == layout.CODEBASE_VERSION else "meta/episodes.jsonl"


def _ranges(first: Array, lengths: Array) -> Array:
    """first[0], first[0] + 1, ... (lengths[0] numbers), first[1], ..."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(first - (ends - lengths), lengths))


def _numbers_in(path: Path) -> list[int]:
    return sorted({int(number) for number in _column(path, "episode_index") if number is not None})


def _column(path: Path, name: str) -> list[Any]:
    """One column of a file that may be broken: nothing rather than an error."""
    try:
        values: list[Any] = pq.read_table(path, columns=[name], partitioning=None).column(name).to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return []
    return values
