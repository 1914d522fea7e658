"""`measure_coverage(real, sim)`: read both, find where real data lies outside, name the regions, link them to failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

from twinloop.coverage.embed import score_moments
from twinloop.coverage.holes import find_holes, find_words, named_apart
from twinloop.coverage.likeness import Cluster, find_unlike, fraction_of
from twinloop.coverage.result import Coverage, CoverageMap, DatasetSummary, Level, Outcomes, Region
from twinloop.coverage.rule import Condition, Range, Rule
from twinloop.coverage.sample import DatasetSample, OnProgress, Points, SampledEpisodes, sample_datasets
from twinloop.coverage.worst import narrowed
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.sources import refuse_swapped_sources
from twinloop.episode import Array
from twinloop.errors import WrongUse

FEWEST_SIM = 12
"""Simulated episodes below which nothing can be calibrated."""
Marked = tuple[Region, Array]
"""A region, and which real moments (N,) belong to it."""


def measure_coverage(
    real: str | Path | Dataset,
    sim: str | Path | Dataset,
    *,
    signals: Sequence[str] | None = None,
    points: int = 20_000,
    images: bool = True,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> Coverage:
    """Find where real data lies outside the simulated data.

    Looks at starts of episodes (first rows, draws that both record, camera images) and at moments within them.

    Args:
        real: Real episodes.
        sim: Simulated episodes.
        signals: Signals to compare; by default state, environment state and action.
        points: Most moments that are taken from each dataset.
        images: Compare camera images too.
        seed: Random seed for the choice of moments.
        on_progress: Called with the numbers of steps done and in all.

    Returns:
        Score of each real moment, regions that simulation does not cover in words and SQL, and their success rates.

    Raises:
        WrongUse: The datasets have no signal in common, or `points` is below 100.
    """
    if points < 100:
        raise WrongUse("too few points for a map", got=points, expected="at least 100")
    opened = [one if isinstance(one, Dataset) else open_dataset(one) for one in (real, sim)]
    refuse_swapped_sources(*opened)
    samples = sample_datasets(*opened, signals=signals, points=points, images=images, on_progress=on_progress)
    return compare_samples(*samples, seed=seed)


def compare_samples(real: DatasetSample, sim: DatasetSample, *, seed: int = 0) -> Coverage:
    """`measure_coverage` of two datasets that have been sampled."""
    if len(sim) < FEWEST_SIM:
        raise WrongUse(
            "too few simulated episodes to measure coverage",
            got=len(sim),
            expected=f"at least {FEWEST_SIM}",
            remedy="twinloop generate --episodes 200",
        )
    rng = np.random.default_rng(seed)
    marked = _situations(real, sim, rng)
    marked += _moments(real, sim, [region for region, _ in marked], rng)
    scores = score_moments(real, sim, rng)
    already = _any([points for _, points in marked], len(real.moments.values))
    for cluster in find_unlike(scores, real.moments, sim.moments, already, len(real), rng):
        met = _visitors(sim.moments, cluster.rule)
        marked.append(_region(real, sim, cluster.rule, "moment", cluster.points, met, cluster))
    marked.sort(key=lambda pair: (pair[0].offset, -pair[0].fraction))
    outside = _any([points for region, points in marked if not region.offset], len(real.moments.values))
    return Coverage(
        real=_summary(real),
        sim=_summary(sim),
        twin=sim.twin,
        outside=fraction_of(outside, real.moments.episode, len(real)),
        far=float(np.mean(scores.score > 1.0)) if len(scores.score) else 0.0,
        regions=tuple(region for region, _ in marked),
        variables=tuple(variable.name for variable in real.moments.variables),
        situation_variables=tuple(variable.name for variable in real.situations.variables),
        missing=_missing(real, sim),
        seed=seed,
        map=CoverageMap(
            real,
            sim,
            scores.real_places,
            scores.sim_places,
            scores.score,
            tuple(points for _, points in marked),
        ),
    )


def _situations(real: DatasetSample, sim: DatasetSample, rng: np.random.Generator) -> list[Marked]:
    """Regions of how episodes begin."""
    marked = []
    for word, inside in find_words(real.conditions, sim.conditions):
        marked.append(_region(real, sim, Rule((word,)), "situation", inside, 0))
    for hole in find_holes(real.situations, sim.situations, len(real), len(sim), rng):
        met = _visitors(sim.situations, hole.rule)
        region, points = _region(real, sim, hole.rule, "situation", hole.inside, met)
        marked.append((_with_worst(real, sim, region), points))
    return marked


def _moments(
    real: DatasetSample, sim: DatasetSample, situations: Sequence[Region], rng: np.random.Generator
) -> list[Marked]:
    """Regions on the way, in episodes whose beginning is covered and over variables that are not offset as a whole."""
    named = {_variables(region.rule) for region in situations}
    shifted = frozenset().union(*(_variables(region.rule) for region in situations if region.offset))
    covered = np.flatnonzero(~_episodes_in(real, [region for region in situations if not region.offset]))
    mine, theirs = real.moments.of(covered).without(shifted), sim.moments.without(shifted)
    marked = []
    for hole in find_holes(mine, theirs, len(covered), len(sim), rng):
        if _variables(hole.rule) in named:
            continue
        inside = np.zeros(len(real.moments.values), dtype=bool)
        inside[np.isin(real.moments.episode, covered)] = hole.inside
        marked.append(_region(real, sim, hole.rule, "moment", inside, _visitors(sim.moments, hole.rule)))
    return marked


def _any(masks: Sequence[Array], count: int) -> Array:
    return np.asarray(np.logical_or.reduce([np.zeros(count, dtype=bool), *masks]))


def _summary(side: DatasetSample) -> DatasetSummary:
    known = [success for success in side.success if success is not None]
    return DatasetSummary(
        side.name, side.dataset_id, len(side), len(side.moments.values), sum(known), len(known)
    )


def _region(
    real: DatasetSample,
    sim: DatasetSample,
    rule: Rule,
    level: Level,
    inside: Array,
    met: int,
    cluster: Cluster | None = None,
) -> Marked:
    """A region and its real moments; `inside` marks episodes of a situation, or moments."""
    points = inside[real.moments.episode] if level == "situation" else inside
    places = np.unique(real.moments.episode[points])
    numbers = tuple(real.numbers[i] for i in places)
    points_here = real.situations if level == "situation" else real.moments
    region = Region(
        name=str(rule) if cluster is None else f"unlike anything simulated, mostly {rule}",
        level=level,
        conditions=tuple(_with_seen(points_here, condition, inside) for condition in rule.conditions),
        query=rule.query(numbers),
        episodes=numbers,
        fraction=fraction_of(points, real.moments.episode, len(real)),
        sim_episodes=met,
        outcomes=outcomes_inside(real, places),
        recall=1.0 if cluster is None else cluster.recall,
        precision=1.0 if cluster is None else cluster.precision,
    )
    return region, points


def _with_worst(real: DatasetSample, sim: DatasetSample, region: Region) -> Region:
    """A situation with the part of it in which episodes fail, if there is one."""
    places = np.flatnonzero(np.isin(real.numbers, region.episodes))
    rule = narrowed(real, region.rule, places)
    if rule is None:
        return region
    inside = np.zeros(len(real), dtype=bool)
    inside[places] = _holds(real.situations, rule)[places]
    met = _visitors(sim.situations, rule)
    return replace(region, worst=_region(real, sim, rule, "situation", inside, met)[0])


def _with_seen(points: Points, condition: Condition, inside: Array) -> Condition:
    """The condition with the values between which the region's real points lie."""
    if not isinstance(condition, Range):
        return condition
    names = [variable.name for variable in points.variables]
    values = points.values[inside, names.index(condition.variable)]
    return replace(condition, seen=(float(values.min()), float(values.max())))


def outcomes_inside(real: SampledEpisodes, places: Array) -> Outcomes:
    """How the real episodes at these places of the sample's list ended, and the others."""
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
        values = points.values[:, names[condition.variable]]
        inside &= (values > condition.low) & (values < condition.high)
    return inside


def _variables(rule: Rule) -> frozenset[str]:
    """What a rule is about, at the start or at any moment."""
    return frozenset(condition.name.removesuffix(" at the start") for condition in rule.conditions)


def _episodes_in(real: DatasetSample, regions: Sequence[Region]) -> Array:
    numbers = {number for region in regions for number in region.episodes}
    return np.array([number in numbers for number in real.numbers])


def _missing(real: DatasetSample, sim: DatasetSample) -> tuple[str, ...]:
    lines = []
    for field in sorted(real.conditions.keys() - sim.conditions.keys()):
        lines.append(f"{field}: not recorded in simulated episodes")
    for field in sorted(real.conditions.keys() & sim.conditions.keys()):
        if named_apart(real.conditions[field], sim.conditions[field]):
            mine, theirs = (
                next(word for word in side.conditions[field] if word is not None) for side in (real, sim)
            )
            lines.append(
                f"{field}: real and simulated episodes have no value in common ({mine!r}, {theirs!r})"
            )
    if real.views is None:
        lines.append("images: no camera is in both datasets, or images were left out")
    if not any(success is not None for success in real.success):
        lines.append("failures: no real episode has a recorded outcome")
    return tuple(lines)
