"""Faults of images that hardly move a policy's actions: with which of two maps do the recorded actions side?

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
from twinloop.policies.conventions.corrections import Correction, Fault
from twinloop.policies.conventions.recorded import RecordedRows
from twinloop.policies.mapping.interface_map import InterfaceMap
from twinloop.stats.bootstrap import of_draws
from twinloop.stats.interval import Interval

IMAGE_FAULTS: tuple[Fault, ...] = ("swapped cameras", "BGR for RGB", "image scale")
IMAGE_ROWS = 384
"""Rows about which a policy with cameras is asked: the way is short, and the rest is noise."""
SCREENED = 48
PROMISING = 3
HALFWAY = 0.5
"""Beyond it, the recorded actions are nearer to those under the correction. A policy whose answers are drawn, and do not look at the
images, is exactly here."""
CONFIDENCE = 0.99
"""Of the interval that must lie beyond half of the way."""


def find_image_fault(
    ask: Asker, recorded: RecordedRows, written: InterfaceMap, corrections: Sequence[Correction], seed: int
) -> tuple[Correction, Interval] | None:
    """Find the correction of images that the recorded actions side with.

    Args:
        ask: Asks the policy about the recorded rows.
        recorded: The rows and what followed.
        written: The map as written.
        corrections: Of this map; those of images are tried.
        seed: Random seed of the interval.

    Returns:
        The correction, and how far the recorded actions lie towards the actions under it, from 0 to 1; None where there is none.
    """
    images = [one for one in corrections if one.fault in IMAGE_FAULTS]
    if not images:
        return None
    chosen, judged = recorded.halves()
    few = chosen[np.linspace(0, len(chosen) - 1, min(SCREENED, len(chosen))).astype(int)]
    for rows, count in ((few, PROMISING), (chosen, 1)):
        images = _take_nearest(ask, recorded.take(rows), written, images, count)
    if not images:
        return None
    rest = recorded.take(judged)
    way = measure_way(rest, ask(written, rest.rows), ask(images[0].interface_map, rest.rows), seed)
    return (images[0], way) if way is not None and way.low > HALFWAY else None


def _take_nearest(
    ask: Asker, recorded: RecordedRows, written: InterfaceMap, corrections: Sequence[Correction], count: int
) -> list[Correction]:
    """The corrections that bring the actions closest to the recorded ones, of those that bring them closer."""
    as_written = ask(written, recorded.rows)
    found = []
    for number, one in enumerate(corrections):
        try:
            along, length = _compare(recorded, as_written, ask(one.interface_map, recorded.rows))
        except (WrongUse, PolicyGone):  # a policy that refuses such images: no explanation
            continue
        if (closer := float((2.0 * along - length).sum())) > 0.0:
            found.append((-closer, number, one))
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
    if sums[:, 1].sum() < 1e-9:
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

    Each element counts in its own standard errors, so that one that no policy predicts well does not drown the rest.
    """
    as_written, as_corrected = np.nan_to_num(as_written), np.nan_to_num(as_corrected)
    steps = min(as_written.shape[1], as_corrected.shape[1], recorded.actions.shape[1])
    moved = np.isfinite(recorded.spread)
    start = as_written[:, :steps][..., moved]
    wanted, offered = (
        recorded.actions[:, :steps][..., moved] - start,
        as_corrected[:, :steps][..., moved] - start,
    )
    exists = recorded.exists[:, :steps]
    scale = np.maximum(np.sqrt((wanted[exists] ** 2).mean(axis=0)), 1e-9)
    wanted, offered = (np.where(exists[..., None], one / scale, 0.0) for one in (wanted, offered))
    return (wanted * offered).sum(axis=(1, 2)), (offered**2).sum(axis=(1, 2))
