"""From YAML to a `Randomization`, and from a `Randomization` to a table."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.errors import InvalidRandomization, TwinloopError, UnknownName
from twinloop.randomization.aliases import resolve
from twinloop.randomization.config import GenerateConfig, load_config_twin, load_generate_config
from twinloop.randomization.default import NAME as DEFAULT
from twinloop.randomization.default import default_randomization
from twinloop.randomization.distribution import Distribution, WholeNumbers
from twinloop.randomization.notation import distribution_from
from twinloop.randomization.numerics import NUMERICS, describe_numerics
from twinloop.randomization.randomization import Correlation, Randomization, Variation, fit_distribution
from twinloop.twins import DIMENSIONS, Twin

SECTIONS = ("physics", *DIMENSIONS)


def load_randomization(
    source: str | Path | Mapping[str, Any] | GenerateConfig,
    twin: Twin | None = None,
    *,
    leave_out: Collection[str] = (),
) -> Randomization:
    """Load a randomization from a YAML file, from plain values, or from a generation config.

    Keys are parameter names or aliases (`friction_coefficient`), optionally in another unit (`_cm`, `_deg`, `_ms`), and
    may be grouped under `visual`, `physics` or a gap dimension. `randomization: default` is
    `default_randomization(twin)`; the key `from: default` starts from it. Schedules over progress need
    `randomization.over(episodes)` before they are drawn.

    Args:
        source: a YAML file, its values, or a config.
        twin: the twin whose parameters vary; default: the one that `source` names by `scene` or `twin`.
        leave_out: parameters that `default` does not vary; those that the source names itself vary all the same.

    Returns:
        The randomization, in the parameters' own units.

    Raises:
        UnknownName: a key is no parameter of the twin.
        InvalidRandomization: a value is no distribution, or exceeds the bounds of its parameter.
    """
    config = source if isinstance(source, GenerateConfig) else load_generate_config(source)
    twin = twin or load_config_twin(config)
    variations: list[Variation] = []
    correlations: list[Correlation] = []
    described = {"from": DEFAULT} if isinstance(config.randomization, str) else dict(config.randomization)
    base = _load_base(described.pop("from", None), twin, leave_out)
    for section, key, values in _entries(described):
        if key == "correlated":
            correlations += [_correlation(twin, entry) for entry in values]
        else:
            variations += _variations(twin, section, key, values)
    made = Randomization(config.name, twin.name, tuple(variations), tuple(correlations))
    return (base | made).named(config.name) if base is not None else made


def _load_base(name: Any, twin: Twin, leave_out: Collection[str]) -> Randomization | None:
    if name is None:
        return None
    if name != DEFAULT:
        raise UnknownName("randomization to start from", str(name), [DEFAULT])
    made = default_randomization(twin)
    return replace(made, variations=tuple(v for v in made.variations if v.name not in leave_out))


@dataclass(frozen=True)
class ExplainRow:
    """One row of the table of varied parameters."""

    parameter: str
    dimension: str
    unit: str
    nominal: str
    distribution: str
    description: str


def explain(randomization: Randomization) -> list[ExplainRow]:
    """List every varied parameter with unit, nominal value and distribution, sorted by dimension."""
    varied = [(v.parameter, str(v.distribution)) for v in randomization.variations]
    for correlation in randomization.correlations:
        for parameter in correlation.parameters:
            varied.append((parameter, f"{correlation.marginal(parameter.name)}, correlated"))
    rows = [
        ExplainRow(
            p.name,
            p.dimension,
            p.unit,
            p.nominal if isinstance(p.nominal, str) else f"{p.nominal:g}",
            text,
            p.description,
        )
        for p, text in varied
    ]
    return sorted(rows, key=lambda row: (DIMENSIONS.index(row.dimension), row.parameter))


def _entries(described: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(section, key, values) of every entry; the section is empty for entries that are not grouped."""
    entries = []
    for key, values in described.items():
        if key in SECTIONS:
            if not isinstance(values, Mapping):
                raise InvalidRandomization(f"section {key!r} is not a mapping", got=repr(values))
            entries += [(key, str(inner), inner_values) for inner, inner_values in values.items()]
        elif isinstance(values, Mapping) and difflib.get_close_matches(str(key), SECTIONS, cutoff=0.8):
            raise UnknownName("section of a randomization", str(key), SECTIONS)
        else:
            entries.append(("", str(key), values))
    return entries


def _variations(twin: Twin, section: str, key: str, values: Any) -> list[Variation]:
    if key in NUMERICS and not twin.has(key) and section in ("", "numerics", "physics"):
        return [Variation(*describe_numerics(twin, key, values))]
    names, factor = resolve(key, twin)
    made = []
    for name in names:
        parameter = twin.parameter(name)
        if section and not _belongs(section, parameter.dimension):
            raise InvalidRandomization(
                f"{key!r} does not belong to section {section!r}",
                expected=f"section {parameter.dimension!r}"
                + ("" if parameter.dimension == "visual" else " or 'physics'"),
                remedy="move it there",
            )
        try:
            distribution = (
                _pool(values) if key == "texture_pool" else distribution_from(values).scaled(factor)
            )
            made.append(Variation(parameter, fit_distribution(parameter, distribution)))
        except TwinloopError as error:
            raise InvalidRandomization(f"{key}: {error}") from error
    return made


def _belongs(section: str, dimension: str) -> bool:
    return dimension != "visual" if section == "physics" else dimension == section


def _pool(count: Any) -> Distribution:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidRandomization(
            "texture_pool is a number of textures", got=repr(count), expected="a whole number >= 1"
        )
    return WholeNumbers(0, count - 1)


def _correlation(twin: Twin, entry: Any) -> Correlation:
    known = {"parameters", "mean", "covariance", "std", "correlation"}
    if not isinstance(entry, Mapping) or not {"parameters", "mean"} <= set(entry):
        raise InvalidRandomization(
            "cannot read 'correlated'", got=repr(entry), expected="parameters, mean, covariance"
        )
    for key in entry:
        if key not in known:
            raise UnknownName("key of a correlated group", key, known)
    resolved = [resolve(key, twin) for key in entry["parameters"]]
    names = [
        names[0] if len(names) == 1 else key
        for (names, _), key in zip(resolved, entry["parameters"], strict=True)
    ]
    factors = np.array([factor for _, factor in resolved])
    try:
        mean = np.array(entry["mean"], dtype=np.float64) * factors
        covariance = _covariance(entry) * np.outer(factors, factors)
    except ValueError as error:
        raise InvalidRandomization("cannot read 'correlated'", got=str(error)) from error
    return Correlation(
        tuple(twin.parameter(name) for name in names),
        tuple(float(m) for m in mean),
        tuple(tuple(float(c) for c in row) for row in covariance),
    )


def _covariance(entry: Mapping[str, Any]) -> Any:
    if "covariance" in entry:
        return np.array(entry["covariance"], dtype=np.float64)
    if not {"std", "correlation"} <= set(entry):
        raise InvalidRandomization("cannot read 'correlated'", expected="covariance, or std and correlation")
    std = np.array(entry["std"], dtype=np.float64)
    return np.outer(std, std) * np.array(entry["correlation"], dtype=np.float64)
