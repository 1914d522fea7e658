"""MLflow's view of a registry: versions and aliases follow the record, which is the authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.errors import GateError, TamperedRecord
from twinloop.learning.tracking import mlflow_client
from twinloop.promotion.chain import EMPTY, RESTORE, Entry, Head, parse_head, require_head
from twinloop.promotion.state import replay_state

MODEL = "twinloop-policies"
HEAD_TAG = "twinloop.record_head"
_RESTORE = "restore it from a backup, or from the record: twinloop registry verify --restore"


class MlflowMirror:
    """The registered model in MLflow: a version for each policy, aliases, and how far the record was followed."""

    def __init__(self, uri: str, policies: Path) -> None:
        self.uri = uri
        self._policies = policies
        self._client = mlflow_client(uri, "the registry")

    def head(self) -> Head:
        """The head of the record at which this stands."""
        model = self._model()
        text = (model.tags or {}).get(HEAD_TAG) if model is not None else None
        return parse_head(text) if text else EMPTY

    def aliases(self) -> dict[str, str]:
        """Versions by alias."""
        model = self._model()
        return {alias: str(version) for alias, version in (model.aliases or {}).items()} if model else {}

    def require_following(self, file: Path, entries: list[Entry]) -> None:
        """Require that the record, in `file`, still contains the head at which this stands."""
        require_head(file, entries, self.head(), RESTORE, f"stored in MLflow at {self.uri}")

    def catch_up(self, entries: list[Entry]) -> bool:
        """Follow the last entry where its writer was interrupted; returns whether there was anything to do."""
        behind = bool(entries) and self.head().number == entries[-1].number - 1
        if behind:
            self.follow(entries[-1])
        return behind

    def follow(self, entry: Entry) -> None:
        """Do in MLflow what an entry says; what has been done already is left."""
        with self._answering():
            if self._model() is None:
                self._client.create_registered_model(MODEL)
            if entry.action == "register":
                self._add_version(entry)
            found = self.aliases()
            for alias, version in entry.details["aliases"].items():
                if version is not None and found.get(alias) != version:
                    self._client.set_registered_model_alias(MODEL, alias, version)
                if version is None and found.get(alias) is not None:
                    self._client.delete_registered_model_alias(MODEL, alias)
            if entry.action == "promote":
                for name in ("decision", "verdict", "override"):
                    if entry.details.get(name):
                        text = str(entry.details[name])
                        self._client.set_model_version_tag(MODEL, entry.details["version"], name, text)
            self._client.set_registered_model_tag(MODEL, HEAD_TAG, str(Head(entry.number, entry.hash)))

    def restore(self, entries: list[Entry]) -> None:
        """Make versions and aliases what the record says."""
        for entry in entries:
            self.follow(entry)

    def require_next_version(self, version: str) -> None:
        """Require that the next version that MLflow adds has this number."""
        with self._answering():
            known = self._versions() if self._model() is not None else {}
        following = str(1 + max(map(int, known), default=0))
        if following != version:
            raise GateError(
                f"MLflow at {self.uri} has other versions than the record", got=f"{following} as the next one",
                expected=version, remedy="if that database is this registry's own: move it away, then twinloop registry verify --restore",
            )  # fmt: skip

    def require_aliases(self, entries: list[Entry]) -> None:
        """Require that aliases are those of the record."""
        found = self.aliases()
        for alias, version in replay_state(entries).aliases.items():
            if found.get(alias) == version:
                continue
            if self.head() == EMPTY:
                raise TamperedRecord(
                    f"MLflow at {self.uri} does not contain this registry: its database was lost or replaced",
                    remedy=_RESTORE,
                )
            raise TamperedRecord(
                f"alias {alias} was changed outside the record",
                got=found.get(alias) or "none",
                expected=version or "none",
                remedy="twinloop registry verify --restore; then promote or roll back with twinloop, never in MLflow",
            )

    def _add_version(self, entry: Entry) -> None:
        details = entry.details
        holder = self._versions().get(details["version"])
        if holder == details["policy_id"]:
            return
        if holder is None:
            place = (self._policies / details["policy_id"]).resolve().as_uri()
            tags = {name: details[name] for name in ("policy_id", "policy", "decision")}
            made = str(self._client.create_model_version(MODEL, place, tags=tags).version)
            if made == details["version"]:
                return
            self._client.delete_model_version(MODEL, made)
        raise GateError(
            "MLflow numbers versions differently from the record",
            got=f"another version {details['version']}" if holder else made,
            expected=details["version"],
            remedy="restore mlflow.db from a backup, or move it away; then twinloop registry verify --restore",
        )

    def _versions(self) -> dict[str, str]:
        """Ids of policies by version."""
        found = self._client.search_model_versions(f"name='{MODEL}'", max_results=10_000)
        return {str(one.version): (one.tags or {}).get("policy_id", "") for one in found}

    def _model(self) -> Any:
        from mlflow.exceptions import MlflowException

        with self._answering():
            try:
                return self._client.get_registered_model(MODEL)
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                    return None
                raise

    @contextmanager
    def _answering(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise GateError(
                f"MLflow at {self.uri} does not answer ({first})",
                remedy="when it does again, type the command again",
            ) from error
