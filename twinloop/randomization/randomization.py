"""`Randomization`: a named joint distribution over a twin's parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from twinloop.errors import InvalidRandomization, UnknownName
from twinloop.randomization.distribution import (
    Categorical,
    Constant,
    Distribution,
    Mixture,
    Normal,
    Schedule,
    Uniform,
    WholeNumbers,
)
from twinloop.twins import Parameter, Twin

Array = NDArray[Any]

LARGEST_SHARE_OUTSIDE = 0.01
"""How much of an unbounded distribution may lie outside a parameter's bounds; such draws are moved to the bound."""


@dataclass(frozen=True)
class Variation:
    """One parameter and how it varies; knows its nominal value and unit."""

    parameter: Parameter
    distribution: Distribution

    def __post_init__(self) -> None:
        check_distribution(self.parameter, self.distribution)

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    def __str__(self) -> str:
        varied, nominal = str(self.distribution), _text(self.parameter.nominal)
        return f"{self.name}: {self.parameter.in_unit(varied)} (nominal {self.parameter.in_unit(nominal)})"


@dataclass(frozen=True)
class Correlation:
    """Parameters that vary together: a multivariate normal, in the parameters' units.

    `covariance` is symmetric and positive definite, one row per parameter.
    """

    parameters: tuple[Parameter, ...]
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        where = f"correlated parameters {', '.join(self.names)}"
        size = len(self.parameters)
        matrix = np.array(self.covariance, dtype=np.float64)
        if len(self.mean) != size or matrix.shape != (size, size):
            raise InvalidRandomization(
                f"{where}: sizes differ",
                got=f"{len(self.mean)} means, covariance {matrix.shape}",
                expected=size,
            )
        if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise InvalidRandomization(f"{where}: the covariance is not symmetric and finite")
        if np.linalg.eigvalsh(matrix).min() <= 0.0:
            raise InvalidRandomization(
                f"{where}: the covariance is not positive definite",
                remedy="correlations must lie inside -1 to 1 and agree with each other; drop a parameter that is fixed",
            )
        for parameter, mean, variance in zip(self.parameters, self.mean, np.diag(matrix), strict=True):
            check_distribution(parameter, Normal(mean, float(np.sqrt(variance))))

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(parameter.name for parameter in self.parameters)

    def marginal(self, name: str) -> Normal:
        """The distribution of one of the parameters on its own."""
        index = self.names.index(name)
        return Normal(self.mean[index], float(np.sqrt(self.covariance[index][index])))

    def plain(self) -> dict[str, Any]:
        """YAML-ready values."""
        return {
            "parameters": list(self.names),
            "mean": list(self.mean),
            "covariance": [list(row) for row in self.covariance],
        }


@dataclass(frozen=True)
class Randomization:
    """A named joint distribution over parameters of the twin called `twin`."""

    name: str
    twin: str
    variations: tuple[Variation, ...] = ()
    correlations: tuple[Correlation, ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRandomization(
                f"randomization {self.name!r} varies a parameter twice",
                got=", ".join(twice),
                remedy="keep one of the two; a friendly key and a parameter may mean the same",
            )

    @property
    def names(self) -> list[str]:
        """Every parameter that is drawn."""
        return [v.name for v in self.variations] + [name for c in self.correlations for name in c.names]

    def __getitem__(self, name: str) -> Distribution:
        """The (marginal) distribution of one parameter."""
        for variation in self.variations:
            if variation.name == name:
                return variation.distribution
        for correlation in self.correlations:
            if name in correlation.names:
                return correlation.marginal(name)
        raise UnknownName(f"parameter of randomization {self.name}", name, self.names)

    def over(self, episodes: int) -> Randomization:
        """The same, with schedules over progress turned into episode numbers of a run of `episodes`."""
        resolved = tuple(
            replace(v, distribution=v.distribution.over(episodes))
            if isinstance(v.distribution, Schedule)
            else v
            for v in self.variations
        )
        return replace(self, variations=resolved)

    def updated(self, other: Randomization, *, name: str | None = None) -> Randomization:
        """This with what `other` varies in its place; a correlation of which one parameter is replaced keeps the rest alone."""
        taken = set(other.names)
        loose = [c for c in self.correlations if taken & set(c.names)]
        kept = [v for v in self.variations if v.name not in taken]
        kept += [
            Variation(parameter, correlation.marginal(parameter.name))
            for correlation in loose
            for parameter in correlation.parameters
            if parameter.name not in taken
        ]
        whole = [c for c in self.correlations if c not in loose]
        return Randomization(
            name or self.name,
            self.twin,
            (*kept, *other.variations),
            (*whole, *other.correlations),
        )

    def plain(self) -> dict[str, Any]:
        """YAML-ready values that `load_randomization` reads back."""
        varied: dict[str, Any] = {v.name: v.distribution.plain() for v in self.variations}
        if self.correlations:
            varied["correlated"] = [correlation.plain() for correlation in self.correlations]
        return {"name": self.name, "twin": self.twin, "randomization": varied}

    def to_yaml(self) -> str:
        """The randomization as YAML text."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)

    @property
    def content_hash(self) -> str:
        """A 128-bit name of what is drawn; the order in which parameters were listed does not matter."""
        described = {k: v for k, v in self.plain().items() if k != "name"}
        return hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return "\n".join(str(v) for v in self.variations)


def make_randomization(
    twin: Twin,
    distributions: Mapping[str, Distribution],
    *,
    correlated: Sequence[tuple[Sequence[str], Sequence[float], Any]] = (),
    name: str = "custom",
) -> Randomization:
    """A randomization from distributions in the parameters' own units.

    `correlated` holds (names, mean, covariance) triples, for example from an identification's posterior.
    """
    return Randomization(
        name,
        twin.name,
        tuple(Variation(twin.parameter(key), value) for key, value in distributions.items()),
        tuple(
            Correlation(
                tuple(twin.parameter(key) for key in keys),
                tuple(float(m) for m in mean),
                tuple(tuple(float(c) for c in row) for row in covariance),
            )
            for keys, mean, covariance in correlated
        ),
    )


def check_distribution(parameter: Parameter, distribution: Distribution) -> None:
    """Raise unless every draw would be a value the parameter may take."""
    where = f"parameter {parameter.name!r}"
    if isinstance(distribution, Mixture):
        for part in distribution.parts:
            check_distribution(parameter, part)
        return
    if isinstance(distribution, Schedule):
        check_distribution(parameter, distribution.first)
        check_distribution(parameter, distribution.last)
        if parameter.whole:
            raise InvalidRandomization(f"{where}: a count cannot follow a schedule")
        return
    values = _listed(distribution)
    if values is not None:
        for value in values:
            parameter.check(value)
        return
    if parameter.choices:
        raise InvalidRandomization(
            f"{where} is a word", got=str(distribution), expected=f"of {parameter.choices}"
        )
    if parameter.whole and not isinstance(distribution, WholeNumbers):
        raise InvalidRandomization(
            f"{where} is a whole number", got=str(distribution), remedy="write {whole_numbers: [low, high]}"
        )
    low, high = parameter.bounds
    if isinstance(distribution, Normal):
        outside = distribution.outside(low, high)
        if outside > LARGEST_SHARE_OUTSIDE:
            raise InvalidRandomization(
                f"{where}: {100 * outside:.1f} % of the draws would lie outside its bounds",
                got=parameter.in_unit(str(distribution)),
                expected=parameter.in_unit(f"within {low:g} to {high:g}"),
                remedy="use truncated_normal, or a smaller standard deviation",
            )
        return
    least, most = distribution.support()
    if least < low or most > high:
        raise InvalidRandomization(
            f"{where}: the range leaves its bounds",
            got=parameter.in_unit(str(distribution)),
            expected=parameter.in_unit(f"within {low:g} to {high:g}"),
            remedy="narrow the range; if the unit is wrong, write the key with its unit, as in _cm or _deg",
        )


def fitting(parameter: Parameter, distribution: Distribution) -> Distribution:
    """The distribution as the parameter needs it: a range of a count is a range of whole numbers."""
    if parameter.whole and isinstance(distribution, Uniform):
        return WholeNumbers(int(distribution.low), int(distribution.high))
    return distribution


def _listed(distribution: Distribution) -> tuple[float | str, ...] | None:
    if isinstance(distribution, Constant):
        return (distribution.value,)
    return distribution.values if isinstance(distribution, Categorical) else None


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
