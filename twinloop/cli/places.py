"""The workspace and twin that a command applies to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinloop.errors import WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.twins import Twin
    from twinloop.workspace import Workspace


def workspace_here() -> Workspace | None:
    """Return the workspace of the current folder, if any."""
    from twinloop.workspace import find_workspace

    try:
        return find_workspace()
    except WorkspaceError:
        return None


def twin_of(named: str | None, workspace: Workspace | None) -> Twin:
    """Return the named twin, or else the workspace's current one."""
    from twinloop.twins import load_twin

    if named is not None:
        return load_twin(named)
    if workspace is None or workspace.twin is None:
        raise WrongUse(
            "which twin?", remedy="--twin NAME|FOLDER, or run the command in a workspace with a twin"
        )
    return load_twin(workspace.root / workspace.twin)
