"""`Gap`: measures with intervals by dimension, or what is needed for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from twinloop.gap.success import Success
from twinloop.records import SavedRecord, derived, load_record
from twinloop.stats.bootstrap import Difference
from twinloop.stats.interval import Interval
from twinloop.twins.parameter import DIMENSIONS

ALL = "all"
"""The channel of a measure that is over all channels of its kind: these decide whether a dimension shows a gap."""

CHANCE = 0.05
"""How often a dimension may show a gap although there is none."""


@dataclass(frozen=True, kw_only=True)
class Measure(Interval):
    """One difference between simulation and reality: `value` is simulation minus reality, in `unit`.

    `real` and `sim` are the levels, None where only the difference exists. `episodes` counts real ones, `sim_episodes`
    those they are compared with, `samples` the readings or frames behind both. `against` says what it is compared with.
    `floor` is the size below which a difference does not count, however certain. `about` describes it in a sentence.
    """

    dimension: str
    name: str
    standard_error: float
    episodes: int
    sim_episodes: int
    samples: int
    against: str
    channel: str = ALL
    real: float | None = None
    sim: float | None = None
    floor: float = 0.0
    p_value: float | None = None
    about: str = ""

    @derived
    def excludes_zero(self) -> bool:
        """Whether the interval leaves out zero and the difference is large enough to be one."""
        return not self.contains(0.0) and abs(self.value) > self.floor


@dataclass(frozen=True)
class NotEvaluated:
    """Something that could not be measured, and what would be needed for it."""

    dimension: str
    needs: str
    name: str = ""


@dataclass(frozen=True)
class DimensionGap:
    """Everything measured about one dimension."""

    dimension: str
    measures: tuple[Measure, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()

    @derived
    def evaluated(self) -> bool:
        """Whether anything could be measured."""
        return bool(self.measures)

    @property
    def headlines(self) -> tuple[Measure, ...]:
        """The measures over all channels."""
        return tuple(measure for measure in self.measures if measure.channel == ALL)

    @property
    def shown(self) -> tuple[Measure, ...]:
        """The headlines that show a gap, most certain first, corrected for how many were looked at (Bonferroni)."""
        headlines = self.headlines
        shown = [m for m in headlines if m.excludes_zero and _chance(m) <= CHANCE / len(headlines)]
        return tuple(sorted(shown, key=_chance))

    @property
    def most_certain(self) -> Measure:
        """The difference that is furthest from zero in standard errors; one that shows a gap where there is one."""
        return next(
            iter(self.shown),
            max(
                self.headlines or self.measures,
                key=lambda m: abs(m.value) / max(m.standard_error, 1e-300),
            ),
        )


@dataclass(frozen=True)
class Gap(SavedRecord):
    """The measured gap between a twin and real episodes; `real_episodes` are the ids of those that were looked at."""

    FILE, FORMAT, COMMAND = "gap.json", 2, "twinloop gap --out FOLDER"

    twin: str
    twin_version: str
    real: str
    sim: str | None
    episodes: int
    dimensions: Mapping[str, DimensionGap]
    success: Success
    notes: tuple[str, ...] = ()
    seed: int = 0
    level: float = 0.95
    standin: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    real_episodes: tuple[str, ...] = ()

    def __getitem__(self, dimension: str) -> DimensionGap:
        return self.dimensions[dimension]

    @derived
    def shown(self) -> tuple[str, ...]:
        """The dimensions that show a gap, in the usual order."""
        return tuple(name for name, found in self.dimensions.items() if found.shown)


def load_gap(folder: str | Path) -> Gap:
    """Read a gap that `twinloop gap --out` wrote.

    Args:
        folder: The folder that holds `gap.json`, or the file.

    Returns:
        The gap.

    Raises:
        WrongUse: If there is no such file or it is not a gap.
    """
    return load_record(Gap, folder)


def collect(
    found: Sequence[Measure | NotEvaluated], only: Sequence[str] | None = None
) -> dict[str, DimensionGap]:
    """Measures by dimension, every dimension (or those in `only`) there; one without any says what it needs."""
    made = {}
    for name in (d for d in DIMENSIONS if only is None or d in only):
        measures = tuple(one for one in found if isinstance(one, Measure) and one.dimension == name)
        missing = tuple(one for one in found if isinstance(one, NotEvaluated) and one.dimension == name)
        if not measures and not missing:
            missing = (NotEvaluated(name, "a gap metric for it"),)
        made[name] = DimensionGap(name, measures, missing)
    return made


def measure(
    dimension: str,
    name: str,
    unit: str,
    interval: Difference,
    *,
    against: str,
    samples: int,
    **more: Any,
) -> Measure:
    """A measure from an interval that bootstrap made."""
    return Measure(
        dimension=dimension,
        name=name,
        unit=unit,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        standard_error=interval.standard_error,
        episodes=interval.real_count,
        sim_episodes=interval.sim_count,
        samples=samples,
        against=against,
        real=interval.real,
        sim=interval.sim,
        **more,
    )


def _chance(measure: Measure) -> float:
    """Two-sided p-value of a difference from zero, by Student's t."""
    if measure.p_value is not None:
        return measure.p_value
    if measure.standard_error <= 0.0:
        return 0.0
    freedom = max(min(measure.episodes, measure.sim_episodes or measure.episodes) - 1, 1)
    return float(2.0 * stats.t.sf(abs(measure.value) / measure.standard_error, freedom))
