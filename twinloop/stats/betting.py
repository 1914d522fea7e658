"""Testing by betting: how much capital a bet against a hypothesis has made, and the values no bet could refute.

A bettor who doubts that the mean of bounded outcomes is at most `null` stakes a fraction of their capital on each next one.
If the doubt is unfounded the e-value is a supermartingale that starts at 1, so the chance that it ever reaches 1 / alpha is
at most alpha (Ville's inequality): stopping, looking or continuing at any time does not raise that probability. Stakes
of several sizes are placed side by side, since the effect is unknown; the e-value is their weighted sum. The means that
no bet has refuted form a confidence sequence, valid at all times together (Waudby-Smith and Ramdas, 2024).

Trials are along the last axis, so that thousands of campaigns are computed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[Any]

FRACTIONS = (0.05, 0.15, 0.3, 0.6, 0.9)
"""Stakes, as fractions of the largest that could be paid if outcomes were raw ones."""
BELIEFS = (0.05, 0.1, 0.35, 0.35, 0.15)
"""How the first e-value is divided among them."""
MOST = 0.95
"""No stake may cost more than this fraction of the capital."""
POINTS = 401
"""Means that a confidence sequence tries."""


@dataclass(frozen=True)
class Span:
    """The range of an outcome: [-1, 1] for differences of pairs, [0, 1] for successes."""

    low: float
    high: float


PAIRED = Span(-1.0, 1.0)
SINGLE = Span(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Values (..., n) whose mean is asked for, and the bounds (..., n) each was known to keep before it was seen.

    `span` is the range of the mean itself.
    """

    values: Array
    low: Array
    high: Array
    span: Span


def raw_outcomes(values: Array, span: Span) -> Outcomes:
    """Outcomes as they were observed."""
    found = np.asarray(values, dtype=np.float64)
    return Outcomes(found, np.full_like(found, span.low), np.full_like(found, span.high), span)


def log_e_value(outcomes: Outcomes, null: float | Array, *, upward: bool = True) -> Array:
    """Log of the e-value after each trial of bets that the mean is above `null` (below it, if not `upward`)."""
    against = np.asarray(null, dtype=np.float64)
    if upward:
        room, worst = against - outcomes.span.low, against - outcomes.low
        gain = outcomes.values - against
    else:
        room, worst = outcomes.span.high - against, outcomes.high - against
        gain = against - outcomes.values
    parts = []
    for fraction, belief in zip(FRACTIONS, BELIEFS, strict=True):
        stake = np.minimum(fraction / np.maximum(room, 1e-9), MOST / np.maximum(worst, 1e-9))
        parts.append(np.log(belief) + np.cumsum(np.log1p(stake * gain), axis=-1))
    return np.asarray(logsumexp(np.stack(parts), axis=0))


def log_e_value_both(outcomes: Outcomes, null: float | Array) -> Array:
    """Log of the e-value of betting half on each side; refutes `null` itself."""
    up = log_e_value(outcomes, null, upward=True)
    return np.asarray(np.logaddexp(up, log_e_value(outcomes, null, upward=False)) - np.log(2.0))


def confidence_sequence(outcomes: Outcomes, alpha: float, points: int = POINTS) -> tuple[Array, Array]:
    """Lower and upper limits (n,) after each trial of one campaign; all of them hold together with chance 1 - alpha."""
    span = outcomes.span
    step = (span.high - span.low) / (points - 1)
    means = span.low + step * np.arange(1, points - 1)
    one = Outcomes(outcomes.values[None], outcomes.low[None], outcomes.high[None], span)
    refuted = log_e_value_both(one, means[:, None]) >= np.log(1.0 / alpha)
    refuted = np.maximum.accumulate(refuted, axis=1)
    kept = ~refuted
    some = kept.any(axis=0)
    # A mean is excluded only if its neighbour is refuted too: the true limit lies between two tried means.
    first = np.where(some, np.argmax(kept, axis=0), 0)
    last = np.where(some, len(means) - 1 - np.argmax(kept[::-1], axis=0), len(means) - 1)
    low = np.where(first == 0, span.low, means[first] - step)
    high = np.where(last == len(means) - 1, span.high, means[last] + step)
    # Everything refuted happens with chance below alpha; the last limits that made sense stand.
    if not some.all():
        end = int(np.argmin(some))
        low[end:], high[end:] = (low[end - 1], high[end - 1]) if end else (span.low, span.high)
    return np.asarray(low), np.asarray(high)
