"""`Randomization`: a named joint distribution over a twin's parameters.

Randomizations compose: `a | b` varies what either varies, as `b` does where both do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import yaml

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
from twinloop.randomization.notation import distribution_from
from twinloop.randomization.numerics import NUMERICS, describe_numerics
from twinloop.twins import Parameter, Twin

MAX_FRACTION_OUTSIDE = 0.01
"""How much of an unbounded distribution may lie outside a parameter's bounds; such draws are clipped to the bound."""


@dataclass(frozen=True)
class Variation:
    """One parameter and its distribution."""

    parameter: Parameter
    distribution: Distribution

    def __post_init__(self) -> None:
        check_distribution(self.parameter, self.distribution)

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    def __str__(self) -> str:
        nominal = self.parameter.format(self.parameter.nominal)
        return f"{self.name}: {self.parameter.in_unit(str(self.distribution))} (nominal {nominal})"


@dataclass(frozen=True)
class Correlation:
    """Parameters that vary together: a multivariate normal in the parameters' own units.

    Args:
        parameters: the k parameters.
        mean: (k,) means.
        covariance: (k, k), symmetric and positive definite.
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
                f"{where}: mean and covariance do not match",
                got=f"{len(self.mean)} means, covariance {matrix.shape}",
                expected=f"{size} means, covariance {(size, size)}",
            )
        if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise InvalidRandomization(f"{where}: the covariance is not symmetric and finite")
        if np.linalg.eigvalsh(matrix).min() <= 0.0:
            raise InvalidRandomization(
                f"{where}: the covariance is not positive definite",
                remedy="keep correlations inside -1 to 1 and mutually consistent; drop fixed parameters",
            )
        for parameter, mean, variance in zip(self.parameters, self.mean, np.diag(matrix), strict=True):
            check_distribution(parameter, Normal(mean, float(np.sqrt(variance))))

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(parameter.name for parameter in self.parameters)

    def marginal(self, name: str) -> Normal:
        """The marginal distribution of one parameter."""
        index = self.names.index(name)
        return Normal(self.mean[index], float(np.sqrt(self.covariance[index][index])))

    def plain(self) -> dict[str, Any]:
        """Plain YAML values."""
        return {
            "parameters": list(self.names),
            "mean": list(self.mean),
            "covariance": [list(row) for row in self.covariance],
        }


@dataclass(frozen=True)
class Randomization:
    """A named joint distribution over the parameters of the twin called `twin`.

    A parameter that is not listed stays at its nominal value. Combine two with `|`, as with dictionaries.
    """

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
                remedy="keep one of the two; two keys may name the same parameter",
            )

    @property
    def names(self) -> list[str]:
        """Names of all varied parameters."""
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
        """The same for a run of `episodes`: schedules over progress become schedules over episode numbers."""
        resolved = tuple(
            replace(v, distribution=v.distribution.over(episodes))
            if isinstance(v.distribution, Schedule)
            else v
            for v in self.variations
        )
        return replace(self, variations=resolved)

    def __or__(self, other: Randomization) -> Randomization:
        """This randomization, with everything that `other` varies replaced.

        Where `other` replaces one of several correlated parameters, the rest keep their marginals, uncorrelated.
        """
        replaced = set(other.names)
        broken = [c for c in self.correlations if replaced & set(c.names)]
        kept = [v for v in self.variations if v.name not in replaced]
        kept += [
            Variation(parameter, correlation.marginal(parameter.name))
            for correlation in broken
            for parameter in correlation.parameters
            if parameter.name not in replaced
        ]
        whole = [c for c in self.correlations if c not in broken]
        return replace(
            self, variations=(*kept, *other.variations), correlations=(*whole, *other.correlations)
        )

    def named(self, name: str) -> Randomization:
        """The same randomization under another name."""
        return replace(self, name=name)

    def plain(self) -> dict[str, Any]:
        """Plain YAML values, which `load_randomization` reads."""
        varied: dict[str, Any] = {v.name: v.distribution.plain() for v in self.variations}
        if self.correlations:
            varied["correlated"] = [correlation.plain() for correlation in self.correlations]
        return {"name": self.name, "twin": self.twin, "randomization": varied}

    def to_yaml(self) -> str:
        """The randomization as YAML text."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)

    @property
    def content_hash(self) -> str:
        """128-bit hash of the distributions; independent of name and order."""
        described = {k: v for k, v in self.plain().items() if k != "name"}
        return hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return "\n".join(str(v) for v in self.variations)


def make_randomization(
    twin: Twin,
    distributions: Mapping[str, Any],
    *,
    correlated: Sequence[tuple[Sequence[str], Sequence[float], Any]] = (),
    name: str = "custom",
) -> Randomization:
    """Make a randomization from distributions in the parameters' own units.

    Args:
        twin: the twin whose parameters vary.
        distributions: parameter name to a distribution, or to what a YAML config may hold: a number, a word, a
            `(low, high)` range, a list of words.
        correlated: (names, mean (k,), covariance (k, k)) of parameters that vary together, for example an
            identification's posterior.
        name: stored in every episode's provenance.

    Returns:
        The randomization; combine it with others by `|`.

    Raises:
        UnknownName: the twin has no such parameter.
        InvalidRandomization: a distribution leaves the bounds of its parameter.
    """
    return Randomization(
        name,
        twin.name,
        tuple(_variation(twin, key, value) for key, value in distributions.items()),
        tuple(
            Correlation(
                tuple(twin.parameter(key) for key in keys),
                tuple(float(m) for m in mean),
                tuple(tuple(float(c) for c in row) for row in covariance),
            )
            for keys, mean, covariance in correlated
        ),
    )


def _variation(twin: Twin, key: str, described: Any) -> Variation:
    if key in NUMERICS and not twin.has(key):
        return Variation(*describe_numerics(twin, key, described))
    parameter = twin.parameter(key)
    plain = isinstance(described, int | float | str | list | tuple | dict)
    return Variation(
        parameter, fit_distribution(parameter, distribution_from(described)) if plain else described
    )


def check_distribution(parameter: Parameter, distribution: Distribution) -> None:
    """Raise unless every draw is a valid value of the parameter."""
    where = f"parameter {parameter.name!r}"
    if isinstance(distribution, Mixture):
        for part in distribution.parts:
            check_distribution(parameter, part)
        return
    if isinstance(distribution, Schedule):
        check_distribution(parameter, distribution.first)
        check_distribution(parameter, distribution.last)
        if parameter.whole:
            raise InvalidRandomization(f"{where}: an integer cannot follow a schedule")
        return
    values = _listed(distribution)
    if values is not None:
        for value in values:
            parameter.check(value)
        return
    if parameter.choices:
        raise InvalidRandomization(
            f"{where} takes words", got=str(distribution), expected=f"one of {parameter.choices}"
        )
    if parameter.whole and not isinstance(distribution, WholeNumbers):
        raise InvalidRandomization(
            f"{where} takes whole numbers", got=str(distribution), remedy="write {whole_numbers: [low, high]}"
        )
    low, high = parameter.bounds
    if isinstance(distribution, Normal):
        outside = distribution.outside(low, high)
        if outside > MAX_FRACTION_OUTSIDE:
            raise InvalidRandomization(
                f"{where}: {100 * outside:.1f} % of the draws lie outside its bounds",
                got=parameter.in_unit(str(distribution)),
                expected=parameter.in_unit(f"within {low:g} to {high:g}"),
                remedy="use truncated_normal, or a smaller standard deviation",
            )
        return
    least, most = distribution.support()
    if least < low or most > high:
        raise InvalidRandomization(
            f"{where}: the range exceeds its bounds",
            got=parameter.in_unit(str(distribution)),
            expected=parameter.in_unit(f"within {low:g} to {high:g}"),
            remedy="narrow the range, or give the key another unit: _cm, _deg, ...",
        )


def fit_distribution(parameter: Parameter, distribution: Distribution) -> Distribution:
    """The distribution as the parameter needs it: a range becomes whole numbers for an integer parameter."""
    if parameter.whole and isinstance(distribution, Uniform):
        return WholeNumbers(int(distribution.low), int(distribution.high))
    return distribution


def _listed(distribution: Distribution) -> tuple[float | str, ...] | None:
    if isinstance(distribution, Constant):
        return (distribution.value,)
    return distribution.values if isinstance(distribution, Categorical) else None
