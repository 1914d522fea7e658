"""Labels that people give to recorded episodes: appended to `labels.jsonl`, never overwritten.

One line per decision: `{"episode_id", "field", "value", "by", "at"}`. The last line for a field wins; `success` and
`failure` change the episode's outcome, `phase` and other fields are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import disk_errors, writer_lock
from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.datasets.layout import LABELS
from twinloop.episode import Outcome
from twinloop.errors import WrongUse

Value = bool | str | None

JUDGED = "judged"
"""Kind of the event that names the person who judged a trial at the robot."""


@dataclass(frozen=True)
class Label:
    """One decision about one field of one episode."""

    episode_id: str
    field: str
    value: Value
    by: str
    at: str


def add_labels(root: Path, episode_ids: Sequence[str], values: Mapping[str, Value], by: str) -> list[Label]:
    """Append one label per episode and field; durable on return."""
    if not by.strip():
        raise WrongUse("a label needs the name of its author", remedy="--by NAME")
    if not values:
        raise WrongUse("nothing to label", remedy="give --success, --failure MODE, --phase NAME or --unknown")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    labels = [
        Label(episode_id, field, value, by, at)
        for episode_id in episode_ids
        for field, value in values.items()
    ]
    with writer_lock(root), disk_errors(root):
        append_jsonl(root / LABELS, labels)
    return labels


def load_labels(root: Path) -> list[Label]:
    """Load every label of a dataset, oldest first."""
    return read_jsonl(root / LABELS, Label, "a label")


def current_outcomes(root: Path) -> dict[str, Outcome]:
    """Return the outcome of every episode whose success or failure has been labelled, by episode id."""
    outcomes: dict[str, Outcome] = {}
    for label in load_labels(root):
        before = outcomes.get(label.episode_id, Outcome())
        if label.field == "success":
            success = label.value if isinstance(label.value, bool) else None
            outcomes[label.episode_id] = Outcome(success, None if success else before.failure)
        elif label.field == "failure":
            failure = label.value if isinstance(label.value, str) else None
            outcomes[label.episode_id] = Outcome(False if failure else before.success, failure)
    return outcomes
