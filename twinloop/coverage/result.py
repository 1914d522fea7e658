"""`Coverage`: which real points lie outside what simulation covers, in which regions, and how those episodes ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage.rule import Rule
from twinloop.coverage.side import Side

Array = NDArray[Any]
Level = Literal["situation", "moment"]

FORMAT = 1


@dataclass(frozen=True)
class Outcomes:
    """How real episodes ended inside a region and outside of it; `p_value` is Fisher's exact test, None where unknown."""

    failed_inside: int
    known_inside: int
    failed_elsewhere: int
    known_elsewhere: int
    p_value: float | None
    reasons: dict[str, int]

    @property
    def worse(self) -> bool:
        """Whether episodes fail more often inside, beyond chance."""
        return (
            self.p_value is not None
            and self.p_value < 0.05
            and self.failed_inside * self.known_elsewhere > self.failed_elsewhere * self.known_inside
        )


@dataclass(frozen=True, eq=False)
class Region:
    """Real data that simulation does not cover.

    A `situation` is how episodes begin, and then `episodes` are those that begin so; a `moment` happens on the way. `points` marks
    the real moments that belong to it. `sim_episodes` have a point there too. `seen` is, for each condition of the
    rule, between which values real data in the region lies. A region that was found by likeness is only described by its rule:
    `told` is the share of its points that the rule holds for, `exact` the share of what the rule holds for that is its.
    `worst` is the part of it in which episodes fail, where that is told from the rest.
    """

    name: str
    level: Level
    rule: Rule
    query: str
    episodes: tuple[int, ...]
    share: float
    sim_episodes: int
    outcomes: Outcomes
    points: Array
    seen: tuple[tuple[float, float] | None, ...]
    told: float = 1.0
    exact: float = 1.0
    worst: Region | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values, without the points."""
        return {
            "name": self.name,
            "level": self.level,
            "conditions": [
                condition.as_json() | ({"seen": list(seen)} if seen else {})
                for condition, seen in zip(self.rule.conditions, self.seen, strict=True)
            ],
            "query": self.query,
            "episodes": list(self.episodes),
            "share": self.share,
            "told": self.told,
            "exact": self.exact,
            "sim_episodes": self.sim_episodes,
            "outcomes": vars(self.outcomes) | {"worse": self.outcomes.worse},
            "worst": None if self.worst is None else self.worst.as_json(),
        }


@dataclass(frozen=True, eq=False)
class Coverage:
    """Both sides as points, the map's places of them, and the regions.

    `score` (N,) of each real moment is its distance to simulation over the threshold: above one is outside. `outside`
    marks real moments in a region. `missing` says what could not be looked at and why.
    """

    real: Side
    sim: Side
    regions: tuple[Region, ...]
    real_places: Array
    sim_places: Array
    score: Array
    missing: tuple[str, ...]
    seed: int

    @property
    def outside(self) -> Array:
        """Which real moments lie in a region."""
        marks = np.zeros(len(self.real.moments.values), dtype=bool)
        for region in self.regions:
            marks |= region.points
        return marks

    @property
    def share(self) -> float:
        """Share of real moments outside, each episode counting the same."""
        owner = self.real.moments.episode
        inside = np.bincount(owner, weights=self.outside, minlength=len(self.real))
        return float(np.mean(inside / np.maximum(np.bincount(owner, minlength=len(self.real)), 1)))

    def as_json(self) -> dict[str, Any]:
        """Plain values, without the points."""
        return {
            "format": FORMAT,
            "real": _side(self.real),
            "sim": _side(self.sim),
            "twin": self.sim.twin,
            "outside": self.share,
            "regions": [region.as_json() for region in self.regions],
            "far": float(np.mean(self.score > 1.0)) if len(self.score) else 0.0,
            "variables": [v.name for v in self.real.moments.variables],
            "situation_variables": [v.name for v in self.real.situations.variables],
            "missing": list(self.missing),
            "seed": self.seed,
        }


def _side(side: Side) -> dict[str, Any]:
    known = [s for s in side.success if s is not None]
    return {
        "dataset": side.name,
        "id": side.dataset_id,
        "episodes": len(side),
        "points": len(side.moments.values),
        "succeeded": sum(known),
        "known": len(known),
    }
