"""Which episodes of a dataset succeeded, by what was recorded and by later labels."""

from __future__ import annotations

from twinloop.datasets.reader import Dataset


def known_outcomes(dataset: Dataset) -> list[bool | None]:
    """List whether each episode succeeded, labels included; None where it is unknown."""
    side = dataset.provenance_table()
    if side is None:
        return [None] * len(dataset)
    names, recorded = side.column("episode_id").to_pylist(), side.column("success").to_pylist()
    changed = dataset.outcomes
    return [
        changed[name].success if name in changed else success
        for name, success in zip(names, recorded, strict=True)
    ]


def success_rate(dataset: Dataset) -> float:
    """The fraction of judged episodes that succeeded, labels included; 1 where none was judged."""
    judged = [success for success in known_outcomes(dataset) if success is not None]
    return sum(judged) / len(judged) if judged else 1.0
