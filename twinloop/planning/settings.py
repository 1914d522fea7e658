"""What to set before each episode: points spread evenly over a region, close enough for each to teach its surroundings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

from scipy.stats import qmc

from twinloop.planning.costs import Costs
from twinloop.planning.needs import Span

FEWEST = 5
ANYWHERE = 20
"""Demonstrations of a region that no range describes: a rate of failure is then known within 22 points."""
Setting = Mapping[str, float | str]


def make_settings(spans: Sequence[Span], costs: Costs, seed: int) -> tuple[tuple[Setting, ...], str]:
    """One setting per demonstration, and how their number came about.

    Each range is cut into as many steps as its width has of the cost file's spacing for its unit; there are as many
    demonstrations as cells, and they are spread by a Sobol sequence, so that any first part of them is spread too.
    """
    spans = [span for span in spans if span.arranged]
    ranges = [(span, span.reach) for span in spans if span.word is None and span.reach is not None]
    words = {span.name: span.word for span in spans if span.word is not None}
    steps = [_steps(span, reach, costs) for span, reach in ranges if reach]
    if not ranges:
        how = f"{ANYWHERE} demonstrations: how often it fails is then known within 22 points"
        return tuple(dict(words) for _ in range(ANYWHERE)), how
    cells = prod(steps)
    count = int(min(max(cells, FEWEST), costs.most_demonstrations))
    how = f"{' x '.join(map(str, steps)) or 'no'} cell{'s' * (cells != 1)} of the region, one demonstration each"
    if cells > count:
        how += f" (at most {costs.most_demonstrations})"
    elif cells < count:
        how += f" (at least {FEWEST})"
    places = qmc.Sobol(len(ranges), seed=seed).random_base2(max(1, (count - 1).bit_length()))[:count]
    made = []
    for row in places:
        values: dict[str, float | str] = dict(words)
        for (span, reach), place in zip(ranges, row, strict=True):
            assert reach is not None
            name = span.name if span.unit in ("1", "unknown") else f"{span.name}, {span.unit}"
            values[name] = round(reach[0] + float(place) * (reach[1] - reach[0]), 4)
        made.append(values)
    return tuple(made), how


def _steps(span: Span, reach: tuple[float, float], costs: Costs) -> int:
    spacing = costs.spacing.get(span.unit)
    return costs.levels if spacing is None else max(1, ceil((reach[1] - reach[0]) / spacing))
