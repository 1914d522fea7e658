"""Labels people give to episodes after the fact: appended to `labels.jsonl`, never overwritten.

One line per decision: `{"episode_id", "field", "value", "by", "at"}`. The last line for a field rules; `success` and
`failure` change the episode's outcome, `phase` and anything else is kept as said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import disk_errors, writing
from twinloop.datasets.layout import LABELS
from twinloop.datasets.lines import append_lines, format_lines, read_lines
from twinloop.episode import Outcome
from twinloop.errors import WrongUse

Value = bool | str | None


@dataclass(frozen=True)
class Label:
    """One decision about one field of one episode."""

    episode_id: str
    field: str
    value: Value
    by: str
    at: str


def add_labels(root: Path, episode_ids: Sequence[str], values: Mapping[str, Value], by: str) -> list[Label]:
    """Append one label per episode and field; durable when this returns."""
    if not by.strip():
        raise WrongUse("a label needs the name of who gave it", remedy="--by NAME")
    if not values:
        raise WrongUse("nothing to label", remedy="give --success, --failure MODE, --phase NAME or --unknown")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    labels = [
        Label(identity, field, value, by, at) for identity in episode_ids for field, value in values.items()
    ]
    with writing(root), disk_errors(root):
        append_lines(root / LABELS, [asdict(label) for label in labels])
    return labels


def format_labels(labels: Sequence[Label]) -> bytes:
    """Labels as lines of `labels.jsonl`."""
    return format_lines([asdict(label) for label in labels])


def load_labels(root: Path) -> list[Label]:
    """Every label ever given, oldest first. A last line cut short by a crash was never promised and is ignored."""
    return read_lines(root / LABELS, Label, "a label")


def current_outcomes(root: Path) -> dict[str, Outcome]:
    """The outcome of every episode whose success or failure has been labelled, by episode id."""
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
