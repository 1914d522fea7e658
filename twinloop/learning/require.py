"""What data must be before a policy is trained on it; each refusal says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from twinloop.consent.require import require_consent
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset
from twinloop.errors import DamagedDataset, LearnError
from twinloop.learning.samples import Samples
from twinloop.policies.interface import Interface, Normalisation, make_interface, require_cameras
from twinloop.quality.require import require_usable

FARTHEST = 8.0
"""Standard deviations between the middle of new data and of the data a normalisation was fitted to. A joint in degrees
instead of radians is tens of them away, another camera height or table a few."""


def require_trainable(dataset: Dataset, workspace: Path) -> None:
    """Refuse data without consent for training, and data whose quality blocks it.

    Episodes of our own simulation have no sensors that freeze and no clocks that drift, and broken ones are marked as
    failed when they are made: their quality is not checked again. Nothing is learned from failed episodes, so theirs does
    not matter either.
    """
    _require_as_committed(dataset)
    require_consent(dataset, "train", workspace)
    if not _simulated(dataset):
        outcomes = zip(dataset.numbers, known_outcomes(dataset), strict=True)
        require_usable(dataset, "train", unused={number for number, success in outcomes if success is False})


def _require_as_committed(dataset: Dataset) -> None:
    """Refuse files of another size than when they were committed: what is cached and checked would be about others."""
    for name, entry in dataset.manifest.files.items() if dataset.manifest else ():
        size = dataset.bytes_of(name)
        if size != entry.bytes:
            raise DamagedDataset(
                f"{dataset.place}/{name} is not what was committed",
                got="nothing" if size is None else f"{size} bytes",
                expected=f"{entry.bytes} bytes",
                remedy=f"twinloop data verify {dataset.place}",
            )


def _simulated(dataset: Dataset) -> bool:
    side = dataset.provenance_table()
    return side is not None and set(side.column("source").to_pylist()) == {"sim"}


def require_same_interface(dataset: Dataset, interface: Interface, side: int) -> None:
    """Refuse data whose observations, actions or rate are not what the policy is made for, or whose images do not have
    `side` pixels each way for it."""
    names = [signal.name for signal in interface.observations]
    require_cameras(interface.cameras, dataset.schema.cameras, side, str(dataset.root))
    found = replace(make_interface(dataset.schema, names, str(dataset.root)), cameras=interface.cameras)
    if found.action.size != interface.action.size:
        raise LearnError(
            f"{dataset.place} has another action than the policy",
            got=f"{found.action.size} numbers",
            expected=f"{interface.action.size}: {', '.join(interface.action.elements)}",
        )
    if difference := interface.difference(found):
        raise LearnError(
            f"{dataset.place} does not fit the policy: {difference}",
            remedy="use data of the same robot and signals; `twinloop ingest --map` converts units and names",
        )


def require_same_scale(samples: Samples, normalisation: Normalisation, interface: Interface) -> None:
    """Refuse data that lies nowhere near what a normalisation was fitted to."""
    batch = samples.take(samples.validation, with_images=False)
    observed = batch.observation[:, -1]
    away = np.abs(np.median(observed, axis=0) - normalisation.observation_mean)
    away = away / normalisation.observation_scale
    worst = int(np.argmax(away))
    if away[worst] <= FARTHEST:
        return
    elements = [e for s in interface.observations for e in (s.elements or (s.name,) * s.size)]
    raise LearnError(
        f"{samples.dataset.root} does not fit the normalisation of the policy: {elements[worst]} is "
        f"{away[worst]:.0f} standard deviations away",
        got=f"a median of {np.median(observed[:, worst]):.4g}",
        expected=f"about {normalisation.observation_mean[worst]:.4g}",
        remedy="check units and calibration with `twinloop check`; or train without the other data",
    )
