"""What every room needs: the workspace, paths that stay in it, values kept while their file is unchanged, and pages of lists."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BaseModel

from twinloop.errors import WrongUse
from twinloop.studio.settings import StudioSettings
from twinloop.workspace import Workspace, find_workspace

Item = TypeVar("Item")
Value = TypeVar("Value")

MOST_ITEMS = 500
"""Items of a page."""


class Page(BaseModel, Generic[Item]):
    """A part of a list: `total` items there are, `items` are those from `offset` on, at most `limit`."""

    items: list[Item]
    total: int
    offset: int
    limit: int


def page_of(items: Sequence[Item], offset: int, limit: int) -> Page[Item]:
    """The page of a list that is in memory."""
    return Page(items=list(items[offset : offset + limit]), total=len(items), offset=offset, limit=limit)


Offset = Annotated[int, Query(ge=0, description="Items to skip.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items to return.")]


def get_settings(request: Request) -> StudioSettings:
    """The settings of this studio."""
    settings: StudioSettings = request.app.state.settings
    return settings


def get_workspace(request: Request) -> Workspace:
    """The workspace as it is now: commands may have changed its twin."""
    return find_workspace(get_settings(request).workspace)


CurrentWorkspace = Annotated[Workspace, Depends(get_workspace)]
CurrentSettings = Annotated[StudioSettings, Depends(get_settings)]


def confine(workspace: Workspace, relative: str) -> Path:
    """A path that somebody sent, as a path in the workspace.

    Args:
        workspace: The workspace.
        relative: The path, seen from the workspace.

    Returns:
        The path, links resolved; it need not exist.

    Raises:
        WrongUse: If it is absolute, leads out of the workspace, or is no path at all.
    """
    root = workspace.root.resolve()
    parts = Path(relative).parts if "\0" not in relative else ("..",)
    wrong = not relative or Path(relative).is_absolute() or "\\" in relative or ".." in parts
    try:
        found = (root / relative).resolve() if not wrong else root.parent
    except (OSError, RuntimeError):
        found = root.parent
    if wrong or not found.is_relative_to(root):
        raise WrongUse("the path leads out of the workspace", got=relative[:200], expected="a path in it")
    return found


class Kept(Generic[Value]):
    """Values read from files, each kept until its file changes; the least recently used go first."""

    def __init__(self, read: Callable[[Path], Value], most: int = 32) -> None:
        self._read, self._most = read, most
        self._values: OrderedDict[Path, tuple[tuple[int, int, int], Value]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, path: Path) -> Value:
        """The value of a file, or of a folder by the state of the folder itself."""
        facts = path.stat()
        state = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        with self._lock:
            if (found := self._values.get(path)) is not None and found[0] == state:
                self._values.move_to_end(path)
                return found[1]
        value = self._read(path)
        with self._lock:
            self._values[path] = (state, value)
            self._values.move_to_end(path)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


def cached(read: Callable[[Path], Value]) -> Kept[Value]:
    """Decorate a function of one path: its value is kept until the file changes."""
    return Kept(read)


def etag_of(*parts: Any) -> str:
    """An ETag for content that these values determine."""
    from twinloop.records import hash_of

    return f'"{hash_of([str(part) for part in parts])}"'
