"""Which numbers of our signals an interface map names, and how their units become the policy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from twinloop.episode import Array, Schema, Signal
from twinloop.errors import MapError
from twinloop.logs.units import conversion
from twinloop.yaml_models import nearest_name

T = TypeVar("T")

STATE = "observation.state"


@dataclass(frozen=True)
class Linear:
    """policy's = ours * factor + shift, and back; both (k,), float64."""

    factor: Array
    shift: Array

    def apply(self, ours: Array) -> Array:
        """Convert our numbers (..., k) to the policy's."""
        return ours * self.factor + self.shift

    def invert(self, theirs: Array) -> Array:
        """Convert the policy's numbers (..., k) to ours."""
        return (theirs - self.shift) / self.factor

    def invert_difference(self, theirs: Array) -> Array:
        """Convert differences (..., k) of the policy's numbers to differences of ours: offsets and zero points cancel."""
        return np.asarray(theirs / self.factor)


def find_signal(schema: Schema, name: str, place: str) -> Signal:
    """The signal that a place in the map names."""
    known = {signal.name: signal for signal in schema.signals}
    if name not in known:
        raise MapError(f"{place}: {nearest_name(name, sorted(known))}")
    return known[name]


def find_elements(signal: Signal, names: Sequence[str], place: str) -> list[int]:
    """Where the named elements are in a signal; all of them where none is named. Without names, elements are numbered from 0."""
    known = signal.elements or tuple(str(number) for number in range(signal.size))
    for name in names:
        if name not in known:
            raise MapError(f"{place}: {nearest_name(name, known)}", expected=f"elements of {signal.name}")
    return [known.index(name) for name in names] if names else list(range(signal.size))


def make_linear(
    signal: Signal,
    columns: Sequence[int],
    unit: Sequence[str],
    sign: Sequence[float],
    scale: Sequence[float],
    offset: Sequence[float],
    place: str,
) -> Linear:
    """The conversion of these elements: policy's = sign * scale * (ours in `unit`) + offset."""
    own = [signal.units[column if len(signal.units) > 1 else 0] for column in columns]
    wanted = spread(unit, len(columns), f"{place}.unit") if unit else own
    try:
        pairs = np.array([conversion(ours, theirs) for ours, theirs in zip(own, wanted, strict=True)])
    except MapError as error:
        raise MapError(f"{place}.unit: {error.what}", remedy=error.remedy) from error
    factor = np.array(spread(sign, len(columns), f"{place}.sign")) * spread(
        scale, len(columns), f"{place}.scale"
    )
    shift = np.array(spread(offset, len(columns), f"{place}.offset"))
    return Linear(pairs[:, 0] * factor, pairs[:, 1] * factor + shift)


def spread(values: Sequence[T], count: int, place: str) -> list[T]:
    """One value for each of `count` numbers: as many as there are, or the same for all."""
    if len(values) not in (1, count):
        raise MapError(f"{place}: wrong number of values", got=len(values), expected=f"1 or {count}")
    return list(values) * count if len(values) == 1 else list(values)


def bare(element: str) -> str:
    """An element's joint: `elbow` for `elbow.pos` and `elbow.target`."""
    return element.removesuffix(".target").removesuffix(".pos")


def find_readings(schema: Schema) -> list[int] | None:
    """For each number of the action the element of `observation.state` that reads it; None where they do not fit each other.

    Elements are matched by name, or by order where names say nothing and there are as many.
    """
    known = {signal.name: signal for signal in schema.signals}
    if STATE not in known or "action" not in known:
        return None
    state, action = known[STATE], known["action"]
    place = {bare(name): index for index, name in enumerate(state.elements)}
    found = [place.get(bare(name), -1) for name in action.elements]
    if found and -1 not in found:
        return found
    return list(range(action.size)) if state.size == action.size and not found else None
