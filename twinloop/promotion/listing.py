"""Every verdict that the gates of a workspace have reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinloop.errors import TwinloopError
from twinloop.promotion.chain import FOLDER
from twinloop.promotion.verdict import Verdict, load_verdict
from twinloop.records import Record


@dataclass(frozen=True)
class FoundVerdict(Record):
    """A verdict and the folder of its gate, seen from the workspace; `problem` says why it cannot be read."""

    folder: str
    verdict: Verdict | None
    problem: str | None = None


def find_verdicts(workspace: str | Path) -> tuple[FoundVerdict, ...]:
    """Find the verdicts below a folder, without the registry's copies of those that were promoted on.

    Args:
        workspace: The workspace, or any folder.

    Returns:
        Verdicts with their folders, the newest last; those that cannot be read first.
    """
    root = Path(workspace)
    found = []
    for path in sorted(root.rglob(Verdict.FILE)):
        parts = path.relative_to(root).parts
        if not path.is_file() or parts[0] == FOLDER or any(part.startswith(".") for part in parts):
            continue
        folder = str(path.parent.relative_to(root))
        try:
            found.append(FoundVerdict(folder, load_verdict(path)))
        except TwinloopError as error:
            found.append(FoundVerdict(folder, None, error.what))
    return tuple(sorted(found, key=lambda one: one.verdict.decided_at if one.verdict else ""))
