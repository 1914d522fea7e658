"""Withdraw a consent: remove the person's episodes from every dataset of the workspace and record a tombstone.

The order of steps makes it safe to kill the process at any moment and run it again:

1. the consent is marked as withdrawn, so nothing new uses it;
2. the planned removals are saved (`consents/withdrawing-ID.json`);
3. hard links to the removed files are deleted;
4. each dataset is replaced by a copy without the episodes (`removal.py`);
5. the tombstone is written, the pseudonym deleted from the record, the plan of step 2 deleted.

Episodes derived from the removed ones (by `parents`, at any depth) are removed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.consent.policies import TrainedPolicy, find_policies_trained_on
from twinloop.consent.records import FOLDER, consents_lock, delete_pseudonym, load_consent, mark_withdrawn
from twinloop.consent.removal import Removal, find_files, recover_interrupted_removal, remove_episodes
from twinloop.consent.traces import find_hard_links, find_mentions
from twinloop.datasets import layout
from twinloop.datasets.commit import LOCK, disk_errors, finish_journal, writer_lock
from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.reader import open_dataset
from twinloop.errors import WrongUse
from twinloop.records import SavedRecord, load_record, save_record

TOMBSTONES = f"{FOLDER}/tombstones.jsonl"

OnProgress = Callable[[int, int], None]
"""Called with (datasets done, datasets in all)."""


@dataclass(frozen=True)
class Tombstone:
    """The record of a withdrawal: which episodes were removed, when, why and by whom; nothing about the person.

    `links` are deleted hard links; `mentions` are files that still mention an episode, for a person to check.
    """

    consent: str
    at: str
    by: str
    reason: str
    removals: tuple[Removal, ...]
    links: tuple[str, ...]
    mentions: tuple[str, ...]
    policies: tuple[TrainedPolicy, ...]

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """Every removed episode, once."""
        return tuple(dict.fromkeys(e for removal in self.removals for e in removal.episode_ids))


@dataclass(frozen=True)
class _Plan(SavedRecord):
    """The removals planned when a withdrawal started."""

    COMMAND = "twinloop data consent withdraw"

    removals: tuple[Removal, ...] = ()
    links: tuple[str, ...] = ()


def withdraw_consent(
    workspace: Path, consent_id: str, *, by: str, reason: str, on_progress: OnProgress | None = None
) -> Tombstone:
    """Remove the episodes covered by a consent from the workspace.

    Raises:
        WrongUse: `by` or `reason` is empty, or the consent does not exist.
        LockedDataset: A dataset of the workspace is being written; nothing is changed.
    """
    if not by.strip() or not reason.strip():
        raise WrongUse("a withdrawal needs a name and a reason", remedy="--by NAME --reason TEXT")
    with consents_lock(workspace), ExitStack() as locks:
        consent = load_consent(workspace, consent_id)
        recover_interrupted_removal(workspace)
        roots = find_datasets(workspace)
        _lock(roots, locks)
        mark_withdrawn(workspace, consent_id, datetime.now(UTC).date())
        plan = _make_plan(workspace, consent_id, roots, consent.pseudonym)
        for link in plan.links:
            Path(link).unlink(missing_ok=True)
        for done, removal in enumerate(plan.removals, start=1):
            if Path(removal.dataset) in roots:
                remove_episodes(Path(removal.dataset), removal.episode_ids)
            if on_progress:
                on_progress(done, len(plan.removals))
        tombstone = _make_tombstone(workspace, consent_id, plan, by.strip(), reason.strip())
        if tombstone.removals or not load_tombstones(workspace, consent_id):
            with disk_errors(workspace):
                append_jsonl(workspace / TOMBSTONES, [asdict(tombstone)])
        delete_pseudonym(workspace, consent_id)
        _plan_path(workspace, consent_id).unlink(missing_ok=True)
    return tombstone


def load_tombstones(workspace: Path, consent_id: str | None = None) -> list[dict[str, Any]]:
    """Load all withdrawals, or those of one consent, oldest first, as JSON values."""
    lines: list[dict[str, Any]] = read_jsonl(workspace / TOMBSTONES, dict, "a tombstone")
    return [line for line in lines if consent_id in (None, line["consent"])]


def find_datasets(workspace: Path) -> list[Path]:
    """Find every dataset in the workspace, except in hidden folders."""
    roots = [path.parent.parent for path in workspace.rglob(layout.INFO)]
    return sorted(
        root for root in roots if not any(part.startswith(".") for part in root.relative_to(workspace).parts)
    )


def _lock(roots: Sequence[Path], locks: ExitStack) -> None:
    """Lock every dataset before anything is changed, so that a recording in progress stops the withdrawal."""
    seen = set()
    for root in roots:
        if not (root / layout.MANIFEST).exists():
            continue
        lock = root / LOCK
        inode = lock.stat().st_ino if lock.exists() else None
        # A copy made of hard links has the same lock file.
        if inode is None or inode not in seen:
            locks.enter_context(writer_lock(root))
        seen.add(lock.stat().st_ino)
        with disk_errors(root):
            finish_journal(root)


def _make_plan(workspace: Path, consent_id: str, roots: Sequence[Path], pseudonym: str) -> _Plan:
    """Plan the removals, joined with those of an interrupted withdrawal, and save the plan."""
    path = _plan_path(workspace, consent_id)
    earlier = load_record(_Plan, path) if path.exists() else _Plan()
    episodes = _find_episodes(roots, consent_id, pseudonym)
    removals = {removal.dataset: removal for removal in earlier.removals}
    files = []
    for root, ids in episodes.items():
        dataset = open_dataset(root)
        assert dataset.manifest is not None
        before = removals.get(str(root))
        version = before.version_before if before else dataset.manifest.fingerprint
        every = dict.fromkeys([*(before.episode_ids if before else ()), *ids])
        removals[str(root)] = Removal(str(root), dataset.id, version, tuple(every))
        files += find_files(dataset, ids)
    links = {*earlier.links, *map(str, find_hard_links(workspace, files, list(episodes)))}
    plan = _Plan(tuple(removals.values()), tuple(sorted(links)))
    if plan.removals:
        with disk_errors(workspace):
            save_record(plan, path)
    return plan


def _find_episodes(roots: Sequence[Path], consent_id: str, pseudonym: str) -> dict[Path, list[str]]:
    """Find the episodes to remove, by dataset: the person's own and all derived from them."""
    rows: list[tuple[Path, dict[str, Any]]] = []
    for root in roots:
        table = open_dataset(root).provenance_table()
        if table is not None:
            columns = table.select(["episode_id", "consent", "actor_id", "parents"])
            rows += [(root, row) for row in columns.to_pylist()]

    def is_own(row: dict[str, Any]) -> bool:
        unnamed = row["consent"] is None and bool(pseudonym) and row["actor_id"] == pseudonym
        return row["consent"] == consent_id or unnamed

    removed = {row["episode_id"] for _, row in rows if is_own(row)}
    while more := {row["episode_id"] for _, row in rows if removed & set(row["parents"] or ())} - removed:
        removed |= more
    by_dataset: dict[Path, list[str]] = {}
    for root, row in rows:
        if row["episode_id"] in removed:
            by_dataset.setdefault(root, []).append(row["episode_id"])
    return by_dataset


def _make_tombstone(workspace: Path, consent_id: str, plan: _Plan, by: str, reason: str) -> Tombstone:
    removals = []
    for removal in plan.removals:
        after = load_manifest(Path(removal.dataset))
        removals.append(replace(removal, version_after=after.fingerprint if after else "gone"))
    ids = list(dict.fromkeys(e for removal in removals for e in removal.episode_ids))
    policies = find_policies_trained_on(workspace, [(r.dataset_id, set(r.episode_ids)) for r in removals])
    known = [workspace / FOLDER, *find_datasets(workspace), *(Path(policy.path) for policy in policies)]
    return Tombstone(
        consent_id,
        datetime.now(UTC).isoformat(timespec="seconds"),
        by,
        reason,
        tuple(removals),
        plan.links,
        tuple(map(str, find_mentions(workspace, ids, known))),
        tuple(policies),
    )


def _plan_path(workspace: Path, consent_id: str) -> Path:
    return workspace / FOLDER / f"withdrawing-{consent_id}.json"
