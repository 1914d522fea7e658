"""A region in words: ranges of named variables, as a sentence and as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from twinloop.coverage.variables import Place, Variable

_NULL_IF_OPEN = PlainSerializer(lambda bound: bound if np.isfinite(bound) else None)
Low = Annotated[float, BeforeValidator(lambda bound: -np.inf if bound is None else bound), _NULL_IF_OPEN]
High = Annotated[float, BeforeValidator(lambda bound: np.inf if bound is None else bound), _NULL_IF_OPEN]
"""A bound, infinite where the range is open; null in JSON."""


@dataclass(frozen=True)
class Range:
    """A variable between two bounds. `sql` and `place` are those of the variable; `seen` is where real data in a region lies."""

    variable: str
    unit: str = "1"
    place: Place = "nowhere"
    sql: str = ""
    low: Low = -np.inf
    high: High = np.inf
    seen: tuple[float, float] | None = None

    def __str__(self) -> str:
        unit = "" if self.unit in ("1", "unknown", "") else f" {self.unit}"
        if np.isinf(self.high):
            return f"{self.variable} above {self.low:.3g}{unit}"
        if np.isinf(self.low):
            return f"{self.variable} below {self.high:.3g}{unit}"
        # As many digits as tell the bounds apart.
        digits = next((n for n in range(3, 7) if f"{self.low:.{n}g}" != f"{self.high:.{n}g}"), 6)
        return f"{self.variable} between {self.low:.{digits}g} and {self.high:.{digits}g}{unit}"

    @property
    def name(self) -> str:
        """The variable."""
        return self.variable

    @property
    def where(self) -> str:
        """The SQL condition on a row of its table."""
        parts = []
        if np.isfinite(self.low):
            parts.append(f"{self.sql} > {self.low:.6g}")
        if np.isfinite(self.high):
            parts.append(f"{self.sql} < {self.high:.6g}")
        return " and ".join(parts)


def make_range(variable: Variable, low: float, high: float) -> Range:
    """A range of a variable."""
    return Range(variable.name, variable.unit, variable.place, variable.sql, low, high)


@dataclass(frozen=True)
class Word:
    """A field that says one word, such as a task or a label."""

    field: str
    word: str

    def __str__(self) -> str:
        return f"{self.field} is {self.word!r}"

    @property
    def name(self) -> str:
        """The field."""
        return self.field

    @property
    def where(self) -> str:
        """The SQL condition on a row of `episodes`."""
        quoted = self.word.replace("'", "''")
        return f"{self.field} = '{quoted}'"


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
            place = condition.place if isinstance(condition, Range) else "episodes"
            if place == "frames":
                rows.append(condition.where)
            elif place == "start":
                whole.append(
                    f"episode_index in (select episode_index from frames where frame_index = 0 and {condition.where})"
                )
            elif place == "episodes":
                whole.append(f"episode_index in (select episode_index from episodes where {condition.where})")
            else:
                listed = True
        if listed or not (rows or whole):
            whole.append(f"episode_index in ({', '.join(map(str, episodes)) or 'null'})")
        if rows:
            return f"select episode_index, frame_index from frames where {' and '.join(rows + whole)}"
        return f"select episode_index, task, success, failure from episodes where {' and '.join(whole)}"
