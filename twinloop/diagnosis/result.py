"""`Diagnosis`: success points lost to each dimension, how much of the real drop that explains, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twinloop.diagnosis.imperfection import Measured

FORMAT = 1

NOTABLE = 0.02
"""A dimension is named when even the low end of its interval costs more success than this."""
LOPSIDED = 0.25
"""By how much of its half width an interval's middle may be off its value, and still be said with ±."""


@dataclass(frozen=True)
class Share:
    """A share of success with its 95 % interval; differences are in the same unit."""

    value: float
    low: float
    high: float

    @property
    def points(self) -> str:
        """In points: `21 ± 6`, or `37 [0, 43]` where the interval is lopsided."""
        half = 50.0 * (self.high - self.low)
        middle = 50.0 * (self.high + self.low)
        if abs(100.0 * self.value - middle) <= max(1.0, LOPSIDED * half):
            return f"{round(100.0 * self.value)} ± {half:.0f}"
        value, low, high = (round(100.0 * share) for share in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class Cost:
    """What one dimension costs: together with the others (its Shapley value), and alone."""

    dimension: str
    lost: Share
    alone: float

    @property
    def named(self) -> bool:
        """Whether the evidence is enough to name it."""
        return self.lost.low > NOTABLE


@dataclass(frozen=True)
class Rule:
    """A rule of thumb of the field, whether it applies here, and why."""

    name: str
    applies: bool | None
    because: str
    advice: str


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The outcome of `diagnose`.

    `in_twin` and `on_robot` are shares of success, `drop` their difference; `explained` is what the measured imperfections
    account for and `unknown` the rest. `costs` are in order, the largest first. `verdict` says it in one line, `notes` what a reader
    should know about the runs.
    """

    policy: str
    policy_id: str
    twin: str
    twin_hash: str
    standin: bool
    trials: int
    successes: int
    in_twin: Share
    on_robot: Share
    predicted: Share
    drop: Share
    explained: Share
    unknown: Share
    costs: tuple[Cost, ...]
    measured: tuple[Measured, ...]
    failures: Mapping[str, Mapping[str, float]]
    slices: tuple[Mapping[str, Any], ...]
    rules: tuple[Rule, ...]
    verdict: str
    exact: bool
    scenes: int
    evaluations: int
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[Cost, ...]:
        """The dimensions to blame, the largest first; empty is "unknown" or nothing to explain."""
        return tuple(cost for cost in self.costs if cost.named)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = {
            name: getattr(self, name)
            for name in (
                "policy policy_id twin twin_hash standin trials successes verdict exact scenes evaluations seed".split()
            )
        }
        shares = {
            name: asdict(getattr(self, name))
            for name in ("in_twin", "on_robot", "predicted", "drop", "explained", "unknown")
        }
        measured = [
            {
                "dimension": m.dimension,
                "quantities": [q.as_json() for q in m.quantities],
                "put_into_twin": sorted(m.values),
                "not_measured": list(m.missing),
            }
            for m in self.measured
        ]
        return (
            {"format": FORMAT}
            | plain
            | shares
            | {
                "named": [cost.dimension for cost in self.named],
                "costs": [{**asdict(cost), "named": cost.named} for cost in self.costs],
                "measured": measured,
                "failures": {where: dict(counts) for where, counts in self.failures.items()},
                "slices": [dict(part) for part in self.slices],
                "rules": [asdict(rule) for rule in self.rules],
                "notes": list(self.notes),
            }
        )
