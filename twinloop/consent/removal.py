"""Remove episodes from a dataset: a copy without them is built next to it and takes its place by renaming.

A process killed before the first rename leaves the old dataset; between the two renames,
`recover_interrupted_removal` puts the new one in place.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.cache import drop_cache
from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.merge import EpisodeSelection, copy_episodes
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.durable import sync

NEW, OLD = "twinloop-without", "twinloop-removed"
"""Suffixes of the hidden folders next to a dataset while it is being replaced."""


@dataclass(frozen=True)
class Removal:
    """The episodes removed from one dataset, planned or done."""

    dataset: str
    dataset_id: str
    version_before: str
    episode_ids: tuple[str, ...]
    version_after: str = ""


def remove_episodes(root: Path, episode_ids: Sequence[str]) -> None:
    """Remove episodes from a dataset, which keeps its id and gets a new version."""
    dataset = open_dataset(root)
    before = dataset.manifest
    assert before is not None
    removed = find_numbers(dataset, episode_ids)
    if not removed:
        return
    new, old = _sibling(root, NEW), _sibling(root, OLD)
    keep = [number for number in dataset.numbers if number not in removed]
    detail = f"{len(removed)} episodes, consent withdrawn"
    copy_episodes([EpisodeSelection(dataset, keep)], new, operation="withdrawn", detail=detail)
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


def recover_interrupted_removal(workspace: Path) -> list[str]:
    """Finish or undo an interrupted removal and delete its leftovers; returns what was done."""
    done = []
    for old in sorted(workspace.rglob(f".*.{OLD}")):
        root = old.with_name(old.name[1 : -len(OLD) - 1])
        new = _sibling(root, NEW)
        if not root.exists():
            (new if new.exists() else old).rename(root)
            done.append(f"restored {root}")
        if old.exists():
            shutil.rmtree(old)
            done.append(f"deleted the rest of the old {root}")
    for pattern in (f".*.{NEW}", f"..*.{NEW}.*.partial"):
        for unfinished in sorted(workspace.rglob(pattern)):
            shutil.rmtree(unfinished)
            done.append(f"deleted the unfinished {unfinished}")
    return done


def find_numbers(dataset: Dataset, episode_ids: Sequence[str]) -> set[int]:
    """Find the numbers of these episodes in a dataset, as far as it contains them."""
    table = dataset.provenance_table()
    if table is None:
        return set()
    wanted = set(episode_ids)
    rows = table.select(["episode_index", "episode_id"]).to_pylist()
    return {int(row["episode_index"]) for row in rows if row["episode_id"] in wanted}


def find_files(dataset: Dataset, episode_ids: Sequence[str]) -> list[Path]:
    """Find the files that contain data of these episodes: rows, frames, tables, caches."""
    numbers = np.array(sorted(find_numbers(dataset, episode_ids)), np.int64)
    places = np.searchsorted(dataset.index.numbers, numbers)
    names = {dataset.index.files[int(dataset.index.file_of[place])] for place in places}
    for video in dataset.index.video.values():
        names |= {video.files[int(video.file_of[place])] for place in places}
    paths = [dataset.root / name for name in sorted(names)]
    for part in ("meta", ".cache"):
        paths += sorted(path for path in (dataset.root / part).rglob("*") if path.is_file())
    return [path for path in paths if path.exists()]


def _sibling(root: Path, suffix: str) -> Path:
    return root.with_name(f".{root.name}.{suffix}")
