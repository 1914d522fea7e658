"""What a point of the map is described by: elements of signals, what follows from them, draws and what a camera sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinloop.episode import Array, Schema, Signal

Place = Literal["frames", "start", "episodes", "nowhere"]

DEFAULT_SIGNALS = ("observation.state", "observation.environment_state")
"""Where the robot was and what lay around it. Commands are left out: a policy's differ from an expert's in the same situation, and
no recording can be asked to have other ones. Forces and rates differ by sensor, not by situation."""

SMALLEST = {"m": 0.005, "mm": 5.0, "cm": 0.5, "rad": 0.02, "deg": 1.0}
"""The smallest relevant difference, by unit."""


@dataclass(frozen=True)
class Variable:
    """One named number. `sql` is the expression for it and `place` the table in which it can be asked for.

    `start` is a column of `frames` in the first row of an episode; `nowhere` is computed and cannot be queried.
    """

    name: str
    unit: str
    place: Place
    sql: str = ""

    @property
    def smallest(self) -> float:
        """The smallest difference that matters; zero for other units."""
        return SMALLEST.get(self.unit, 0.0)


def start_of(variable: Variable) -> Variable:
    """The variable in the first row of an episode."""
    place: Place = "start" if variable.sql else "nowhere"
    return Variable(f"{variable.name} at the start", variable.unit, place, variable.sql)


def shared_signals(real: Schema, sim: Schema, wanted: Sequence[str] | None = None) -> list[str]:
    """Names of signals that both have in the same size: those asked for, or the usual ones, or all but the simulator's truth."""
    theirs = {signal.name: signal for signal in sim.signals}
    both = [s.name for s in real.signals if s.name in theirs and theirs[s.name].size == s.size]
    if wanted is not None:
        return [name for name in both if name in wanted]
    usual = [name for name in DEFAULT_SIGNALS if name in both]
    return usual or [name for name in both if not name.startswith("simulation.")]


@dataclass(frozen=True)
class Columns:
    """How rows of signals become named values: elements first, then what follows from them."""

    signals: tuple[Signal, ...]
    names: tuple[str, ...]
    derived: tuple[tuple[Variable, int, int], ...]
    hidden: frozenset[int]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The named variables of a moment, without parts of rotation matrices."""
        plain = [self._element(i) for i in range(len(self.names)) if i not in self.hidden]
        return (*plain, *(variable for variable, _, _ in self.derived))

    @property
    def smallest(self) -> Array:
        """The smallest difference that matters in each element."""
        return np.array([SMALLEST.get(unit, 0.0) for unit in units_of(self.signals)])

    def values(self, rows: Array) -> Array:
        """Named values (T, V) of raw rows (T, elements)."""
        kept = [i for i in range(len(self.names)) if i not in self.hidden]
        parts = [rows[:, kept]]
        for variable, first, second in self.derived:
            pair = rows[:, first], rows[:, second]
            angle = variable.unit == "rad"
            parts.append((np.arctan2(pair[1], pair[0]) if angle else np.hypot(*pair))[:, None])
        return np.concatenate(parts, axis=1)

    def _element(self, index: int) -> Variable:
        return Variable(self.names[index], units_of(self.signals)[index], "frames", _sql(self.signals)[index])


def make_columns(signals: Sequence[Signal]) -> Columns:
    """Columns of these signals; `object.x` and `object.y` also give `object.distance`, `r11` and `r21` a yaw."""
    short = [name for signal in signals for name in _element_names(signal)]
    full = [f"{s.name.removeprefix('observation.')} {n}" for s in signals for n in _element_names(s)]
    names = [n if short.count(n) == 1 else full[i] for i, n in enumerate(short)]
    units, sql = units_of(signals), _sql(signals)
    derived, hidden = [], set()
    for index, name in enumerate(names):
        stem = name.rpartition(".")[0]
        if name.endswith(".x") and units[index] == "m" and f"{stem}.y" in names:
            other = names.index(f"{stem}.y")
            far = f"sqrt({sql[index]} ** 2 + {sql[other]} ** 2)"
            derived.append((Variable(f"{stem}.distance", "m", "frames", far), index, other))
        if name.endswith(".r11") and f"{stem}.r21" in names:
            other = names.index(f"{stem}.r21")
            turn = f"atan2({sql[other]}, {sql[index]})"
            derived.append((Variable(f"{stem}.yaw", "rad", "frames", turn), index, other))
            hidden |= {i for i, n in enumerate(names) if n.startswith(f"{stem}.r") and n[-2:].isdigit()}
    return Columns(tuple(signals), tuple(names), tuple(derived), frozenset(hidden))


def _element_names(signal: Signal) -> list[str]:
    if signal.elements:
        return list(signal.elements)
    short = signal.name.removeprefix("observation.")
    return [short] if signal.size == 1 else [f"{short}[{i + 1}]" for i in range(signal.size)]


def units_of(signals: Sequence[Signal]) -> list[str]:
    """The unit of every element."""
    return [u for s in signals for u in (s.units if len(s.units) == s.size else s.units * s.size)]


def _sql(signals: Sequence[Signal]) -> list[str]:
    made = []
    for signal in signals:
        for place in np.ndindex(*signal.shape):
            inside = "".join(f"[{i + 1}]" for i in place) if signal.shape != (1,) else ""
            made.append(f'"{signal.name}"{inside}')
    return made
