"""The ledger of artefacts: files made of episodes (pages, images, videos, tables, copies) and the episodes they show.

Whatever writes frames or rows of episodes outside their dataset calls `register_artefact` first, so that a file that
exists is on the ledger even if its writer was killed. A withdrawal of consent removes what the ledger lists. Only
episodes that involve people are listed: those with a consent, a pseudonym, or parents that may have either.

The ledger of a workspace is `consents/artefacts.jsonl`. An artefact is listed where its dataset is, where it lies
itself, and where it was made from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from twinloop.datasets.commit import disk_errors, make_private_folder, wait_for_lock, write_atomically
from twinloop.datasets.jsonl import append_jsonl, format_jsonl, read_jsonl
from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode

WORKSPACE = "twinloop.yaml"
"""The file that makes a folder a workspace."""
FOLDER = "consents"
LEDGER = f"{FOLDER}/artefacts.jsonl"
LOCK = f"{FOLDER}/artefacts.lock"

Kind = Literal["page", "image", "video", "table", "dataset"]
Shown = Dataset | Episode | Path | tuple[Dataset, Sequence[int]]
"""What an artefact shows: a dataset, some of its episodes by number, an episode, or what another artefact shows."""


@dataclass(frozen=True)
class Artefact:
    """A file, or a folder that is a dataset, and the ids of the episodes it shows; inside the workspace the path is relative."""

    path: str
    kind: Kind
    episodes: tuple[str, ...]
    at: str

    def place(self, workspace: Path) -> Path:
        """Where it is."""
        return workspace / self.path

    def is_inside(self, workspace: Path) -> bool:
        """Whether it is in the workspace, seen without following links that lead out of it."""
        return not Path(self.path).is_absolute() and self.place(workspace).resolve().is_relative_to(
            workspace.resolve()
        )


def register_artefact(
    path: str | Path, kind: Kind, shown: Iterable[Shown], *, near: Iterable[Path] = ()
) -> None:
    """Enter an artefact into the ledgers of the workspaces concerned; called before it is written.

    Args:
        path: The file or folder that will be written.
        kind: What it is.
        shown: What of it is shown.
        near: Further places whose workspaces are concerned, such as the dataset an episode was read from.

    Raises:
        DiskError: A ledger cannot be written; nothing should be written that is not on it.
    """
    target, shown = Path(os.path.realpath(path)), list(shown)
    places = [target, Path.cwd(), *near, *(root for one in shown if (root := _root_of(one)))]
    for workspace in dict.fromkeys(filter(None, map(_find_workspace, places))):
        episodes = sorted(set().union(*(_people_in(one, workspace) for one in shown)))
        if episodes:
            _enter(workspace, target, kind, episodes)


def load_artefacts(workspace: Path) -> list[Artefact]:
    """Every artefact on the ledger of a workspace, once, with all episodes it has shown."""
    merged: dict[str, Artefact] = {}
    for line in read_jsonl(workspace / LEDGER, _make_artefact, "an artefact"):
        before = merged.get(line.path)
        episodes = dict.fromkeys((*(before.episodes if before else ()), *line.episodes))
        merged[line.path] = Artefact(line.path, line.kind, tuple(episodes), line.at)
    return list(merged.values())


def change_artefacts(workspace: Path, change: Callable[[Artefact], Artefact | None]) -> None:
    """Rewrite the ledger of a workspace: each artefact as `change` returns it, or without it."""
    if not (workspace / LEDGER).exists():
        return
    with _lock(workspace), disk_errors(workspace):
        changed = [new for one in load_artefacts(workspace) if (new := change(one)) is not None]
        write_atomically(workspace / LEDGER, format_jsonl([asdict(one) for one in changed]))


def _enter(workspace: Path, target: Path, kind: Kind, episodes: Sequence[str]) -> None:
    name = str(target.relative_to(workspace) if target.is_relative_to(workspace) else target)
    with disk_errors(workspace):
        make_private_folder(workspace / FOLDER)
    with _lock(workspace), disk_errors(workspace):
        known = next((one for one in load_artefacts(workspace) if one.path == name), None)
        if known is None or not set(episodes) <= set(known.episodes):
            at = datetime.now(UTC).isoformat(timespec="seconds")
            append_jsonl(workspace / LEDGER, [asdict(Artefact(name, kind, tuple(episodes), at))])


def _lock(workspace: Path) -> AbstractContextManager[None]:
    return wait_for_lock(workspace / LOCK)


def _root_of(shown: Shown) -> Path | None:
    if isinstance(shown, Episode):
        return None
    if isinstance(shown, Path):
        return shown
    return (shown if isinstance(shown, Dataset) else shown[0]).root


def _people_in(shown: Shown, workspace: Path) -> set[str]:
    """Ids of the episodes in which people are involved, and of the ones they were derived from."""
    if isinstance(shown, Path):
        path = Path(os.path.realpath(shown))
        same = (one for one in load_artefacts(workspace) if one.place(workspace) == path)
        return set().union(*(one.episodes for one in same))
    if isinstance(shown, Episode):
        own = shown.provenance
        return {shown.id, *own.parents} if own.consent or own.actor_id or own.parents else set()
    dataset, numbers = (shown, None) if isinstance(shown, Dataset) else shown
    table = dataset.provenance_table()
    if table is None:
        return set()
    wanted, found = None if numbers is None else set(numbers), set()
    columns = ["episode_index", "episode_id", "consent", "actor_id", "parents"]
    for row in table.select(columns).to_pylist():
        if wanted is not None and row["episode_index"] not in wanted:
            continue
        if row["consent"] or row["actor_id"] or row["parents"]:
            found |= {row["episode_id"], *(row["parents"] or ())}
    return found


def _find_workspace(place: Path) -> Path | None:
    """The workspace a place is in, or will be in once it is written."""
    resolved = Path(os.path.realpath(place))
    return next((one for one in (resolved, *resolved.parents) if (one / WORKSPACE).is_file()), None)


def _make_artefact(**values: Any) -> Artefact:
    return Artefact(**{**values, "episodes": tuple(map(str, values["episodes"]))})
