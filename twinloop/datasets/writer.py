"""Write episodes: streaming, appending, and safe against being killed at any moment.

Episodes go into one group of files (rows, frames, tables) that is staged aside. A commit closes the group and makes
all of it part of the dataset at once; what was not committed when the process dies is lost, nothing else is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
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
    disk_errors,
    finish_journal,
    sync,
    unbroken,
    writing,
)
from twinloop.datasets.group import Group, StoredFrames
from twinloop.datasets.manifest import (
    FileEntry,
    Manifest,
    file_entry,
    load_manifest,
    new_manifest,
    with_files,
)
from twinloop.datasets.stats import NAMES, Stats, aggregate, from_json, to_json
from twinloop.datasets.video import VideoSettings
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
    """Start a new dataset at `path`, which must not exist or be an empty folder."""
    root = Path(path)
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
    """Continue a dataset that Twinloop wrote; with `schema`, refuse at once if it declares something else."""
    root = Path(path)
    with disk_errors(root):
        interrupted = (root / JOURNAL).exists()
    if interrupted:
        # It may be the very first commit that was interrupted, and info.json may still be waiting in it.
        with writing(root), disk_errors(root):
            finish_journal(root)
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


def _is_free(root: Path) -> bool:
    """Whether a folder is empty but for what a writer leaves that was killed before its first commit."""
    if not root.is_dir():
        return False
    born = [path for path in root.rglob("*") if path.is_file() and path != root / LOCK]
    return all((root / STAGING) in path.parents or path.suffix == ".tmp" for path in born)


@dataclass(frozen=True)
class PartPlace:
    """Where the first episode of a part goes: the dataset, its episode number and row there, the tasks known so far."""

    dataset_id: str
    episode: int
    row: int
    tasks: list[str]


@dataclass(frozen=True)
class PartTables:
    """Whole episodes ready to be taken in: rows, entries and provenance rows, numbered for their place."""

    rows: pa.Table
    entries: list[columns.EpisodeEntry]
    side: list[dict[str, Any]]
    tasks: list[str]


class DatasetWriter:
    """Adds episodes to one dataset; use it as a context manager.

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
        self._closed = False
        self._group: Group | None = None
        self._tasks: list[str] = []
        self._stats: dict[str, Stats] = {}
        self._open = ExitStack()
        self._open.enter_context(writing(root))
        try:
            with disk_errors(root):
                finish_journal(root)
                if manifest is None:
                    self._manifest = self._load_state()
                elif (root / layout.MANIFEST).exists():
                    raise DatasetError(
                        f"{root} was made by another writer just now", remedy="use append_to(path)"
                    )
                else:
                    self._manifest = manifest
                    self._commit_files(None)
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
        return self._manifest.episodes + (self._group.episodes if self._group else 0)

    @property
    def dataset_id(self) -> str:
        """The dataset's identity, kept for life."""
        return self._manifest.dataset_id

    def add(self, episode: Episode) -> int:
        """Add one episode and return its index."""
        group = self._group_for(episode)
        index = self.episodes
        try:
            frames = {camera.key: group.encode(episode, camera) for camera in self.schema.cameras}
        except DiskError as error:
            raise self._drop_group(error) from error
        return self._add_rows(group, episode, frames, (self.dataset_id, index))

    def add_copy(self, episode: Episode, frames: Mapping[str, StoredFrames], origin: tuple[str, int]) -> int:
        """Add an episode of another dataset whose frames are in files given to `link_video`, without decoding them.

        `origin` is the dataset id and index under which the episode was first written.
        """
        return self._add_rows(self._group_for(episode), episode, frames, origin)

    def add_part(self, make: Callable[[PartPlace], PartTables]) -> int:
        """Add all episodes of a finished part: `make` numbers its tables for the place they are told to take.

        Returns the number of episodes added. Nothing is committed before `commit` is called.
        """
        group = self._open_group()
        place = PartPlace(self.dataset_id, self.episodes, self._manifest.frames + group.rows, self._tasks)
        tables = make(place)
        self._tasks = tables.tasks
        group.take(tables.rows, tables.entries, tables.side)
        return len(tables.entries)

    def discard(self) -> None:
        """Forget what is not committed and let the next writer in."""
        group, self._group = self._group, None
        try:
            if group is not None:
                group.abandon()
        finally:
            self._closed = True
            self._open.close()

    def link_video(self, camera: Camera, place: Callable[[Path], FileEntry | None]) -> int:
        """Take in a whole video file: `place` puts it at the path it is given. Returns the number it is known by."""
        return self._open_group().take_video(camera, place)

    def _group_for(self, episode: Episode) -> Group:
        if difference := self.schema.difference(episode.schema):
            raise InvalidEpisode(
                f"the episode does not fit {self.root}: {difference}",
                remedy="convert it first, or write it to a dataset of its own",
            )
        return self._open_group()

    def _open_group(self) -> Group:
        if self._closed:
            raise WrongUse(
                f"the writer of {self.root} is closed", remedy="open another one with append_to(path)"
            )
        if self._group is None:
            # Ctrl-C between making the group and keeping it would leave its files for nobody to clear away.
            with disk_errors(self.root), unbroken():
                self._finish_commit()
                self._group = Group(self.root, self.schema, self._manifest, self._video)
        return self._group

    def _finish_commit(self) -> None:
        """Finish a commit of ours that failed after it was decided, so that nothing is staged over it."""
        if (self.root / JOURNAL).exists():
            finish_journal(self.root)
            self._manifest = self._load_state()

    def _drop_group(self, error: TwinloopError) -> DiskError:
        """Give up the files of the commit in progress, which can no longer be trusted; says what that costs."""
        group, self._group = self._group, None
        if group is not None:
            group.abandon()
        lost = group.episodes if group else 0
        return DiskError(
            f"{error.what}; {self.committed} episodes are safe, {lost} waiting to be committed are lost",
            remedy=error.remedy,
        )

    def _add_rows(
        self, group: Group, episode: Episode, frames: Mapping[str, StoredFrames], origin: tuple[str, int]
    ) -> int:
        index = self.episodes
        if episode.task not in self._tasks:
            self._tasks.append(episode.task)
        task_index = self._tasks.index(episode.task)
        first_row = self._manifest.frames + group.rows
        try:
            with unbroken(), disk_errors(self.root):
                group.add(episode, index, first_row, task_index, frames, origin)
        except DiskError as error:
            raise self._drop_group(error) from error
        if group.full() or time.monotonic() - group.started > self._commit_every_s:
            self.commit()
        return index

    def commit(self) -> None:
        """Make everything added so far part of the dataset; all of it or, on an error, none of it."""
        with unbroken():
            group = self._group
            if group is None:
                with disk_errors(self.root):
                    self._finish_commit()
            elif not group.episodes:
                self._group = None
                group.abandon()
            else:
                self._commit_group(group)

    def _commit_group(self, group: Group) -> None:
        try:
            with disk_errors(self.root):
                group.finish(self._birth_note())
                self._commit_files(group)
        except BaseException as error:
            if (self.root / JOURNAL).exists():
                # The commit is decided: the next one, or the next writer, finishes it.
                self._group = None
                raise
            if isinstance(error, DiskError):
                raise self._drop_group(error) from error
            self._group = None
            group.abandon()
            raise
        self._group = None

    def close(self) -> None:
        """Commit and let the next writer in."""
        if self._closed:
            return
        try:
            self.commit()
        finally:
            self._closed = True
            self._open.close()

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
            self._tasks = columns.task_texts(pq.read_table(self.root / layout.TASKS))
            self._stats = from_json(json.loads((self.root / layout.STATS).read_text()))
            if broken := [name for name, part in self._stats.items() if not set(part) >= {*NAMES, "count"}]:
                raise ValueError(f"{layout.STATS} lacks statistics of {broken[0]}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise DamagedDataset(
                f"cannot append to {self.root} ({error})", remedy="run `twinloop data verify --repair`"
            ) from error
        return manifest

    def _info(self, *, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
        video_info = {c.key: self._video.as_info(c, self.schema.rate_hz) for c in self.schema.cameras}
        return layout.info_json(
            self.schema, episodes=episodes, frames=frames, tasks=tasks, video_info=video_info
        )

    def _birth_note(self) -> dict[str, Any]:
        """What a repair needs when info.json or the manifest is gone; every commit carries a copy."""
        return {"dataset_id": self.dataset_id, "info": self._info(episodes=0, frames=0, tasks=0)}

    def _commit_files(self, group: Group | None) -> None:
        """Stage the tables that describe the whole dataset after the group's files, the manifest last."""
        moves = group.transaction if group else Transaction(self.root)
        files = dict(group.files) if group else {}
        stats = dict(self._stats)
        for feature, part in group.stats.items() if group else ():
            stats[feature] = aggregate([stats[feature], part]) if feature in stats else part
        totals = {
            "episodes": self._manifest.episodes + (group.episodes if group else 0),
            "frames": self._manifest.frames + (group.rows if group else 0),
        }
        info = self._info(tasks=len(self._tasks), **totals)

        def stage(relative: str) -> Path:
            files[relative] = moves.stage(relative)
            return files[relative]

        pq.write_table(columns.tasks_table(self._tasks), stage(layout.TASKS))
        stage(layout.STATS).write_text(json.dumps(to_json(stats)))
        stage(layout.INFO).write_text(json.dumps(info, indent=4))
        known = group.known if group else {}
        manifest = with_files(
            self._manifest,
            {relative: known.get(relative) or file_entry(path) for relative, path in files.items()},
            next_data=group.number + 1 if group else 0,
            next_video=group.next_video if group else 0,
            **totals,
        )
        moves.stage(layout.MANIFEST).write_bytes(manifest.to_bytes())
        moves.commit()
        self._manifest, self._stats = manifest, stats
