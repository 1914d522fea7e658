"""The registry: which policy is in use, who promoted it on what evidence, and how to roll back.

The authority is the record, a signed append-only chain of all actions; versions and aliases in MLflow follow it, so that its
own pages show them. Policies and verdicts are copied into the registry, so that a rollback does not depend on other folders.

A change is recorded first and then carried out, so whoever comes next can finish what was interrupted; and it carries its
intent, so the same command typed again finishes it and does nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.errors import GateError, TamperedRecord, WrongUse
from twinloop.learning.tracking import local_tracking
from twinloop.policies.mapping.kept import is_kept
from twinloop.policies.open import open_policy, save_policy
from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.chain import (
    FOLDER,
    RESTORE,
    Entry,
    Head,
    find_intent,
    head_of,
    locked,
    parse_head,
    require_head,
)
from twinloop.promotion.mirror import MlflowMirror
from twinloop.promotion.record import RegistryRecord, Signatures, find_key
from twinloop.promotion.state import (
    ALIAS_OF,
    Stage,
    State,
    aliases_after_promotion,
    aliases_after_rollback,
    replay_state,
)
from twinloop.promotion.verdict import Verdict, find_contradiction, load_verdict


@dataclass(frozen=True)
class Version:
    """One registered policy with its current aliases."""

    version: str
    policy: str
    policy_id: str
    decision: str
    registered_at: str
    aliases: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Change:
    """What a command did to the registry.

    Attributes:
        entry: The entry that records it.
        how: done: now; finished: it had been recorded, and what was interrupted was finished; repeated: the same command had
            done it already, so nothing was changed.
    """

    entry: Entry
    how: Literal["done", "finished", "repeated"]


@dataclass(frozen=True)
class Verified:
    """An intact registry: the head of its record, who vouches for it, and the anchor that was asked."""

    head: Head
    signatures: Signatures
    anchor: str | None


class PolicyRegistry:
    """A folder with the record, policies and verdicts, mirrored in MLflow's registry."""

    def __init__(self, root: str | Path, uri: str | None = None) -> None:
        self.root = Path(root)
        self.folder = self.root / FOLDER
        self.record = RegistryRecord(root)
        self.uri = uri or local_tracking(self.root)
        self._mirror = MlflowMirror(self.uri, self.folder / "policies")

    def entries(self) -> list[Entry]:
        """The verified record."""
        entries = self.record.read()
        self._mirror.require_following(self.record.file, entries)
        return entries

    def state(self) -> State:
        """The current state according to the record."""
        return replay_state(self.entries())

    def versions(self) -> list[Version]:
        """Every registered policy, newest last."""
        entries = self.entries()
        by_version: dict[str, list[str]] = {}
        for alias, version in replay_state(entries).aliases.items():
            if version is not None:
                by_version.setdefault(version, []).append(alias)
        return [
            Version(
                version := str(entry.details["version"]),
                entry.details["policy"],
                entry.details["policy_id"],
                entry.details["decision"],
                entry.at,
                tuple(by_version.get(version, ())),
                str(self._policy_folder(entry)),
            )
            for entry in entries
            if entry.action == "register"
        ]

    def policy(self, named: str) -> PolicyLike:
        """The policy of an alias, a version, an id or a name, read from the registry's own copy, which must be the one that was recorded."""
        entries = self.entries()
        version = self._find_version(entries, named)
        if version is None:
            aliases = replay_state(entries).aliases
            names = [e.details["policy"] for e in entries if e.action == "register"]
            raise GateError(
                f"there is no {named}",
                available=[*(a for a, v in aliases.items() if v), *dict.fromkeys(names)],
            )
        return self._load(entries, version)

    def holds(self, named: str) -> bool:
        """Whether an alias is held, or a version, id or name is registered."""
        return self._find_version(self.entries(), named) is not None

    def _find_version(self, entries: list[Entry], named: str) -> str | None:
        state = replay_state(entries)
        if named in state.aliases:
            return state.aliases[named]
        if named in state.versions.values():
            return named
        found = [e.details for e in entries if e.action == "register"]
        versions = [str(one["version"]) for one in found if named in (one["policy_id"], one["policy"])]
        if len(versions) > 1:
            raise GateError(
                f"several registered policies are called {named}", expected=f"one version of {versions}"
            )
        return versions[0] if versions else None

    def previous_champion(self, policy_id: str) -> PolicyLike | None:
        """The latest champion other than this policy, which it has to beat (or had to); None if there is none."""
        entries = self.entries()
        state = replay_state(entries)
        others = [version for version in state.champions if version != state.versions.get(policy_id)]
        return self._load(entries, others[-1]) if others else None

    def promote(
        self,
        policy: PolicyLike,
        verdict: str | Path | None,
        *,
        by: str,
        stage: Stage = "full",
        fraction: float = 0.1,
        override: str | None = None,
    ) -> Change:
        """Promote a policy to a stage of release; needs a verdict that promotes it, or the reason for an override."""
        if override is not None and not override.strip():
            raise WrongUse("an override needs a reason", got="a blank one", remedy="--override REASON")
        if stage not in ALIAS_OF:
            raise WrongUse("unknown stage", got=stage, available=list(ALIAS_OF))
        if stage == "canary" and not 0.0 < fraction < 1.0:
            raise WrongUse("a canary's fraction of episodes must lie between 0 and 1", got=fraction)
        file = _verdict_file(verdict)
        canary = fraction if stage == "canary" else None
        arguments = {
            "policy": policy.id,
            "verdict": _file_hash(file) if file and file.is_file() else None,
            "stage": stage,
            "fraction": canary,
            "override": override,
        }

        def plan(entries: list[Entry], intent: str) -> dict[str, Any]:
            state = replay_state(entries)
            version = state.versions.get(policy.id)
            if stage != "full" and version is not None and version == state.aliases["champion"]:
                raise GateError(
                    f"{policy.name} is the champion: moving it to stage {stage} would leave no champion",
                    remedy="twinloop rollback, or promote another champion first",
                )
            grounds = self._grounds(policy, file, stage, state, override)
            if version is None:
                version = self._register(entries, policy, grounds, by, intent)
            return {
                "version": version,
                "policy": policy.name,
                "policy_id": policy.id,
                "stage": stage,
                "fraction": canary,
                "from": state.aliases[ALIAS_OF[stage]],
                "aliases": aliases_after_promotion(state, version, stage),
                **grounds,
            }

        return self._change("promote", by, arguments, plan)

    def roll_back(self, *, by: str, reason: str, champion: str | None = None) -> Change:
        """Make the previous champion the champion again; recorded like every action.

        Typed twice, this goes back once. With `champion`, the version that is to be replaced, it goes back from that one
        only: name the current one to go back once more.
        """
        if not reason.strip():
            raise WrongUse("a rollback needs a reason", remedy="--reason TEXT")

        def plan(entries: list[Entry], _: str) -> dict[str, Any]:
            state = replay_state(entries)
            if len(state.champions) < 2:
                only = (
                    f"version {state.champions[0]} is the first champion"
                    if state.champions
                    else "there is none"
                )
                raise GateError(f"there is no earlier champion to roll back to: {only}")
            now, before = state.champions[-1], state.champions[-2]
            if champion not in (None, now):
                raise GateError(f"version {champion} is not the champion", expected=f"version {now}")
            self._require_policy(next(e for e in entries if _registers(e, before)))
            aliases = aliases_after_rollback(state)
            return {"version": before, "from": now, "reason": reason, "aliases": aliases}

        return self._change("rollback", by, {"reason": reason, "champion": champion}, plan)

    def withdraw(self, stage: Stage, *, by: str, reason: str, version: str | None = None) -> Change:
        """Withdraw a policy, that of this version if it is given, from the shadow or canary stage; at stage full, roll back."""
        if stage == "full":
            return self.roll_back(by=by, reason=reason, champion=version)

        def plan(entries: list[Entry], _: str) -> dict[str, Any]:
            state = replay_state(entries)
            held = state.aliases[ALIAS_OF[stage]]
            if held is None:
                raise GateError(f"no policy is at stage {stage}")
            if version not in (None, held):
                raise GateError(f"version {version} is not at stage {stage}", expected=f"version {held}")
            aliases = {**state.aliases, ALIAS_OF[stage]: None}
            return {"version": held, "stage": stage, "reason": reason, "aliases": aliases}

        return self._change("withdraw", by, {"stage": stage, "reason": reason, "version": version}, plan)

    def accept(self, head: str, *, by: str, reason: str) -> Head:
        """Vouch for the record as it is at this head: unsigned entries, those of keys no longer trusted, or a known loss.

        With a key, this is recorded and signed; without one, only this user's own notes change.
        """
        _require_name(by)
        if not reason.strip():
            raise WrongUse("accepting a record needs a reason", remedy="--reason TEXT")
        intent = find_intent("accept", by, {"head": head, "reason": reason})
        with locked(self.record.file):
            found = self.record.accept(head, by, {"reason": reason}, intent)
            self._mirror.restore(found)
            self.record.confirm(found)
        return head_of(found)

    def verify(self, head: str | None = None, restore: bool = False) -> Verified:
        """Verify record, signatures, anchor, MLflow's aliases, policies and verdicts.

        With `restore`, versions and aliases in MLflow are then restored from the record. The head is to be stored elsewhere.
        """
        with self.record.writing() as entries:
            if head is not None:
                require_head(self.record.file, entries, parse_head(head), RESTORE)
            for entry in entries:
                if entry.action == "register":
                    self._require_policy(entry)
                if (digest := entry.details.get("verdict")) is not None:
                    for kind in ("verdict", "evidence"):
                        self._require_copy(kind, entry.details[kind], digest)
            if restore:
                self._mirror.restore(entries)
            self._mirror.require_following(self.record.file, entries)
            self._mirror.catch_up(entries)
            self._mirror.require_aliases(entries)
            self.record.confirm(entries)
            return Verified(head_of(entries), self.record.signatures(entries), self.record.anchor())

    def _change(
        self,
        action: str,
        by: str,
        arguments: Mapping[str, Any],
        plan: Callable[[list[Entry], str], dict[str, Any]],
    ) -> Change:
        """Record a change and carry it out, once for each intent; `plan` gives the details of its entry."""
        _require_name(by)
        find_key(by)
        intent = find_intent(action, by, arguments)
        with self._writing() as (entries, interrupted):
            last = entries[-1] if entries else None
            if last is not None and (last.intent, last.action) == (intent, action):
                return Change(last, "finished" if interrupted else "repeated")
            entry = self._step(entries, action, by, plan(entries, intent), intent)
            self.record.confirm(entries)
            return Change(entry, "done")

    @contextmanager
    def _writing(self) -> Iterator[tuple[list[Entry], bool]]:
        """The record, locked, and whether something that was interrupted was finished first."""
        with self.record.writing() as entries:
            self._mirror.require_following(self.record.file, entries)
            interrupted = self._mirror.catch_up(entries) or not self.record.is_confirmed(entries)
            self._mirror.require_aliases(entries)
            self.record.confirm(entries)
            yield entries, interrupted

    def _step(
        self, entries: list[Entry], action: str, by: str, details: Mapping[str, Any], intent: str
    ) -> Entry:
        """Append to the record, then update MLflow; the next writer completes an update that was interrupted."""
        entry = self.record.append(entries, action, by, details, intent)
        self._mirror.follow(entry)
        return entry

    def policy_folder(self, policy_id: str) -> Path:
        """Where the copy of a registered policy lies."""
        return self.folder / "policies" / policy_id

    def _policy_folder(self, entry: Entry) -> Path:
        return self.policy_folder(str(entry.details["policy_id"]))

    def _load(self, entries: list[Entry], version: str) -> PolicyLike:
        """A registered policy, every file of which must be the one that was recorded."""
        entry = next(e for e in entries if _registers(e, version))
        folder = self._policy_folder(entry)
        self._require_files(folder, entry.details["files"])
        policy = open_policy(folder)
        if policy.id != entry.details["policy_id"]:
            raise TamperedRecord(f"{folder} holds another policy", got=policy.id, expected=folder.name)
        return policy

    def _require_policy(self, entry: Entry) -> None:
        """Require that a registered policy is as it was recorded; of a foreign one, what is kept of it, whether or not it answers."""
        folder = self._policy_folder(entry)
        self._require_files(folder, entry.details["files"])
        if not is_kept(folder):
            from twinloop.policies.networks.policy import load_policy  # needs PyTorch

            load_policy(folder)

    def _require_files(self, folder: Path, files: Mapping[str, str]) -> None:
        """Before anything of a policy's folder is used, each of its files must be the one that was recorded."""
        found = _hash_files(folder)
        for name in sorted(files.keys() | found.keys()):
            if found.get(name) != files.get(name):
                raise TamperedRecord(
                    f"{folder / name} is not the file that was recorded",
                    got="none" if name not in found else None,
                    expected=str(files.get(name, "no such file"))[:16],
                )

    def _require_copy(self, kind: str, digest: str, folder: str) -> None:
        file = self.folder / "verdicts" / folder / f"{kind}.json"
        if not file.is_file() or _file_hash(file) != digest:
            raise TamperedRecord(f"{file} is not the {kind} that was recorded", expected=digest[:16])

    def _grounds(
        self, policy: PolicyLike, file: Path | None, stage: Stage, state: State, override: str | None
    ) -> dict[str, Any]:
        """The verified basis of a promotion; or the override, with the objection it overrides."""
        if file is None:
            if not override:
                raise GateError(
                    f"{policy.name} has no verdict",
                    remedy="twinloop gate, then promote --verdict FILE; or --override REASON; the reason is recorded",
                )
            return {"decision": "none", "override": override}
        found = load_verdict(file)
        objection = self._objection(policy, found, file, stage, state)
        if objection and not override:
            raise GateError(objection, remedy="--override REASON promotes it anyway; the reason is recorded")
        kept = self._keep(file)
        more = {"override": override, "overrides": objection} if objection else {}
        return {"decision": found.decision, **kept, **more}

    def _objection(
        self, policy: PolicyLike, verdict: Verdict, file: Path, stage: Stage, state: State
    ) -> str | None:
        if verdict.candidate.id != policy.id:
            return f"the verdict is about another policy ({verdict.candidate.name} {verdict.candidate.id})"
        if verdict.decision != "promote":
            return f"the verdict on {policy.name} is {verdict.decision!r}: {'; '.join(verdict.reasons)}"
        against = verdict.champion.id if verdict.champion else None
        now = state.aliases["champion"]
        champion = next((i for i, v in state.versions.items() if v == now), None)
        if champion is not None and champion not in (against, policy.id):
            return f"the verdict is not against the current champion ({champion})"
        if verdict.rules.simulation_only and stage == "full":
            return "the verdict is based on simulation only, which suffices for shadow and canary"
        return find_contradiction(verdict, file)

    def _keep(self, verdict: Path) -> dict[str, Any]:
        digest = _file_hash(verdict)
        folder = self.folder / "verdicts" / digest
        evidence = verdict.with_name("evidence.json")
        if not evidence.is_file():
            raise GateError(f"{evidence} is missing: a verdict needs its evidence")
        with disk_errors(self.folder):
            for source, name in ((verdict, "verdict.json"), (evidence, "evidence.json")):
                write_atomically(folder / name, source.read_bytes())
            _make_private(self.folder, folder)
        return {"verdict": digest, "evidence": _file_hash(evidence)}

    def _register(
        self, entries: list[Entry], policy: PolicyLike, grounds: Mapping[str, Any], by: str, intent: str
    ) -> str:
        state = replay_state(entries)
        version = str(len(state.versions) + 1)
        self._mirror.require_next_version(version)
        folder = self.folder / "policies" / policy.id
        with disk_errors(self.folder):
            save_policy(policy, folder)
            _make_private(self.folder, folder)
        details = {
            "version": version,
            "policy": policy.name,
            "policy_id": policy.id,
            "decision": grounds["decision"],
            "files": _hash_files(folder),
            "aliases": state.aliases,
        }
        self._step(entries, "register", by, details, intent)
        return version


def _verdict_file(verdict: str | Path | None) -> Path | None:
    if verdict is None:
        return None
    return Path(verdict) / Verdict.FILE if Path(verdict).is_dir() else Path(verdict)


def _require_name(by: str) -> None:
    if not by.strip():
        raise WrongUse("a change of the registry needs a name", remedy="--by NAME")


def _make_private(top: Path, folder: Path) -> None:
    """Take away what others than owner and group may do with a folder of the registry, and all above it up to `top`."""
    for path in (*folder.iterdir(), *(p for p in (folder, *folder.parents) if p.is_relative_to(top))):
        path.chmod(path.stat().st_mode & ~0o007)


def _registers(entry: Entry, version: str) -> bool:
    return entry.action == "register" and str(entry.details["version"]) == version


def _hash_files(folder: Path) -> dict[str, str]:
    """Hashes of every file of a folder, by its name in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): _file_hash(path) for path in files}


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
