"""New datasets out of old ones: merge, split, pick. Rows are copied, video packets linked or cut, nothing decoded.

Every episode keeps its id and its origin (the dataset and index it was first written under), so it can be traced
back through any number of these steps. The result appears under its name only when it is complete.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from twinloop.datasets import layout
from twinloop.datasets.columns import from_arrow
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.group import StoredFrames
from twinloop.datasets.ingests import carry_ingests
from twinloop.datasets.labels import format_labels, load_labels
from twinloop.datasets.manifest import FileEntry
from twinloop.datasets.overrides import format_overrides, load_overrides
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.stats import NAMES, FrameSampler, Stats
from twinloop.datasets.video import count_frames, join
from twinloop.datasets.writer import DatasetWriter, make_dataset
from twinloop.episode import Array, Camera, Episode, Signal, make_episode
from twinloop.errors import DamagedDataset, DatasetError, InvalidEpisode, WrongUse

Progress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""


@dataclass(frozen=True)
class Pick:
    """Episodes to take from one dataset, by their numbers there."""

    dataset: Dataset
    numbers: Sequence[int]


@dataclass(frozen=True)
class Copied:
    """What came of a copy: the new dataset, and what was left out and why (dataset and episode to reason)."""

    dataset: Dataset
    skipped: Mapping[tuple[str, int], str] = field(default_factory=dict)


def merge(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    skip_unusable: bool = False,
    progress: Progress | None = None,
) -> Copied:
    """All episodes of all sources, in order, as one dataset.

    With `skip_unusable`, repeated episodes and foreign ones that break our rules (NaN, time going backwards ...) are
    left out by name; without it they are an error and nothing is written.
    """
    if not sources:
        raise WrongUse("nothing to merge", remedy="name at least one dataset")
    datasets = [open_dataset(source) for source in sources]
    for dataset in datasets[1:]:
        if difference := datasets[0].schema.difference(dataset.schema):
            raise DatasetError(
                f"{dataset.root} cannot be merged with {datasets[0].root}: {difference}",
                remedy="only datasets with the same signals, units, cameras and rate can be one dataset",
            )
    picks = [Pick(dataset, dataset.numbers) for dataset in datasets]
    return copy_episodes(picks, out, operation="merged", skip_unusable=skip_unusable, progress=progress)


def copy_episodes(
    picks: Sequence[Pick],
    out: str | Path,
    *,
    operation: str,
    detail: str = "",
    skip_unusable: bool = False,
    progress: Progress | None = None,
) -> Copied:
    """Write the picked episodes as a new dataset; `operation` goes into its history."""
    sources = tuple(f"{pick.dataset.id}@{_version(pick.dataset)}" for pick in picks)
    total = sum(len(pick.numbers) for pick in picks)
    seen: dict[str, str] = {}
    skipped: dict[tuple[str, int], str] = {}
    with building(Path(out)) as root:
        schema = picks[0].dataset.schema
        with make_dataset(
            root, schema, commit_every_s=math.inf, history=(operation, sources, detail)
        ) as writer:
            for pick in picks:
                copier = _Copier(pick, writer)
                for number in pick.numbers:
                    where = (str(pick.dataset.root), int(number))
                    try:
                        episode = _usable(pick.dataset, number, seen)
                        copier.copy(episode, number)
                    except (InvalidEpisode, DamagedDataset) as error:
                        if not skip_unusable:
                            raise
                        skipped[where] = _named(error.what, number, pick.dataset)
                        continue
                    seen[episode.id] = f"episode {number} of {pick.dataset.root}"
                    if progress:
                        progress(len(seen) + len(skipped), total)
        labels = [
            label for pick in picks for label in load_labels(pick.dataset.root) if label.episode_id in seen
        ]
        if labels:
            write_atomically(root / layout.LABELS, format_labels(labels))
        _carry_generations([pick.dataset.root for pick in picks], root)
        carry_ingests([pick.dataset.root for pick in picks], root, seen)
        overrides = [
            kept
            for pick in picks
            for override in load_overrides(pick.dataset.root)
            if (kept := override.only(seen)).episode_ids
        ]
        if overrides:
            write_atomically(root / layout.OVERRIDES, format_overrides(overrides))
    return Copied(open_dataset(out), skipped)


def _carry_generations(sources: Sequence[Path], root: Path) -> None:
    """Take along how simulated episodes were made. Names are ids and content hashes, so equal names are equal."""
    for source in sources:
        for folder in (layout.GENERATIONS, layout.TWINS):
            for entry in sorted((source / folder).glob("*")):
                target = root / folder / entry.name
                if target.exists():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                if entry.is_dir():
                    shutil.copytree(entry, target)
                else:
                    shutil.copyfile(entry, target)


def split(
    source: str | Path,
    out: str | Path,
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    stratify: Sequence[str] = ("task", "success", "source"),
    progress: Progress | None = None,
) -> dict[str, Dataset]:
    """Divide a dataset into `out/<name>` by episode, in the given shares.

    Each part has about the same mix of every column in `stratify`. Episodes that descend from a common parent stay
    together, so that no part holds a variation of what another part was derived from.
    """
    from twinloop.datasets.query import episode_rows

    if not shares or any(share <= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise WrongUse("the shares of a split must be positive and add up to 1", got=dict(shares))
    dataset = open_dataset(source)
    rows = episode_rows(dataset)
    if rows and (unknown := [name for name in stratify if name not in rows[0]]):
        raise WrongUse(f"cannot stratify by {unknown[0]!r}", available=sorted(rows[0]))
    families = _families([(row["episode_id"], row["parents"] or []) for row in rows])
    strata: dict[tuple[object, ...], list[list[int]]] = {}
    for members in families:
        strata.setdefault(tuple(rows[members[0]][name] for name in stratify), []).append(members)
    part_of = _deal([strata[key] for key in sorted(strata, key=repr)], list(shares.values()), seed)
    done = 0
    parts: dict[str, Dataset] = {}
    with building(Path(out)) as root:
        root.mkdir(parents=True)
        for position, name in enumerate(shares):
            numbers = [int(row["episode_index"]) for i, row in enumerate(rows) if part_of[i] == position]
            if not numbers:
                raise DatasetError(
                    f"part {name!r} would be empty",
                    got=f"{len(families)} families of episodes",
                    remedy="use fewer parts or larger shares",
                )
            before = done
            copy_episodes(
                [Pick(dataset, numbers)],
                root / name,
                operation="split",
                detail=f"{name}, seed {seed}",
                progress=(lambda n, _, start=before: progress(start + n, len(rows))) if progress else None,  # type: ignore[misc]
            )
            done += len(numbers)
    for name in shares:
        parts[name] = open_dataset(Path(out) / name)
    return parts


@contextmanager
def building(out: Path, *, resumable: bool = False, resume: bool = False) -> Iterator[Path]:
    """A folder beside `out` that becomes `out` when the block ends well and vanishes when it does not.

    With `resumable`, Ctrl-C leaves it as a kill would, and a later call with `resume` goes on in it.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DatasetError(
            f"{out} already exists and is not empty", remedy="choose another folder, or delete this one"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".{out.name}.{os.getpid()}.partial"
    left = [
        path
        for path in sorted(out.parent.glob(f".{out.name}.*.partial"), key=lambda path: path.stat().st_mtime)
        if path == temporary or not is_running(path.suffixes[-2][1:])
    ]
    if resume and left:
        left.pop().rename(temporary)
    for stale in left:
        shutil.rmtree(stale, ignore_errors=True)
    kept = False
    try:
        yield temporary
        if out.exists():
            out.rmdir()
        temporary.rename(out)
    except KeyboardInterrupt:
        kept = resumable
        raise
    finally:
        if not kept:
            shutil.rmtree(temporary, ignore_errors=True)


def is_running(process: str) -> bool:
    """Whether the process with this number exists; a folder that one left behind when it was killed is nobody's."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, PermissionError):
        return True
    return True


class _Copier:
    """Copies episodes of one dataset, placing each video file it needs once."""

    def __init__(self, pick: Pick, writer: DatasetWriter) -> None:
        self._dataset = pick.dataset
        self._writer = writer
        self._picked = np.isin(pick.dataset.index.numbers, np.asarray(pick.numbers))
        self._placed: dict[tuple[str, int], tuple[int, dict[int, int]]] = {}
        self._broken: dict[tuple[str, int], DamagedDataset] = {}
        self._frame_stats = {
            camera.key: _recorded_stats(pick.dataset, camera) for camera in pick.dataset.schema.cameras
        }
        side = pick.dataset.side_table()
        if side is None:
            self._origins = [(pick.dataset.id, number) for number in pick.dataset.numbers]
        else:
            pairs = zip(
                side.column("origin_dataset").to_pylist(),
                side.column("origin_index").to_pylist(),
                strict=True,
            )
            self._origins = list(pairs)

    def copy(self, episode: Episode, number: int) -> None:
        place = int(np.searchsorted(self._dataset.index.numbers, number))
        frames = {}
        for camera in self._dataset.schema.cameras:
            file = int(self._dataset.index.video[camera.name].file_of[place])
            video_number, first = self._place_video(camera, file)
            stats = self._frame_stats[camera.key].get(place) or _sampled_stats(episode, camera)
            frames[camera.key] = StoredFrames(video_number, first[place], stats)
        self._writer.add_copy(episode, frames, self._origins[place])

    def _place_video(self, camera: Camera, file: int) -> tuple[int, dict[int, int]]:
        """The number of the copied file, and the first frame in it of each picked episode."""
        key = (camera.name, file)
        if key in self._broken:
            raise self._broken[key]
        try:
            return self._placed_video(camera, file)
        except DamagedDataset as error:
            self._broken[key] = error
            raise

    def _placed_video(self, camera: Camera, file: int) -> tuple[int, dict[int, int]]:
        key = (camera.name, file)
        if key not in self._placed:
            index, video = self._dataset.index, self._dataset.index.video[camera.name]
            places = np.flatnonzero((video.file_of == file) & self._picked)
            places = places[np.argsort(video.first_frame[places], kind="stable")]
            lengths = index.length[places]
            path = self._dataset.root / video.files[file]
            if int(lengths.sum()) == count_frames(path):
                first = {int(place): int(video.first_frame[place]) for place in places}
                number = self._writer.link_video(camera, lambda target: self._link(video.files[file], target))
            else:
                starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
                first = {int(place): int(start) for place, start in zip(places, starts, strict=True)}
                parts = [(path, int(video.first_frame[p]), int(index.length[p])) for p in places]
                number = self._writer.link_video(
                    camera, lambda target: join(parts, target, self._dataset.schema.rate_hz)
                )
            self._placed[key] = number, first
        return self._placed[key]

    def _link(self, name: str, target: Path) -> FileEntry | None:
        """The same bytes under another name; on the same disk they are shared."""
        try:
            os.link(self._dataset.root / name, target)
        except OSError:
            shutil.copyfile(self._dataset.root / name, target)
        return self._dataset.manifest.files.get(name) if self._dataset.manifest else None


def _usable(dataset: Dataset, number: int, seen: Mapping[str, str]) -> Episode:
    episode = dataset.episode(number)
    if episode.id in seen:
        raise InvalidEpisode(
            f"episode {number} of {dataset.root} is the same as {seen[episode.id]}",
            remedy="leave repeats out: --skip-unusable",
        )
    if dataset.manifest is None:
        try:
            return make_episode(
                episode.schema, episode.time_s, episode.signals, frames=episode.frames, task=episode.task
            )
        except InvalidEpisode as error:
            raise InvalidEpisode(
                f"episode {number} of {dataset.root}: {error.what}", remedy="leave it out: --skip-unusable"
            ) from error
    return episode


def _named(what: str, number: int, dataset: Dataset) -> str:
    """What is wrong with an episode, with its name once."""
    name = f"episode {number} of {dataset.root}"
    return what if what.startswith(name) else f"{name}: {what}"


def _version(dataset: Dataset) -> str:
    return dataset.manifest.fingerprint if dataset.manifest else "unknown"


def _recorded_stats(dataset: Dataset, camera: Camera) -> dict[int, Stats]:
    """Image statistics that were computed when the frames were encoded, by place; empty where there are none."""
    if dataset.manifest is None:
        return {}
    files = [name for name in sorted(dataset.manifest.files) if name.startswith("meta/episodes/")]
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(NAMES, (3, 1, 1)) | {"count": (1,)}
    arrays: dict[str, Array] = {}
    for name, shape in shapes.items():
        column = f"stats/{camera.key}/{name}"
        kind = Signal("stats", shape, dtype="int64" if name == "count" else "float64")
        parts = [
            from_arrow(pq.read_table(dataset.root / file, columns=[column]).column(column), kind)
            for file in files
        ]
        arrays[name] = np.concatenate(parts) if parts else np.zeros((0, *shape))
    return {
        place: {name: values[place] for name, values in arrays.items()}
        for place in range(len(arrays["count"]))
    }


def _sampled_stats(episode: Episode, camera: Camera) -> Stats:
    """Image statistics of a foreign episode, from a few of its frames."""
    frames = episode.frames[camera.name]
    rows = np.unique(np.linspace(0, len(episode) - 1, 8).round().astype(int))
    sampler = FrameSampler(len(rows), camera.height, camera.width)
    for row in rows:
        sampler.add(frames[int(row)])
    return sampler.stats()


def _families(rows: Sequence[tuple[str, Sequence[str]]]) -> list[list[int]]:
    """Rows joined whenever one is an ancestor of another or they share one, known to the dataset or not."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        root.setdefault(name, name)
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for identity, parents in rows:
        for parent in parents:
            root[find(parent)] = find(identity)
    families: dict[str, list[int]] = {}
    for position, (identity, _) in enumerate(rows):
        families.setdefault(find(identity), []).append(position)
    return list(families.values())


def _deal(strata: Sequence[list[list[int]]], shares: Sequence[float], seed: int) -> dict[int, int]:
    """Give each family to the part that is furthest behind its share, stratum by stratum and over all."""
    rng = np.random.default_rng(seed)
    part_of: dict[int, int] = {}
    overall = np.zeros(len(shares))
    for families in strata:
        within = np.zeros(len(shares))
        order = sorted(rng.permutation(len(families)), key=lambda i: -len(families[i]))
        for i in order:
            size = len(families[i])
            behind = np.asarray(shares) * (within.sum() + size) - within
            tie_break = np.asarray(shares) * (overall.sum() + size) - overall
            part = int(np.lexsort((-tie_break, -np.round(behind, 9)))[0])
            within[part] += size
            overall[part] += size
            part_of |= dict.fromkeys(families[i], part)
    return part_of
