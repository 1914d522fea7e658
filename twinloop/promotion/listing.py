"""Every verdict that the gates of a workspace have reached, and the registry's record in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.errors import TwinloopError
from twinloop.promotion.chain import FOLDER, Entry, head_of
from twinloop.promotion.keys import trusted_keys
from twinloop.promotion.record import RegistryRecord
from twinloop.promotion.state import replay_state
from twinloop.promotion.verdict import Verdict, load_verdict
from twinloop.records import Record, find_records


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
    for path in find_records(root, Verdict.FILE):
        if path.relative_to(root).parts[0] == FOLDER:
            continue
        folder = str(path.parent.relative_to(root))
        try:
            found.append(FoundVerdict(folder, load_verdict(path)))
        except TwinloopError as error:
            found.append(FoundVerdict(folder, None, error.what))
    return tuple(sorted(found, key=lambda one: one.verdict.decided_at if one.verdict else ""))


@dataclass(frozen=True)
class RegisteredVersion(Record):
    """A version of the registry: the policy, when it came in on what verdict, and the aliases it holds now."""

    version: str
    policy: str
    policy_id: str
    decision: str
    registered_at: str
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class RecordedAction(Record):
    """An entry of the record: who did what, when, and the name of the trusted key that signed it, if one did."""

    number: int
    at: str
    by: str
    action: str
    sentence: str
    signed_by: str | None
    hash: str


@dataclass(frozen=True)
class RegistrySummary(Record):
    """What a registry says: versions, who holds which alias, and every action, oldest first.

    `champions` are the versions that a rollback goes through, the current one last; `fraction` is the canary's of the episodes.
    """

    versions: tuple[RegisteredVersion, ...]
    aliases: Mapping[str, str | None]
    champions: tuple[str, ...]
    fraction: float | None
    actions: tuple[RecordedAction, ...]
    head: str


def summarize_registry(workspace: str | Path) -> RegistrySummary:
    """Read a registry's record; neither MLflow nor any policy is opened.

    Args:
        workspace: The folder of the registry.

    Returns:
        What the record says; a registry without any action is empty.

    Raises:
        TamperedRecord: The record was changed since it was written.
    """
    entries = RegistryRecord(workspace).read()
    state, keys = replay_state(entries), trusted_keys()
    holders: dict[str, list[str]] = {}
    for alias, holder in state.aliases.items():
        holders.setdefault(holder or "", []).append(alias)
    versions = tuple(
        RegisteredVersion(
            str(entry.details["version"]),
            entry.details["policy"],
            entry.details["policy_id"],
            entry.details["decision"],
            entry.at,
            tuple(holders.get(str(entry.details["version"]), ())),
        )
        for entry in entries
        if entry.action == "register"
    )
    actions = tuple(
        RecordedAction(
            entry.number,
            entry.at,
            entry.by,
            entry.action,
            describe_entry(entry),
            keys[entry.key].name if entry.key in keys else None,
            entry.hash,
        )
        for entry in entries
    )
    return RegistrySummary(
        versions, state.aliases, state.champions, state.fraction, actions, str(head_of(entries))
    )


def describe_entry(entry: Entry) -> str:
    """What an entry of the registry's record says, in one sentence."""
    details: Any = entry.details
    if entry.action == "register":
        return f"registered {details['policy']} ({details['policy_id']}) as version {details['version']}"
    if entry.action == "promote":
        override = details.get("override")
        basis = f"override: {override}" if override else f"verdict {details['verdict'][:12]}"
        stage = f"{details['stage']} {details['fraction']:.0%}" if details["fraction"] else details["stage"]
        return f"promoted version {details['version']} to {stage}, {basis}"
    if entry.action == "rollback":
        return f"rolled back from version {details['from']} to {details['version']}: {details['reason']}"
    if entry.action == "accept":
        lost = (
            f", although {details['lost'].partition(':')[0]} entries had been seen" if details["lost"] else ""
        )
        return f"accepted the record as it was{lost}: {details['reason']}"
    return f"{entry.action} version {details['version']} from {details['stage']}: {details['reason']}"
