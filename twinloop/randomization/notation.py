"""How distributions are written in YAML: a number, a word, [low, high], or {kind: arguments}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinloop.errors import InvalidRandomization
from twinloop.randomization.distribution import (
    Categorical,
    Constant,
    Distribution,
    LogUniform,
    Mixture,
    Normal,
    Schedule,
    Uniform,
    WholeNumbers,
)

Reader = Callable[[Any], Distribution]


def distribution_from(values: Any) -> Distribution:
    """The distribution that YAML values describe: a number, a word, [low, high], or {kind: arguments}."""
    if isinstance(values, bool) or values is None:
        raise InvalidRandomization("not a distribution", got=repr(values), expected=FORMS)
    if isinstance(values, int | float | str):
        return Constant(values if isinstance(values, str) else float(values))
    if isinstance(values, list | tuple):
        if len(values) == 2 and all(_is_number(v) for v in values):
            return Uniform(float(values[0]), float(values[1]))
        if values and all(isinstance(v, str) for v in values):
            return Categorical(tuple(values))
        raise InvalidRandomization("a list is [low, high] or a list of words", got=values, expected=FORMS)
    if isinstance(values, dict) and len(values) == 1:
        kind, arguments = next(iter(values.items()))
        if kind in READERS:
            try:
                return READERS[kind](arguments)
            except (TypeError, KeyError, ValueError) as error:
                raise InvalidRandomization(f"cannot read {kind!r}", got=arguments, expected=FORMS) from error
    raise InvalidRandomization("not a distribution", got=values, expected=FORMS, available=sorted(READERS))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pair(values: Any) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)


def _read_truncated(values: Any) -> Distribution:
    known = {"mean", "std", "low", "high"}
    if set(values) - known or not {"mean", "std"} <= set(values):
        raise InvalidRandomization(
            "cannot read 'truncated_normal'", got=values, expected="mean, std, low, high"
        )
    return Normal(**{name: float(value) for name, value in values.items()})


def _read_categorical(values: Any) -> Distribution:
    described = values if isinstance(values, dict) else {"values": values}
    entries = tuple(v if isinstance(v, str) else float(v) for v in described["values"])
    return Categorical(entries, tuple(float(w) for w in described.get("weights", ())))


def _read_mixture(values: Any) -> Distribution:
    parts = tuple(distribution_from(entry["of"]) for entry in values)
    return Mixture(parts, tuple(float(entry["weight"]) for entry in values))


def _read_schedule(values: Any) -> Distribution:
    progress = "progress" in values
    start, end = _pair(values["progress" if progress else "episodes"])
    return Schedule(distribution_from(values["from"]), distribution_from(values["to"]), start, end, progress)


READERS: dict[str, Reader] = {
    "constant": lambda value: Constant(value if isinstance(value, str) else float(value)),
    "uniform": lambda values: Uniform(*_pair(values)),
    "log_uniform": lambda values: LogUniform(*_pair(values)),
    "normal": lambda values: Normal(*_pair(values)),
    "truncated_normal": _read_truncated,
    "categorical": _read_categorical,
    "whole_numbers": lambda values: WholeNumbers(int(values[0]), int(values[1])),
    "mixture": _read_mixture,
    "schedule": _read_schedule,
}
FORMS = "a number, a word, [low, high], or one of " + ", ".join(sorted(READERS))
