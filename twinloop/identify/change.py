"""Has a series of estimates moved? A sequential detector whose false alarms are bounded however long it watches.

For every moment at which a series may have moved there is a Bayes factor of "shifted from here on" against "as before",
with the level and the scatter unknown (right Haar prior), so that its law does not depend on either: under no change it is
a martingale that starts at 1, from any number of baseline values on. Their sum over all moments (Shiryaev-Roberts) grows
by 1 per value on average while nothing changes, so the chance that it passes `watched / chance` within `watched` values
is at most `chance` (Doob's inequality), whatever the level, the scatter, or how often one looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[Any]

SHIFTS = (1.0, 3.0, 10.0)
"""Sizes of shift that are believed in, in units of the scatter, equally likely."""
CLIP = 3.0
"""Values count as at most this many scatters from the baseline: one bad episode is not a change."""
OUTLYING = 3.0
"""Baseline values this many robust scatters from its median are outliers."""
FEWEST = 5


@dataclass(frozen=True, eq=False)
class Watch:
    """What the detector saw: log of its sum after each value (T,), -inf in the baseline, and when it alarmed.

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
    """Watch one series of values (T,) with relative variances (T,), the first `baseline` of which are as they should be.

    `series` is how many are watched side by side: `chance` is that of a false alarm in any of them.
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


def log_factors(values: Array, variances: Array, baseline: int) -> Array:
    """Log Bayes factors (begin, now) of a shift from value `begin` to value `now`, both counted from the baseline's end.

    A shift that begins after now has no evidence: -inf.
    """
    count = len(values)
    weight = 1.0 / np.asarray(variances, np.float64)
    sums = np.cumsum(np.stack([weight, weight * values, weight * values * values]), axis=1)
    before = sums[:, baseline - 1 : count - 1, None]
    now = sums[:, None, baseline:]
    begun = np.tri(count - baseline, dtype=bool).T
    after = np.where(begun, now - before, 1.0)
    within = before[2] - before[1] ** 2 / before[0] + after[2] - after[1] ** 2 / after[0]
    within = np.maximum(within, 1e-12 * now[2] + 1e-300)
    apart = (after[1] / after[0] - before[1] / before[0]) ** 2
    # Weights are relative: the scatter that shifts are measured in is that of a value of the baseline's mean weight.
    scale = 1.0 / np.mean(weight[:baseline])
    between = 1.0 / before[0] + 1.0 / after[0]
    unmoved = np.log(within + apart / between)
    freedom = np.arange(baseline, count)
    made = []
    for shift in SHIFTS:
        prior = shift * shift * scale
        spread = 1.0 + prior * after[0]
        moved = np.log(within + apart / (between + prior))
        made.append(
            0.5 * np.log(before[0] + after[0])
            - 0.5 * np.log(before[0] + after[0] / spread)
            - 0.5 * np.log(spread)
            + 0.5 * freedom * (unmoved - moved)
        )
    return np.where(begun, logsumexp(np.stack(made), axis=0) - np.log(len(SHIFTS)), -np.inf)


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
