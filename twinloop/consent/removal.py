"""Take episodes out of one dataset: a copy without them is built beside it and swapped in by renaming.

A kill before the first rename leaves the old dataset; between the two renames `recover` puts the new one in place.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.cache import drop_cache
from twinloop.datasets.commit import disk_errors, sync, write_atomically
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.rewrite import Pick, copy_episodes

NEW, OLD = "twinloop-without", "twinloop-removed"
"""Endings of the hidden folders beside a dataset while it is being replaced."""


@dataclass(frozen=True)
class Removal:
    """What goes, or went, out of one dataset."""

    dataset: str
    dataset_id: str
    version_before: str
    episode_ids: tuple[str, ...]
    version_after: str = ""


def remove_episodes(root: Path, episode_ids: Sequence[str]) -> None:
    """Replace a dataset by itself without some episodes; it keeps its identity and becomes another version."""
    dataset = open_dataset(root)
    before = dataset.manifest
    assert before is not None
    gone = numbers_of(dataset, episode_ids)
    if not gone:
        return
    new, old = _beside(root, NEW), _beside(root, OLD)
    keep = [number for number in dataset.numbers if number not in gone]
    detail = f"{len(gone)} episodes, consent withdrawn"
    copy_episodes([Pick(dataset, keep)], new, operation="withdrawn", detail=detail)
    copied = load_manifest(new)
    assert copied is not None
    step = replace(copied.history[-1], sources=())
    manifest = replace(copied, dataset_id=before.dataset_id, history=(*before.history, step))
    write_atomically(new / layout.MANIFEST, manifest.to_bytes())
    drop_cache(dataset)
    with disk_errors(root):
        root.rename(old)
        new.rename(root)
        sync(root.parent)
        shutil.rmtree(old)
        sync(root.parent)


def recover(workspace: Path) -> list[str]:
    """Finish or undo a swap that was interrupted, and delete what a killed removal left; says what it did."""
    done = []
    for old in sorted(workspace.rglob(f".*.{OLD}")):
        root = old.with_name(old.name[1 : -len(OLD) - 1])
        new = _beside(root, NEW)
        if not root.exists():
            (new if new.exists() else old).rename(root)
            done.append(f"put {root} back in place")
        if old.exists():
            shutil.rmtree(old)
            done.append(f"deleted what was left of the old {root}")
    for pattern in (f".*.{NEW}", f"..*.{NEW}.*.partial"):
        for unfinished in sorted(workspace.rglob(pattern)):
            shutil.rmtree(unfinished)
            done.append(f"deleted the unfinished {unfinished}")
    return done


def numbers_of(dataset: Dataset, episode_ids: Sequence[str]) -> set[int]:
    """The numbers these episodes have in a dataset; those that are not in it are left out."""
    side = dataset.side_table()
    if side is None:
        return set()
    wanted = set(episode_ids)
    rows = side.select(["episode_index", "episode_id"]).to_pylist()
    return {int(row["episode_index"]) for row in rows if row["episode_id"] in wanted}


def files_holding(dataset: Dataset, episode_ids: Sequence[str]) -> list[Path]:
    """The files in which something of these episodes is: rows, frames, tables, caches."""
    numbers = np.array(sorted(numbers_of(dataset, episode_ids)), np.int64)
    places = np.searchsorted(dataset.index.numbers, numbers)
    names = {dataset.index.files[int(dataset.index.file_of[place])] for place in places}
    for video in dataset.index.video.values():
        names |= {video.files[int(video.file_of[place])] for place in places}
    found = [dataset.root / name for name in sorted(names)]
    for part in ("meta", ".cache"):
        found += sorted(path for path in (dataset.root / part).rglob("*") if path.is_file())
    return [path for path in found if path.exists()]


def _beside(root: Path, ending: str) -> Path:
    return root.with_name(f".{root.name}.{ending}")
