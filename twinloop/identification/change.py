"""A sequential detector of shifts in a series of estimates, with a bounded probability of false alarms.

For every moment at which a series may have moved there is a Bayes factor of "shifted from here on" against "as before",
with the level and the scatter unknown (right Haar prior), so that its law does not depend on either: under no change it is
a martingale that starts at 1, from any number of baseline values on. Their sum over all moments (Shiryaev-Roberts) grows
by 1 per value on average while nothing changes, so the chance that it passes `watched / chance` within `watched` values
is at most `chance` (Doob's inequality), whatever the level, the scatter, or how often one looks.

Episodes may resemble the one before: a motor warms up, a battery empties. How much is unknown too, and both sides of the
ratio are averaged over it. This delays detection by an episode or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from twinloop.episode import Array

SHIFTS = (1.0, 3.0, 10.0)
"""Sizes of shift, in units of the scatter, with equal prior probability."""
MEMORIES = ((0.0, 0.8), (0.25, 0.1), (0.5, 0.1))
"""Correlations of a value with the one before, and their prior probabilities."""
CLIP = 4.0
"""Values count as at most this many scatters from the baseline: one bad episode is not a change."""
OUTLYING = 3.0
"""Baseline values this many robust scatters from its median are outliers."""
FEWEST = 5


@dataclass(frozen=True, eq=False)
class Watch:
    """Result of the detector: log of its statistic after each value (T,), -inf in the baseline, and when it alarmed.

    `alarm` is the first value at which the sum passed the threshold and `began` the most likely first value after the
    change, both None when nothing moved.
    """

    log_evidence: Array
    log_threshold: float
    alarm: int | None
    began: int | None


def watch(
    values: Array,
    variances: Array,
    baseline: int,
    *,
    chance: float = 0.01,
    watched: int = 100,
    series: int = 1,
) -> Watch:
    """Monitor one series of values (T,) with relative variances (T,), the first `baseline` of which are unchanged.

    `series` is the number of series monitored together: `chance` is that of a false alarm in any of them.
    """
    log_threshold = float(np.log(watched * series / chance))
    evidence = np.full(len(values), -np.inf)
    if len(values) <= baseline:
        return Watch(evidence, log_threshold, None, None)
    factors = log_factors(_clipped(np.asarray(values, np.float64), baseline), variances, baseline)
    evidence[baseline:] = logsumexp(factors, axis=0)
    passed = np.flatnonzero(evidence >= log_threshold)
    if not len(passed):
        return Watch(evidence, log_threshold, None, None)
    alarm = int(passed[0])
    began = baseline + int(np.argmax(factors[:, alarm - baseline]))
    return Watch(evidence, log_threshold, alarm, began)


def log_factors(
    values: Array,
    variances: Array,
    baseline: int,
    memories: Sequence[tuple[float, float]] = MEMORIES,
) -> Array:
    """Log Bayes factors (begin, now) of a shift from value `begin` to value `now`, both counted from the baseline's end.

    A shift that begins after now has no evidence: -inf.
    """
    weight = 1.0 / np.asarray(variances, np.float64)
    # Weights are relative: the scatter that shifts are measured in is that of a value of the baseline's mean weight.
    root = np.sqrt(weight / np.mean(weight[:baseline]))
    centred = np.asarray(values, np.float64) - np.mean(values[:baseline])
    shifted, unmoved = [], []
    for memory, belief in memories:
        moved, as_before = _log_densities(root, centred, baseline, memory)
        shifted.append(np.log(belief) + moved)
        unmoved.append(np.log(belief) + as_before)
    return np.asarray(logsumexp(np.stack(shifted), axis=0) - logsumexp(np.stack(unmoved), axis=0))


def _log_densities(root: Array, values: Array, baseline: int, memory: float) -> tuple[Array, Array]:
    """Log densities of values up to now, up to a common constant: shifted from `begin` (begin, now), and as before (now,).

    With what each value has from the one before taken off, a level is seen by `level` and a shift by as much from the
    value after its first on, where nothing has been taken off.
    """
    level, seen = _without_memory(root, memory), _without_memory(root * values, memory)
    first, rest = root[baseline:], slice(baseline, len(values))
    ll, ls, ss = np.cumsum(np.stack([level * level, level * seen, seen * seen]), axis=1)
    after = ll[rest] - ll[rest, None]
    cross = (level[rest] * first)[:, None] + after
    own = (first * first)[:, None] + after
    pull = (first * seen[rest])[:, None] + ls[rest] - ls[rest, None]
    ll, ls, ss = ll[rest], ls[rest], ss[rest]
    least = 1e-12 * ss + 1e-300
    left = np.maximum(ss - ls**2 / ll, least)
    freedom = 0.5 * np.arange(baseline, len(values))
    common = 0.5 * np.log(1.0 - memory**2) - 0.5 * np.log(ll)
    own, pull = np.maximum(own - cross**2 / ll, 0.0), pull - cross * ls / ll
    made = []
    for shift in SHIFTS:
        prior = shift * shift / (1.0 - memory**2)
        explained = np.maximum(left - pull**2 / (own + 1.0 / prior), least)
        made.append(common - 0.5 * np.log1p(prior * own) - freedom * np.log(explained))
    begun = np.tri(len(first), dtype=bool).T
    moved = np.where(begun, logsumexp(np.stack(made), axis=0) - np.log(len(SHIFTS)), -np.inf)
    return moved, common - freedom * np.log(left)


def _without_memory(values: Array, memory: float) -> Array:
    made = values - memory * np.concatenate([[0.0], values[:-1]])
    made[0] *= np.sqrt(1.0 - memory**2)
    return made


def total_variances(values: Array, own: Array, baseline: int) -> Array:
    """Variances (T,) of values: their own, and on top the scatter between them that the baseline shows."""
    within = float(np.mean(own[:baseline]))
    between = max(float(np.var(values[:baseline], ddof=1)) - within, 0.0)
    total = own + between
    return np.asarray(np.maximum(total, 1e-12 * float(np.max(total)) + 1e-300))


def _clipped(values: Array, baseline: int) -> Array:
    """Values within CLIP scatters of the baseline, whose own outliers are left out of level and scatter."""
    usual = values[:baseline]
    away = np.abs(usual - np.median(usual))
    usual = usual[away <= OUTLYING * 1.4826 * np.median(away)]
    level, scatter = float(np.mean(usual)), float(np.std(usual, ddof=1)) if len(usual) > 1 else 0.0
    return np.clip(values, level - CLIP * scatter, level + CLIP * scatter)
