"""Weighted selections of episodes, saved by name as queries: what they name follows the data until a dataset is drawn from them.

A selection has parts: a dataset, an SQL condition on its table `episodes`, and a weight. A draw of N episodes takes from each part
as many as its weight says, without repetition; what a part lacks is not made up by others, and is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.merge import CopyResult, EpisodeSelection, OnProgress, copy_episodes
from twinloop.datasets.query import find_episodes
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import UnknownName, WrongUse
from twinloop.records import Record, SavedRecord, load_record

FOLDER = "selections"
EVERYTHING = "true"
MOST_PARTS = 50

_NAME = re.compile(r"[A-Za-z0-9][\w\-]{0,59}")


@dataclass(frozen=True)
class SelectionPart(Record):
    """Episodes of one dataset: its path seen from the workspace, a condition on its episodes, and their weight in all."""

    dataset: str
    where: str = EVERYTHING
    weight: float = 1.0


@dataclass(frozen=True)
class Selection(SavedRecord):
    """A named, weighted selection."""

    FILE, COMMAND = "selection.json", "twinloop data selection save"

    name: str
    parts: tuple[SelectionPart, ...]
    by: str
    at: str
    note: str = ""


@dataclass(frozen=True)
class PartCount(Record):
    """What a part names now: episodes, and the fraction of a draw that comes from it."""

    dataset: str
    where: str
    weight: float
    episodes: int
    fraction: float


def save_selection(
    workspace: Path, name: str, parts: tuple[SelectionPart, ...], by: str, note: str = ""
) -> Selection:
    """Save a selection under a name; one of that name is replaced.

    Args:
        workspace: Root of the workspace.
        name: Letters, digits, "_" and "-".
        parts: What it names.
        by: Who made it.
        note: What it is for.

    Returns:
        The selection.

    Raises:
        WrongUse: The name, a condition or a weight is unusable.
    """
    if not _NAME.fullmatch(name):
        raise WrongUse(
            "bad name of a selection", got=name[:80], expected='letters, digits, "_" and "-", at most 60'
        )
    if not by.strip():
        raise WrongUse("a selection needs the name of its author", remedy="--by NAME")
    if not 1 <= len(parts) <= MOST_PARTS:
        raise WrongUse("a selection needs parts", got=len(parts), expected=f"1 to {MOST_PARTS}")
    for part in parts:
        if not (np.isfinite(part.weight) and part.weight > 0):
            raise WrongUse(f"bad weight of {part.dataset}", got=part.weight, expected="more than 0")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    selection = Selection(name, parts, by.strip(), at, note)
    count_selection(workspace, selection)  # refuses what cannot be read before anything is saved
    selection.save(workspace / FOLDER / name)
    return selection


def list_selections(workspace: Path) -> list[Selection]:
    """Every selection of a workspace, by name."""
    folders = sorted(path.parent for path in (workspace / FOLDER).glob(f"*/{Selection.FILE}"))
    return [load_record(Selection, folder) for folder in folders]


def load_selection(workspace: Path, name: str) -> Selection:
    """One selection of a workspace.

    Raises:
        UnknownName: There is none of this name.
    """
    folder = workspace / FOLDER / name
    if not _NAME.fullmatch(name) or not (folder / Selection.FILE).is_file():
        raise UnknownName("selection", name, [one.name for one in list_selections(workspace)])
    return load_record(Selection, folder)


def remove_selection(workspace: Path, name: str) -> Selection:
    """Remove a selection; datasets drawn from it stay. Returns what was removed."""
    selection = load_selection(workspace, name)
    (workspace / FOLDER / name / Selection.FILE).unlink()
    return selection


def count_selection(workspace: Path, selection: Selection) -> list[PartCount]:
    """How many episodes each part names now.

    Args:
        workspace: Root of the workspace.
        selection: The selection.

    Returns:
        One count for each part, in order.

    Raises:
        WrongUse: A condition cannot be evaluated.
        NoDataset: A dataset is gone.
    """
    total = sum(part.weight for part in selection.parts)
    return [
        PartCount(
            part.dataset,
            part.where,
            part.weight,
            len(find_episodes(_open(workspace, part), part.where)),
            part.weight / total,
        )
        for part in selection.parts
    ]


def draw_selection(
    workspace: Path,
    selection: Selection,
    out: str | Path,
    *,
    episodes: int | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> CopyResult:
    """Write a dataset drawn from a selection.

    Args:
        workspace: Root of the workspace.
        selection: The selection; its datasets have one schema.
        out: The new dataset.
        episodes: Episodes to draw; by default as many as the weights allow with no part repeated.
        seed: Random seed for the draw.
        on_progress: Called with (episodes done, episodes in all).

    Returns:
        The new dataset.

    Raises:
        WrongUse: A part has fewer episodes than its weight asks for; the message says how many can be drawn.
    """
    found = [(part, dataset := _open(workspace, part), _numbers(dataset, part)) for part in selection.parts]
    total = sum(part.weight for part in selection.parts)
    most = int(min(len(numbers) * total / part.weight for part, _, numbers in found) + 1e-9)
    wanted = most if episodes is None else episodes
    if not 1 <= wanted <= most:
        short = min(found, key=lambda one: len(one[2]) / one[0].weight)
        raise WrongUse(
            f"selection {selection.name} cannot give so many episodes",
            got=wanted,
            expected=f"1 to {most}: {short[0].dataset} where {short[0].where} has {len(short[2])}",
        )
    counts = _apportion([wanted * part.weight / total for part, _, _ in found])
    rng = np.random.default_rng(seed)
    drawn = [
        EpisodeSelection(dataset, sorted(rng.choice(numbers, count, replace=False).tolist()))
        for (_, dataset, numbers), count in zip(found, counts, strict=True)
        if count
    ]
    register_artefact(out, "dataset", [(one.dataset, list(one.numbers)) for one in drawn])
    detail = f"{selection.name}: {', '.join(f'{n} of {p.dataset}' for n, (p, _, _) in zip(counts, found, strict=True))}"
    return copy_episodes(
        drawn, out, operation="selected", detail=f"{detail}; seed {seed}", on_progress=on_progress
    )


def _open(workspace: Path, part: SelectionPart) -> Dataset:
    root = (workspace / part.dataset).resolve()
    if not root.is_relative_to(workspace.resolve()):
        raise WrongUse("a selection names datasets of its workspace", got=part.dataset)
    return open_dataset(root)


def _numbers(dataset: Dataset, part: SelectionPart) -> list[int]:
    ids = set(find_episodes(dataset, part.where))
    table = dataset.provenance_table()
    if table is None:
        raise WrongUse(f"{part.dataset} was not written by Twinloop", remedy="twinloop data merge copies it")
    names = table.column("episode_id").to_pylist()
    return [number for number, name in zip(dataset.numbers, names, strict=True) if name in ids]


def _apportion(shares: list[float]) -> list[int]:
    """Whole numbers with the same sum, each as near to its share as can be (largest remainder)."""
    counts = [int(share + 1e-9) for share in shares]
    left = round(sum(shares)) - sum(counts)
    order = sorted(range(len(shares)), key=lambda i: counts[i] - shares[i])
    for i in order[:left]:
        counts[i] += 1
    return counts
