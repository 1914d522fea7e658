"""Drawing parameter values: a function of (seed, episode number, parameter name) and nothing else.

Each pair of seed and name keys a Philox counter generator whose counter is the episode number, so that any worker can
draw any episode, alone or in bulk, and adding a parameter to a randomization does not move the draws of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.randomization.randomization import Randomization


def draw(randomization: Randomization, seed: int, episode_index: int) -> dict[str, float | str]:
    """The values of one episode, by parameter name."""
    return select_draw(draw_many(randomization, seed, [episode_index]), 0)


def draw_many(randomization: Randomization, seed: int, episodes: Sequence[int] | Array) -> dict[str, Array]:
    """The values of many episodes: for each parameter an array with one number or word per episode."""
    numbers = np.asarray(episodes, dtype=np.int64)
    if len(numbers) and numbers.min() < 0:
        raise WrongUse("episode numbers start at 0", got=int(numbers.min()))
    drawn: dict[str, Array] = {}
    for variation in randomization.variations:
        uniform = uniform_numbers(seed, variation.name, numbers)
        values = variation.distribution.quantile(uniform, numbers)
        drawn[variation.name] = (
            values if variation.parameter.choices else np.clip(values, *variation.parameter.bounds)
        )
    for correlation in randomization.correlations:
        normal = np.stack(
            [ndtri(uniform_numbers(seed, name, numbers)[:, 0]) for name in correlation.names], axis=-1
        )
        factor = np.linalg.cholesky(np.array(correlation.covariance))
        values = np.array(correlation.mean) + np.einsum("ij,nj->ni", factor, normal)
        for index, parameter in enumerate(correlation.parameters):
            drawn[parameter.name] = np.clip(values[:, index], *parameter.bounds)
    return drawn


def select_draw(drawn: dict[str, Array], row: int) -> dict[str, float | str]:
    """One episode of what `draw_many` drew, as plain values to be recorded."""
    return {name: v if isinstance(v := values[row], str) else float(v) for name, values in drawn.items()}


def uniform_numbers(seed: int, name: str, episodes: Array) -> Array:
    """Two uniform numbers in (0, 1) for each episode, shape (n, 2)."""
    key = int.from_bytes(hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest(), "little")
    made = np.empty((len(episodes), 2))
    runs = np.flatnonzero(np.diff(episodes, prepend=episodes[:1] - 2) != 1)
    ends = np.append(runs[1:], len(episodes))[: len(runs)]
    for first, end in zip(runs, ends, strict=True):
        words = np.random.Philox(key=key, counter=int(episodes[first])).random_raw(4 * int(end - first))
        # 53 bits and half a step: never 0 and never 1, so that every quantile is finite.
        made[first:end] = ((words.reshape(-1, 4)[:, :2] >> np.uint64(11)) + 0.5) * 2.0**-53
    return made
