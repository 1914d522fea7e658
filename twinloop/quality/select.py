"""`select_usable`: the episodes of real datasets that a policy may be trained on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.layout import INFO
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import WrongUse
from twinloop.quality.check import check_dataset
from twinloop.quality.settings import Settings


def select_usable(datasets: Sequence[Dataset], out: str | Path) -> Dataset | None:
    """Copy the successful episodes without blocking findings into a new dataset.

    Args:
        datasets: Recorded datasets of one schema.
        out: Folder of the new dataset; what is there is replaced.

    Returns:
        The dataset, or None where no episode is usable.

    Raises:
        WrongUse: `out` is a folder with something else than a dataset, or one of the datasets.
    """
    folder = Path(out)
    _remove_dataset(folder, [dataset.root for dataset in datasets])
    usable = []
    for dataset in datasets:
        report = check_dataset(dataset, Settings(purpose="train"))
        blocked = {finding.episode for finding in report.blocking}
        outcomes = zip(dataset.numbers, known_outcomes(dataset), strict=True)
        usable += [
            dataset.episode(number) for number, success in outcomes if success and number not in blocked
        ]
    if not usable:
        return None
    register_artefact(folder, "dataset", usable, near=[dataset.root for dataset in datasets])
    history = ("selected", tuple(dataset.id for dataset in datasets), "usable successes")
    with make_dataset(folder, datasets[0].schema, history=history) as writer:
        for episode in usable:
            writer.add(episode)
    return open_dataset(folder)


def _remove_dataset(folder: Path, sources: Sequence[Path]) -> None:
    """Remove the dataset at a folder, if there is one; never anything else."""
    if not folder.exists():
        return
    inside = any(source.resolve().is_relative_to(folder.resolve()) for source in sources)
    if inside or not (folder / INFO).is_file():
        raise WrongUse(
            f"{folder} is not replaced",
            got="a dataset to select from" if inside else "a folder that is no dataset",
            expected="a new folder, or a dataset selected before",
        )
    shutil.rmtree(folder)
