"""A region of a coverage map, drawn by hand, as a selection: its episodes, what sets them apart, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinloop.coverage.map_file import load_coverage_map
from twinloop.coverage.result import CoverageMap, Level
from twinloop.coverage.rule import Range, Rule, make_range
from twinloop.coverage.run import outcomes_inside
from twinloop.coverage.sample import Points, SampledEpisodes
from twinloop.episode import Array
from twinloop.errors import UnknownName, WrongUse
from twinloop.planning.needs import MapSelection
from twinloop.planning.settings import is_settable

PLACES = ("map 1", "map 2")
"""The axes of the map itself; every other axis is a variable."""
MOST_CORNERS = 2_000
MOST_RANGES = 3
"""An operator who is to set more values before an episode will not."""
FEW_OTHERS = 0.05
"""Ranges are enough when they hold for no more other episodes than this fraction of the selected ones."""
AXES_FIRST = 0.5
"""An axis of the outline is preferred where its range holds for no more than twice as many other episodes."""
LEAVES_OUT = 0.8
"""A further range must leave out a fifth of the other episodes, or it says nothing."""
Corner = tuple[float, float]


def select_region(
    coverage: CoverageMap | str | Path,
    polygon: Sequence[Corner],
    *,
    across: str = PLACES[0],
    up: str = PLACES[1],
    level: Level = "moment",
    name: str | None = None,
) -> MapSelection:
    """Select the real episodes inside an outline on a coverage map.

    A selection is described by how its episodes begin, because that is what an operator can set: ranges of up to three variables
    that hold for all of them and for few others.

    Args:
        coverage: The map, or the folder in which `twinloop coverage --out` wrote it.
        polygon: Corners of the outline, in units of the two axes.
        across: Horizontal axis: "map 1", or a variable of the level.
        up: Vertical axis: "map 2", or a variable.
        level: Whether points are moments or how episodes begin; only moments have places on the map.
        name: What to call the selection; default: its ranges in words.

    Returns:
        The selection; `twinloop plan add` makes a plan item of it.

    Raises:
        UnknownName: An axis is no variable of this level.
        WrongUse: The outline is none, or no real episode lies inside.
    """
    points = coverage if isinstance(coverage, CoverageMap) else load_coverage_map(coverage)
    corners = _corners(polygon)
    inside = [in_polygon(x, y, corners) for x, y in _axes(points, across, up, level)]
    places, theirs = (
        np.unique(_points(side, level).episode[marks])
        for side, marks in zip((points.real, points.sim), inside, strict=True)
    )
    if not len(places):
        raise WrongUse(
            "no real episode lies inside the outline",
            got=f"{int(inside[1].sum())} simulated points",
            expected="an outline around real points",
        )
    conditions, others = _describe(points.real.situations, places, (across, up))
    rule, numbers = Rule(conditions), tuple(points.real.numbers[place] for place in places)
    ended = outcomes_inside(points.real, places)
    return MapSelection(
        name=name or (str(rule) if conditions else f"{len(numbers)} episodes chosen by hand"),
        query=rule.query(numbers),
        conditions=conditions,
        episodes=numbers,
        failed=ended.failed_inside,
        listed=Rule(()).query(numbers),
        points=int(inside[0].sum()),
        others=others,
        sim_episodes=len(theirs),
        fraction=len(numbers) / len(points.real),
        outcomes=ended,
        twin=points.sim.twin,
        dataset=points.real.name,
    )


def parse_outline(text: str) -> list[Corner]:
    """Read an outline as people type it.

    Args:
        text: Its corners, "X,Y X,Y X,Y ...".

    Returns:
        The corners.

    Raises:
        WrongUse: A word is no corner.
    """
    corners = []
    for word in text.split():
        try:
            x, y = (float(part) for part in word.split(","))
        except ValueError as error:
            raise WrongUse("cannot read the outline", got=word, expected='"X,Y X,Y X,Y ..."') from error
        corners.append((x, y))
    return corners


def axes_of(points: CoverageMap, level: Level) -> list[str]:
    """The axes that a level has: places on the map, then its variables."""
    places = list(PLACES) if level == "moment" else []
    return places + [variable.name for variable in _points(points.real, level).variables]


def _corners(polygon: Sequence[Corner]) -> Array:
    corners = np.asarray(polygon, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[1:] != (2,) or not 3 <= len(corners) <= MOST_CORNERS:
        raise WrongUse(
            "this is no outline",
            got=f"{len(polygon)} corners",
            expected=f"3 to {MOST_CORNERS} corners of two numbers",
        )
    if not np.isfinite(corners).all():
        raise WrongUse("this is no outline", got="a corner that is not finite", expected="finite numbers")
    return corners


def _points(side: SampledEpisodes, level: Level) -> Points:
    return side.moments if level == "moment" else side.situations


def _axes(points: CoverageMap, across: str, up: str, level: Level) -> list[tuple[Array, Array]]:
    """The two axes' values of real and of simulated points."""
    known = axes_of(points, level)
    for axis in (across, up):
        if axis not in known:
            raise UnknownName(f"axis of the {level}s", axis, known)
    made = []
    for side, places in ((points.real, points.real_places), (points.sim, points.sim_places)):
        named = _points(side, level)
        names = [variable.name for variable in named.variables]
        x, y = (
            places[:, PLACES.index(axis)] if axis in PLACES else named.values[:, names.index(axis)]
            for axis in (across, up)
        )
        made.append((x, y))
    return made


def in_polygon(x: Array, y: Array, corners: Array) -> Array:
    """Which points (N,) lie inside a polygon (C, 2): a ray from each crosses its outline an odd number of times."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    near = np.flatnonzero((x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1]))
    px, py = x[near], y[near]
    odd = np.zeros(len(near), dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, 1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > py) != (y1 > py)
        odd ^= crosses & (px < (x1 - x0) * (py - y0) / (y1 - y0) + x0)
    inside = np.zeros(len(x), dtype=bool)
    inside[near[odd]] = True
    return inside


def _describe(starts: Points, places: Array, axes: tuple[str, str]) -> tuple[tuple[Range, ...], int]:
    """Ranges that hold for how these episodes begin and for few others, and for how many others."""
    chosen = np.isin(starts.episode, places)
    ranges = [
        one
        for index, variable in enumerate(starts.variables)
        if variable.sql and is_settable(make_range(variable, -np.inf, np.inf))
        if (one := _range(starts, index, chosen)) is not None
    ]
    others = ~chosen
    kept: list[Range] = []
    while len(kept) < MOST_RANGES and others.sum() > FEW_OTHERS * chosen.sum():
        left = {one.variable: others & _holds(starts, one) for one in ranges if one not in kept}
        if not left:
            break
        # What was outlined is said in its own axes, unless another variable sets it apart much better.
        name = min(left, key=lambda one: int(left[one].sum()) * (AXES_FIRST if one in axes else 1.0))
        if left[name].sum() > LEAVES_OUT * others.sum():
            break
        kept.append(next(one for one in ranges if one.variable == name))
        others = left[name]
    return tuple(kept), int(others.sum())


def _range(starts: Points, index: int, chosen: Array) -> Range | None:
    """The range of a variable over the chosen episodes, a little wider than they are; None where one of them lacks it."""
    values, every = starts.values[chosen, index], starts.values[:, index]
    if not np.isfinite(values).all() or np.nanmax(every) <= np.nanmin(every):
        return None
    low, high = float(values.min()), float(values.max())
    margin = 1e-4 * float(np.nanmax(every) - np.nanmin(every)) + 1e-5 * max(abs(low), abs(high))
    variable = starts.variables[index]
    return Range(
        variable.name, variable.unit, variable.place, variable.sql, low - margin, high + margin, (low, high)
    )


def _holds(starts: Points, one: Range) -> Array:
    index = [variable.name for variable in starts.variables].index(one.variable)
    values = starts.values[:, index]
    return np.asarray((values > one.low) & (values < one.high))
