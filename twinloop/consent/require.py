"""The gate before a use: real episodes that involve a person need a consent that covers it."""

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
    """Every episode that may not be used this way.

    A person is involved where a real episode was acted by an operator, and wherever an episode refers to a consent,
    simulated ones that descend from a demonstration included. Foreign datasets say nothing about people: they pass.
    """
    if use not in USES:
        raise UnknownName("use", use, USES)
    side = dataset.side_table()
    if side is None:
        return []
    on = today or datetime.now(UTC).date()
    known = load_consents(workspace)
    objections = []
    for row in side.select(_COLUMNS).to_pylist():
        reason = _objection(row, use, known, on)
        if reason:
            objections.append(Objection(int(row["episode_index"]), row["consent"], reason))
    return objections


def require_consent(dataset: Dataset, use: str, workspace: Path, today: date | None = None) -> None:
    """Refuse with `ConsentError` if any episode may not be used this way."""
    objections = check_consent(dataset, use, workspace, today)
    if objections:
        first = objections[0]
        raise ConsentError(
            f"{dataset.root} may not be used to {use}: {len(objections)} of {len(dataset)} episodes have no valid "
            f"consent (episode {first.episode}: {first.reason})",
            remedy=f"twinloop data consent check {dataset.root} --use {use}; ask for consent and record it with "
            "`twinloop data consent add`, or leave these episodes out",
        )


def _objection(row: dict[str, Any], use: str, known: dict[str, Consent], today: date) -> str | None:
    named = row["consent"]
    if named is None:
        involved = row["source"] == "real" and row["actor"] == "operator"
        return "a person operated the robot and no consent is named" if involved else None
    if named not in known:
        return f"consent {named} is not in this workspace"
    return known[named].objection(use, today)
