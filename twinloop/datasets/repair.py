"""Make a damaged dataset whole again: finish what was interrupted, rebuild what follows from the rest, and where
data itself is broken keep every intact episode and say exactly which are lost.

Nothing is deleted: what cannot stay in its place is set aside under a name that says so.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Mapping
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
    disk_errors,
    finish_journal,
    load_journal,
    sync,
    unbroken,
    write_atomically,
    writing,
)
from twinloop.datasets.index import EpisodeIndex, load_index
from twinloop.datasets.labels import Label, format_labels
from twinloop.datasets.manifest import Manifest, file_entry, load_manifest, new_manifest, step
from twinloop.datasets.reader import Dataset
from twinloop.datasets.rewrite import Pick, copy_episodes
from twinloop.datasets.stats import NAMES, Stats, aggregate, to_json
from twinloop.datasets.verification import Progress, Verification
from twinloop.datasets.verify import STRAY, looks_like_ours, verify
from twinloop.episode import Schema, Signal
from twinloop.errors import DamagedDataset, DatasetError

SET_ASIDE = f"{layout.SIDE}/set-aside"


@dataclass(frozen=True)
class Lost:
    """One episode that the repaired dataset no longer has; the damaged original still holds what is left of it."""

    number: int
    id: str | None
    rows: int | None
    why: str


@dataclass(frozen=True)
class Repair:
    """What a repair did, what it cost, and how the dataset stands now.

    `original` is where the damaged dataset was moved to; None when nothing had to be given up.
    """

    done: tuple[str, ...]
    lost: tuple[Lost, ...]
    original: Path | None
    verification: Verification


def repair(path: str | Path, *, progress: Progress | None = None) -> Repair:
    """Repair a dataset that Twinloop wrote; one without fault is left as it is."""
    root = Path(path)
    with disk_errors(root):
        interrupted = (root / JOURNAL).exists()
    if not looks_like_ours(root) and not interrupted:
        layout.load_info(root)
        raise DatasetError(
            f"{root} was not written by Twinloop, so it is never changed in place",
            remedy=f"copy what is intact: twinloop data merge {root} --skip-unusable --out NEW",
        )
    with writing(root), disk_errors(root):
        done = _settle_commit(root)
        done += _mend_labels(root)
        done += _rebuild(root)
        found = verify(root, progress=progress, holding_lock=True)
        done += _set_strays_aside(root, found)
        if done:
            found = verify(root, progress=progress, holding_lock=True)
        if found.ok:
            return Repair(tuple(done), (), None, found)
        lost, original = _keep_intact_episodes(root, found)
    done.append(f"kept {found.episodes - len(lost)} intact episodes; the damaged original is {original.name}")
    return Repair(tuple(done), lost, original, verify(root, progress=progress))


def _settle_commit(root: Path) -> list[str]:
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
    return ["removed what a killed writer had left and never committed"]


def _set_aside(root: Path, name: str) -> Path:
    target = root / SET_ASIDE / name
    number = 1
    while target.exists():
        number += 1
        target = root / SET_ASIDE / f"{name}.{number}"
    target.parent.mkdir(parents=True, exist_ok=True)
    (root / name).rename(target)
    return target


def _set_strays_aside(root: Path, found: Verification) -> list[str]:
    strays = [f.file for f in found.findings if f.what == STRAY]
    return [f"set aside {name}, now {_set_aside(root, name).relative_to(root)}" for name in strays]


def _mend_labels(root: Path) -> list[str]:
    path = root / layout.LABELS
    if not path.is_file():
        return []
    good, bad = [], 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            good.append(Label(**json.loads(line)))
        except (ValueError, TypeError):
            bad += 1
    if not bad:
        return []
    aside = _set_aside(root, layout.LABELS)
    write_atomically(path, format_labels(good))
    return [f"dropped {bad} unreadable labels; the old file is {aside.relative_to(root)}"]


def _rebuild(root: Path) -> list[str]:
    """Whatever follows from the episode tables: info.json, the manifest, the task texts, the statistics."""
    note, notes = _note(root)
    info, rebuilt = _info(root, note)
    schema, _ = layout.schema_from_info(info)
    manifest = _manifest(root)
    files = _present(root) if manifest is None else dict(manifest.files)
    broken = {name for name in files if not (root / name).is_file() or not _unchanged(root, name, manifest)}
    if layout.INFO in broken:
        if note is None:
            raise DamagedDataset(f"{root / layout.INFO} has been changed", remedy="restore it from a copy")
        info, rebuilt = dict(note["info"]), True
        schema, _ = layout.schema_from_info(info)
    try:
        index = load_index(
            root, info, schema, replace(manifest or new_manifest(""), files=_tables(files, broken))
        )
    except DamagedDataset:
        return []
    fresh: dict[str, bytes | pa.Table] = {}
    tasks = _tasks(root, index, layout.TASKS in broken or layout.TASKS not in files)
    if tasks is not None:
        fresh[layout.TASKS] = columns.tasks_table(tasks)
    if layout.STATS in broken or layout.STATS not in files:
        fresh[layout.STATS] = json.dumps(to_json(_stats(root, schema, files, broken))).encode()
    totals = {"total_episodes": len(index), "total_frames": int(index.length.sum())}
    damaged_tables = any(name.startswith("meta/episodes/") for name in broken)
    if rebuilt or (not damaged_tables and any(info.get(key) != value for key, value in totals.items())):
        info |= totals | {"splits": {"train": f"0:{len(index)}"}}
        info["total_tasks"] = len(tasks) if tasks is not None else _count_tasks(root)
        fresh[layout.INFO] = json.dumps(info, indent=4).encode()
    wrong_totals = manifest is not None and (manifest.episodes, manifest.frames) != tuple(totals.values())
    if not fresh and manifest is not None and (damaged_tables or not wrong_totals):
        return []
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
    names = [*fresh]
    if manifest is None:
        names.append(layout.MANIFEST)
        origin = note["dataset_id"] if note is not None else None
        manifest = new_manifest("repaired", detail=f"manifest rebuilt; {notes} commits")
        manifest = replace(manifest, dataset_id=origin or manifest.dataset_id)
    else:
        manifest = replace(
            manifest, history=(*manifest.history, step("repaired", detail=f"rebuilt {', '.join(names)}"))
        )
    if not damaged_tables:
        manifest = replace(manifest, episodes=totals["total_episodes"], frames=totals["total_frames"])
    next_data, next_video = _next_numbers(files, manifest)
    manifest = replace(manifest, files=files, next_data=next_data, next_video=next_video)
    moves.stage(layout.MANIFEST).write_bytes(manifest.to_bytes())
    with unbroken():
        moves.commit()
    return [f"rebuilt {name} from the rest of the dataset" for name in names or [layout.MANIFEST]]


def _note(root: Path) -> tuple[dict[str, Any] | None, int]:
    """The newest note that a commit left for us, and how many commits there were."""
    paths = sorted((root / layout.SIDE / "episodes").glob("*/*.parquet"), reverse=True)
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
                f"{root / layout.INFO} cannot be read and no commit left a copy of it ({error.what})",
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
    """Every file that belongs to a dataset because of where it is."""
    patterns = ("data/*/*.parquet", "meta/episodes/*/*.parquet", "videos/*/*/*.mp4")
    found = [
        path for pattern in (*patterns, f"{layout.SIDE}/episodes/*/*.parquet") for path in root.glob(pattern)
    ]
    found += [root / name for name in (layout.INFO, layout.TASKS, layout.STATS) if (root / name).is_file()]
    return {str(path.relative_to(root)): file_entry(path) for path in sorted(found)}


def _unchanged(root: Path, name: str, manifest: Manifest | None) -> bool:
    """Checks tables only; the rest is for `verify`."""
    if manifest is None or not name.startswith("meta/"):
        return True
    return file_entry(root / name) == manifest.files[name]


def _tables(files: Mapping[str, Any], broken: set[str]) -> dict[str, Any]:
    return {
        name: entry
        for name, entry in files.items()
        if name.startswith("meta/episodes/") and name not in broken
    }


def _next_numbers(files: Mapping[str, Any], manifest: Manifest) -> tuple[int, int]:
    """File numbers that were never used, so that nothing is ever written over."""
    numbers = {"data": manifest.next_data, "videos": manifest.next_video}
    for name in files:
        tree = name.split("/")[0]
        if tree in numbers:
            chunk, file = (int(part.split("-")[1].split(".")[0]) for part in name.split("/")[-2:])
            numbers[tree] = max(numbers[tree], chunk * layout.FILES_PER_CHUNK + file + 1)
    return numbers["data"], numbers["videos"]


def _count_tasks(root: Path) -> int:
    return int(pq.read_metadata(root / layout.TASKS).num_rows)


def _tasks(root: Path, index: EpisodeIndex, broken: bool) -> list[str] | None:
    """The task texts, if they have to be rebuilt: rows know the number, episode tables the text."""
    if not broken:
        try:
            columns.task_texts(pq.read_table(root / layout.TASKS, partitioning=None))
            return None
        except (OSError, ValueError, KeyError, pa.ArrowException):
            pass
    texts: dict[int, str] = {}
    for file, name in enumerate(index.files):
        try:
            numbers = pq.read_table(root / name, columns=["task_index"], partitioning=None)[
                "task_index"
            ].to_numpy()
        except (OSError, KeyError, pa.ArrowException):
            continue
        for place in np.flatnonzero(index.file_of == file):
            if index.offset[place] < len(numbers):
                texts[int(numbers[index.offset[place]])] = index.tasks[int(index.task_of[place])]
    return [texts.get(number, "") for number in range(max(texts, default=-1) + 1)]


def _stats(root: Path, schema: Schema, files: Mapping[str, Any], broken: set[str]) -> dict[str, Stats]:
    """Statistics of the dataset from those of its episodes."""
    shapes = {s.name: s.shape for s in schema.signals} | {c.key: (3, 1, 1) for c in schema.cameras}
    shapes |= dict.fromkeys(("time_s", *layout.INDEX_COLUMNS), (1,))
    parts: dict[str, list[Stats]] = {name: [] for name in shapes}
    for path in (root / name for name in _tables(files, broken)):
        table = pq.read_table(path, partitioning=None)
        for feature, shape in shapes.items():
            arrays = {
                name: columns.from_arrow(
                    table.column(f"stats/{feature}/{name}"), Signal("stats", shape, dtype="float64")
                )
                for name in NAMES
            }
            counts = columns.from_arrow(
                table.column(f"stats/{feature}/count"), Signal("count", dtype="int64")
            )
            for row in range(len(table)):
                one = {name: values[row] for name, values in arrays.items()}
                parts[feature].append(one | {"count": counts[row]})
    return {feature: aggregate(each) for feature, each in parts.items() if each}


def _keep_intact_episodes(root: Path, found: Verification) -> tuple[tuple[Lost, ...], Path]:
    manifest = load_manifest(root)
    if manifest is None:
        raise DamagedDataset(f"{root} cannot be repaired", remedy="restore it from a copy")
    broken = found.broken_episodes
    files = {name: entry for name, entry in manifest.files.items() if name not in found.broken_files}
    for name in manifest.files:
        for one, other in (("meta/episodes/", f"{layout.SIDE}/episodes/"),):
            number = name.removeprefix(one).removeprefix(other)
            if name.startswith((one, other)) and not {one + number, other + number} <= files.keys():
                files.pop(name, None)
    info = layout.load_info(root)
    schema, skipped = layout.schema_from_info(info)
    index = load_index(root, info, schema, replace(manifest, files=files))
    reduced = replace(manifest, files=files, episodes=len(index), frames=int(index.length.sum()))
    dataset = Dataset(root, schema, info, reduced, skipped)
    intact = [number for number in dataset.numbers if number not in broken]
    if not intact:
        raise DamagedDataset(
            f"no episode of {root} is intact; nothing was changed",
            got="; ".join(f"{f.file}: {f.what}" for f in found.findings[:3]),
            remedy="restore it from a copy",
        )
    original = _free_name(root, "damaged")
    fresh = _free_name(root, "repaired")
    detail = (
        f"{len(intact)} of {manifest.episodes} episodes; the damaged original was moved to {original.name}"
    )
    copied = copy_episodes(
        [Pick(dataset, intact)], fresh, operation="repaired", detail=detail, skip_unusable=True
    )
    reasons = broken | {number: why for (_, number), why in copied.skipped.items()}
    kept = set(intact) - {number for _, number in copied.skipped}
    lost = set(range(manifest.episodes)) - kept
    told = _describe_lost(root, manifest, lost, reasons)
    with unbroken():
        _swap(fresh, root)
        fresh.rename(original)
        sync(root.parent)
    return told, original


def _describe_lost(
    root: Path, manifest: Manifest, lost: set[int], reasons: Mapping[int, str]
) -> tuple[Lost, ...]:
    """What the tables that can still be read say about the lost episodes."""
    known: dict[int, dict[str, Any]] = {number: {} for number in lost}
    for name in manifest.files:
        if name.startswith((f"{layout.SIDE}/episodes/", "meta/episodes/")):
            wanted = ["episode_index", "episode_id" if name.startswith(layout.SIDE) else "length"]
            try:
                rows = pq.read_table(root / name, columns=wanted, partitioning=None).to_pylist()
            except (OSError, pa.ArrowException, KeyError):
                continue
            for row in rows:
                if row["episode_index"] in known:
                    known[row["episode_index"]] |= row
    return tuple(
        Lost(
            number,
            known[number].get("episode_id"),
            known[number].get("length"),
            reasons.get(number, "its tables cannot be read"),
        )
        for number in sorted(lost)
    )


def _free_name(root: Path, word: str) -> Path:
    name, number = root.with_name(f"{root.name}.{word}"), 1
    while name.exists():
        number += 1
        name = root.with_name(f"{root.name}.{word}-{number}")
    return name


def _swap(one: Path, other: Path) -> None:
    """Exchange two folders in one step, so that there is no moment without a dataset under the name."""
    exchange, here = 2, -100
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (here, os.fsencode(one.absolute()), here, os.fsencode(other.absolute()), exchange)
    if hasattr(libc, "renameat2"):
        if libc.renameat2(*arguments) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
    aside = _free_name(other, "swapping")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)
