"""How much the parameters differ from run to run: what one value for all runs cannot give, and a randomization should.

Each episode is refitted by one step from the common solution. What these estimates scatter by, beyond what their own
uncertainty explains, is real: temperature, wear, how the operator placed the base, and whatever the model lacks that
acts like a parameter.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.identification.posterior import memory_rows
from twinloop.identification.problem import Linear, Solution
from twinloop.identification.scale import PRIOR_DEVIATION

FEWEST = 4
"""With fewer episodes nothing can be said about how they differ."""


def run_to_run(solution: Solution, linear: Linear) -> Array:
    """The covariance (P, P) of places between episodes, estimation error taken out; zero when episodes agree."""
    count = len(solution.place)
    steps, errors = episode_steps(solution, linear)
    if len(steps) < FEWEST:
        return np.zeros((count, count))
    centred = steps - steps.mean(axis=0)
    between = centred.T @ centred / (len(steps) - 1) - errors.mean(axis=0)
    values, vectors = np.linalg.eigh(between)
    made = (vectors * np.maximum(values, 0.0)) @ vectors.T
    excess = np.maximum(np.sqrt(np.diag(made)) / PRIOR_DEVIATION, 1.0)
    return np.asarray(made / excess[:, None] / excess[None, :])


def episode_steps(solution: Solution, linear: Linear) -> tuple[Array, Array]:
    """Per episode: how far it would pull the fit on its own (E, P), and the covariance of that (E, P, P).

    The prior keeps an episode from pulling where it says nothing.
    """
    problem, count = solution.problem, len(solution.place)
    by_episode: dict[int, list[slice]] = {}
    for window, rows in zip(problem.windows, problem.window_rows, strict=True):
        by_episode.setdefault(window.recording, []).append(rows)
    prior = np.eye(count) / PRIOR_DEVIATION**2
    steps, errors = [], []
    for parts in by_episode.values():
        jacobian = np.concatenate([linear.jacobian[rows].reshape(-1, count) for rows in parts])
        score = np.zeros(count)
        meat = np.zeros((count, count))
        for rows in parts:
            pulls = np.einsum("tcp,tc->tp", linear.jacobian[rows], linear.residual[rows])
            length = int(np.clip(2 * memory_rows(linear.residual[rows]), 1, max(1, len(pulls) // 4)))
            blocks = np.stack(
                [pulls[start : start + length].sum(axis=0) for start in range(0, len(pulls), length)]
            )
            score += blocks.sum(axis=0)
            meat += (blocks - blocks.mean(axis=0)).T @ (blocks - blocks.mean(axis=0))
        bread = np.linalg.inv(jacobian.T @ jacobian + prior)
        steps.append(-bread @ score)
        errors.append(bread @ meat @ bread)
    return np.stack(steps), np.stack(errors)
