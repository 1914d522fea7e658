"""What to set before each episode: points spread evenly over a region, close enough for each to teach its surroundings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, isinf, prod

from scipy.stats import qmc

from twinloop.coverage.rule import Condition, Range, Word
from twinloop.planning.costs import Costs

FORCE_WORDS = ("force", "torque", "effort", "contact", "wrench")
"""A region in one of these cannot be filled by simulation alone."""
FEWEST = 5
ANYWHERE = 20
"""Demonstrations of a region that no range describes: a failure rate is then known within 22 points."""
Setting = Mapping[str, float | str]

_ROBOTS_OWN = re.compile(r"^(action|state|velocity) |\.(target|pos|vel)$")


def is_force(condition: Condition) -> bool:
    """Whether the condition is regulated by force."""
    return any(word in condition.name for word in FORCE_WORDS)


def is_settable(condition: Condition) -> bool:
    """Whether an operator can set it before an episode: not what a robot does later, nor how high things lie."""
    if isinstance(condition, Word) or is_force(condition):
        return True
    start = condition.name.removesuffix(" at the start")
    return not start.endswith(".z") and (start != condition.name or _ROBOTS_OWN.search(start) is None)


def make_settings(
    conditions: Sequence[Condition], costs: Costs, seed: int
) -> tuple[tuple[Setting, ...], str]:
    """One setting per demonstration, and how their number came about.

    Each range is cut into as many steps as its width has of the cost file's spacing for its unit; there are as many
    demonstrations as cells, and they are spread by a Sobol sequence, so that any first part of them is spread too.
    """
    settable = [condition for condition in conditions if is_settable(condition)]
    words: dict[str, float | str] = {one.field: one.word for one in settable if isinstance(one, Word)}
    ranges = [(one, span) for one in settable if isinstance(one, Range) and (span := _finite_span(one))]
    if not ranges:
        how = f"{ANYWHERE} demonstrations: how often it fails is then known within 22 points"
        return (words,) * ANYWHERE, how
    steps = [_steps(one, span, costs) for one, span in ranges]
    cells = prod(steps)
    count = int(min(max(cells, FEWEST), costs.most_demonstrations))
    how = f"{' x '.join(map(str, steps))} cell{'s' * (cells != 1)} of the region, one demonstration each"
    if cells > count:
        how += f" (at most {costs.most_demonstrations})"
    elif cells < count:
        how += f" (at least {FEWEST})"
    places = qmc.Sobol(len(ranges), seed=seed).random_base2(max(1, (count - 1).bit_length()))[:count]
    made = []
    for row in places:
        values = dict(words)
        for (one, (low, high)), place in zip(ranges, row, strict=True):
            name = one.variable if one.unit in ("1", "unknown") else f"{one.variable}, {one.unit}"
            values[name] = round(low + float(place) * (high - low), 4)
        made.append(values)
    return tuple(made), how


def _finite_span(condition: Range) -> tuple[float, float] | None:
    """The bounds, or where real data was seen instead of an open one; None where neither is known."""
    low, high = condition.low, condition.high
    if condition.seen is not None:
        low, high = (
            seen if isinf(bound) else bound for seen, bound in zip(condition.seen, (low, high), strict=True)
        )
    return None if isinf(low) or isinf(high) else (low, max(low, high))


def _steps(condition: Range, span: tuple[float, float], costs: Costs) -> int:
    spacing = costs.spacing.get(condition.unit)
    return costs.levels if spacing is None else max(1, ceil((span[1] - span[0]) / spacing))
