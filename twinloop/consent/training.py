"""Check whether the training data of a policy may still be used for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.consent.policies import describe_use
from twinloop.consent.removal import find_numbers
from twinloop.consent.require import check_consent
from twinloop.consent.withdraw import find_datasets, load_tombstones
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import TwinloopError


@dataclass(frozen=True)
class Training:
    """Objections to the training data of a policy, and the names of datasets that cannot be checked."""

    objections: tuple[str, ...]
    missing: tuple[str, ...]


def check_training(workspace: Path, datasets: Sequence[Mapping[str, Any]]) -> Training:
    """Check the entries of a policy's `datasets` against the workspace and its withdrawals.

    An entry without a list of episodes can only be checked while that version of the dataset exists.
    """
    present: dict[str, list[Dataset]] = {}
    for root in find_datasets(workspace):
        try:
            dataset = open_dataset(root)
        except TwinloopError:
            continue
        present.setdefault(dataset.id, []).append(dataset)
    withdrawn = [
        (removal["dataset_id"], set(removal["episode_ids"]))
        for tombstone in load_tombstones(workspace)
        for removal in tombstone["removals"]
    ]
    objections, missing = [], []
    for entry in datasets:
        name, episodes = str(entry.get("name", entry["id"])), entry.get("episodes")
        same = [d for d in present.get(entry["id"], ()) if _version(d) == entry.get("version")]
        if (episodes is not None or not same) and (use := describe_use(entry, withdrawn)):
            objections.append(f"{name}: consent was withdrawn; {use}")
            continue
        wanted = None if episodes is None else set(map(str, episodes))
        checked = same if wanted is None else present.get(entry["id"], [])
        objections += [f"{name}: {reason}" for d in checked for reason in _objections(d, wanted, workspace)]
        if not checked or (wanted and not any(wanted <= _ids(d, wanted) for d in checked)):
            missing.append(name)
    return Training(tuple(objections), tuple(missing))


def _objections(dataset: Dataset, wanted: set[str] | None, workspace: Path) -> list[str]:
    objections = check_consent(dataset, "train", workspace)
    if wanted is not None and objections:
        used = find_numbers(dataset, list(wanted))
        objections = [objection for objection in objections if objection.episode in used]
    return [f"episode {objection.episode}, {objection.reason}" for objection in objections]


def _ids(dataset: Dataset, otherwise: set[str]) -> set[str]:
    provenance = dataset.provenance_table()
    return otherwise if provenance is None else set(provenance.column("episode_id").to_pylist())


def _version(dataset: Dataset) -> str | None:
    return dataset.manifest.fingerprint if dataset.manifest else None
