"""Visual: six causes for which recorded images differ from the twin's, each a dimension that costs success by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinloop.diagnosis.measured import Measured, Quantity
from twinloop.episode import Episode
from twinloop.looks.measure import measure_look
from twinloop.looks.measured import CAUSES, LookQuantity
from twinloop.twins import Twin


def measure_visual(
    cameras: Sequence[str], real: Sequence[Episode], twin: Twin, rows: int, seed: int
) -> tuple[tuple[Measured, ...], Mapping[str, Mapping[str, bytes]]]:
    """What recorded images show that the twin's do not.

    Args:
        cameras: The cameras that the policy sees.
        real: Recorded runs.
        twin: The robot's twin.
        rows: Number of draws.
        seed: Random seed.

    Returns:
        One dimension for each cause, and the photographs that a dimension puts on the twin, by name.
    """
    if not cameras:
        return (Measured("visual", missing=("images: this policy sees none",)),), {}
    look = measure_look(real, twin, cameras, rows=rows, seed=seed)
    if not look.quantities:
        return (Measured("visual", missing=look.missing),), {}
    made = [
        Measured(
            cause,
            tuple(_quantity(one) for one in look.quantities if one.cause == cause),
            look.values.get(cause, {}),
            look.missing if cause == CAUSES[0] else (),
            photographs=tuple(look.assets.get(cause, ())),
        )
        for cause in CAUSES
    ]
    return tuple(made), look.assets


def _quantity(one: LookQuantity) -> Quantity:
    return Quantity(
        f"{one.name}, {one.camera}",
        one.real.unit,
        one.twin,
        one.real.value,
        one.real.low,
        one.real.high,
        one.differs,
    )
