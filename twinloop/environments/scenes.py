"""The scenes of environments whose episodes have no end in number: each follows from its environment's seed and its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.generation.job import episode_seed
from twinloop.randomization import Randomization, draw_many, select_draw

BLOCK = 64
"""Episodes drawn at once for an environment: drawing one costs about as much as drawing so many."""


@dataclass(frozen=True)
class Begun:
    """The scenes of n episodes: drawn values (n,) by parameter, the same by episode, and the seeds (n,) of their noise."""

    values: dict[str, Array]
    draws: list[dict[str, float | str]]
    seeds: Array


class Scenes:
    """For each of `count` environments, its seed and the number of its episode, -1 before the first.

    Episode n of an environment with seed s is scene n of `evaluate(..., seed=s)`.
    """

    def __init__(self, randomization: Randomization, count: int) -> None:
        self._randomization = randomization
        self.seed = np.zeros(count, dtype=np.int64)
        self.number = np.full(count, -1, dtype=np.int64)
        self._blocks: list[tuple[int, dict[str, Array]]] = [(-1, {})] * count

    def restart(self, ids: Array, seeds: Array) -> None:
        """Give the environments `ids` new seeds; their next episode has number 0."""
        self.seed[ids], self.number[ids] = seeds, -1
        for environment in ids.tolist():
            self._blocks[environment] = (-1, {})

    def take(self, ids: Array) -> Begun:
        """The next scene of each of `ids`."""
        self.number[ids] += 1
        draws = [self._draw(environment) for environment in ids.tolist()]
        seeds = [episode_seed(int(self.seed[one]), int(self.number[one])) for one in ids.tolist()]
        names = self._randomization.names
        values = {name: np.array([draw[name] for draw in draws]) for name in names}
        return Begun(values, draws, np.array(seeds, dtype=np.int64))

    def _draw(self, environment: int) -> dict[str, float | str]:
        number = int(self.number[environment])
        first = number - number % BLOCK
        if self._blocks[environment][0] != first:
            seed, numbers = int(self.seed[environment]), range(first, first + BLOCK)
            self._blocks[environment] = (first, draw_many(self._randomization, seed, numbers))
        return select_draw(self._blocks[environment][1], number - first)


def extremes(randomization: Randomization, bounds: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """By parameter that varies, the smallest and largest value that it may take."""
    found: dict[str, Any] = {}
    for name in randomization.names:
        support = np.asarray(randomization[name].support(), dtype=np.float64)
        found[name] = np.clip(support, *bounds[name]) if name in bounds else support
    return found
