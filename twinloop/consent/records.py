"""Consent records of a workspace: `consents/consents.jsonl`, one line per agreement or withdrawal, only ever appended.

A record names a pseudonym, never a person; who is behind it is kept elsewhere, by whoever keeps the signed document.
After a withdrawal the pseudonym is taken out of the record, which otherwise stays as evidence.
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

from twinloop.datasets.commit import disk_errors, hold, write_atomically
from twinloop.datasets.lines import append_lines, format_lines, read_lines
from twinloop.errors import ConsentError, UnknownName, WrongUse

FOLDER = "consents"
RECORDS = f"{FOLDER}/consents.jsonl"
LOCK = f"{FOLDER}/.lock"

USES = ("record", "train", "evaluate", "share", "publish")
"""What a person can agree to."""

_PSEUDONYM = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True)
class Consent:
    """One person's agreement. `document` is the hash of what was signed; dates are YYYY-MM-DD, the last day counts."""

    id: str
    pseudonym: str
    scope: tuple[str, ...]
    given: str
    expires: str | None
    document: str
    withdrawn: str | None = None

    def objection(self, use: str, today: date) -> str | None:
        """Why this agreement does not cover a use, or None when it does."""
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
    identity: str | None = None,
) -> Consent:
    """Record an agreement; only the hash of the document is kept. Durable when this returns."""
    if not _PSEUDONYM.fullmatch(pseudonym):
        raise WrongUse(
            "people appear as pseudonyms",
            got=pseudonym,
            expected="small letters, digits, '-' and '_', for example operator-07; not a name or an address",
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
    with changing(workspace):
        known = load_consents(workspace)
        new = identity or _next_id(known)
        if new in known:
            raise WrongUse(f"there is a consent {new!r} already", remedy="leave --id out, or choose another")
        if not _PSEUDONYM.fullmatch(new):
            raise WrongUse("bad consent id", got=new, expected="small letters, digits, '-' and '_'")
        uses = tuple(use for use in USES if use in scope)
        until = expires.isoformat() if expires else None
        consent = Consent(new, pseudonym, uses, given.isoformat(), until, f"sha256:{signed}")
        with disk_errors(workspace):
            append_lines(workspace / RECORDS, [asdict(consent)])
    return consent


def load_consents(workspace: Path) -> dict[str, Consent]:
    """Every agreement as it stands, by id; the last line about one rules."""
    lines = read_lines(workspace / RECORDS, _consent, "a consent record")
    return {consent.id: consent for consent in lines}


def consent_of(workspace: Path, identity: str) -> Consent:
    """One agreement."""
    known = load_consents(workspace)
    if identity not in known:
        raise UnknownName("consent", identity, known, remedy="twinloop data consent ls")
    return known[identity]


def mark_withdrawn(workspace: Path, identity: str, on: date) -> Consent:
    """From now on this agreement covers nothing; the pseudonym stays until `forget_pseudonym`."""
    consent = consent_of(workspace, identity)
    if consent.withdrawn is None:
        consent = replace(consent, withdrawn=on.isoformat())
        with disk_errors(workspace):
            append_lines(workspace / RECORDS, [asdict(consent)])
    return consent


def forget_pseudonym(workspace: Path, identity: str) -> None:
    """Take the pseudonym out of every line about a withdrawn agreement."""
    lines = read_lines(workspace / RECORDS, _consent, "a consent record")
    kept = [replace(line, pseudonym="") if line.id == identity else line for line in lines]
    if kept != lines:
        with disk_errors(workspace):
            write_atomically(workspace / RECORDS, format_lines([asdict(line) for line in kept]))


def changing(workspace: Path) -> AbstractContextManager[None]:
    """Hold the consents of a workspace against anybody else who would change them."""
    return hold(
        workspace,
        LOCK,
        lambda holder: ConsentError(
            f"the consents of {workspace} are being changed by {holder}", remedy="wait for it"
        ),
    )


def _consent(**values: Any) -> Consent:
    return Consent(**{**values, "scope": tuple(values["scope"])})


def _next_id(known: dict[str, Consent]) -> str:
    number = len(known) + 1
    while f"c{number:04d}" in known:
        number += 1
    return f"c{number:04d}"
