"""Withdraw a consent: take the person's episodes out of every dataset of the workspace, leave a tombstone.

The order makes it safe to be killed at any moment and to be run again:

1. the consent is marked as withdrawn, so nothing new uses it;
2. what is going to be removed is written down (`consents/withdrawing-ID.json`);
3. other names of the same bytes (hard links) are deleted;
4. per dataset, a copy without the episodes takes its place (`removal.py`);
5. the tombstone is written, the pseudonym is taken out of the record, the note of step 2 is deleted.

What derives from the episodes (their id among its parents, at any depth) goes with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.consent.policies import TrainedPolicy, policies_trained_on
from twinloop.consent.records import FOLDER, changing, consent_of, forget_pseudonym, mark_withdrawn
from twinloop.consent.removal import Removal, files_holding, recover, remove_episodes
from twinloop.consent.traces import mentions, other_names
from twinloop.datasets import layout
from twinloop.datasets.commit import LOCK, disk_errors, finish_journal, write_atomically, writing
from twinloop.datasets.lines import append_lines, read_lines
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.reader import open_dataset
from twinloop.errors import WrongUse

TOMBSTONES = f"{FOLDER}/tombstones.jsonl"

Progress = Callable[[int, int], None]
"""Called with (datasets done, datasets in all)."""


@dataclass(frozen=True)
class Tombstone:
    """What is left of a withdrawn consent: which episodes went, when, why, by whose hand; nothing about the person.

    `links` were deleted; `mentions` are files that still name an episode, for somebody to look at.
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
        """Every episode that went, once."""
        return tuple(dict.fromkeys(e for removal in self.removals for e in removal.episode_ids))


@dataclass(frozen=True)
class _Plan:
    """What was going to be removed when a withdrawal started, whatever has been removed since."""

    removals: tuple[Removal, ...] = ()
    links: tuple[str, ...] = ()


def withdraw_consent(
    workspace: Path, identity: str, *, by: str, reason: str, progress: Progress | None = None
) -> Tombstone:
    """Remove the episodes of the person who gave consent `identity` from the workspace."""
    if not by.strip() or not reason.strip():
        raise WrongUse("a withdrawal needs a name and a reason", remedy="--by NAME --reason TEXT")
    with changing(workspace), ExitStack() as held:
        consent = consent_of(workspace, identity)
        recover(workspace)
        roots = find_datasets(workspace)
        _lock(roots, held)
        mark_withdrawn(workspace, identity, datetime.now(UTC).date())
        plan = _planned(workspace, identity, roots, consent.pseudonym)
        for link in plan.links:
            Path(link).unlink(missing_ok=True)
        for done, removal in enumerate(plan.removals, start=1):
            if Path(removal.dataset) in roots:
                remove_episodes(Path(removal.dataset), removal.episode_ids)
            if progress:
                progress(done, len(plan.removals))
        tombstone = _tombstone(workspace, identity, plan, by.strip(), reason.strip())
        if tombstone.removals or not load_tombstones(workspace, identity):
            with disk_errors(workspace):
                append_lines(workspace / TOMBSTONES, [asdict(tombstone)])
        forget_pseudonym(workspace, identity)
        _note(workspace, identity).unlink(missing_ok=True)
    return tombstone


def load_tombstones(workspace: Path, identity: str | None = None) -> list[dict[str, Any]]:
    """Every withdrawal, or those of one consent, oldest first, as plain values."""
    lines: list[dict[str, Any]] = read_lines(workspace / TOMBSTONES, dict, "a tombstone")
    return [line for line in lines if identity in (None, line["consent"])]


def find_datasets(workspace: Path) -> list[Path]:
    """Every dataset in the workspace, hidden folders left out."""
    roots = [path.parent.parent for path in workspace.rglob(layout.INFO)]
    return sorted(
        root for root in roots if not any(part.startswith(".") for part in root.relative_to(workspace).parts)
    )


def _lock(roots: Sequence[Path], held: ExitStack) -> None:
    """Everything is locked before anything is changed, so that a recording in progress stops it here."""
    seen = set()
    for root in roots:
        if not (root / layout.MANIFEST).exists():
            continue
        lock = root / LOCK
        inode = lock.stat().st_ino if lock.exists() else None
        # A copy made of hard links has the very same lock.
        if inode is None or inode not in seen:
            held.enter_context(writing(root))
        seen.add(lock.stat().st_ino)
        with disk_errors(root):
            finish_journal(root)


def _planned(workspace: Path, identity: str, roots: Sequence[Path], pseudonym: str) -> _Plan:
    """What has to go, joined with what a withdrawal that was killed had planned; written down before it is done."""
    earlier = _load_plan(_note(workspace, identity))
    gone = _episodes_of(roots, identity, pseudonym)
    removals = {removal.dataset: removal for removal in earlier.removals}
    files = []
    for root, ids in gone.items():
        dataset = open_dataset(root)
        assert dataset.manifest is not None
        before = removals.get(str(root))
        version = before.version_before if before else dataset.manifest.fingerprint
        every = dict.fromkeys([*(before.episode_ids if before else ()), *ids])
        removals[str(root)] = Removal(str(root), dataset.id, version, tuple(every))
        files += files_holding(dataset, ids)
    links = {*earlier.links, *map(str, other_names(workspace, files, list(gone)))}
    plan = _Plan(tuple(removals.values()), tuple(sorted(links)))
    if plan.removals:
        with disk_errors(workspace):
            write_atomically(_note(workspace, identity), json.dumps(asdict(plan)).encode())
    return plan


def _episodes_of(roots: Sequence[Path], identity: str, pseudonym: str) -> dict[Path, list[str]]:
    """The episodes that must go, by dataset: the person's own, and all that descend from them."""
    rows: list[tuple[Path, dict[str, Any]]] = []
    for root in roots:
        side = open_dataset(root).side_table()
        if side is not None:
            rows += [
                (root, row)
                for row in side.select(["episode_id", "consent", "actor_id", "parents"]).to_pylist()
            ]

    def is_own(row: dict[str, Any]) -> bool:
        unnamed = row["consent"] is None and bool(pseudonym) and row["actor_id"] == pseudonym
        return row["consent"] == identity or unnamed

    going = {row["episode_id"] for _, row in rows if is_own(row)}
    while more := {row["episode_id"] for _, row in rows if going & set(row["parents"] or ())} - going:
        going |= more
    found: dict[Path, list[str]] = {}
    for root, row in rows:
        if row["episode_id"] in going:
            found.setdefault(root, []).append(row["episode_id"])
    return found


def _tombstone(workspace: Path, identity: str, plan: _Plan, by: str, reason: str) -> Tombstone:
    removals = []
    for removal in plan.removals:
        after = load_manifest(Path(removal.dataset))
        removals.append(replace(removal, version_after=after.fingerprint if after else "gone"))
    ids = list(dict.fromkeys(e for removal in removals for e in removal.episode_ids))
    policies = policies_trained_on(workspace, [(r.dataset_id, set(r.episode_ids)) for r in removals])
    known = [workspace / FOLDER, *find_datasets(workspace), *(Path(policy.path) for policy in policies)]
    return Tombstone(
        identity,
        datetime.now(UTC).isoformat(timespec="seconds"),
        by,
        reason,
        tuple(removals),
        plan.links,
        tuple(map(str, mentions(workspace, ids, known))),
        tuple(policies),
    )


def _note(workspace: Path, identity: str) -> Path:
    return workspace / FOLDER / f"withdrawing-{identity}.json"


def _load_plan(path: Path) -> _Plan:
    if not path.exists():
        return _Plan()
    content = json.loads(path.read_text())
    removals = [Removal(**{**r, "episode_ids": tuple(r["episode_ids"])}) for r in content["removals"]]
    return _Plan(tuple(removals), tuple(content["links"]))
