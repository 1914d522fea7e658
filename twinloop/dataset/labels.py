"""Labels people give to episodes after the fact: appended to `labels.jsonl`, never overwritten.

One line per decision: `{"episode_id", "field", "value", "by", "at"}`. The last line for a field rules; `success` and
`failure` change the episode's outcome, `phase` and anything else is kept as said.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinloop.dataset.commit import disk_errors, sync, writing
from twinloop.dataset.layout import LABELS
from twinloop.episode import Outcome
from twinloop.errors import DamagedDataset, WrongUse

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
    with writing(root), disk_errors(root), (root / LABELS).open("a+b") as file:
        _cut_half_line(file.fileno())
        file.write(format_labels(labels))
        file.flush()
        os.fsync(file.fileno())
        sync((root / LABELS).parent)
    return labels


def format_labels(labels: Sequence[Label]) -> bytes:
    """Labels as lines of `labels.jsonl`."""
    return "".join(json.dumps(asdict(label)) + "\n" for label in labels).encode()


def load_labels(root: Path) -> list[Label]:
    """Every label ever given, oldest first. A last line cut short by a crash was never promised and is ignored."""
    path = root / LABELS
    try:
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DamagedDataset(f"{path} cannot be read ({error.strerror or error})") from error
    labels = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            labels.append(Label(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise DamagedDataset(
                f"{path}, line {number}, is not a label ({error})", remedy="correct or delete the line"
            ) from error
    return labels


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


def _cut_half_line(descriptor: int) -> None:
    """Drop the unfinished last line that a crash may have left, so that the next label starts a line of its own."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    if content and not content.endswith(b"\n"):
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)
