"""`Diagnosis`: success points lost to each dimension, how much of the real drop that explains, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twinloop.diagnosis.imperfection import Measured
from twinloop.stats.interval import Interval

FORMAT = 1

NOTABLE = 0.02
"""A dimension is named when even the low end of its interval costs more success than this."""


@dataclass(frozen=True)
class Cost:
    """What one dimension costs: together with the others (its Shapley value), and alone."""

    dimension: str
    lost: Interval
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
    in_twin: Interval
    on_robot: Interval
    predicted: Interval
    drop: Interval
    explained: Interval
    unknown: Interval
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
