"""Where a workspace stands: its datasets, its loop, its champion, and the next step worth taking."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.loop import LoopStatus, read_loop_status
from twinloop.promotion.record import read_aliases
from twinloop.workspace import DatasetSummary, Workspace, read_status

LOOP = "loop"
"""Folder of the loop's stages in a workspace."""


@dataclass(frozen=True)
class Overview:
    """Where a workspace stands.

    Attributes:
        workspace: Its name.
        datasets: Everything in `data/`.
        next_step: The command worth running next.
        reason: Why.
        loop: The loop's stages; None where no loop was started.
        registry: Which policy holds each alias; `warning` or `problem` says what is wrong with the record.
    """

    workspace: str
    datasets: tuple[DatasetSummary, ...]
    next_step: str
    reason: str
    loop: LoopStatus | None
    registry: dict[str, str]


def read_overview(workspace: Workspace) -> Overview:
    """Read where a workspace stands.

    Args:
        workspace: The workspace.

    Returns:
        Its datasets, loop and registry; the next step is the loop's where one was started.
    """
    status = read_status(workspace)
    folder = workspace.root / LOOP
    loop = read_loop_status(folder) if folder.exists() else None
    step, reason = (loop.next_step, loop.reason) if loop else (status.next_step, status.reason)
    return Overview(status.workspace, status.datasets, step, reason, loop, read_aliases(workspace.root))
