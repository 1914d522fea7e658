"""Parameters on a common footing: each one's prior range becomes the unit interval, by its logarithm where it spans decades."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.twins import Parameter, Twin

PRIOR_DEVIATION = 1.0 / math.sqrt(12.0)
"""The standard deviation of a uniform prior on the unit interval."""
_DECADES = 5.0


@dataclass(frozen=True)
class Scale:
    """One free parameter: its prior range and the map from values to the unit interval."""

    parameter: Parameter
    low: float
    high: float

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    @property
    def logarithmic(self) -> bool:
        """Whether equal ratios, rather than equal differences, are equally far apart."""
        return self.low > 0.0 and self.high / self.low > _DECADES

    def inward(self, value: Array | float) -> Array:
        """Values as places in the unit interval."""
        value = np.asarray(value, np.float64)
        if self.logarithmic:
            return np.asarray(np.log(value / self.low) / math.log(self.high / self.low))
        return np.asarray((value - self.low) / (self.high - self.low))

    def outward(self, place: Array | float) -> Array:
        """Places in the unit interval as values."""
        place = np.asarray(place, np.float64)
        if self.logarithmic:
            return np.asarray(self.low * (self.high / self.low) ** place)
        return np.asarray(self.low + (self.high - self.low) * place)

    def slope(self, place: float) -> float:
        """How fast the value changes with its place."""
        return (
            math.log(self.high / self.low) * float(self.outward(place))
            if self.logarithmic
            else self.high - self.low
        )


def make_scales(
    twin: Twin, names: Sequence[str], priors: Mapping[str, tuple[float, float]] | None = None
) -> tuple[Scale, ...]:
    """Scales of the named parameters; `priors` narrows ranges that are otherwise the twin's bounds."""
    made = []
    for name in (priors or {}).keys() - set(names):
        raise WrongUse(f"a prior for {name!r}, which is not a requested parameter", available=names)
    for name in names:
        parameter = twin.parameter(name)
        if parameter.choices or parameter.whole:
            raise WrongUse(
                f"parameter {name!r} cannot be identified: it is a choice or a count",
                remedy="name numeric parameters",
            )
        low, high = (priors or {}).get(name, parameter.bounds)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise WrongUse(
                f"parameter {name!r} has no finite range to search",
                got=f"{low:g} to {high:g}",
                remedy=f"--prior {name}=LOW:HIGH",
            )
        if low < parameter.bounds[0] or high > parameter.bounds[1]:
            raise WrongUse(
                f"the prior of {name!r} leaves the twin's bounds",
                got=f"{low:g} to {high:g}",
                expected=f"within {parameter.bounds[0]:g} to {parameter.bounds[1]:g}",
            )
        made.append(Scale(parameter, low, high))
    return tuple(made)


def places_of(scales: Sequence[Scale], values: Mapping[str, float]) -> Array:
    """Values as places, nominal where `values` has none; moved inside the range where they lie outside."""
    made = []
    for scale in scales:
        value = float(values.get(scale.name, float(scale.parameter.nominal)))
        made.append(float(np.clip(scale.inward(max(value, scale.low)), 0.0, 1.0)))
    return np.array(made)


def values_at(scales: Sequence[Scale], places: Array) -> dict[str, Array]:
    """Places (R, P) as one array (R,) of values per parameter."""
    return {scale.name: scale.outward(places[:, index]) for index, scale in enumerate(scales)}
