"""Real and simulated data side by side: which is which."""

from __future__ import annotations

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset
from twinloop.errors import WrongUse


def sources_of(dataset: Dataset) -> set[str]:
    """Where its episodes come from, as far as they say."""
    rows = query([dataset], "select distinct source from episodes where source is not null")
    return {row["source"] for row in rows.to_pylist()}


def refuse_swapped(real: Dataset, sim: Dataset) -> None:
    """Refuse simulated episodes given as real ones together with recorded ones given as simulated."""
    mine, theirs = sources_of(real), sources_of(sim)
    if mine == {"sim"} and theirs and "sim" not in theirs:
        raise WrongUse(
            "real and simulated episodes are swapped",
            got=f"--real {real.root} is simulated, --sim {sim.root} is not",
            remedy=f"--real {sim.root} --sim {real.root}",
        )
