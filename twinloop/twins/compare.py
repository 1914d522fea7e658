"""Differences between two versions of a twin."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.twins.twin import Twin


@dataclass(frozen=True)
class Difference:
    """A parameter whose nominal value differs; None where a twin does not have it."""

    name: str
    first: float | str | None
    second: float | str | None
    unit: str
    dimension: str


def compare_twins(first: Twin, second: Twin) -> list[Difference]:
    """List the parameters whose nominal values differ.

    Args:
        first: a twin.
        second: another version of it.

    Returns:
        One entry per difference, in the first twin's order.
    """
    a, b = ({p.name: p for p in twin.parameters} for twin in (first, second))
    differences = []
    for name in dict.fromkeys([*a, *b]):
        one, other = a.get(name), b.get(name)
        values = (one.nominal if one else None, other.nominal if other else None)
        known = one or other
        if values[0] != values[1] and known is not None:
            differences.append(Difference(name, *values, known.unit, known.dimension))
    return differences
