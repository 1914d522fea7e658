"""Consent records of a workspace: `consents/consents.jsonl`, append-only, one line per consent or withdrawal.

A record holds a pseudonym, never a name; the person's identity is kept with the signed document, outside the workspace.
After a withdrawal the pseudonym is deleted from the record, which otherwise stays as evidence.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from twinloop.datasets.artefacts import FOLDER
from twinloop.datasets.commit import disk_errors, hold_lock, make_private_folder, write_atomically
from twinloop.datasets.jsonl import append_jsonl, format_jsonl, read_jsonl
from twinloop.errors import ConsentError, UnknownName, WrongUse

RECORDS = f"{FOLDER}/consents.jsonl"
LOCK = f"{FOLDER}/.lock"

USES = ("record", "train", "evaluate", "share", "publish")
"""Uses a person can consent to."""

_PSEUDONYM = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True)
class Consent:
    """One person's consent. `document` is the hash of the signed document; dates are YYYY-MM-DD, inclusive."""

    id: str
    pseudonym: str
    scope: tuple[str, ...]
    given: str
    expires: str | None
    document: str
    withdrawn: str | None = None

    def objection(self, use: str, today: date) -> str | None:
        """Return why this consent does not cover a use; None if it does."""
        if self.withdrawn is not None:
            return f"consent {self.id} was withdrawn on {self.withdrawn}"
        if use not in self.scope:
            return f"consent {self.id} is for {', '.join(self.scope)}, not for {use}"
        if today < date.fromisoformat(self.given):
            return f"consent {self.id} starts on {self.given}"
        if self.expires is not None and today > date.fromisoformat(self.expires):
            return f"consent {self.id} expired on {self.expires}"
        return None


def add_consent(
    workspace: Path,
    pseudonym: str,
    scope: Sequence[str],
    *,
    document: Path,
    given: date | None = None,
    expires: date | None = None,
    consent_id: str | None = None,
) -> Consent:
    """Record a consent; durable on return.

    Args:
        workspace: The workspace.
        pseudonym: Pseudonym of the person.
        scope: Permitted uses, out of `USES`.
        document: The signed document; only its hash is stored.
        given: First day of validity; default: today.
        expires: Last day of validity; default: none.
        consent_id: Id of the consent; default: the next number.

    Raises:
        WrongUse: A value is invalid, or the id is taken.
    """
    if not _PSEUDONYM.fullmatch(pseudonym):
        raise WrongUse(
            "people are recorded under pseudonyms",
            got=pseudonym,
            expected="lower-case letters, digits, '-' and '_', for example operator-07; no names or addresses",
        )
    for use in scope:
        if use not in USES:
            raise UnknownName("use", use, USES)
    if not scope:
        raise WrongUse("a consent needs a scope", available=USES)
    given = given or datetime.now(UTC).date()
    if expires is not None and expires < given:
        raise WrongUse("a consent cannot expire before it is given", got=f"{given} to {expires}")
    try:
        signed = hashlib.sha256(document.read_bytes()).hexdigest()
    except OSError as error:
        raise WrongUse(f"the signed document {document} cannot be read ({error.strerror})") from error
    with consents_lock(workspace):
        known = load_consents(workspace)
        new = consent_id or _next_id(known)
        if new in known:
            raise WrongUse(f"consent {new!r} already exists", remedy="omit --id, or choose another")
        if not _PSEUDONYM.fullmatch(new):
            raise WrongUse("bad consent id", got=new, expected="lower-case letters, digits, '-' and '_'")
        uses = tuple(use for use in USES if use in scope)
        until = expires.isoformat() if expires else None
        consent = Consent(new, pseudonym, uses, given.isoformat(), until, f"sha256:{signed}")
        with disk_errors(workspace):
            append_jsonl(workspace / RECORDS, [asdict(consent)])
    return consent


def load_consents(workspace: Path) -> dict[str, Consent]:
    """Load the current state of every consent, by id."""
    lines = read_jsonl(workspace / RECORDS, _make_consent, "a consent record")
    return {consent.id: consent for consent in lines}


def load_consent(workspace: Path, consent_id: str) -> Consent:
    """Load one consent."""
    known = load_consents(workspace)
    if consent_id not in known:
        raise UnknownName("consent", consent_id, known, remedy="twinloop data consent ls")
    return known[consent_id]


def mark_withdrawn(workspace: Path, consent_id: str, on: date) -> Consent:
    """Mark a consent as withdrawn; the pseudonym stays until `delete_pseudonym`."""
    consent = load_consent(workspace, consent_id)
    if consent.withdrawn is None:
        consent = replace(consent, withdrawn=on.isoformat())
        with disk_errors(workspace):
            append_jsonl(workspace / RECORDS, [asdict(consent)])
    return consent


def delete_pseudonym(workspace: Path, consent_id: str) -> None:
    """Delete the pseudonym from every line about a withdrawn consent."""
    lines = read_jsonl(workspace / RECORDS, _make_consent, "a consent record")
    redacted = [replace(line, pseudonym="") if line.id == consent_id else line for line in lines]
    if redacted != lines:
        with disk_errors(workspace):
            write_atomically(workspace / RECORDS, format_jsonl([asdict(line) for line in redacted]))


def consents_lock(workspace: Path) -> AbstractContextManager[None]:
    """Hold the lock on the consent records of a workspace."""
    with disk_errors(workspace):
        make_private_folder(workspace / FOLDER)
    return hold_lock(
        workspace,
        LOCK,
        lambda holder: ConsentError(
            f"the consents of {workspace} are being changed by {holder}", remedy="wait for it"
        ),
    )


def _make_consent(scope: Any, **values: Any) -> Consent:
    return Consent(scope=tuple(scope), **values)


def _next_id(known: dict[str, Consent]) -> str:
    number = len(known) + 1
    while f"c{number:04d}" in known:
        number += 1
    return f"c{number:04d}"
