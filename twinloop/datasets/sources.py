"""The sources of a dataset's episodes: simulated, real or stand-in."""

from __future__ import annotations

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset
from twinloop.errors import WrongUse


def list_sources(dataset: Dataset) -> set[str]:
    """Return the distinct sources of a dataset's episodes."""
    rows = query([dataset], "select distinct source from episodes where source is not null")
    return {row["source"] for row in rows.to_pylist()}


def refuse_swapped_sources(real: Dataset, sim: Dataset) -> None:
    """Raise `WrongUse` if `real` holds only simulated episodes and `sim` holds none."""
    real_sources, sim_sources = list_sources(real), list_sources(sim)
    if real_sources == {"sim"} and sim_sources and "sim" not in sim_sources:
        raise WrongUse(
            "real and simulated episodes are swapped",
            got=f"--real {real.root} is simulated, --sim {sim.root} is not",
            remedy=f"--real {sim.root} --sim {real.root}",
        )
