"""The registry: which policy is in use, who promoted it on what evidence, and how to roll back.

Versions and aliases are MLflow's, so its own pages show them; the authority is the record, an append-only chain of all
actions. Policies and verdicts are copied into the registry, so that a rollback does not depend on other folders.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinloop.errors import GateError, TamperedRecord, WrongUse
from twinloop.learning.tracking import local_tracking, mlflow_client
from twinloop.policies.policy import METADATA, WEIGHTS, Policy, load_policy
from twinloop.promotion.chain import (
    EMPTY,
    FOLDER,
    RECORD,
    Entry,
    Head,
    append,
    head_of,
    locked,
    parse_head,
    read_chain,
)
from twinloop.promotion.verdict import Verdict, find_contradiction, load_verdict

Stage = Literal["shadow", "canary", "full"]
Aliases = dict[str, str | None]

MODEL = "twinloop-policies"
HEAD_TAG = "twinloop.record_head"
ALIAS_OF: dict[Stage, str] = {"shadow": "shadow", "canary": "challenger", "full": "champion"}
"""The alias of a policy at each stage of a release."""
NO_ALIASES: Aliases = {"champion": None, "challenger": None, "shadow": None}


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
class State:
    """State according to the record: aliases, champions so far (oldest first), and the canary's fraction of episodes."""

    aliases: Aliases
    champions: tuple[str, ...]
    fraction: float | None
    versions: Mapping[str, str]


class PolicyRegistry:
    """A folder with the record, policies and verdicts, mirrored in MLflow's registry."""

    def __init__(self, root: str | Path, uri: str | None = None) -> None:
        self.root = Path(root)
        self.folder = self.root / FOLDER
        self.record = self.folder / RECORD
        self._client = mlflow_client(uri or local_tracking(self.root), "the registry")
        self.uri = uri or local_tracking(self.root)

    def entries(self) -> list[Entry]:
        """The verified record."""
        return read_chain(self.record, self._anchor())

    def state(self) -> State:
        """The current state according to the record."""
        return replay_state(self.entries())

    def versions(self) -> list[Version]:
        """Every registered policy, newest last."""
        state = self.state()
        by_version: dict[str, list[str]] = {}
        for alias, version in state.aliases.items():
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
                str(self.folder / "policies" / entry.details["policy_id"]),
            )
            for entry in self.entries()
            if entry.action == "register"
        ]

    def policy(self, alias: str) -> Policy:
        """The policy that holds an alias, read from the registry's own copy."""
        aliases = self.state().aliases
        version = aliases.get(alias)
        if version is None:
            raise GateError(f"there is no {alias}", available=[a for a, v in aliases.items() if v])
        found = next(v for v in self.versions() if v.version == version)
        return load_policy(found.folder)

    def previous_champion(self, policy_id: str) -> Version | None:
        """The latest champion other than this policy, which it has to beat (or had to); None if there is none."""
        state = self.state()
        others = [version for version in state.champions if version != state.versions.get(policy_id)]
        return next((found for found in self.versions() if others and found.version == others[-1]), None)

    def promote(
        self,
        policy: Policy,
        verdict: str | Path | None,
        *,
        by: str,
        stage: Stage = "full",
        fraction: float = 0.1,
        override: str | None = None,
    ) -> Entry:
        """Promote a policy to a stage of release; needs a verdict that promotes it, or the reason for an override."""
        _require_name(by)
        if override is not None and not override.strip():
            raise WrongUse("an override needs a reason", got="a blank one", remedy="--override REASON")
        if stage not in ALIAS_OF:
            raise WrongUse("unknown stage", got=stage, available=list(ALIAS_OF))
        if stage == "canary" and not 0.0 < fraction < 1.0:
            raise WrongUse("a canary's fraction of episodes must lie between 0 and 1", got=fraction)
        with self._writing() as entries:
            state = replay_state(entries)
            version = state.versions.get(policy.id)
            if stage != "full" and version is not None and version == state.aliases["champion"]:
                raise GateError(
                    f"{policy.name} is the champion: moving it to stage {stage} would leave no champion",
                    remedy="twinloop rollback, or promote another champion first",
                )
            grounds = self._grounds(policy, verdict, stage, state, override)
            if version is None:
                version = self._register(entries, policy, verdict, grounds, by)
            aliases = dict(state.aliases)
            for alias, holder in state.aliases.items():
                if holder == version:
                    aliases[alias] = None  # a policy is at one stage at a time
            aliases[ALIAS_OF[stage]] = version
            details = {
                "version": version,
                "policy": policy.name,
                "policy_id": policy.id,
                "stage": stage,
                "fraction": fraction if stage == "canary" else None,
                "from": state.aliases[ALIAS_OF[stage]],
                "aliases": aliases,
                **grounds,
            }
            return self._step(entries, "promote", by, details)

    def roll_back(self, *, by: str, reason: str) -> Entry:
        """Make the previous champion the champion again; recorded like every action."""
        _require_name(by)
        if not reason.strip():
            raise WrongUse("a rollback needs a reason", remedy="--reason TEXT")
        with self._writing() as entries:
            state = replay_state(entries)
            if len(state.champions) < 2:
                only = (
                    f"version {state.champions[0]} is the first champion"
                    if state.champions
                    else "there is none"
                )
                raise GateError(f"there is no earlier champion to roll back to: {only}")
            now, before = state.champions[-1], state.champions[-2]
            self._require_policy(next(e for e in entries if _registers(e, before)))
            others: Aliases = {
                alias: None if version == before else version for alias, version in state.aliases.items()
            }
            details = {
                "version": before,
                "from": now,
                "reason": reason,
                "aliases": {**others, "champion": before},
            }
            return self._step(entries, "rollback", by, details)

    def withdraw(self, stage: Stage, *, by: str, reason: str) -> Entry:
        """Withdraw a policy from the shadow or canary stage; at stage full, roll back."""
        _require_name(by)
        if stage == "full":
            return self.roll_back(by=by, reason=reason)
        with self._writing() as entries:
            state = replay_state(entries)
            alias = ALIAS_OF[stage]
            if state.aliases[alias] is None:
                raise GateError(f"no policy is at stage {stage}")
            details = {
                "version": state.aliases[alias],
                "stage": stage,
                "reason": reason,
                "aliases": {**state.aliases, alias: None},
            }
            return self._step(entries, "withdraw", by, details)

    def verify(self, head: str | None = None, restore: bool = False) -> Head:
        """Verify record, MLflow's aliases, policies and verdicts; returns the head, to be stored elsewhere.

        With `restore`, versions and aliases in MLflow are then restored from the record.
        """
        entries = self.entries()
        if head is not None:
            read_chain(self.record, parse_head(head))
        for entry in entries:
            if entry.action == "register":
                self._require_policy(entry)
            if (digest := entry.details.get("verdict")) is not None:
                for kind in ("verdict", "evidence"):
                    self._require_copy(kind, entry.details[kind], digest)
        if restore:
            self._restore()
        self._require_aliases(entries)
        return head_of(entries)

    def _restore(self) -> None:
        with locked(self.record):
            self._ensure_model()
            known = {str(v.version) for v in self._client.search_model_versions(f"name='{MODEL}'")}
            for entry in self.entries():
                details = entry.details
                if entry.action == "register" and details["version"] not in known:
                    version = self._enter(details["policy_id"], details["policy"], details["decision"])
                    if version != details["version"]:
                        raise GateError(
                            "MLflow numbers versions differently from the record",
                            got=version,
                            expected=details["version"],
                            remedy="restore mlflow.db from a backup, or move it away and try again",
                        )
                self._follow(entry)

    def _require_aliases(self, entries: list[Entry]) -> None:
        found = self._aliases()
        for alias, version in replay_state(entries).aliases.items():
            if found.get(alias) == version:
                continue
            if self._anchor() == EMPTY:
                raise TamperedRecord(
                    f"MLflow at {self.uri} does not contain this registry: its database was lost or replaced",
                    remedy="restore it from a backup, or from the record: twinloop registry verify --restore",
                )
            raise TamperedRecord(
                f"alias {alias} was changed outside the record",
                got=found.get(alias) or "none",
                expected=version or "none",
                remedy="twinloop registry verify --restore; then promote or roll back with twinloop, never in MLflow",
            )

    def _require_policy(self, entry: Entry) -> None:
        """Require that every file of a registered policy's copy is unchanged."""
        folder = self.folder / "policies" / entry.details["policy_id"]
        load_policy(folder)
        for name, digest in entry.details["files"].items():
            if _file_hash(folder / name) != digest:
                raise TamperedRecord(
                    f"{folder / name} is not the file that was recorded", expected=digest[:16]
                )

    def _require_copy(self, kind: str, digest: str, folder: str) -> None:
        file = self.folder / "verdicts" / folder / f"{kind}.json"
        if not file.is_file() or _file_hash(file) != digest:
            raise TamperedRecord(f"{file} is not the {kind} that was recorded", expected=digest[:16])

    def _grounds(
        self, policy: Policy, verdict: str | Path | None, stage: Stage, state: State, override: str | None
    ) -> dict[str, Any]:
        """The verified basis of a promotion; or the override, with the objection it overrides."""
        if verdict is None:
            if not override:
                raise GateError(
                    f"{policy.name} has no verdict",
                    remedy="twinloop gate, then promote --verdict FILE; or --override REASON; the reason is recorded",
                )
            return {"decision": "none", "override": override}
        file = Path(verdict) / Verdict.FILE if Path(verdict).is_dir() else Path(verdict)
        found = load_verdict(file)
        objection = self._objection(policy, found, file, stage, state)
        if objection and not override:
            raise GateError(objection, remedy="--override REASON promotes it anyway; the reason is recorded")
        kept = self._keep(file)
        more = {"override": override, "overrides": objection} if objection else {}
        return {"decision": found.decision, **kept, **more}

    def _objection(
        self, policy: Policy, verdict: Verdict, file: Path, stage: Stage, state: State
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
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(verdict, folder / "verdict.json")
        evidence = verdict.with_name("evidence.json")
        if not evidence.is_file():
            raise GateError(f"{evidence} is missing: a verdict needs its evidence")
        shutil.copyfile(evidence, folder / "evidence.json")
        return {"verdict": digest, "evidence": _file_hash(evidence)}

    def _register(
        self, entries: list[Entry], policy: Policy, verdict: Any, grounds: Mapping[str, Any], by: str
    ) -> str:
        folder = self.folder / "policies" / policy.id
        policy.save(folder)
        version = self._enter(policy.id, policy.name, str(grounds["decision"]))
        files = {name: _file_hash(folder / name) for name in (METADATA, WEIGHTS)}
        details = {
            "version": version,
            "policy": policy.name,
            "policy_id": policy.id,
            "decision": grounds["decision"],
            "files": files,
            "aliases": replay_state(entries).aliases,
        }
        self._step(entries, "register", by, details)
        return version

    def _enter(self, policy_id: str, name: str, decision: str) -> str:
        """Create a version in MLflow."""
        self._ensure_model()
        place = (self.folder / "policies" / policy_id).resolve().as_uri()
        tags = {"policy_id": policy_id, "policy": name, "decision": decision}
        return str(self._client.create_model_version(MODEL, place, tags=tags).version)

    def _step(self, entries: list[Entry], action: str, by: str, details: Mapping[str, Any]) -> Entry:
        """Append to the record, then update MLflow; the next writer completes an update that a crash interrupted."""
        entry = append(self.record, entries, action, by, details)
        entries.append(entry)
        self._follow(entry)
        return entry

    def _follow(self, entry: Entry) -> None:
        self._ensure_model()
        found = self._aliases()
        for alias, version in entry.details["aliases"].items():
            if version is not None and found.get(alias) != version:
                self._client.set_registered_model_alias(MODEL, alias, version)
            if version is None and found.get(alias) is not None:
                self._client.delete_registered_model_alias(MODEL, alias)
        self._client.set_registered_model_tag(MODEL, HEAD_TAG, str(Head(entry.number, entry.hash)))
        if entry.action == "promote":
            for name in ("decision", "verdict", "override"):
                if entry.details.get(name):
                    self._client.set_model_version_tag(
                        MODEL, entry.details["version"], name, str(entry.details[name])
                    )

    @contextmanager
    def _writing(self) -> Iterator[list[Entry]]:
        with locked(self.record):
            entries = self.entries()
            anchor = self._anchor()
            if entries and anchor.number == entries[-1].number - 1:
                self._follow(entries[-1])  # an action that was recorded but not applied to MLflow
            self._require_aliases(entries)
            yield entries

    def _model(self) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_registered_model(MODEL)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            first = str(error).splitlines()[0]
            raise GateError(f"MLflow at {self.uri} does not answer ({first})") from error

    def _ensure_model(self) -> None:
        if self._model() is None:
            self._client.create_registered_model(MODEL)

    def _anchor(self) -> Head:
        model = self._model()
        text = (model.tags or {}).get(HEAD_TAG) if model is not None else None
        return parse_head(text) if text else EMPTY

    def _aliases(self) -> dict[str, str]:
        model = self._model()
        return {alias: str(version) for alias, version in (model.aliases or {}).items()} if model else {}


def replay_state(entries: list[Entry]) -> State:
    """The state after these entries."""
    aliases: Aliases = dict(NO_ALIASES)
    champions: list[str] = []
    versions: dict[str, str] = {}
    fraction: float | None = None
    for entry in entries:
        aliases = {name: entry.details["aliases"].get(name) for name in NO_ALIASES}
        if entry.action == "register":
            versions[entry.details["policy_id"]] = str(entry.details["version"])
        if entry.action == "rollback":
            champions.pop()
        elif aliases["champion"] is not None and (not champions or champions[-1] != aliases["champion"]):
            champions.append(aliases["champion"])
        if entry.action == "promote" and entry.details["stage"] == "canary":
            fraction = entry.details["fraction"]
    return State(aliases, tuple(champions), fraction if aliases["challenger"] else None, versions)


def _registers(entry: Entry, version: str) -> bool:
    return entry.action == "register" and str(entry.details["version"]) == version


def _require_name(by: str) -> None:
    if not by.strip():
        raise WrongUse("a change of the registry needs a name", remedy="--by NAME")


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
