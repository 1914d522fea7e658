"""Find policies that were trained on given episodes.

A policy's `policy.json`, wherever its folder lies in the workspace, holds `"datasets": [{"id", "version"}]`; an entry may also list `"episodes"`,
the ids it used. Without that list, every version of the dataset counts as having contained them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.records import find_records

RECORD = "policy.json"


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy, and why it is listed; `certain` is False if its record cannot be read."""

    name: str
    path: str
    certain: bool
    detail: str


def find_policies_trained_on(workspace: Path, removed: Sequence[tuple[str, set[str]]]) -> list[TrainedPolicy]:
    """Find policies trained on any of the removed episodes (dataset id, episode ids), uncertain ones included."""
    policies = []
    for path in sorted(find_records(workspace, RECORD)):
        name = path.parent.name
        try:
            datasets = _datasets(path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            policies.append(TrainedPolicy(name, str(path), False, f"policy.json cannot be read ({error})"))
            continue
        details = (describe_use(entry, removed) for entry in datasets)
        if detail := next(filter(None, details), None):
            policies.append(TrainedPolicy(name, str(path), True, detail))
    return policies


def describe_use(entry: Mapping[str, Any], removed: Sequence[tuple[str, set[str]]]) -> str | None:
    """Describe how an entry of a policy's `datasets` used removed episodes; None if it did not."""
    episodes = entry.get("episodes")
    if episodes is not None:
        removed_ids = set().union(*(ids for _, ids in removed)) if removed else set()
        used = removed_ids.intersection(map(str, episodes))
        return f"trained on {len(used)} of the episodes" if used else None
    if any(entry["id"] == dataset_id for dataset_id, _ in removed):
        return f"trained on dataset {entry['id']}, version {entry.get('version', 'unknown')}"
    return None


def _datasets(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    datasets = content["datasets"]
    if not isinstance(datasets, list) or not all(isinstance(d, dict) and "id" in d for d in datasets):
        raise ValueError('"datasets" is not a list of {"id", "version"}')
    return datasets
