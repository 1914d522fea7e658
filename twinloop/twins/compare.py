"""In what two versions of a twin differ."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.twins.twin import Twin


@dataclass(frozen=True)
class Difference:
    """A parameter whose nominal value is not the same, or that only one of the two has."""

    name: str
    first: float | str | None
    second: float | str | None
    unit: str
    dimension: str


def compare_twins(first: Twin, second: Twin) -> list[Difference]:
    """Every parameter whose nominal value differs, in the first twin's order."""
    a, b = ({p.name: p for p in twin.parameters} for twin in (first, second))
    made = []
    for name in dict.fromkeys([*a, *b]):
        one, other = a.get(name), b.get(name)
        values = (one.nominal if one else None, other.nominal if other else None)
        known = one or other
        if values[0] != values[1] and known is not None:
            made.append(Difference(name, *values, known.unit, known.dimension))
    return made
