"""Posterior covariance that holds when residuals are neither independent nor only noise.

The information matrix alone assumes independent samples and a correct model. The scores of blocks of samples, as long as
residuals are correlated, estimate how much the estimate would vary with other data (the sandwich estimator); with enough
episodes the scores of whole episodes do too, which includes differences between runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from twinloop.episode import Array
from twinloop.identification.problem import Linear, Solution
from twinloop.identification.scale import PRIOR_DEVIATION

_LONGEST_BLOCK = 0.25
"""A block is at most this fraction of a window, however long residuals are correlated."""
_FEWEST_EPISODES = 8


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian over places, cut to the unit interval: mean (P,), covariance (P, P), and the blocks it rests on."""

    mean: Array
    covariance: Array
    classical: Array
    blocks: int

    @property
    def deviation(self) -> Array:
        """Standard deviation of each place."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def half_width(self, level: float = 0.95) -> Array:
        """Half the width of a central interval of each place; wider with few blocks."""
        freedom = max(self.blocks - len(self.mean), 2)
        return np.asarray(stats.t.ppf(0.5 + 0.5 * level, freedom) * self.deviation)

    def samples(self, count: int, seed: int) -> Array:
        """Places (count, P) drawn from the posterior; those outside the prior range are drawn again, then clipped."""
        rng = np.random.default_rng(seed)
        root = _root(self.covariance)
        drawn = self.mean + rng.standard_normal((count, len(self.mean))) @ root.T
        for _ in range(50):
            outside = np.any((drawn < 0.0) | (drawn > 1.0), axis=1)
            if not outside.any():
                break
            drawn[outside] = self.mean + rng.standard_normal((int(outside.sum()), len(self.mean))) @ root.T
        return np.clip(drawn, 0.0, 1.0)


def make_posterior(solution: Solution, linear: Linear) -> Posterior:
    """The posterior at a solution whose derivatives are `linear`; wide enough to reach its rivals."""
    count = len(solution.place)
    classical = np.linalg.inv(linear.curvature)
    scores = _block_scores(solution, linear)
    covariance = _sandwich(classical, scores, count)
    episodes = _episode_scores(solution, linear)
    if len(episodes) >= max(_FEWEST_EPISODES, 2 * count):
        covariance = _widened(covariance, _sandwich(classical, episodes, count))
    covariance = _widened(covariance, 0.5 * classical)
    for rival in solution.rivals:
        covariance = _widened(covariance, np.diag((rival - solution.place) ** 2))
    return Posterior(solution.place, covariance, classical, len(scores))


def memory_rows(residual: Array) -> int:
    """Integrated autocorrelation time of residuals (rows, channels) in rows, the longest of the channels."""
    count = len(residual)
    if count < 8:
        return 1
    longest = 1.0
    for column in residual.T:
        centred = column - column.mean()
        power = np.abs(np.fft.rfft(centred, 2 * count)) ** 2
        correlation = np.fft.irfft(power)[: count // 2]
        if correlation[0] <= 0.0:
            continue
        correlation = correlation / correlation[0]
        crossing = np.flatnonzero(correlation < 0.05)
        end = int(crossing[0]) if len(crossing) else len(correlation)
        longest = max(longest, 1.0 + 2.0 * float(correlation[1:end].sum()))
    return int(np.ceil(longest))


def _block_scores(solution: Solution, linear: Linear) -> Array:
    made = []
    for rows in solution.problem.window_rows:
        residual, jacobian = linear.residual[rows], linear.jacobian[rows]
        length = int(np.clip(2 * memory_rows(residual), 1, max(1, int(len(residual) * _LONGEST_BLOCK))))
        score = np.einsum("tcp,tc->tp", jacobian, residual)
        made += [score[start : start + length].sum(axis=0) for start in range(0, len(score), length)]
    return np.stack(made)


def _episode_scores(solution: Solution, linear: Linear) -> Array:
    sums: dict[int, Array] = {}
    for window, rows in zip(solution.problem.windows, solution.problem.window_rows, strict=True):
        score = np.einsum("tcp,tc->p", linear.jacobian[rows], linear.residual[rows])
        sums[window.recording] = sums.get(window.recording, 0.0) + score
    return np.stack(list(sums.values()))


def _sandwich(bread: Array, scores: Array, count: int) -> Array:
    """bread . (sum of outer products of scores, and of the prior's) . bread"""
    blocks = len(scores)
    correction = blocks / max(blocks - min(count, blocks // 2), 1)
    meat = correction * scores.T @ scores + np.eye(count) / PRIOR_DEVIATION**2
    return np.asarray(bread @ meat @ bread)


def _widened(covariance: Array, other: Array) -> Array:
    """`covariance` stretched along each parameter where `other` is wider there; correlations stay."""
    ratio = np.sqrt(np.maximum(np.diag(other) / np.diag(covariance), 1.0))
    return np.asarray(covariance * ratio[:, None] * ratio[None, :])


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
