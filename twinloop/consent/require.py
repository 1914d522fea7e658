"""Require consent: a real episode that involves a person needs a consent that covers the use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from twinloop.consent.records import USES, Consent, load_consents
from twinloop.datasets.reader import Dataset
from twinloop.errors import ConsentError, UnknownName

_COLUMNS = ["episode_index", "source", "actor", "consent"]


@dataclass(frozen=True)
class Objection:
    """One episode that may not be used, and why."""

    episode: int
    consent: str | None
    reason: str


def check_consent(dataset: Dataset, use: str, workspace: Path, today: date | None = None) -> list[Objection]:
    """Find every episode that may not be used this way.

    A person is involved in real episodes of an operator, and in every episode that refers to a consent, including
    simulated ones derived from a demonstration. Foreign datasets do not record people and pass.
    """
    if use not in USES:
        raise UnknownName("use", use, USES)
    provenance = dataset.provenance_table()
    if provenance is None:
        return []
    on = today or datetime.now(UTC).date()
    known = load_consents(workspace)
    objections = []
    for row in provenance.select(_COLUMNS).to_pylist():
        reason = _objection(row, use, known, on)
        if reason:
            objections.append(Objection(int(row["episode_index"]), row["consent"], reason))
    return objections


def require_consent(dataset: Dataset, use: str, workspace: Path, today: date | None = None) -> None:
    """Raise `ConsentError` if any episode may not be used this way."""
    objections = check_consent(dataset, use, workspace, today)
    if objections:
        first = objections[0]
        raise ConsentError(
            f"{dataset.place} may not be used to {use}: {len(objections)} of {len(dataset)} episodes have no valid "
            f"consent (episode {first.episode}: {first.reason})",
            remedy=f"twinloop data consent check {dataset.place} --use {use}; ask for consent and record it with "
            "`twinloop data consent add`, or exclude these episodes",
        )


def _objection(row: dict[str, Any], use: str, known: dict[str, Consent], today: date) -> str | None:
    consent_id = row["consent"]
    if consent_id is None:
        operated = row["source"] == "real" and row["actor"] == "operator"
        return "a person operated the robot, but the episode refers to no consent" if operated else None
    if consent_id not in known:
        return f"consent {consent_id} is not in this workspace"
    return known[consent_id].objection(use, today)
