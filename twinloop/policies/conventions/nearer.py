"""Faults of inputs that hardly move a policy's actions: to which of two maps are the recorded actions nearer?

A policy that looks little at colours is little wrong on BGR, so the error of its actions hardly says it. What says it is where the
recorded actions lie between the actions under the map as written and those under a correction. What a trained policy leaves
unexplained does not depend on its inputs, so they lie, on average, at 0 of the way where the map is right and at 1 where the correction
is, however short the way is (the J test of two models that exclude each other; Davidson and MacKinnon, *Several tests for model
specification in the presence of alternative hypotheses*, 1981). Half of the episodes choose the correction, the other half judge it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies.conventions.ask import Asker
from twinloop.policies.conventions.corrections import Correction
from twinloop.policies.conventions.recorded import RecordedRows
from twinloop.policies.mapping.interface_map import InterfaceMap
from twinloop.stats.bootstrap import of_draws
from twinloop.stats.interval import Interval

MORE_ROWS = 384
"""Rows about which the policy is asked in the end: the way is short, and the rest is noise."""
STEPS: tuple[tuple[int, int], ...] = ((32, 8), (96, 3), (MORE_ROWS // 2, 3))
"""Rows that choose, and how many corrections are left after each step."""
HALFWAY = 0.5
"""Beyond it, the recorded actions are nearer to those under the correction. A policy whose answers are drawn, and do not look at the
images, is exactly here."""
SHORTEST = 1e-9
CONFIDENCE = 0.99
"""Of the interval that must lie beyond half of the way."""


def find_weak_fault(
    ask: Asker, recorded: RecordedRows, written: InterfaceMap, corrections: Sequence[Correction], seed: int
) -> tuple[Correction, Interval] | None:
    """Find the correction of the inputs to which the recorded actions are surely nearer than to the map as written.

    Args:
        ask: Asks the policy about the recorded rows.
        recorded: The rows and what followed.
        written: The map as written.
        corrections: Of this map's inputs, the most promising first.
        seed: Random seed of the interval.

    Returns:
        The correction, and how far the recorded actions lie towards the actions under it, from 0 to 1; None where there is none.
    """
    chosen, judged = recorded.halves()
    left = list(corrections)
    for rows, count in STEPS:
        few = chosen[:: max(1, len(chosen) // rows)]
        left = _take_nearest(ask, recorded.take(few), written, left, count)
    for one in left:
        if _explains(_way(ask, recorded.take(chosen), written, one, seed)):
            way = _way(ask, recorded.take(judged), written, one, seed)
            return (one, way) if way is not None and _explains(way) else None
    return None


def _way(
    ask: Asker, recorded: RecordedRows, written: InterfaceMap, correction: Correction, seed: int
) -> Interval | None:
    rows = recorded.rows
    return measure_way(recorded, ask(written, rows), ask(correction.interface_map, rows), seed)


def _explains(way: Interval | None) -> bool:
    """Whether the recorded actions surely lie beyond half of the way, and not as far beyond its end."""
    return way is not None and way.low > HALFWAY and way.value < 2.0 - HALFWAY


def measure_nearness(recorded: RecordedRows, as_written: Array, as_corrected: Array) -> float:
    """Measure how clearly the recorded actions are nearer to the corrected ones (n, T, A) than to those as written.

    Of two corrections the one that moves the actions less can be the clearer one: this is the difference of the squared errors by the
    length of the way between the actions, in which chance is the same for all. It is positive where the correction is nearer.
    """
    along, length = _compare(recorded, as_written, as_corrected)
    way = float(length.sum())
    return float((2.0 * along - length).sum()) / np.sqrt(way) if way > SHORTEST else -np.inf


def _take_nearest(
    ask: Asker, recorded: RecordedRows, written: InterfaceMap, corrections: Sequence[Correction], count: int
) -> list[Correction]:
    """The corrections that are most clearly nearer; of few rows, chance may make them all seem further away."""
    as_written = ask(written, recorded.rows)
    found = []
    for number, one in enumerate(corrections):
        try:
            nearness = measure_nearness(recorded, as_written, ask(one.interface_map, recorded.rows))
        except (WrongUse, PolicyGone):  # a policy that refuses such inputs: no explanation
            continue
        found.append((-nearness, number, one))
    return [one for _, _, one in sorted(found, key=lambda entry: entry[:2])[:count]]


def measure_way(recorded: RecordedRows, as_written: Array, as_corrected: Array, seed: int) -> Interval | None:
    """Measure where the recorded actions lie between two predictions of them.

    Args:
        recorded: n rows.
        as_written: Actions (n, T, A) at 0 of the way.
        as_corrected: Actions (n, T, A) at 1.
        seed: Random seed for the resampling of episodes.

    Returns:
        The place in the least squares, with its interval; None where the two hardly differ.
    """
    along, length = _compare(recorded, as_written, as_corrected)
    episodes = np.unique(recorded.episode)
    sums = np.array([(along[at].sum(), length[at].sum()) for at in (recorded.episode == e for e in episodes)])
    if sums[:, 1].sum() < SHORTEST:
        return None

    def place(drawn: Array) -> float:
        return float(drawn[:, 0].sum() / max(drawn[:, 1].sum(), 1e-12))

    count = len(sums)
    found = of_draws(
        place(sums),
        lambda rng: place(sums[rng.integers(count, size=count)]),
        count,
        seed,
        confidence=CONFIDENCE,
    )
    return None if found is None else Interval(found.value, found.low, found.high, CONFIDENCE)


def _compare(recorded: RecordedRows, as_written: Array, as_corrected: Array) -> tuple[Array, Array]:
    """By row (n,): the product of what the recorded actions and the corrected ones differ from those as written, and the latter squared.

    Only what varies from row to row counts: a policy that is a little off everywhere would side with whatever shifts it the right way.
    Each element counts in its own standard errors, so that one that no policy predicts well does not drown the rest.
    """
    as_written, as_corrected = np.nan_to_num(as_written), np.nan_to_num(as_corrected)
    steps = min(as_written.shape[1], as_corrected.shape[1], recorded.actions.shape[1])
    moved = np.isfinite(recorded.spread)
    start = as_written[:, :steps][..., moved]
    exists = recorded.exists[:, :steps, None]
    count = np.maximum(exists.sum(axis=0), 1)
    wanted, offered = (
        np.where(exists, one - np.where(exists, one, 0.0).sum(axis=0) / count, 0.0)
        for one in (
            recorded.actions[:, :steps][..., moved] - start,
            as_corrected[:, :steps][..., moved] - start,
        )
    )
    scale = np.maximum(np.sqrt((wanted**2).sum(axis=(0, 1)) / count.sum()), 1e-9)
    wanted, offered = wanted / scale, offered / scale
    return (wanted * offered).sum(axis=(1, 2)), (offered**2).sum(axis=(1, 2))
