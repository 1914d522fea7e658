"""What was measured in a workspace, newest first, and the datasets that hold the episodes behind it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from twinloop.datasets.layout import INFO
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.result import Diagnosis
from twinloop.errors import TwinloopError, UnknownName
from twinloop.gap.result import Gap
from twinloop.identification.result import Identification
from twinloop.workspace import Workspace

Kind = Literal["identification", "gap", "diagnosis"]
FILES: dict[Kind, str] = {
    "identification": Identification.FILE,
    "gap": Gap.FILE,
    "diagnosis": Diagnosis.FILE,
}
DEEPEST = 6
"""Folders below the workspace in which results are looked for."""


@dataclass(frozen=True)
class SavedResult:
    """A result in a workspace: `path` is its file, seen from there, and `at` when it was written."""

    kind: Kind
    path: str
    at: str


@dataclass(frozen=True)
class EpisodePlace:
    """Where an episode is: its dataset's folder, seen from the workspace, its number there, and how it ended."""

    id: str
    dataset: str
    episode: int
    success: bool | None
    failure: str | None
    source: str


def find_results(workspace: Workspace, kind: str | None = None) -> list[SavedResult]:
    """Find what was measured in a workspace.

    Args:
        workspace: The workspace.
        kind: Only these: "identification", "gap" or "diagnosis".

    Returns:
        The results, newest first.

    Raises:
        UnknownName: There is no such kind.
    """
    if kind is not None and kind not in get_args(Kind):
        raise UnknownName("kind of result", kind, get_args(Kind))
    found: list[tuple[float, SavedResult]] = []
    for folder, names in _folders(workspace.root):
        for one, file in FILES.items():
            if file in names and kind in (None, one):
                path = folder / file
                changed = path.stat().st_mtime
                at = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
                found.append((changed, SavedResult(one, str(path.relative_to(workspace.root)), at)))
    return [result for _, result in sorted(found, key=lambda one: (-one[0], one[1].path))]


def find_datasets(workspace: Workspace) -> list[str]:
    """Folders of all datasets of a workspace, seen from there: its own first, then those that a loop recorded."""
    found = [str(folder.relative_to(workspace.root)) for folder in _datasets(workspace.root)]
    return sorted(found, key=lambda name: (not name.startswith("data/"), name))


def find_episodes(workspace: Workspace, ids: Sequence[str]) -> list[EpisodePlace]:
    """Find the datasets of a workspace that hold these episodes.

    Args:
        workspace: The workspace.
        ids: Ids of episodes, which copies keep.

    Returns:
        Those that were found, in the order asked for, each once; in `data/` where it is there.
    """
    wanted, places = set(ids), dict[str, EpisodePlace]()
    for name in find_datasets(workspace) if wanted else ():
        try:
            places |= {one.id: one for one in _places(workspace, name, wanted - places.keys())}
        except TwinloopError:
            continue
        if len(places) == len(wanted):
            break
    return [places[one] for one in dict.fromkeys(ids) if one in places]


def _places(workspace: Workspace, name: str, wanted: Iterable[str]) -> Iterator[EpisodePlace]:
    sought = set(wanted)
    columns = "episode_id, episode_index, success, failure, source"
    rows = query([open_dataset(workspace.root / name)], f"select {columns} from episodes").to_pylist()
    for row in rows:
        if row["episode_id"] in sought:
            yield EpisodePlace(
                row["episode_id"],
                name,
                row["episode_index"],
                row["success"],
                row["failure"],
                row["source"] or "unknown",
            )


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Folders of a workspace with the names of their files; datasets and hidden folders are not entered."""
    for folder, below, names in os.walk(root):
        here = Path(folder)
        deep = len(here.relative_to(root).parts) >= DEEPEST
        dataset = (here / INFO).is_file()
        below[:] = [] if deep or dataset else sorted(name for name in below if not name.startswith("."))
        if not dataset:
            yield here, set(names)


def _datasets(root: Path) -> Iterator[Path]:
    for folder, below, _ in os.walk(root):
        here = Path(folder)
        deep = len(here.relative_to(root).parts) >= DEEPEST
        if (here / INFO).is_file():
            yield here
            below[:] = []
        else:
            below[:] = [] if deep else sorted(name for name in below if not name.startswith("."))
