"""What a workspace remembers of its gates, so that nobody tries a policy again and again until luck promotes it.

A test that may be stopped at any time may not be begun again at any time. Every real trial is noted with the trials before it;
a later gate of the same policies on the same robot must go on from them.
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
    """How far a gate came: its real trials by number and by hash, and the file they are in."""

    candidate: str
    champion: str | None
    robot: str | None
    evidence: str
    trials: int
    hash: str

    def within(self, evidence: Evidence) -> bool:
        """Whether the evidence begins with these trials."""
        return self.hash == _hash(evidence.real[: self.trials])


def note(workspace: Path, evidence: Evidence, file: Path) -> None:
    """Remember the real trials so far; durable when this returns."""
    attempt = Attempt(*_about(evidence), str(file.resolve()), len(evidence.real), _hash(evidence.real))
    path = workspace / FILE
    with locked(path):
        if attempt not in read_jsonl(path, Attempt, "a note of a gate"):
            append_jsonl(path, [asdict(attempt)])


def left_out(workspace: Path, evidence: Evidence) -> list[Attempt]:
    """Earlier gates of the same policies on the same robot that this evidence does not go on from, each as far as it came."""
    newest: dict[str, Attempt] = {}
    for attempt in read_jsonl(workspace / FILE, Attempt, "a note of a gate"):
        if (attempt.candidate, attempt.champion, attempt.robot) == _about(evidence):
            newest[attempt.evidence] = attempt
    return [attempt for attempt in newest.values() if not attempt.within(evidence)]


def _about(evidence: Evidence) -> tuple[str, str | None, str | None]:
    return evidence.candidate.id, evidence.champion.id if evidence.champion else None, evidence.robot


def _hash(trials: Sequence[PairedTrial]) -> str:
    return hashlib.sha256(json.dumps([asdict(one) for one in trials], sort_keys=True).encode()).hexdigest()
