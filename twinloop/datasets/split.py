"""Split a dataset by episode into parts with about the same mix of tasks, outcomes and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.merge import EpisodeSelection, OnProgress, copy_episodes
from twinloop.datasets.partial_folder import partial_folder
from twinloop.datasets.query import episode_rows
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import DatasetError, WrongUse


def split(
    source: str | Path,
    out: str | Path,
    fractions: Mapping[str, float],
    *,
    seed: int = 0,
    stratify: Sequence[str] = ("task", "success", "source"),
    on_progress: OnProgress | None = None,
) -> dict[str, Dataset]:
    """Split a dataset by episode into the datasets `out/<name>`.

    Episodes that descend from a common parent stay together, so that no part holds a variation of an episode in
    another part.

    Args:
        source: The dataset to split.
        out: Folder for the parts.
        fractions: Fraction of the episodes for each part, by name; they add up to 1.
        seed: Random seed for the assignment.
        stratify: Columns of the `episodes` table whose mix is kept about equal in all parts.
        on_progress: Called with (episodes done, episodes in all).

    Returns:
        The parts, by name.

    Raises:
        WrongUse: The fractions do not add up to 1, or a column does not exist.
        DatasetError: A part would be empty, or `out` exists.
    """
    if min(fractions.values(), default=0) <= 0 or abs(sum(fractions.values()) - 1) > 1e-6:
        raise WrongUse("the fractions of a split must be positive and add up to 1", got=dict(fractions))
    dataset = open_dataset(source)
    rows = episode_rows(dataset)
    if rows and (unknown := [name for name in stratify if name not in rows[0]]):
        raise WrongUse(f"cannot stratify by {unknown[0]!r}", available=sorted(rows[0]))
    families = _find_families(rows)
    strata: dict[tuple[object, ...], list[list[int]]] = {}
    for members in families:
        strata.setdefault(tuple(rows[members[0]][name] for name in stratify), []).append(members)
    part_of = _assign_parts([strata[key] for key in sorted(strata, key=repr)], list(fractions.values()), seed)
    done = 0
    with partial_folder(Path(out)) as root:
        for position, name in enumerate(fractions):
            numbers = [int(row["episode_index"]) for i, row in enumerate(rows) if part_of[i] == position]
            if not numbers:
                raise DatasetError(
                    f"part {name!r} would be empty",
                    got=f"{len(families)} groups of related episodes",
                    remedy="use fewer parts or larger fractions",
                )
            register_artefact(Path(out) / name, "dataset", [(dataset, numbers)])
            copy_episodes(
                [EpisodeSelection(dataset, numbers)],
                root / name,
                operation="split",
                detail=f"{name}, seed {seed}",
                on_progress=_offset_progress(on_progress, done, len(rows)),
            )
            done += len(numbers)
    return {name: open_dataset(Path(out) / name) for name in fractions}


def _offset_progress(on_progress: OnProgress | None, done: int, total: int) -> OnProgress | None:
    return (lambda count, _: on_progress(done + count, total)) if on_progress else None


def _find_families(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Group episodes that share an ancestor, whether or not the dataset contains it."""
    root: dict[str, str] = {}
    # Episodes of a foreign dataset have no recorded id and no parents.
    ids = [row["episode_id"] or str(row["episode_index"]) for row in rows]

    def find(name: str) -> str:
        root.setdefault(name, name)
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for episode_id, row in zip(ids, rows, strict=True):
        for parent in row["parents"] or ():
            root[find(parent)] = find(episode_id)
    families: dict[str, list[int]] = {}
    for position, episode_id in enumerate(ids):
        families.setdefault(find(episode_id), []).append(position)
    return list(families.values())


def _assign_parts(strata: Sequence[list[list[int]]], fractions: Sequence[float], seed: int) -> dict[int, int]:
    """Assign each family to the part that is furthest below its fraction, within its stratum and overall."""
    rng = np.random.default_rng(seed)
    part_of: dict[int, int] = {}
    overall = np.zeros(len(fractions))
    for families in strata:
        within = np.zeros(len(fractions))
        order = sorted(rng.permutation(len(families)), key=lambda i: -len(families[i]))
        for i in order:
            size = len(families[i])
            behind = np.asarray(fractions) * (within.sum() + size) - within
            tie_break = np.asarray(fractions) * (overall.sum() + size) - overall
            part = int(np.lexsort((-tie_break, -np.round(behind, 9)))[0])
            within[part] += size
            overall[part] += size
            part_of |= dict.fromkeys(families[i], part)
    return part_of
