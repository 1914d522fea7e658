"""Versions of a workspace's twin: which was current when, which candidates wait, and who accepted or rejected them and why.

`identify` writes candidates, each a folder of its own that is never changed. Decisions are lines in two files that only grow: uses of
a twin, the last of which is the current one, and rejections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

import yaml

from twinloop.datasets.commit import hold_lock, write_atomically
from twinloop.datasets.jsonl import append_jsonl, format_jsonl, read_jsonl
from twinloop.errors import GateError, TwinloopError, WorkspaceError, WrongUse
from twinloop.identification.accept import ReplayGate
from twinloop.identification.result import Identification, load_identification
from twinloop.twins import Twin, load_twin
from twinloop.workspace import MARKER, Workspace, find_workspace
from twinloop.yaml_files import read_yaml

HISTORY = "twins/history.jsonl"
REJECTIONS = "twins/rejected.jsonl"
LOCK = "twins/lock"
REJECTED = "-rejected"
"""How the folder of a candidate ends that held-out replay turned down."""

State = Literal["current", "earlier", "candidate", "rejected", "unused"]


@dataclass(frozen=True)
class TwinUse:
    """One line of a workspace's history: from then on, this twin was the current one."""

    at: str
    twin: str
    version: str
    content_hash: str
    reason: str
    by: str = ""


@dataclass(frozen=True)
class TwinRejection:
    """A person's decision against a candidate."""

    at: str
    twin: str
    version: str
    content_hash: str
    reason: str
    by: str


@dataclass(frozen=True)
class TwinVersion:
    """One twin in a workspace.

    Attributes:
        twin: Its folder, seen from the workspace.
        name: Its name, which versions of one cell share.
        version: Its version.
        content_hash: What tells two versions apart.
        parent: Content hash of the twin that it was made from.
        state: "current"; "earlier" was current before; "candidate" waits for a decision; "rejected"; "unused" has no identification.
        identified: Whether an identification made it.
        reason: Why it is in that state: the last decision, or what held-out replay said.
        by: Who decided; empty where a command did.
        at: When it came into that state; empty for candidates.
    """

    twin: str
    name: str
    version: str
    content_hash: str
    parent: str | None
    state: State
    identified: bool
    reason: str
    by: str = ""
    at: str = ""


def twin_history(workspace: Workspace) -> list[TwinUse]:
    """Which twins were current, oldest first; the last one is."""
    file = workspace.root / HISTORY
    if workspace.twin and not file.exists():
        return [_use(workspace, workspace.twin, "made with the workspace", workspace.created_at, "")]
    return read_jsonl(file, TwinUse, "a use of a twin")


def twin_rejections(workspace: Workspace) -> list[TwinRejection]:
    """Decisions against candidates, oldest first."""
    return read_jsonl(workspace.root / REJECTIONS, TwinRejection, "a rejection of a twin")


def list_twin_versions(workspace: Workspace) -> list[TwinVersion]:
    """List every twin of a workspace, the current one first, then candidates, then the newest decisions.

    Args:
        workspace: The workspace.

    Returns:
        Twins in `twins/`, and those that a loop identified; a folder that holds no readable twin is left out.
    """
    uses, rejections = twin_history(workspace), twin_rejections(workspace)
    found = [one for folder in _folders(workspace) if (one := _describe(workspace, folder, uses, rejections))]
    order = ("current", "candidate", "earlier", "rejected", "unused")
    newest = sorted(found, key=lambda one: (one.at, one.twin), reverse=True)
    return sorted(newest, key=lambda one: order.index(one.state))


def use_twin(workspace: Workspace, place: str, reason: str, by: str = "") -> Workspace:
    """Make the twin in the folder `place`, seen from the workspace, the current one; recorded, never rewritten."""
    with _deciding(workspace):
        return _make_current(workspace, place, reason, by)


def accept_twin(workspace: Workspace, place: str, reason: str, by: str, *, override: bool = False) -> TwinUse:
    """Make an identified candidate the current twin.

    Args:
        workspace: The workspace.
        place: The candidate's folder, seen from the workspace.
        reason: Why; stored in the history.
        by: Who decides.
        override: Accept one that held-out replay rejected.

    Returns:
        The line of the history.

    Raises:
        GateError: Held-out replay rejected the candidate.
        WrongUse: It is no identified twin, or name or reason is missing.
        WorkspaceError: It is the current twin, or another process decides now.
    """
    _require_signed(reason, by)
    identified = _load_candidate(workspace, place)
    if not identified.gate.accepted and not override:
        raise GateError(
            f"held-out replay rejected {place}",
            got=identified.gate.reason,
            expected="a candidate that replays new episodes better than the twin before",
            remedy="identify again with other parameters or more data, or take it all the same: --override",
        )
    with _deciding(workspace):
        uses = twin_history(workspace)
        if uses and uses[-1].content_hash == identified.twin_hash:
            raise WorkspaceError(f"{place} is the current twin already")
        _make_current(workspace, place, reason, by)
    return twin_history(find_workspace(workspace.root))[-1]


def reject_twin(workspace: Workspace, place: str, reason: str, by: str) -> TwinRejection:
    """Decide against an identified candidate; if it is the current twin, the one before becomes current again.

    Args:
        workspace: The workspace.
        place: The candidate's folder, seen from the workspace.
        reason: Why; stored.
        by: Who decides.

    Returns:
        The decision as it is stored.

    Raises:
        WrongUse: It is no identified twin, or name or reason is missing.
        WorkspaceError: It is the current twin and there is none before it, or another process decides now.
    """
    _require_signed(reason, by)
    candidate = _load_candidate(workspace, place).twin
    with _deciding(workspace):
        uses = twin_history(workspace)
        if uses and uses[-1].content_hash == candidate.content_hash:
            _make_current(workspace, _earlier(uses).twin, f"rejected {place}: {reason}", by)
        made = TwinRejection(_now(), place, candidate.version, candidate.content_hash, reason, by)
        append_jsonl(workspace.root / REJECTIONS, [made])
    return made


def roll_back_twin(workspace: Workspace, reason: str, by: str = "") -> TwinUse:
    """Go back to the twin that was current before this one; the step back is itself recorded."""
    with _deciding(workspace):
        uses = twin_history(workspace)
        if not uses:
            raise WorkspaceError("this workspace has no twin", remedy="twinloop init DIR --twin NAME")
        _make_current(workspace, _earlier(uses).twin, f"rolled back from {uses[-1].twin}: {reason}", by)
    return twin_history(find_workspace(workspace.root))[-1]


def _make_current(workspace: Workspace, place: str, reason: str, by: str) -> Workspace:
    uses = [*twin_history(workspace), _use(workspace, place, reason, _now(), by)]
    write_atomically(workspace.root / HISTORY, format_jsonl([asdict(use) for use in uses]))
    content = read_yaml(workspace.root / MARKER) | {"twin": place}
    write_atomically(workspace.root / MARKER, yaml.safe_dump(content, sort_keys=False).encode())
    return replace(workspace, twin=place)


def _earlier(uses: list[TwinUse]) -> TwinUse:
    current = uses[-1]
    earlier = [use for use in uses[:-1] if use.content_hash != current.content_hash]
    if not earlier:
        raise WorkspaceError(
            f"there is nothing to go back to: {current.twin} is the first twin of this workspace"
        )
    return earlier[-1]


def _folders(workspace: Workspace) -> Iterator[Path]:
    """Folders that may hold a twin: the workspace's own, and what the stages of a loop identified."""
    for pattern in ("twins/*/twin.yaml", "*/identify-*/twin/twin.yaml"):
        yield from sorted(path.parent for path in workspace.root.glob(pattern))


def _describe(
    workspace: Workspace, folder: Path, uses: list[TwinUse], rejections: list[TwinRejection]
) -> TwinVersion | None:
    try:
        twin, gate = _read_twin(folder), _read_gate(folder)
    except TwinloopError:
        return None
    place = str(folder.relative_to(workspace.root))
    here = (place, twin.content_hash)
    own = [use for use in uses if (use.twin, use.content_hash) == here]
    against = [one for one in rejections if (one.twin, one.content_hash) == here]
    state: State = "candidate" if gate else "unused"
    reason, by, at = gate.reason if gate else "", "", ""
    if own and own[-1] is uses[-1]:
        state = "current"
    elif against and (not own or against[-1].at >= own[-1].at):
        state = "rejected"
    elif own:
        state = "earlier"
    elif gate and not gate.accepted:
        state = "rejected"
    last = own[-1] if state in ("current", "earlier") else against[-1] if against else None
    if last is not None:
        reason, by, at = last.reason, last.by, last.at
    return TwinVersion(
        place, twin.name, twin.version, twin.content_hash, twin.parent, state, gate is not None, reason, by, at
    )  # fmt: skip


def _read_twin(folder: Path) -> Twin:
    """The twin in a folder as it is now; compiled again only when its files changed."""
    return _load(folder, _changed(folder, "twin.yaml", "model.xml"))


def _read_gate(folder: Path) -> ReplayGate | None:
    """What held-out replay said of the twin in a folder; None if it was not identified."""
    return (
        _judge(folder, _changed(folder, Identification.FILE))
        if (folder / Identification.FILE).is_file()
        else None
    )


def _changed(folder: Path, *names: str) -> tuple[int, ...]:
    files = [folder / name for name in names]
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)


@lru_cache(maxsize=64)
def _load(folder: Path, _: tuple[int, ...]) -> Twin:
    return load_twin(folder)


@lru_cache(maxsize=64)
def _judge(folder: Path, _: tuple[int, ...]) -> ReplayGate:
    return load_identification(folder).gate


def _load_candidate(workspace: Workspace, place: str) -> Identification:
    folder = workspace.root / place
    if not folder.resolve().is_relative_to(workspace.root.resolve()):
        raise WrongUse("the candidate lies outside the workspace", got=place, expected="a folder in it")
    return load_identification(folder)


def _require_signed(reason: str, by: str) -> None:
    if not (by.strip() and reason.strip()):
        raise WrongUse("a decision needs a name and a reason", remedy="--by NAME --reason TEXT")


def _deciding(workspace: Workspace) -> AbstractContextManager[None]:
    return hold_lock(
        workspace.root,
        LOCK,
        lambda holder: WorkspaceError(
            f"the twin of {workspace.root} is being changed by {holder}", remedy="wait for it, and try again"
        ),
    )


def _use(workspace: Workspace, place: str, reason: str, at: str, by: str) -> TwinUse:
    twin = _read_twin(workspace.root / place)
    return TwinUse(at, place, twin.version, twin.content_hash, reason, by)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
