"""Whose episodes a workspace holds, and under which consent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

from twinloop.consent.records import Consent, load_consents
from twinloop.consent.withdraw import find_datasets
from twinloop.datasets.reader import open_dataset
from twinloop.errors import DatasetError
from twinloop.records import Record

Standing = Literal["valid", "expires soon", "not yet valid", "expired", "withdrawn", "no consent"]

SOON = timedelta(days=30)
"""Time to ask a person again before their consent expires."""


@dataclass(frozen=True)
class PersonConsent(Record):
    """A person, by pseudonym, with one consent and the episodes under it; or with episodes under none.

    `person` is empty once a consent is withdrawn. `datasets` has the number of episodes in each, by its folder in the workspace.
    """

    person: str
    consent: str | None
    scope: tuple[str, ...]
    given: str | None
    expires: str | None
    withdrawn: str | None
    standing: Standing
    episodes: int
    datasets: Mapping[str, int] = field(default_factory=dict)


def survey_people(workspace: Path, today: date | None = None) -> tuple[PersonConsent, ...]:
    """List every consent with the episodes under it, and every operator whose episodes have none.

    Args:
        workspace: The workspace.
        today: The day for which standings are given; default: today.

    Returns:
        Consents in order of their ids, then people without one.

    Raises:
        DamagedDataset: The record of the consents cannot be read.
    """
    day = today or datetime.now(UTC).date()
    consents = load_consents(workspace)
    by_consent: dict[str, Counter[str]] = {name: Counter() for name in consents}
    without: dict[str, Counter[str]] = {}
    named = {one.pseudonym: name for name, one in consents.items() if one.pseudonym}
    for place, row in _rows(workspace):
        person, consent = row["actor_id"] or "", row["consent"]
        if consent is None and row["actor"] == "operator" and person in named:
            consent = named[person]  # a withdrawal of this consent removes the episode too
        if consent in by_consent:
            by_consent[consent][place] += 1
        elif consent is not None or row["actor"] == "operator":
            without.setdefault(person or f"consent {consent}", Counter())[place] += 1
    made = [_covered(one, by_consent[name], day) for name, one in sorted(consents.items())]
    made += [
        PersonConsent(person, None, (), None, None, None, "no consent", places.total(), dict(places))
        for person, places in sorted(without.items())
    ]
    return tuple(made)


def standing_of(consent: Consent, today: date) -> Standing:
    """Whether a consent covers anything on a day, and for how long."""
    if consent.withdrawn is not None:
        return "withdrawn"
    if today < date.fromisoformat(consent.given):
        return "not yet valid"
    if consent.expires is None:
        return "valid"
    left = date.fromisoformat(consent.expires) - today
    return "expired" if left < timedelta(0) else "expires soon" if left < SOON else "valid"


def _covered(consent: Consent, places: Counter[str], today: date) -> PersonConsent:
    standing = standing_of(consent, today)
    dates = consent.given, consent.expires, consent.withdrawn
    return PersonConsent(
        consent.pseudonym, consent.id, consent.scope, *dates, standing, places.total(), dict(places)
    )


def _rows(workspace: Path) -> list[tuple[str, dict[str, str | None]]]:
    """Who acted in each episode of each readable dataset, and under which consent."""
    found: list[tuple[str, dict[str, str | None]]] = []
    for root in find_datasets(workspace):
        try:
            table = open_dataset(root).provenance_table()
        except DatasetError:
            continue
        if table is not None:
            rows = table.select(["actor", "actor_id", "consent"]).to_pylist()
            found += [(str(root.relative_to(workspace)), row) for row in rows]
    return found
