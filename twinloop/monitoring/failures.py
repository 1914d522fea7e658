"""Copies failed deployed episodes to a dataset of their own, for diagnosis and the next training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.layout import MANIFEST
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Outcome

UNSPECIFIED = "failed_in_use"


def collect_failures(deployed: Dataset, out: str | Path) -> int:
    """Copy failures that were not copied yet and return their number; each copy has the original as its parent."""
    target = Path(out)
    exists = (target / MANIFEST).exists()
    known: set[str] = set()
    if exists:
        copied = open_dataset(target)
        known = {parent for n in copied.numbers for parent in copied.episode(n).provenance.parents}
    failed = [
        n for n in deployed.numbers if (e := deployed.episode(n)).success is False and e.id not in known
    ]
    if not failed:
        return 0
    register_artefact(target, "dataset", [(deployed, failed)])
    opened = append_to(target, schema=deployed.schema) if exists else make_dataset(
        target, deployed.schema, history=("collected failures", (deployed.id,), "monitor")
    )  # fmt: skip
    with opened as writer:
        for number in failed:
            episode = deployed.episode(number)
            outcome = Outcome(False, episode.outcome.failure or UNSPECIFIED)
            copy = episode.with_provenance(parents=(*episode.provenance.parents, episode.id))
            writer.add(replace(copy, outcome=outcome))
    return len(failed)
