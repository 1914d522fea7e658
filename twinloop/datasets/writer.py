"""Write episodes: streaming, appending, and safe against being killed at any moment.

Episodes go into one pending of files (rows, frames, tables) that is staged. A commit closes the pending and makes
all of it part of the dataset at once; what was not committed when the process dies is lost, nothing else is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout
from twinloop.datasets.commit import (
    JOURNAL,
    LOCK,
    STAGING,
    Transaction,
    defer_interrupt,
    disk_errors,
    finish_journal,
    writer_lock,
)
from twinloop.datasets.manifest import (
    FileEntry,
    Manifest,
    file_entry,
    load_manifest,
    new_manifest,
    with_files,
)
from twinloop.datasets.pending_commit import PendingCommit, StoredFrames
from twinloop.datasets.stats import NAMES, Stats, aggregate, from_json, to_json
from twinloop.datasets.store import parse_address
from twinloop.datasets.video import VideoSettings
from twinloop.durable import sync
from twinloop.episode import Camera, Episode, Schema
from twinloop.errors import DamagedDataset, DatasetError, DiskError, InvalidEpisode, TwinloopError, WrongUse


def make_dataset(
    path: str | Path,
    schema: Schema,
    *,
    commit_every_s: float = 30.0,
    video: VideoSettings | None = None,
    history: tuple[str, tuple[str, ...], str] = ("recorded", (), ""),
) -> DatasetWriter:
    """Create a dataset and return its writer.

    Args:
        path: A folder that does not exist or is empty.
        schema: The signals, cameras and rate of every episode.
        commit_every_s: Longest time between commits, in seconds.
        video: How frames are encoded.
        history: The first step of the dataset's history: operation, source datasets, detail.

    Raises:
        DatasetError: The folder is not empty.
    """
    root = _local(path)
    with disk_errors(root):
        if root.exists() and not _is_free(root):
            remedy = "choose another folder, or delete this one"
            if (root / layout.MANIFEST).exists() or (root / JOURNAL).exists():
                remedy = "choose another folder; in Python, append_to(path) adds episodes to this one"
            raise DatasetError(f"{root} already exists and is not empty", remedy=remedy)
        root.mkdir(parents=True, exist_ok=True)
        sync(root.parent)
    return DatasetWriter(root, schema, new_manifest(*history), commit_every_s, video or VideoSettings())


def append_to(
    path: str | Path,
    *,
    commit_every_s: float = 30.0,
    video: VideoSettings | None = None,
    schema: Schema | None = None,
) -> DatasetWriter:
    """Open a dataset written by Twinloop for appending and return its writer.

    Args:
        path: The dataset.
        commit_every_s: Longest time between commits, in seconds.
        video: How frames are encoded.
        schema: If given, must equal the dataset's own.

    Raises:
        DatasetError: The dataset is foreign, or its schema differs from `schema`.
        LockedDataset: Another process is writing it.
    """
    root = _local(path)
    with disk_errors(root):
        interrupted = (root / JOURNAL).exists()
    if interrupted:
        # If the very first commit was interrupted, info.json may still be staged in it.
        with writer_lock(root), disk_errors(root):
            finish_journal(root)
    info = layout.load_info(root)
    if load_manifest(root) is None:
        raise DatasetError(
            f"{root} was not written by Twinloop and is never changed in place",
            remedy=f"copy it first: twinloop data merge {root} --out NEW",
        )
    on_disk, _ = layout.schema_from_info(info)
    if schema is not None and (difference := on_disk.difference(schema)):
        raise DatasetError(f"cannot append to {root}: {difference}")
    return DatasetWriter(root, on_disk, None, commit_every_s, video or VideoSettings())


def _local(path: str | Path) -> Path:
    """The folder of a dataset that is to be written."""
    if address := parse_address(path):
        raise WrongUse(
            "episodes are written to a folder of this machine, and pushed from there",
            got=address,
            remedy=f"write to a folder, then: twinloop data push FOLDER {address}",
        )
    return Path(path)


def _is_free(root: Path) -> bool:
    """Return whether a folder is empty, except for leftovers of a writer killed before its first commit."""
    if not root.is_dir():
        return False
    files = [path for path in root.rglob("*") if path.is_file() and path != root / LOCK]
    return all((root / STAGING) in path.parents or path.suffix == ".tmp" for path in files)


class DatasetWriter:
    """Adds episodes to one dataset; use it as a context manager.

    Leaving the block commits every complete episode, also after an exception or Ctrl-C.
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
        self._closed = False
        self._pending: PendingCommit | None = None
        self.tasks: list[str] = []
        self._stats: dict[str, Stats] = {}
        self._resources = ExitStack()
        self._resources.enter_context(writer_lock(root))
        try:
            with disk_errors(root):
                finish_journal(root)
                if manifest is None:
                    self._manifest = self._load_state()
                elif (root / layout.MANIFEST).exists():
                    raise DatasetError(
                        f"{root} has just been created by another writer", remedy="use append_to(path)"
                    )
                else:
                    self._manifest = manifest
                    self._commit_files(None)
        except BaseException:
            self._resources.close()
            raise

    @property
    def committed(self) -> int:
        """Number of committed episodes."""
        return self._manifest.episodes

    @property
    def episodes(self) -> int:
        """Number of episodes added so far, committed or not."""
        return self._manifest.episodes + (self._pending.episodes if self._pending else 0)

    @property
    def frames(self) -> int:
        """Number of rows of these episodes."""
        return self._manifest.frames + (self._pending.rows if self._pending else 0)

    @property
    def dataset_id(self) -> str:
        """The dataset's id, which never changes."""
        return self._manifest.dataset_id

    def add(self, episode: Episode) -> int:
        """Add one episode and return its index."""
        pending = self._pending_for(episode)
        index = self.episodes
        try:
            frames = {camera.key: pending.encode(episode, camera) for camera in self.schema.cameras}
        except DiskError as error:
            raise self._drop_pending(error) from error
        return self._add_rows(pending, episode, frames, (self.dataset_id, index))

    def add_copied_episode(
        self, episode: Episode, frames: Mapping[str, StoredFrames], origin: tuple[str, int]
    ) -> int:
        """Add an episode of another dataset whose frames are in files added with `add_video_file`.

        `origin` is the dataset id and index under which the episode was first written.
        """
        return self._add_rows(self._pending_for(episode), episode, frames, origin)

    def add_tables(
        self,
        rows: pa.Table,
        entries: list[columns.EpisodeEntry],
        provenance: list[dict[str, Any]],
        tasks: list[str],
    ) -> None:
        """Add episodes as tables, numbered for this dataset; they are committed when `commit` is called."""
        self._open_pending().add_tables(rows, entries, provenance)
        self.tasks = tasks

    def discard(self) -> None:
        """Delete what is not committed and release the writer lock."""
        try:
            self._discard_pending()
        finally:
            self._closed = True
            self._resources.close()

    def add_video_file(self, camera: Camera, write: Callable[[Path], FileEntry | None]) -> int:
        """Add a video file, which `write` links or copies to the path passed to it; returns its number."""
        return self._open_pending().add_video_file(camera, write)

    def _pending_for(self, episode: Episode) -> PendingCommit:
        if difference := self.schema.difference(episode.schema):
            raise InvalidEpisode(
                f"the episode does not fit {self.root}: {difference}",
                remedy="convert it first, or write it to a dataset of its own",
            )
        return self._open_pending()

    def _open_pending(self) -> PendingCommit:
        if self._closed:
            raise WrongUse(
                f"the writer of {self.root} is closed", remedy="open another one with append_to(path)"
            )
        if self._pending is None:
            # Ctrl-C between creating the pending commit and storing it would leave its files behind.
            with disk_errors(self.root), defer_interrupt():
                self.finish_commit()
                self._pending = PendingCommit(self.root, self.schema, self._manifest, self._video)
        return self._pending

    def finish_commit(self) -> None:
        """Finish our own commit if it failed after its commit point, before staging anything else."""
        with disk_errors(self.root):
            if (self.root / JOURNAL).exists():
                finish_journal(self.root)
                self._manifest = self._load_state()

    def _discard_pending(self) -> int:
        """Discard the pending commit and return the number of its episodes."""
        pending, self._pending = self._pending, None
        if pending is None:
            return 0
        pending.discard()
        return pending.episodes

    def _drop_pending(self, error: TwinloopError) -> DiskError:
        """Discard the pending commit, which can no longer be trusted; returns an error that states the loss."""
        lost = self._discard_pending()
        return DiskError(
            f"{error.what}; {self.committed} episodes are committed, {lost} uncommitted ones are lost",
            remedy=error.remedy,
        )

    def _add_rows(
        self,
        pending: PendingCommit,
        episode: Episode,
        frames: Mapping[str, StoredFrames],
        origin: tuple[str, int],
    ) -> int:
        index = self.episodes
        if episode.task not in self.tasks:
            self.tasks.append(episode.task)
        task_index = self.tasks.index(episode.task)
        try:
            with defer_interrupt(), disk_errors(self.root):
                pending.add(episode, index, self.frames, task_index, frames, origin)
        except DiskError as error:
            raise self._drop_pending(error) from error
        if pending.is_full() or time.monotonic() - pending.started > self._commit_every_s:
            self.commit()
        return index

    def commit(self) -> None:
        """Commit every episode added so far; all of them or, on an error, none."""
        with defer_interrupt():
            pending = self._pending
            if pending is None:
                self.finish_commit()
            elif not pending.episodes:
                self._discard_pending()
            else:
                self._commit_pending(pending)

    def _commit_pending(self, pending: PendingCommit) -> None:
        try:
            with disk_errors(self.root):
                pending.finish(self._repair_note())
                self._commit_files(pending)
        except BaseException as error:
            if (self.root / JOURNAL).exists():
                # Past the commit point: the next commit, or the next writer, finishes it.
                self._pending = None
                raise
            if isinstance(error, DiskError):
                raise self._drop_pending(error) from error
            self._discard_pending()
            raise
        self._pending = None

    def close(self) -> None:
        """Commit and release the writer lock."""
        if self._closed:
            return
        try:
            self.commit()
        finally:
            self._closed = True
            self._resources.close()

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load_state(self) -> Manifest:
        manifest = load_manifest(self.root)
        if manifest is None:
            raise DatasetError(f"{self.root} has no manifest")
        try:
            self.tasks = columns.task_texts(pq.read_table(self.root / layout.TASKS))
            self._stats = from_json(json.loads((self.root / layout.STATS).read_text()))
            if broken := [name for name, part in self._stats.items() if not set(part) >= {*NAMES, "count"}]:
                raise ValueError(f"{layout.STATS} lacks statistics of {broken[0]}")
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            pa.ArrowException,
        ) as error:
            raise DamagedDataset(
                f"cannot append to {self.root} ({error})", remedy="run `twinloop data verify --repair`"
            ) from error
        return manifest

    def _info(self, *, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
        video_info = {c.key: self._video.as_info(c, self.schema.rate_hz) for c in self.schema.cameras}
        return layout.info_json(
            self.schema, episodes=episodes, frames=frames, tasks=tasks, video_info=video_info
        )

    def _repair_note(self) -> dict[str, Any]:
        """Return what a repair needs if info.json or the manifest is lost; every commit stores a copy."""
        return {"dataset_id": self.dataset_id, "info": self._info(episodes=0, frames=0, tasks=0)}

    def _commit_files(self, pending: PendingCommit | None) -> None:
        """Stage the dataset's tables after the files of the pending commit, the manifest last, and commit."""
        moves = pending.transaction if pending else Transaction(self.root)
        files = dict(pending.files) if pending else {}
        stats = dict(self._stats)
        for feature, part in pending.stats.items() if pending else ():
            stats[feature] = aggregate([stats[feature], part]) if feature in stats else part
        totals = {"episodes": self.episodes, "frames": self.frames}
        info = self._info(tasks=len(self.tasks), **totals)

        def stage(relative: str) -> Path:
            files[relative] = moves.stage(relative)
            return files[relative]

        pq.write_table(columns.tasks_table(self.tasks), stage(layout.TASKS))
        stage(layout.STATS).write_text(json.dumps(to_json(stats)))
        stage(layout.INFO).write_text(json.dumps(info, indent=4))
        entries = pending.file_entries if pending else {}
        manifest = with_files(
            self._manifest,
            {relative: entries.get(relative) or file_entry(path) for relative, path in files.items()},
            next_data=pending.number + 1 if pending else 0,
            next_video=pending.next_video if pending else 0,
            **totals,
        )
        moves.stage(layout.MANIFEST).write_bytes(manifest.to_bytes())
        moves.commit()
        self._manifest, self._stats = manifest, stats
