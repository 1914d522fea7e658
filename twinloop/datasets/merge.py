"""Copy episodes into a new dataset: rows are copied, video packets linked or cut, nothing is decoded.

Every episode keeps its id and its origin (the dataset and index it was first written under), so it can be traced
back through any number of copies. The new dataset appears under its name only when it is complete.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.columns import load_episode_stats
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.ingests import copy_ingests
from twinloop.datasets.jsonl import format_jsonl
from twinloop.datasets.labels import load_labels
from twinloop.datasets.manifest import FileEntry
from twinloop.datasets.overrides import load_overrides
from twinloop.datasets.partial_folder import partial_folder
from twinloop.datasets.pending_commit import StoredFrames
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.stats import sample_frame_stats
from twinloop.datasets.video import join_videos, video_extent
from twinloop.datasets.writer import DatasetWriter, make_dataset
from twinloop.episode import Camera, Episode, make_episode
from twinloop.errors import DamagedDataset, DatasetError, InvalidEpisode, WrongUse

OnProgress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""


@dataclass(frozen=True)
class EpisodeSelection:
    """Episodes of one dataset, by their numbers there."""

    dataset: Dataset
    numbers: Sequence[int]


@dataclass(frozen=True)
class CopyResult:
    """The new dataset, and why episodes were skipped: (dataset, episode number) to reason."""

    dataset: Dataset
    skipped: Mapping[tuple[str, int], str] = field(default_factory=dict)


def merge(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    skip_unusable: bool = False,
    on_progress: OnProgress | None = None,
) -> CopyResult:
    """Merge datasets with equal schemas into a new one.

    Args:
        sources: The datasets, in order; Twinloop's own or foreign LeRobot datasets.
        out: Folder of the new dataset.
        skip_unusable: Skip duplicate episodes and invalid foreign ones (NaN, time going backwards ...) instead of
            raising.
        on_progress: Called with (episodes done, episodes in all).

    Raises:
        DatasetError: The schemas differ; the message names the first difference.
        InvalidEpisode: An episode is unusable and `skip_unusable` is False. Nothing is written.
    """
    if not sources:
        raise WrongUse("nothing to merge", remedy="name at least one dataset")
    datasets = [open_dataset(source) for source in sources]
    for dataset in datasets[1:]:
        if difference := datasets[0].schema.difference(dataset.schema):
            raise DatasetError(
                f"{dataset.place} cannot be merged with {datasets[0].root}: {difference}",
                remedy="only datasets with the same signals, units, cameras and rate can be merged",
            )
    selections = [EpisodeSelection(dataset, dataset.numbers) for dataset in datasets]
    register_artefact(out, "dataset", datasets)
    return copy_episodes(
        selections, out, operation="merged", skip_unusable=skip_unusable, on_progress=on_progress
    )


def copy_episodes(
    selections: Sequence[EpisodeSelection],
    out: str | Path,
    *,
    operation: str,
    detail: str = "",
    skip_unusable: bool = False,
    on_progress: OnProgress | None = None,
) -> CopyResult:
    """Copy the selected episodes into a new dataset, with labels, overrides and records of their origin.

    `operation` and `detail` are added to the new dataset's history.
    """
    sources = tuple(f"{each.dataset.id}@{_version(each.dataset)}" for each in selections)
    total = sum(len(each.numbers) for each in selections)
    copied: dict[str, str] = {}
    skipped: dict[tuple[str, int], str] = {}
    with partial_folder(Path(out)) as root:
        schema = selections[0].dataset.schema
        history = (operation, sources, detail)
        with make_dataset(root, schema, commit_every_s=math.inf, history=history) as writer:
            for selection in selections:
                dataset, copier = selection.dataset, _Copier(selection, writer)
                for number in selection.numbers:
                    name = f"episode {number} of {dataset.place}"
                    try:
                        episode = _read_valid_episode(dataset, number, copied)
                        copier.copy(episode, number)
                    except (InvalidEpisode, DamagedDataset) as error:
                        if not skip_unusable:
                            raise
                        reason = error.what if error.what.startswith(name) else f"{name}: {error.what}"
                        skipped[str(dataset.root), int(number)] = reason
                        continue
                    copied[episode.id] = name
                    if on_progress:
                        on_progress(len(copied) + len(skipped), total)
        copy_records([selection.dataset.root for selection in selections], root, copied)
    return CopyResult(open_dataset(out), skipped)


def link_file(dataset: Dataset, name: str, target: Path) -> FileEntry | None:
    """Hard-link a file of a dataset to `target`, or copy it to another disk; returns its manifest entry."""
    try:
        os.link(dataset.file(name), target)
    except OSError:
        shutil.copyfile(dataset.file(name), target)
    return dataset.manifest.files.get(name) if dataset.manifest else None


def copy_records(sources: Sequence[Path], root: Path, episode_ids: Mapping[str, str]) -> None:
    """Copy labels, overrides, generation runs, twins and ingest records of the copied episodes."""
    labels = [label for source in sources for label in load_labels(source) if label.episode_id in episode_ids]
    if labels:
        write_atomically(root / layout.LABELS, format_jsonl(labels))
    overrides = []
    for override in (override for source in sources for override in load_overrides(source)):
        if kept := [episode for episode in override.episode_ids if episode in episode_ids]:
            overrides.append(replace(override, episode_ids=kept))
    if overrides:
        write_atomically(root / layout.OVERRIDES, format_jsonl(overrides))
    for source in sources:
        for folder in (layout.GENERATIONS, layout.TWINS):
            for entry in sorted((source / folder).glob("*")):
                target = root / folder / entry.name
                if target.exists():  # names are ids and content hashes, so the content is equal
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if entry.is_dir() else shutil.copyfile)(entry, target)
    copy_ingests(sources, root, episode_ids)


class _Copier:
    """Copies episodes of one dataset; each video file is copied once."""

    def __init__(self, selection: EpisodeSelection, writer: DatasetWriter) -> None:
        dataset = selection.dataset
        self._dataset = dataset
        self._writer = writer
        self._selected = np.isin(dataset.index.numbers, np.asarray(selection.numbers))
        self._videos: dict[tuple[str, int], tuple[int, dict[int, int]] | DamagedDataset] = {}
        self._frame_stats = load_episode_stats(
            [dataset.root / name for name in dataset.episode_tables],
            {camera.key: (3, 1, 1) for camera in dataset.schema.cameras},
        )
        provenance = dataset.provenance_table()
        if provenance is None:
            self._origins = [(dataset.id, number) for number in dataset.numbers]
        else:
            columns = [provenance.column(name).to_pylist() for name in ("origin_dataset", "origin_index")]
            self._origins = list(zip(*columns, strict=True))

    def copy(self, episode: Episode, number: int) -> None:
        place = int(np.searchsorted(self._dataset.index.numbers, number))
        frames = {}
        for camera in self._dataset.schema.cameras:
            file = int(self._dataset.index.video[camera.name].file_of[place])
            video_number, first = self._copy_video(camera, file)
            if recorded := self._frame_stats.get(camera.key):
                stats = {name: values[place] for name, values in recorded.items()}
            else:
                stats = sample_frame_stats(episode.frames[camera.name])
            frames[camera.key] = StoredFrames(video_number, first[place], stats)
        self._writer.add_copied_episode(episode, frames, self._origins[place])

    def _copy_video(self, camera: Camera, file: int) -> tuple[int, dict[int, int]]:
        """Return the number of the copied file, and the first frame in it of each selected episode."""
        key = (camera.name, file)
        if key not in self._videos:
            try:
                self._videos[key] = self._link_or_cut_video(camera, file)
            except DamagedDataset as error:
                self._videos[key] = error
        if isinstance(found := self._videos[key], DamagedDataset):
            raise found
        return found

    def _link_or_cut_video(self, camera: Camera, file: int) -> tuple[int, dict[int, int]]:
        """Link a video whose frames are all selected; otherwise copy the selected frames."""
        index, video = self._dataset.index, self._dataset.index.video[camera.name]
        places = np.flatnonzero((video.file_of == file) & self._selected)
        places = places[np.argsort(video.first_frame[places], kind="stable")]
        lengths, firsts = index.length[places], video.first_frame[places]
        path, rate_hz = self._dataset.file(video.files[file]), self._dataset.schema.rate_hz
        whole = int(lengths.sum()) == video_extent(path, rate_hz).packets

        def write(target: Path) -> FileEntry | None:
            if whole:
                return link_file(self._dataset, video.files[file], target)
            clips = [(path, int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]
            join_videos(clips, target, rate_hz)
            return None

        number = self._writer.add_video_file(camera, write)
        starts = firsts if whole else np.cumsum(lengths) - lengths
        return number, dict(zip(places.tolist(), starts.tolist(), strict=True))


def _read_valid_episode(dataset: Dataset, number: int, copied: Mapping[str, str]) -> Episode:
    """Read an episode and refuse duplicates and invalid foreign ones."""
    episode = dataset.episode(number)
    if episode.id in copied:
        raise InvalidEpisode(
            f"episode {number} of {dataset.place} is the same as {copied[episode.id]}",
            remedy="skip duplicates: --skip-unusable",
        )
    if dataset.manifest is not None:
        return episode
    try:
        return make_episode(
            episode.schema, episode.time_s, episode.signals, frames=episode.frames, task=episode.task
        )
    except InvalidEpisode as error:
        raise InvalidEpisode(
            f"episode {number} of {dataset.place}: {error.what}", remedy="skip it: --skip-unusable"
        ) from error


def _version(dataset: Dataset) -> str:
    return dataset.manifest.fingerprint if dataset.manifest else "unknown"
