"""Which episodes of a dataset succeeded, by what was recorded and by later labels."""

from __future__ import annotations

from twinloop.datasets.reader import Dataset


def known_outcomes(dataset: Dataset) -> list[bool | None]:
    """List whether each episode succeeded, labels included; None where it is unknown."""
    side = dataset.side_table()
    if side is None:
        return [None] * len(dataset)
    names, recorded = side.column("episode_id").to_pylist(), side.column("success").to_pylist()
    changed = dataset.outcomes
    return [
        changed[name].success if name in changed else success
        for name, success in zip(names, recorded, strict=True)
    ]
