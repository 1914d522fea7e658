"""Withdraw a consent: remove the person's episodes and what shows them from the workspace, and record a tombstone.

The order of steps makes it safe to kill the process at any moment and run it again:

1. the consent is marked as withdrawn, so nothing new uses it;
2. fingerprints of the episodes and the plan are saved (`consents/withdrawing-ID.npz` and `.json`);
3. hard links to the removed files are deleted;
4. the artefacts that show them are deleted, and taken off the ledger (`datasets/artefacts.py`);
5. each dataset is replaced by a copy without the episodes (`removal.py`);
6. the workspace is searched for copies (`search.py`);
7. the tombstone is written and the pseudonym deleted from the record; the files of step 2 are deleted, unless copies
   were found: then they stay until the withdrawal is run again and finds none.

Episodes derived from the removed ones (by `parents`, at any depth) are removed too. Artefacts outside the workspace
are listed and left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.consent.fingerprints import NOTHING, Fingerprints, load_fingerprints, make_fingerprints
from twinloop.consent.policies import TrainedPolicy, find_policies_trained_on
from twinloop.consent.records import consents_lock, delete_pseudonym, load_consent, mark_withdrawn
from twinloop.consent.removal import (
    Removal,
    find_files,
    find_numbers,
    recover_interrupted_removal,
    remove_episodes,
)
from twinloop.consent.search import Found, search_copies, walk_files
from twinloop.consent.traces import find_hard_links, find_mentions
from twinloop.datasets import layout
from twinloop.datasets.artefacts import FOLDER, Artefact, change_artefacts, load_artefacts
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

    `links` are deleted hard links and `artefacts` deleted files; for a person to look after are `outside`, artefacts
    outside the workspace, `found`, copies in it, and `mentions`, files that still mention an episode.
    """

    consent: str
    at: str
    by: str
    reason: str
    removals: tuple[Removal, ...]
    links: tuple[str, ...]
    mentions: tuple[str, ...]
    policies: tuple[TrainedPolicy, ...]
    artefacts: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the search found no copy in the workspace."""
        return not any(one.certain for one in self.found)

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """Every removed episode, once."""
        return tuple(dict.fromkeys(e for removal in self.removals for e in removal.episode_ids))


@dataclass(frozen=True)
class WithdrawalPlan(SavedRecord):
    """What a withdrawal removes: episodes, hard links to their files, and artefacts that show them.

    `outside` are artefacts that it cannot or may not remove, `policies` were trained on the episodes and stay; `digests` are those of
    the artefacts, to find copies.
    """

    COMMAND = "twinloop data consent withdraw"

    removals: tuple[Removal, ...] = ()
    links: tuple[str, ...] = ()
    artefacts: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    policies: tuple[TrainedPolicy, ...] = ()

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """Every episode that is removed, once."""
        return tuple(dict.fromkeys(e for removal in self.removals for e in removal.episode_ids))


OnPlan = Callable[[WithdrawalPlan], None]


def plan_withdrawal(workspace: Path, consent_id: str) -> WithdrawalPlan:
    """What `withdraw_consent` would remove; nothing is changed.

    Args:
        workspace: The workspace.
        consent_id: The consent.

    Returns:
        Episodes by dataset, links and artefacts that would be removed, and what would be left to a person.

    Raises:
        UnknownName: There is no such consent.
        ConsentError: Another process changes the consents of the workspace.
    """
    with consents_lock(workspace):
        consent = load_consent(workspace, consent_id)
        plan = _make_plan(workspace, consent_id, find_datasets(workspace), consent.pseudonym)
    used = [(removal.dataset_id, set(removal.episode_ids)) for removal in plan.removals]
    return replace(plan, policies=tuple(find_policies_trained_on(workspace, used)))


def withdraw_consent(
    workspace: Path,
    consent_id: str,
    *,
    by: str,
    reason: str,
    on_plan: OnPlan | None = None,
    on_progress: OnProgress | None = None,
) -> Tombstone:
    """Remove the episodes covered by a consent, and what shows them, from the workspace.

    Args:
        workspace: The workspace.
        consent_id: The consent.
        by: Who carries it out.
        reason: Why.
        on_plan: Called with what will be removed, before anything is.
        on_progress: Called with (datasets done, datasets in all).

    Returns:
        What was removed, and what a person has to look after. It is not complete while copies are found.

    Raises:
        WrongUse: `by` or `reason` is empty, or the consent does not exist.
        LockedDataset: A dataset of the workspace is being written; nothing is changed.
        ConsentError: Another process changes the consents of the workspace; nothing is changed.
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
        prints = _save_plan(workspace, consent_id, plan)
        if on_plan:
            on_plan(_what_is_left(workspace, plan))
        _remove(workspace, plan, roots, on_progress)
        found = _search(workspace, plan, prints)
        tombstone = _make_tombstone(workspace, consent_id, plan, found, (by.strip(), reason.strip()))
        earlier = load_tombstones(workspace, consent_id)
        if plan.removals or plan.artefacts or not earlier:
            with disk_errors(workspace):
                append_jsonl(workspace / TOMBSTONES, [asdict(tombstone)])
        delete_pseudonym(workspace, consent_id)
        if tombstone.is_complete:
            _plan_path(workspace, consent_id).unlink(missing_ok=True)
            _prints_path(workspace, consent_id).unlink(missing_ok=True)
    return tombstone


def load_tombstones(workspace: Path, consent_id: str | None = None) -> list[dict[str, Any]]:
    """Load all withdrawals, or those of one consent, oldest first, as JSON values."""
    lines: list[dict[str, Any]] = read_jsonl(workspace / TOMBSTONES, dict, "a tombstone")
    return [line for line in lines if consent_id in (None, line.get("consent"))]


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


def _make_plan(workspace: Path, consent_id: str, roots: Sequence[Path], pseudonym: str) -> WithdrawalPlan:
    """Plan the removals, joined with those of a withdrawal that was interrupted or found copies."""
    path = _plan_path(workspace, consent_id)
    earlier = load_record(WithdrawalPlan, path) if path.exists() else WithdrawalPlan()
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
    plan = replace(earlier, removals=tuple(removals.values()), links=tuple(sorted(links)))
    removed = {e for removal in plan.removals for e in removal.episode_ids}
    removed |= {
        e
        for line in load_tombstones(workspace, consent_id)
        for r in line["removals"]
        for e in r["episode_ids"]
    }
    return _add_artefacts(workspace, plan, removed)


def _add_artefacts(workspace: Path, plan: WithdrawalPlan, removed: set[str]) -> WithdrawalPlan:
    """Add what shows the removed episodes, by the ledger; datasets in the workspace lose their episodes instead."""
    inside, outside, digests = {*plan.artefacts}, set(), {*plan.digests}
    for artefact in load_artefacts(workspace):
        place = artefact.place(workspace)
        if not removed.intersection(artefact.episodes):
            continue
        if not artefact.is_inside(workspace):
            # Where its folder cannot be reached either, such as on a drive that is not mounted, it may still exist.
            outside |= {str(place)} if place.exists() or not place.parent.exists() else set()
        elif place.is_file():
            inside.add(artefact.path)
            with place.open("rb") as file:
                digests.add(hashlib.file_digest(file, "sha256").hexdigest())
    return replace(
        plan, artefacts=tuple(sorted(inside)), outside=tuple(sorted(outside)), digests=tuple(sorted(digests))
    )


def _save_plan(workspace: Path, consent_id: str, plan: WithdrawalPlan) -> Fingerprints:
    """Save the plan, after the fingerprints of what it removes, with which copies are found; returns those."""
    place = _prints_path(workspace, consent_id)
    prints = load_fingerprints(place)
    for removal in plan.removals:
        root = Path(removal.dataset)
        if (root / layout.MANIFEST).exists() and (
            numbers := find_numbers(open_dataset(root), removal.episode_ids)
        ):
            prints = prints.join(make_fingerprints(open_dataset(root), sorted(numbers)))
    if plan.removals or plan.artefacts:
        with disk_errors(workspace):
            prints.save(place)
            save_record(plan, _plan_path(workspace, consent_id))
    return prints


def _what_is_left(workspace: Path, plan: WithdrawalPlan) -> WithdrawalPlan:
    """The plan without what an earlier run of it has removed."""
    removals = []
    for removal in plan.removals:
        root = Path(removal.dataset)
        if (root / layout.MANIFEST).exists() and find_numbers(open_dataset(root), removal.episode_ids):
            removals.append(removal)
    links = tuple(link for link in plan.links if Path(link).exists())
    artefacts = tuple(name for name in plan.artefacts if (workspace / name).exists())
    return replace(plan, removals=tuple(removals), links=links, artefacts=artefacts)


def _remove(
    workspace: Path, plan: WithdrawalPlan, roots: Sequence[Path], on_progress: OnProgress | None
) -> None:
    with disk_errors(workspace):
        for link in plan.links:
            Path(link).unlink(missing_ok=True)
        for name in plan.artefacts:
            (workspace / name).unlink(missing_ok=True)
    gone, removed = set(plan.artefacts), {e for removal in plan.removals for e in removal.episode_ids}

    def change(artefact: Artefact) -> Artefact | None:
        """What stays on the ledger: files outside, datasets without the episodes, and what is just being written."""
        if artefact.kind != "dataset" or not artefact.is_inside(workspace):
            return None if artefact.path in gone else artefact
        kept = tuple(episode for episode in artefact.episodes if episode not in removed)
        return replace(artefact, episodes=kept) if kept else None

    change_artefacts(workspace, change)
    for done, removal in enumerate(plan.removals, start=1):
        if Path(removal.dataset) in roots:
            remove_episodes(Path(removal.dataset), removal.episode_ids)
        if on_progress:
            on_progress(done, len(plan.removals))


def _search(workspace: Path, plan: WithdrawalPlan, prints: Fingerprints) -> list[Found]:
    """Search every file but the consents and the files of our datasets, which name the episodes they hold."""
    own = [root for root in find_datasets(workspace) if (root / layout.MANIFEST).exists()]
    excluded = {root / part for root in own for part in ("data", "videos", "meta", ".cache")}

    def kept() -> Fingerprints:
        found = NOTHING
        for removal in plan.removals:
            if (Path(removal.dataset) / layout.MANIFEST).exists():
                dataset = open_dataset(removal.dataset)
                found = found.join(make_fingerprints(dataset, dataset.numbers))
        return found

    files = walk_files(workspace, excluded | {workspace / FOLDER})
    return search_copies(files, prints, plan.digests, kept) if plan.removals or plan.digests else []


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


def _make_tombstone(
    workspace: Path, consent_id: str, plan: WithdrawalPlan, found: Sequence[Found], signed: tuple[str, str]
) -> Tombstone:
    removals = []
    for removal in plan.removals:
        after = load_manifest(Path(removal.dataset))
        removals.append(replace(removal, version_after=after.fingerprint if after else "gone"))
    ids = list(dict.fromkeys(e for removal in removals for e in removal.episode_ids))
    policies = find_policies_trained_on(workspace, [(r.dataset_id, set(r.episode_ids)) for r in removals])
    known = [workspace / FOLDER, *find_datasets(workspace), *(Path(policy.path) for policy in policies)]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    mentions = tuple(map(str, find_mentions(workspace, ids, known)))
    return Tombstone(
        consent_id, at, *signed, tuple(removals), plan.links, mentions, tuple(policies), plan.artefacts,
        plan.outside, tuple(found),
    )  # fmt: skip


def _plan_path(workspace: Path, consent_id: str) -> Path:
    return workspace / FOLDER / f"withdrawing-{consent_id}.json"


def _prints_path(workspace: Path, consent_id: str) -> Path:
    return _plan_path(workspace, consent_id).with_suffix(".npz")
