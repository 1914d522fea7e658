"""Whether the data that policies were trained on may still be used for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.consent.policies import seen_of
from twinloop.consent.require import check_consent
from twinloop.consent.withdraw import find_datasets, load_tombstones
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import TwinloopError


@dataclass(frozen=True)
class Training:
    """Why data may not be used to train, and the names of datasets that nobody can look at."""

    objections: tuple[str, ...]
    missing: tuple[str, ...]


def check_training(workspace: Path, datasets: Sequence[Mapping[str, Any]]) -> Training:
    """Look at the entries of a policy's `datasets` in a workspace, and at what was withdrawn from it.

    An entry that lists no episodes can only be looked at while its very version is there.
    """
    there: dict[str, list[Dataset]] = {}
    for root in find_datasets(workspace):
        try:
            dataset = open_dataset(root)
        except TwinloopError:
            continue
        there.setdefault(dataset.id, []).append(dataset)
    withdrawn = [
        (removal["dataset_id"], set(removal["episode_ids"]))
        for tombstone in load_tombstones(workspace)
        for removal in tombstone["removals"]
    ]
    objections, missing = [], []
    for entry in datasets:
        name, episodes = str(entry.get("name", entry["id"])), entry.get("episodes")
        same = [d for d in there.get(entry["id"], ()) if _version(d) == entry.get("version")]
        if (episodes is not None or not same) and (seen := seen_of(entry, withdrawn)):
            objections.append(f"{name}: consent was withdrawn; {seen}")
            continue
        wanted = None if episodes is None else set(map(str, episodes))
        found = same if wanted is None else there.get(entry["id"], [])
        objections += [f"{name}: {reason}" for d in found for reason in _objections(d, wanted, workspace)]
        if not found or (wanted and not any(wanted <= _ids(d, wanted) for d in found)):
            missing.append(name)
    return Training(tuple(objections), tuple(missing))


def _objections(dataset: Dataset, wanted: set[str] | None, workspace: Path) -> list[str]:
    made = check_consent(dataset, "train", workspace)
    if wanted is not None and made:
        side = dataset.side_table()
        assert side is not None
        rows = side.select(["episode_index", "episode_id"]).to_pylist()
        used = {int(row["episode_index"]) for row in rows if row["episode_id"] in wanted}
        made = [objection for objection in made if objection.episode in used]
    return [f"episode {objection.episode}, {objection.reason}" for objection in made]


def _ids(dataset: Dataset, otherwise: set[str]) -> set[str]:
    side = dataset.side_table()
    return otherwise if side is None else set(side.column("episode_id").to_pylist())


def _version(dataset: Dataset) -> str | None:
    return dataset.manifest.fingerprint if dataset.manifest else None
