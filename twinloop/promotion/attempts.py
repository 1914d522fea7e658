"""The gate runs a workspace has recorded, so that a policy cannot be gated repeatedly until it is promoted by luck.

A test that may stop at any time must not be restarted at will. Every real trial is recorded with the trials before it;
a later gate of the same policies on the same robot must continue from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.promotion.chain import locked
from twinloop.promotion.evidence import Evidence, PairedTrial

FILE = "gates.jsonl"


@dataclass(frozen=True)
class Attempt:
    """Progress of one gate: the number and hash of its real trials, and the file that holds them."""

    candidate: str
    champion: str | None
    robot: str | None
    evidence: str
    trials: int
    hash: str

    def is_continued_by(self, evidence: Evidence) -> bool:
        """Whether the evidence begins with these trials."""
        return self.hash == _hash(evidence.real[: self.trials])


def record_attempt(workspace: Path, evidence: Evidence, file: Path) -> None:
    """Record the real trials so far; durable on return."""
    attempt = Attempt(*_key(evidence), str(file.resolve()), len(evidence.real), _hash(evidence.real))
    path = workspace / FILE
    with locked(path):
        if attempt not in read_jsonl(path, Attempt, "a gate attempt"):
            append_jsonl(path, [asdict(attempt)])


def find_omitted(workspace: Path, evidence: Evidence) -> list[Attempt]:
    """The latest state of each earlier gate of the same policies and robot that this evidence does not continue."""
    newest: dict[str, Attempt] = {}
    for attempt in read_jsonl(workspace / FILE, Attempt, "a gate attempt"):
        if (attempt.candidate, attempt.champion, attempt.robot) == _key(evidence):
            newest[attempt.evidence] = attempt
    return [attempt for attempt in newest.values() if not attempt.is_continued_by(evidence)]


def _key(evidence: Evidence) -> tuple[str, str | None, str | None]:
    return evidence.candidate.id, evidence.champion.id if evidence.champion else None, evidence.robot


def _hash(trials: Sequence[PairedTrial]) -> str:
    return hashlib.sha256(
        json.dumps([asdict(trial) for trial in trials], sort_keys=True).encode()
    ).hexdigest()
