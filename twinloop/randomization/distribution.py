"""Distributions of one parameter, each drawn by its quantile function.

A draw is `quantile(u, episode)` of uniform numbers u in (0, 1), so that one number per draw is enough, any batch of
episodes can be drawn at once, and nothing depends on the order in which parameters are drawn. Distributions are frozen
values in the parameter's own unit: they print, compare and turn into plain YAML values and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy.special import ndtr, ndtri

from twinloop.episode import Array
from twinloop.errors import InvalidRandomization


class Distribution(Protocol):
    """What every distribution of a single parameter can do."""

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """Values at the given probabilities, (n,) numbers or words; `uniform` is (n, 2), see `Mixture`."""

    def support(self) -> tuple[float, float]:
        """The smallest interval that holds every value."""

    def scaled(self, factor: float) -> Distribution:
        """The distribution of `factor` times the quantity: a change of unit."""

    def plain(self) -> Any:
        """YAML-ready values that `distribution_from` reads back."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Constant:
    """Always the same value."""

    value: float | str

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """The value, n times."""
        return np.full(len(uniform), self.value, dtype=object if isinstance(self.value, str) else np.float64)

    def support(self) -> tuple[float, float]:
        """The value itself; words have none."""
        return _words_support() if isinstance(self.value, str) else (self.value, self.value)

    def scaled(self, factor: float) -> Constant:
        """The same quantity in another unit."""
        return self if isinstance(self.value, str) else Constant(self.value * factor)

    def plain(self) -> Any:
        """The value itself."""
        return self.value

    def __str__(self) -> str:
        return f"always {_text(self.value)}"


@dataclass(frozen=True)
class _Range:
    """A distribution between two finite numbers."""

    low: float
    high: float
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InvalidRandomization(
                f"{self.kind} needs finite numbers", got=f"{self.low:g} to {self.high:g}"
            )
        if self.low > self.high:
            raise InvalidRandomization(
                "the range is reversed",
                got=f"[{self.low:g}, {self.high:g}]",
                expected=f"[{self.high:g}, {self.low:g}]",
                remedy="swap the ends",
            )

    def support(self) -> tuple[float, float]:
        """From low to high."""
        return float(self.low), float(self.high)

    def scaled(self, factor: float) -> Self:
        """The same quantity in another unit."""
        return replace(self, low=self.low * factor, high=self.high * factor)

    def plain(self) -> Any:
        """{kind: [low, high]}."""
        return {self.kind: [self.low, self.high]}


@dataclass(frozen=True)
class Uniform(_Range):
    """Uniform from low to high."""

    kind: ClassVar[str] = "uniform"

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """low + (high - low) u."""
        return np.asarray(self.low + (self.high - self.low) * uniform[:, 0])

    def plain(self) -> Any:
        """A pair."""
        return [self.low, self.high]

    def __str__(self) -> str:
        return f"uniform {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class LogUniform(_Range):
    """Log-uniform from low to high."""

    kind: ClassVar[str] = "log_uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low > 0.0:
            raise InvalidRandomization(
                "log_uniform needs positive numbers", got=f"{self.low:g} to {self.high:g}"
            )

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """low (high / low)^u."""
        return np.asarray(self.low * (self.high / self.low) ** uniform[:, 0])

    def __str__(self) -> str:
        return f"log-uniform {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Normal:
    """Normal, truncated at `low` and `high` where given."""

    mean: float
    std: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0.0):
            raise InvalidRandomization(
                "normal needs a finite mean and a positive standard deviation", got=(self.mean, self.std)
            )
        if not self.low < self.high:
            raise InvalidRandomization(
                "the range is reversed or empty", got=f"{self.low:g} to {self.high:g}", expected="low < high"
            )
        below, above = self._probabilities()
        if above - below < 1e-6:
            raise InvalidRandomization(
                "almost no part of the normal lies in its range",
                got=f"mean {self.mean:g}, std {self.std:g}, range {self.low:g} to {self.high:g}",
            )

    def _probabilities(self) -> tuple[float, float]:
        return float(ndtr((self.low - self.mean) / self.std)), float(ndtr((self.high - self.mean) / self.std))

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """The inverse of the cumulative distribution between the cuts."""
        below, above = self._probabilities()
        drawn = self.mean + self.std * ndtri(below + (above - below) * uniform[:, 0])
        return np.asarray(np.clip(drawn, self.low, self.high))

    def support(self) -> tuple[float, float]:
        """From low to high."""
        return self.low, self.high

    def outside(self, low: float, high: float) -> float:
        """Probability of a value below `low` or above `high`."""
        below, above = self._probabilities()
        inside_low, inside_high = (float(ndtr((edge - self.mean) / self.std)) for edge in (low, high))
        covered = max(0.0, min(above, inside_high) - max(below, inside_low))
        return 1.0 - covered / (above - below)

    def scaled(self, factor: float) -> Normal:
        """The same quantity in another unit."""
        edges = sorted((self.low * factor, self.high * factor))
        return Normal(self.mean * factor, self.std * abs(factor), edges[0], edges[1])

    def plain(self) -> Any:
        """{normal: [mean, std]}, or truncated_normal with its range."""
        if self.low == -math.inf and self.high == math.inf:
            return {"normal": [self.mean, self.std]}
        return {"truncated_normal": {"mean": self.mean, "std": self.std, "low": self.low, "high": self.high}}

    def __str__(self) -> str:
        cut = (
            "" if (self.low, self.high) == (-math.inf, math.inf) else f" within {self.low:g} to {self.high:g}"
        )
        return f"normal {self.mean:g} ± {self.std:g}{cut}"


@dataclass(frozen=True)
class Categorical:
    """One of several values, each with a weight."""

    values: tuple[float | str, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidRandomization("categorical needs at least one value")
        if len({isinstance(value, str) for value in self.values}) > 1:
            raise InvalidRandomization("categorical mixes words and numbers", got=list(self.values))
        if self.weights and (
            len(self.weights) != len(self.values) or min(self.weights) < 0 or sum(self.weights) <= 0
        ):
            raise InvalidRandomization(
                "categorical needs one weight >= 0 per value",
                got=list(self.weights),
                expected=len(self.values),
            )

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """The value whose cumulative interval contains u."""
        weights = np.array(self.weights or (1.0,) * len(self.values))
        edges = np.cumsum(weights / weights.sum())[:-1]
        kind: Any = object if isinstance(self.values[0], str) else np.float64
        return np.array(self.values, dtype=kind)[np.searchsorted(edges, uniform[:, 0], side="right")]

    def support(self) -> tuple[float, float]:
        """From the smallest to the largest value; words have none."""
        numbers = [value for value in self.values if not isinstance(value, str)]
        return (min(numbers), max(numbers)) if numbers else _words_support()

    def scaled(self, factor: float) -> Categorical:
        """The same quantity in another unit."""
        return Categorical(tuple(v if isinstance(v, str) else v * factor for v in self.values), self.weights)

    def plain(self) -> Any:
        """{categorical: {values, weights}}."""
        described: dict[str, Any] = {"values": list(self.values)}
        if self.weights:
            described["weights"] = list(self.weights)
        return {"categorical": described}

    def __str__(self) -> str:
        shown = ", ".join(_text(value) for value in self.values[:4])
        return f"one of {shown}" + (f" ... ({len(self.values)} values)" if len(self.values) > 4 else "")


@dataclass(frozen=True)
class WholeNumbers(_Range):
    """Uniform over the whole numbers from low to high, both included."""

    low: int
    high: int
    kind: ClassVar[str] = "whole_numbers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low != round(self.low) or self.high != round(self.high):
            raise InvalidRandomization("whole_numbers needs whole numbers", got=[self.low, self.high])

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """low plus the floor of u times the count."""
        return np.asarray(self.low + np.floor(uniform[:, 0] * (self.high - self.low + 1)))

    def scaled(self, factor: float) -> Self:
        """Counts have no other unit."""
        if factor != 1.0:
            raise InvalidRandomization("a count has no unit to convert", got=factor)
        return self

    def plain(self) -> Any:
        """{whole_numbers: [low, high]}."""
        return {"whole_numbers": [int(self.low), int(self.high)]}

    def __str__(self) -> str:
        return f"whole number {self.low} to {self.high}"


@dataclass(frozen=True)
class Mixture:
    """One of several distributions, each with a weight; the second uniform number chooses."""

    parts: tuple[Distribution, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if (
            not self.parts
            or len(self.weights) != len(self.parts)
            or min(self.weights) < 0
            or sum(self.weights) <= 0
        ):
            raise InvalidRandomization(
                "a mixture needs one weight >= 0 per part", got=list(self.weights), expected=len(self.parts)
            )
        if any(isinstance(part, Mixture | Schedule) for part in self.parts):
            raise InvalidRandomization(
                "the parts of a mixture are plain distributions", remedy="flatten the mixture"
            )

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """The chosen part's quantile."""
        edges = np.cumsum(np.array(self.weights) / sum(self.weights))[:-1]
        chosen = np.searchsorted(edges, uniform[:, 1], side="right")
        return np.choose(chosen, [part.quantile(uniform, episode) for part in self.parts])

    def support(self) -> tuple[float, float]:
        """The union of the parts' supports."""
        supports = [part.support() for part in self.parts]
        return min(low for low, _ in supports), max(high for _, high in supports)

    def scaled(self, factor: float) -> Mixture:
        """The same quantity in another unit."""
        return Mixture(tuple(part.scaled(factor) for part in self.parts), self.weights)

    def plain(self) -> Any:
        """{mixture: [{weight, of}, ...]}."""
        pairs = zip(self.parts, self.weights, strict=True)
        return {"mixture": [{"weight": weight, "of": part.plain()} for part, weight in pairs]}

    def __str__(self) -> str:
        total = sum(self.weights)
        pairs = zip(self.parts, self.weights, strict=True)
        return "; ".join(f"{100 * weight / total:.0f} % {part}" for part, weight in pairs)


@dataclass(frozen=True)
class Schedule:
    """A curriculum: one distribution becomes another over the episodes.

    Before `start` the draws come from `first`, after `end` from `last`; between, quantiles are interpolated. Start and
    end are episode numbers, or, with `progress`, fractions of a run, which `over(episodes)` turns into numbers.
    """

    first: Distribution
    last: Distribution
    start: float
    end: float
    progress: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.start < self.end:
            raise InvalidRandomization(
                "a schedule runs forward", got=f"{self.start:g} to {self.end:g}", expected="0 <= start < end"
            )
        if self.progress and self.end > 1.0:
            raise InvalidRandomization("progress runs from 0 to 1", got=f"end {self.end:g}")
        if isinstance(self.first, Schedule | Mixture) or isinstance(self.last, Schedule | Mixture):
            raise InvalidRandomization("a schedule runs between two plain distributions")

    def over(self, episodes: int) -> Schedule:
        """The schedule in episode numbers of a run of `episodes`."""
        if not self.progress:
            return self
        return Schedule(self.first, self.last, self.start * episodes, self.end * episodes)

    def quantile(self, uniform: Array, episode: Array) -> Array:
        """Both quantiles, weighted by how far the episode is on its way."""
        if self.progress:
            raise InvalidRandomization(
                "a schedule over progress needs the length of the run",
                remedy="call randomization.over(episodes) first",
            )
        weight = np.clip((episode - self.start) / (self.end - self.start), 0.0, 1.0)
        first, last = self.first.quantile(uniform, episode), self.last.quantile(uniform, episode)
        return np.asarray((1.0 - weight) * first + weight * last)

    def support(self) -> tuple[float, float]:
        """The union of both supports."""
        supports = (self.first.support(), self.last.support())
        return min(low for low, _ in supports), max(high for _, high in supports)

    def scaled(self, factor: float) -> Schedule:
        """The same quantity in another unit."""
        return Schedule(
            self.first.scaled(factor), self.last.scaled(factor), self.start, self.end, self.progress
        )

    def plain(self) -> Any:
        """{schedule: {from, to, progress | episodes}}."""
        span = "progress" if self.progress else "episodes"
        described = {"from": self.first.plain(), "to": self.last.plain(), span: [self.start, self.end]}
        return {"schedule": described}

    def __str__(self) -> str:
        span = "progress" if self.progress else "episode"
        return f"{self.first}, becoming {self.last} from {span} {self.start:g} to {self.end:g}"


def _words_support() -> tuple[float, float]:
    return -math.inf, math.inf


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
