"""Repair a damaged dataset: finish an interrupted commit, rebuild derived files, and where data itself is damaged,
keep every intact episode and list the lost ones.

Nothing is deleted: damaged files are moved to a folder of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import columns, layout, sidecar
from twinloop.datasets.commit import (
    JOURNAL,
    STAGING,
    Transaction,
    defer_interrupt,
    disk_errors,
    finish_journal,
    load_journal,
    write_atomically,
    writer_lock,
)
from twinloop.datasets.index import EpisodeIndex, load_index
from twinloop.datasets.jsonl import format_jsonl
from twinloop.datasets.labels import Label
from twinloop.datasets.manifest import Manifest, file_entry, load_manifest, make_step, new_manifest
from twinloop.datasets.merge import EpisodeSelection, copy_episodes
from twinloop.datasets.reader import Dataset
from twinloop.datasets.stats import Stats, aggregate, to_json
from twinloop.datasets.verification import OnProgress, Verification, column_of
from twinloop.datasets.verify import STRAY, verify, written_by_twinloop
from twinloop.durable import find_unused_path, swap_folders, sync
from twinloop.episode import Schema
from twinloop.errors import DamagedDataset, DatasetError

SET_ASIDE = f"{layout.SIDECAR}/set-aside"


@dataclass(frozen=True)
class LostEpisode:
    """An episode that the repaired dataset no longer has; its remains are in the damaged original."""

    number: int
    id: str | None
    rows: int | None
    why: str


@dataclass(frozen=True)
class Repair:
    """What a repair did, the episodes it lost, and the state of the dataset afterwards.

    `original` is the path the damaged dataset was moved to; None if no episode was lost.
    """

    done: tuple[str, ...]
    lost: tuple[LostEpisode, ...]
    original: Path | None
    verification: Verification


def repair(path: str | Path, *, on_progress: OnProgress | None = None) -> Repair:
    """Repair a dataset written by Twinloop; an intact one is not changed.

    Raises:
        DatasetError: The dataset is foreign.
        DamagedDataset: No episode is intact, or the schema is lost.
    """
    root = Path(path)
    with disk_errors(root):
        interrupted = (root / JOURNAL).exists()
    if not written_by_twinloop(root) and not interrupted:
        layout.load_info(root)
        raise DatasetError(
            f"{root} was not written by Twinloop and is never changed in place",
            remedy=f"copy what is intact: twinloop data merge {root} --skip-unusable --out NEW",
        )
    with writer_lock(root), disk_errors(root):
        done = _finish_commit(root) + _repair_labels(root) + _rebuild_tables(root)
        checked = verify(root, on_progress=on_progress, holding_lock=True)
        done += _set_strays_aside(root, checked)
        if done:
            checked = verify(root, on_progress=on_progress, holding_lock=True)
        if checked.ok:
            return Repair(tuple(done), (), None, checked)
        lost, original = _keep_intact_episodes(root, checked)
    done.append(
        f"kept {checked.episodes - len(lost)} intact episodes; the damaged original is {original.name}"
    )
    return Repair(tuple(done), lost, original, verify(root, on_progress=on_progress))


def _finish_commit(root: Path) -> list[str]:
    try:
        moves = len(load_journal(root)) if (root / JOURNAL).exists() else 0
    except DamagedDataset as error:
        for name in (JOURNAL, STAGING):
            if (root / name).exists():
                _set_aside(root, name)
        return [f"set aside an interrupted commit that cannot be finished ({error.what})"]
    if not finish_journal(root, accept_loss=True):
        return []
    if moves:
        return [f"finished an interrupted commit of {moves} files"]
    return ["deleted uncommitted files of a killed writer"]


def _set_aside(root: Path, name: str) -> Path:
    """Move a file to the folder of damaged files and return its new path."""
    target = find_unused_path(root / SET_ASIDE / name, ".")
    target.parent.mkdir(parents=True, exist_ok=True)
    (root / name).rename(target)
    return target


def _set_strays_aside(root: Path, checked: Verification) -> list[str]:
    strays = [f.file for f in checked.findings if f.what == STRAY]
    return [f"set aside {name}, now {_set_aside(root, name).relative_to(root)}" for name in strays]


def _repair_labels(root: Path) -> list[str]:
    path = root / layout.LABELS
    if not path.is_file():
        return []
    good, bad = [], 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            good.append(Label(**json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            bad += 1
    if not bad:
        return []
    aside = _set_aside(root, layout.LABELS)
    write_atomically(path, format_jsonl(good))
    return [f"dropped {bad} unreadable labels; the old file is {aside.relative_to(root)}"]


def _rebuild_tables(root: Path) -> list[str]:
    """Rebuild what follows from the episode tables: info.json, the manifest, the task texts, the statistics."""
    note, commits = _note(root)
    info, rebuilt = _info(root, note)
    manifest = _manifest(root)
    files = _present(root) if manifest is None else dict(manifest.files)
    broken = {name for name in files if not (root / name).is_file() or not _unchanged(root, name, manifest)}
    if layout.INFO in broken:
        if note is None:
            raise DamagedDataset(f"{root / layout.INFO} has been changed", remedy="restore it from a copy")
        info, rebuilt = dict(note["info"]), True
    schema, _ = layout.schema_from_info(info)
    intact = {name: entry for name, entry in files.items() if name not in broken}
    tables = {name: entry for name, entry in intact.items() if name.startswith("meta/episodes/")}
    try:
        index = load_index(root, info, schema, tables)
    except DamagedDataset:
        return []
    fresh: dict[str, bytes | pa.Table] = {}
    tasks = _tasks(root, index, layout.TASKS in intact)
    if tasks is not None:
        fresh[layout.TASKS] = columns.tasks_table(tasks)
    if layout.STATS not in intact:
        fresh[layout.STATS] = json.dumps(to_json(_stats(root, schema, tables))).encode()
    totals = {"total_episodes": len(index), "total_frames": int(index.length.sum())}
    tables_damaged = any(name.startswith("meta/episodes/") for name in broken)
    if rebuilt or (not tables_damaged and any(info.get(key) != value for key, value in totals.items())):
        info |= totals | {"splits": {"train": f"0:{len(index)}"}}
        info["total_tasks"] = (
            len(tasks) if tasks is not None else pq.read_metadata(root / layout.TASKS).num_rows
        )
        fresh[layout.INFO] = json.dumps(info, indent=4).encode()
    wrong_totals = manifest is not None and (manifest.episodes, manifest.frames) != tuple(totals.values())
    if not fresh and manifest is not None and (tables_damaged or not wrong_totals):
        return []
    names = [*fresh] if manifest is not None else [*fresh, layout.MANIFEST]
    if manifest is None:
        manifest = new_manifest("repaired", detail=f"manifest rebuilt; {commits} commits")
        manifest = replace(manifest, dataset_id=(note and note["dataset_id"]) or manifest.dataset_id)
    else:
        step = make_step("repaired", detail=f"rebuilt {', '.join(names)}")
        manifest = replace(manifest, history=(*manifest.history, step))
    if not tables_damaged:
        manifest = replace(manifest, episodes=totals["total_episodes"], frames=totals["total_frames"])
    _commit_rebuilt(root, manifest, files, fresh)
    return [f"rebuilt {name} from the rest of the dataset" for name in names or [layout.MANIFEST]]


def _commit_rebuilt(
    root: Path, manifest: Manifest, files: dict[str, Any], fresh: Mapping[str, bytes | pa.Table]
) -> None:
    """Set old versions of the rebuilt files aside and commit the new ones with the manifest."""
    moves = Transaction(root)
    for name, content in fresh.items():
        if (root / name).exists():
            _set_aside(root, name)
        staged = moves.stage(name)
        if isinstance(content, bytes):
            staged.write_bytes(content)
        else:
            pq.write_table(content, staged)
        files[name] = file_entry(staged)
    next_data, next_video = _next_numbers(files, manifest)
    manifest = replace(manifest, files=files, next_data=next_data, next_video=next_video)
    moves.stage(layout.MANIFEST).write_bytes(manifest.to_bytes())
    with defer_interrupt():
        moves.commit()


def _note(root: Path) -> tuple[dict[str, Any] | None, int]:
    """Return the newest repair note of a commit, and the number of commits."""
    paths = sorted((root / layout.SIDECAR / "episodes").glob("*/*.parquet"), reverse=True)
    notes = (sidecar.load_note(path) for path in paths)
    return next((note for note in notes if note and {"info", "dataset_id"} <= note.keys()), None), len(paths)


def _info(root: Path, note: Mapping[str, Any] | None) -> tuple[dict[str, Any], bool]:
    try:
        info = layout.load_info(root)
        layout.schema_from_info(info)
        return info, False
    except DatasetError as error:
        if note is None:
            raise DamagedDataset(
                f"{root / layout.INFO} cannot be read and no commit has a copy of it ({error.what})",
                remedy="restore it from a copy of the dataset",
            ) from error
        return dict(note["info"]), True


def _manifest(root: Path) -> Manifest | None:
    try:
        return load_manifest(root)
    except DamagedDataset:
        _set_aside(root, layout.MANIFEST)
        return None


def _present(root: Path) -> dict[str, Any]:
    """Return every file that belongs to a dataset by its location."""
    patterns: tuple[str, ...] = ("data/*/*.parquet", "meta/episodes/*/*.parquet", "videos/*/*/*.mp4")
    patterns += (f"{layout.SIDECAR}/episodes/*/*.parquet", layout.INFO, layout.TASKS, layout.STATS)
    paths = sorted(path for pattern in patterns for path in root.glob(pattern))
    return {str(path.relative_to(root)): file_entry(path) for path in paths}


def _unchanged(root: Path, name: str, manifest: Manifest | None) -> bool:
    """Return whether a table has its checksum; `verify` checks the other files."""
    if manifest is None or not name.startswith("meta/"):
        return True
    return file_entry(root / name) == manifest.files[name]


def _next_numbers(files: Mapping[str, Any], manifest: Manifest) -> tuple[int, int]:
    """Return file numbers that were never used, so that no file is overwritten."""
    numbers = {"data": manifest.next_data, "videos": manifest.next_video}
    for name in files:
        tree = name.split("/")[0]
        if tree in numbers:
            chunk, file = (int(part.split("-")[1].split(".")[0]) for part in name.split("/")[-2:])
            numbers[tree] = max(numbers[tree], chunk * layout.FILES_PER_CHUNK + file + 1)
    return numbers["data"], numbers["videos"]


def _tasks(root: Path, index: EpisodeIndex, intact: bool) -> list[str] | None:
    """Rebuild the task texts, if necessary, from the index in rows and the text in episode tables."""
    if intact:
        with suppress(OSError, ValueError, KeyError, pa.ArrowException):
            columns.task_texts(pq.read_table(root / layout.TASKS, partitioning=None))
            return None
    texts: dict[int, str] = {}
    for file, name in enumerate(index.files):
        numbers = column_of(root / name, "task_index")
        for place in np.flatnonzero(index.file_of == file):
            if index.offset[place] < len(numbers):
                texts[int(numbers[index.offset[place]])] = index.tasks[int(index.task_of[place])]
    return [texts.get(number, "") for number in range(max(texts, default=-1) + 1)]


def _stats(root: Path, schema: Schema, tables: Iterable[str]) -> dict[str, Stats]:
    """Compute the statistics of the dataset from those of its episodes."""
    stats = columns.load_episode_stats(
        [root / name for name in sorted(tables)], columns.feature_shapes(schema)
    )
    return {
        feature: aggregate(
            [{name: values[i] for name, values in part.items()} for i in range(len(part["count"]))]
        )
        for feature, part in stats.items()
        if len(part["count"])
    }


def _keep_intact_episodes(root: Path, checked: Verification) -> tuple[tuple[LostEpisode, ...], Path]:
    """Copy the intact episodes to a new dataset and exchange it with the damaged one."""
    manifest = load_manifest(root)
    if manifest is None:
        raise DamagedDataset(f"{root} cannot be repaired", remedy="restore it from a copy")
    broken = checked.broken_episodes
    files = {name: entry for name, entry in manifest.files.items() if name not in checked.broken_files}
    tables, provenance = "meta/episodes/", f"{layout.SIDECAR}/episodes/"
    for name in manifest.files:
        number = name.removeprefix(tables).removeprefix(provenance)
        if (
            name.startswith((tables, provenance))
            and not {tables + number, provenance + number} <= files.keys()
        ):
            files.pop(name, None)
    info = layout.load_info(root)
    schema, skipped = layout.schema_from_info(info)
    index = load_index(root, info, schema, files)
    reduced = replace(manifest, files=files, episodes=len(index), frames=int(index.length.sum()))
    dataset = Dataset(root, schema, info, reduced, skipped)
    intact = [number for number in dataset.numbers if number not in broken]
    if not intact:
        raise DamagedDataset(
            f"no episode of {root} is intact; nothing was changed",
            got="; ".join(f"{f.file}: {f.what}" for f in checked.findings[:3]),
            remedy="restore it from a copy",
        )
    original = find_unused_path(root.with_name(f"{root.name}.damaged"))
    fresh = find_unused_path(root.with_name(f"{root.name}.repaired"))
    detail = (
        f"{len(intact)} of {manifest.episodes} episodes; the damaged original was moved to {original.name}"
    )
    copied = copy_episodes(
        [EpisodeSelection(dataset, intact)], fresh, operation="repaired", detail=detail, skip_unusable=True
    )
    reasons = broken | {number: why for (_, number), why in copied.skipped.items()}
    kept = set(intact) - {number for _, number in copied.skipped}
    lost = set(range(manifest.episodes)) - kept
    described = _describe_lost(root, manifest, lost, reasons)
    with defer_interrupt():
        swap_folders(fresh, root)
        fresh.rename(original)
        sync(root.parent)
    return described, original


def _describe_lost(
    root: Path, manifest: Manifest, lost: set[int], reasons: Mapping[int, str]
) -> tuple[LostEpisode, ...]:
    """Describe the lost episodes from the tables that can still be read."""
    ids: dict[int, str] = {}
    lengths: dict[int, int] = {}
    for path in (root / name for name in manifest.files):
        if path.is_relative_to(root / layout.SIDECAR / "episodes"):
            ids |= zip(column_of(path, "episode_index"), column_of(path, "episode_id"), strict=False)
        elif path.is_relative_to(root / "meta/episodes"):
            lengths |= zip(column_of(path, "episode_index"), column_of(path, "length"), strict=False)
    unread = "its tables cannot be read"
    return tuple(
        LostEpisode(number, ids.get(number), lengths.get(number), reasons.get(number, unread))
        for number in sorted(lost)
    )
