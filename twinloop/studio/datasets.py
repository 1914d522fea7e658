"""Open datasets that rooms share: each is opened once and kept while its files stay as they are."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import Query

from twinloop.browsing import EpisodeList, list_episodes
from twinloop.datasets import layout
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.episode import Episode
from twinloop.errors import NoDataset
from twinloop.quality.require import CachedReport
from twinloop.studio.context import confine
from twinloop.workspace import Workspace

MOST_OPEN = 24
"""Datasets that are kept open; a list of 100,000 episodes takes some 20 MB."""

_WATCHED = (layout.INFO, layout.MANIFEST, layout.LABELS, layout.OVERRIDES, CachedReport.FILE)

DatasetPath = Annotated[str, Query(description="The dataset's path in the workspace.", max_length=1000)]

State = tuple[tuple[int, int] | None, ...]


@dataclass
class OpenDataset:
    """A dataset as it was when its files had this state; reading rows is for one thread at a time."""

    path: str
    dataset: Dataset
    state: State
    lock: Lock = field(default_factory=Lock)
    _listed: EpisodeList | None = None

    def episodes(self) -> EpisodeList:
        """Its list of episodes."""
        with self.lock:
            if self._listed is None:
                self._listed = list_episodes(self.dataset)
            return self._listed

    def episode(self, number: int) -> Episode:
        """One episode; its frames are decoded on access, by any thread."""
        with self.lock:
            return self.dataset.episode(number)


_open: OrderedDict[Path, OpenDataset] = OrderedDict()
_lock = Lock()


def open_shared(workspace: Workspace, path: str) -> OpenDataset:
    """A dataset of the workspace by its path there, opened again only when it changed.

    Raises:
        WrongUse: The path leads out of the workspace.
        NoDataset: There is none.
    """
    root = confine(workspace, path)
    state = _state(root)
    if state[0] is None:
        raise NoDataset(f"there is no dataset {path[:200]} in this workspace", remedy="twinloop data ls")
    with _lock:
        found = _open.get(root)
        if found is not None and found.state == state:
            _open.move_to_end(root)
            return found
    opened = OpenDataset(path, open_dataset(root), state)
    with _lock:
        _open[root] = opened
        _open.move_to_end(root)
        while len(_open) > MOST_OPEN:
            _open.popitem(last=False)
    return opened


def find_datasets(workspace: Workspace) -> list[str]:
    """Every dataset of the workspace as a path in it, `data/` first, hidden folders left out."""
    root = workspace.root.resolve()
    found = []
    folders = [root]
    while folders:
        folder = folders.pop()
        if (folder / layout.INFO).is_file():
            found.append(folder.relative_to(root).as_posix())
            continue
        below = (one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
        folders += [one for one in below if not one.name.startswith(".")]
    return sorted(found, key=lambda path: (not path.startswith("data/"), path))


def _state(root: Path) -> State:
    states: list[tuple[int, int] | None] = []
    for name in _WATCHED:
        try:
            facts = (root / name).stat()
            states.append((facts.st_mtime_ns, facts.st_size))
        except OSError:
            states.append(None)
    return tuple(states)
