"""A region in words: ranges of named variables, as a sentence and as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage.variables import Variable

Array = NDArray[Any]


@dataclass(frozen=True)
class Range:
    """A variable between two values; an infinite one is open."""

    variable: Variable
    low: float = -np.inf
    high: float = np.inf

    def __str__(self) -> str:
        name, write = self.variable.name, self.variable.written
        if np.isinf(self.high):
            return f"{name} above {write(self.low)}"
        if np.isinf(self.low):
            return f"{name} below {write(self.high)}"
        return f"{name} between {self.low:.3g} and {write(self.high)}"

    @property
    def sql(self) -> str:
        """The condition on a row of its table."""
        parts = []
        if np.isfinite(self.low):
            parts.append(f"{self.variable.sql} > {self.low:.6g}")
        if np.isfinite(self.high):
            parts.append(f"{self.variable.sql} < {self.high:.6g}")
        return " and ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Plain values; an open end is null."""
        return {
            "variable": self.variable.name,
            "unit": self.variable.unit,
            "place": self.variable.place,
            "sql": self.variable.sql,
            "low": float(self.low) if np.isfinite(self.low) else None,
            "high": float(self.high) if np.isfinite(self.high) else None,
        }


@dataclass(frozen=True)
class Word:
    """A field that says one word, such as a task or a label."""

    field: str
    word: str

    def __str__(self) -> str:
        return f"{self.field} is {self.word!r}"

    @property
    def sql(self) -> str:
        """The condition on a row of `episodes`."""
        quoted = self.word.replace("'", "''")
        return f"{self.field} = '{quoted}'"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"field": self.field, "word": self.word}


Condition = Range | Word


@dataclass(frozen=True)
class Rule:
    """All of its conditions hold."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.conditions)) or "anywhere"

    def query(self, episodes: Sequence[int]) -> str:
        """A SELECT for `twinloop data query`; where a condition cannot be asked in SQL, the episodes are listed instead."""
        rows, whole, listed = [], [], False
        for condition in self.conditions:
            place = condition.variable.place if isinstance(condition, Range) else "episodes"
            if place == "frames":
                rows.append(condition.sql)
            elif place == "start":
                whole.append(
                    f"episode_index in (select episode_index from frames where frame_index = 0 and {condition.sql})"
                )
            elif place == "episodes":
                whole.append(f"episode_index in (select episode_index from episodes where {condition.sql})")
            else:
                listed = True
        if listed or not (rows or whole):
            whole.append(f"episode_index in ({', '.join(map(str, episodes)) or 'null'})")
        if rows:
            return f"select episode_index, frame_index from frames where {' and '.join(rows + whole)}"
        return f"select episode_index, task, success, failure from episodes where {' and '.join(whole)}"


def rule_from_json(conditions: Sequence[Mapping[str, Any]]) -> Rule:
    """The rule whose conditions `as_json` wrote."""
    return Rule(tuple(_condition_from(values) for values in conditions))


def _condition_from(values: Mapping[str, Any]) -> Condition:
    if "field" in values:
        return Word(values["field"], values["word"])
    variable = Variable(values["variable"], values["unit"], values["place"], values["sql"])
    low, high = values["low"], values["high"]
    return Range(variable, -np.inf if low is None else low, np.inf if high is None else high)
