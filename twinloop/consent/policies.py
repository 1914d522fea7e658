"""Which policies were trained on which episodes.

What is read of a policy is `policies/<name>/policy.json` with `"datasets": [{"id", "version"}]`; an entry may also
list `"episodes"`, the ids it used. Without that list, any version of a dataset counts as having held them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICIES = "policies"


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy and why it is listed: what it saw, or what it does not say."""

    name: str
    path: str
    certain: bool
    detail: str


def policies_trained_on(workspace: Path, removed: Sequence[tuple[str, set[str]]]) -> list[TrainedPolicy]:
    """Policies that saw any of the episodes removed from datasets (id, episode ids); doubtful ones are listed too."""
    found = []
    for path in sorted((workspace / POLICIES).glob("*/policy.json")):
        name = path.parent.name
        try:
            datasets = _datasets(path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            found.append(TrainedPolicy(name, str(path), False, f"policy.json cannot be read ({error})"))
            continue
        policy = _judge(name, path, datasets, removed)
        if policy:
            found.append(policy)
    return found


def _judge(
    name: str, path: Path, datasets: list[dict[str, Any]], removed: Sequence[tuple[str, set[str]]]
) -> TrainedPolicy | None:
    for entry in datasets:
        if detail := seen_of(entry, removed):
            return TrainedPolicy(name, str(path), True, detail)
    return None


def seen_of(entry: Mapping[str, Any], removed: Sequence[tuple[str, set[str]]]) -> str | None:
    """What an entry of `datasets` saw of episodes removed from datasets, or None when nothing."""
    episodes = entry.get("episodes")
    if episodes is not None:
        everything = set().union(*(ids for _, ids in removed)) if removed else set()
        seen = everything.intersection(map(str, episodes))
        return f"trained on {len(seen)} of the episodes" if seen else None
    if any(entry["id"] == dataset_id for dataset_id, _ in removed):
        return f"trained on dataset {entry['id']}, version {entry.get('version', 'unknown')}"
    return None


def _datasets(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    datasets = content["datasets"]
    if not isinstance(datasets, list) or not all(isinstance(d, dict) and "id" in d for d in datasets):
        raise ValueError('"datasets" is not a list of {"id", "version"}')
    return datasets
