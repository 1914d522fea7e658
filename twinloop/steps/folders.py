"""What a stage's folder holds, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset
from twinloop.policies.policy import Policy, load_policy
from twinloop.stages import Done
from twinloop.stats.interval import exact_interval

DATA, USABLE, TWIN, RUNS, GATE, REPORT = "data", "usable", "twin", "runs", "gate", "report.html"
"""A dataset, what of it may be trained on, a calibrated twin, recordings of trials, a gate's evidence, a report."""

BELIEVED, COVERAGE, DIAGNOSIS, PLAN = "believed.json", "coverage.json", "diagnosis.json", "plan.json"

THREADS = 0
"""All cores; results do not depend on it."""

Found = dict[str, Any]


def policy_of(made: Done) -> Policy:
    """The policy that a stage trained."""
    return load_policy(made.folder / made.found["name"])


def described(dataset: Dataset) -> Found:
    """A dataset in a few values."""
    known = [success for success in known_outcomes(dataset) if success is not None]
    return {
        "version": dataset.manifest.fingerprint if dataset.manifest else None,
        "episodes": len(dataset),
        "rows": dataset.num_frames,
        "success": sum(known) / len(known) if known else None,
    }


def share_of(won: Sequence[bool]) -> Found:
    """Successes with their exact interval."""
    rate = exact_interval(sum(won), len(won)) if won else None
    return {
        "episodes": len(won),
        "successes": sum(won),
        "success": rate.value if rate else None,
        "interval_95": [rate.low, rate.high] if rate else [0.0, 1.0],
    }
