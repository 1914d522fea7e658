"""`measure_coverage(real, sim)`: read both, find where real data lies outside, name the regions, link them to failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twinloop.coverage.embed import score_moments
from twinloop.coverage.holes import find_holes, find_words, named_apart
from twinloop.coverage.likeness import Cluster, find_unlike
from twinloop.coverage.result import Coverage, Level, Outcomes, Region
from twinloop.coverage.rule import Condition, Range, Rule
from twinloop.coverage.side import Points, Progress, Side, read_sides
from twinloop.coverage.worst import narrowed
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.sides import refuse_swapped
from twinloop.errors import WrongUse

Array = NDArray[Any]

FEWEST_SIM = 12
"""Simulated episodes below which nothing can be calibrated."""
WHOLE = 0.8
"""A region of this share of the real data is an offset of everything; other regions are looked for inside it."""


def measure_coverage(
    real: str | Path | Dataset,
    sim: str | Path | Dataset,
    *,
    signals: Sequence[str] | None = None,
    points: int = 20_000,
    images: bool = True,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Coverage:
    """Where real data lies outside what simulation covers.

    Looks at how episodes begin (signals in the first row, draws that both record, what cameras show) and at moments on the
    way. `signals` replaces the usual state, surroundings and action.
    """
    if points < 100:
        raise WrongUse("too few points for a map", got=points, expected="at least 100")
    opened = [one if isinstance(one, Dataset) else open_dataset(one) for one in (real, sim)]
    refuse_swapped(*opened)
    sides = read_sides(*opened, signals=signals, points=points, images=images, progress=progress)
    return cover(*sides, seed=seed)


def cover(real: Side, sim: Side, *, seed: int = 0) -> Coverage:
    """The same, of sides that have been read."""
    if len(sim) < FEWEST_SIM:
        raise WrongUse(
            "too few simulated episodes to say what they cover",
            got=len(sim),
            expected=f"at least {FEWEST_SIM}",
            remedy="twinloop generate --episodes 200",
        )
    rng = np.random.default_rng(seed)
    regions: list[Region] = []
    for word, inside in find_words(real.conditions, sim.conditions):
        regions.append(_region(real, sim, Rule((word,)), "situation", inside, 0))
    for hole in find_holes(real.situations, sim.situations, len(real), len(sim), rng):
        met = _visitors(sim.situations, hole.rule)
        regions.append(_with_worst(real, sim, _region(real, sim, hole.rule, "situation", hole.inside, met)))
    named = {_variables(region.rule) for region in regions}
    shifted = frozenset().union(*(_variables(r.rule) for r in regions if r.share >= WHOLE))
    covered = np.flatnonzero(~_episodes_in(real, [r for r in regions if r.share < WHOLE]))
    mine, theirs = real.moments.of(covered).without(shifted), sim.moments.without(shifted)
    for hole in find_holes(mine, theirs, len(covered), len(sim), rng):
        if _variables(hole.rule) in named:
            continue
        inside = np.zeros(len(real.moments.values), dtype=bool)
        inside[np.isin(real.moments.episode, covered)] = hole.inside
        met = _visitors(sim.moments, hole.rule)
        regions.append(_region(real, sim, hole.rule, "moment", inside, met))
    scores = score_moments(real, sim, rng)
    already = np.zeros(len(real.moments.values), dtype=bool)
    for region in regions:
        already |= region.points
    for cluster in find_unlike(scores, real.moments, sim.moments, already, len(real), rng):
        met = _visitors(sim.moments, cluster.rule)
        regions.append(_region(real, sim, cluster.rule, "moment", cluster.points, met, cluster))
    return Coverage(
        real=real,
        sim=sim,
        regions=tuple(sorted(regions, key=lambda r: -r.share)),
        real_places=scores.real_places,
        sim_places=scores.sim_places,
        score=scores.score,
        missing=_missing(real, sim),
        seed=seed,
    )


def _region(
    real: Side, sim: Side, rule: Rule, level: Level, inside: Array, met: int, cluster: Cluster | None = None
) -> Region:
    """`inside` marks episodes of a situation, or moments."""
    points = inside[real.moments.episode] if level == "situation" else inside
    places = np.unique(real.moments.episode[points])
    numbers = tuple(real.numbers[i] for i in places)
    marked = np.bincount(real.moments.episode, weights=points, minlength=len(real))
    share = marked / np.maximum(np.bincount(real.moments.episode, minlength=len(real)), 1)
    return Region(
        name=str(rule) if cluster is None else f"unlike anything simulated, mostly {rule}",
        level=level,
        rule=rule,
        query=rule.query(numbers),
        episodes=numbers,
        share=float(share.mean()),
        sim_episodes=met,
        outcomes=_outcomes(real, places),
        points=points,
        seen=tuple(
            _seen(real.situations if level == "situation" else real.moments, c, inside)
            for c in rule.conditions
        ),
    )


def _with_worst(real: Side, sim: Side, region: Region) -> Region:
    """A situation with the part of it in which episodes fail, if there is one."""
    places = np.flatnonzero(np.isin(real.numbers, region.episodes))
    rule = narrowed(real, region.rule, places)
    if rule is None:
        return region
    inside = np.zeros(len(real), dtype=bool)
    inside[places] = _holds(real.situations, rule)[places]
    met = _visitors(sim.situations, rule)
    return replace(region, worst=_region(real, sim, rule, "situation", inside, met))


def _seen(points: Points, condition: Condition, inside: Array) -> tuple[float, float] | None:
    """Between which values the region's real points lie."""
    if not isinstance(condition, Range):
        return None
    names = [variable.name for variable in points.variables]
    values = points.values[inside, names.index(condition.variable.name)]
    return float(values.min()), float(values.max())


def _outcomes(real: Side, places: Array) -> Outcomes:
    here = np.zeros(len(real), dtype=bool)
    here[places] = True
    known = np.array([s is not None for s in real.success])
    failed = np.array([s is False for s in real.success])
    inside, elsewhere = here & known, ~here & known
    table = [
        [int((inside & failed).sum()), int((inside & ~failed).sum())],
        [int((elsewhere & failed).sum()), int((elsewhere & ~failed).sum())],
    ]
    p_value = float(stats.fisher_exact(table).pvalue) if inside.any() and elsewhere.any() else None
    reasons: dict[str, int] = {}
    for place in places:
        if real.success[place] is False:
            reason = real.failure[place] or "unknown"
            reasons[reason] = reasons.get(reason, 0) + 1
    return Outcomes(table[0][0], int(inside.sum()), table[1][0], int(elsewhere.sum()), p_value, reasons)


def _visitors(points: Points, rule: Rule) -> int:
    """Episodes with a point under the rule."""
    return len(np.unique(points.episode[_holds(points, rule)]))


def _holds(points: Points, rule: Rule) -> Array:
    """Which points are under the rule."""
    names = {variable.name: i for i, variable in enumerate(points.variables)}
    inside = np.ones(len(points.values), dtype=bool)
    for condition in rule.conditions:
        assert isinstance(condition, Range)
        values = points.values[:, names[condition.variable.name]]
        inside &= (values > condition.low) & (values < condition.high)
    return inside


def _variables(rule: Rule) -> frozenset[str]:
    """What a rule is about, at the start or at any moment."""
    return frozenset(
        c.variable.name.removesuffix(" at the start") if isinstance(c, Range) else c.field
        for c in rule.conditions
    )


def _episodes_in(real: Side, regions: Sequence[Region]) -> Array:
    numbers = {number for region in regions for number in region.episodes}
    return np.array([number in numbers for number in real.numbers])


def _missing(real: Side, sim: Side) -> tuple[str, ...]:
    lines = []
    for field in sorted(real.conditions.keys() - sim.conditions.keys()):
        lines.append(f"{field}: simulated episodes do not say it")
    for field in sorted(real.conditions.keys() & sim.conditions.keys()):
        if named_apart(real.conditions[field], sim.conditions[field]):
            mine, theirs = (
                next(word for word in side.conditions[field] if word is not None) for side in (real, sim)
            )
            lines.append(
                f"{field}: real and simulated episodes have no word in common ({mine!r}, {theirs!r})"
            )
    if real.views is None:
        lines.append("images: no camera is in both datasets, or images were left out")
    if not any(success is not None for success in real.success):
        lines.append("failures: nobody has said how the real episodes ended")
    return tuple(lines)
