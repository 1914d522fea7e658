"""Rows of recorded episodes with the actions that followed, and how far a policy's actions are from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Signal
from twinloop.errors import WrongUse
from twinloop.policies.interface import make_interface

MAX_ERROR = 3.0
"""Errors count up to so many spreads of the recorded action: of degrees taken for radians, one joint must not outweigh the others."""
FEWEST_EPISODES = 4
ROWS_PER_EPISODE = 3
HORIZON = 16
"""Actions of a chunk that are compared."""
SMALLEST_SPREAD = 1e-3
"""Radians, metres or plain numbers: what was moved less is left out of comparisons."""


@dataclass(frozen=True)
class RecordedRows:
    """Rows (n,) of a dataset and the actions (n, T, A) that followed.

    `exists` (n, T) says which of them were recorded, `still` (n, T, A) are actions that keep every joint where it was read,
    `episode` (n,) is each row's, `spread` (A,) the actions' standard deviation, infinite for what was never moved: an error of
    that cannot be compared with anything.
    """

    rows: Array
    actions: Array
    exists: Array
    still: Array
    episode: Array
    spread: Array

    def take(self, which: Array) -> RecordedRows:
        """Some of the rows."""
        kept = {name: values[which] for name, values in vars(self).items() if name != "spread"}
        return RecordedRows(**kept, spread=self.spread)

    def halves(self) -> tuple[Array, Array]:
        """Places of rows of every other episode, and of the rest."""
        place = np.searchsorted(np.unique(self.episode), self.episode)
        return np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2 == 1)

    def pairs(self, predicted: Array) -> tuple[Array, Array]:
        """The policy's and the recorded actions (m, A) of all steps that were recorded."""
        steps = min(predicted.shape[1], self.actions.shape[1])
        exists = self.exists[:, :steps]
        return predicted[:, :steps][exists], self.actions[:, :steps][exists]

    def errors(self, predicted: Array, steps: int | None = None) -> Array:
        """Mean difference of each row (n,) over the first steps, in spreads, each up to `MAX_ERROR`."""
        count = min(predicted.shape[1], self.actions.shape[1], steps or HORIZON)
        difference = np.abs(predicted[:, :count] - self.actions[:, :count]) / self.spread
        difference = np.minimum(np.nan_to_num(difference, nan=MAX_ERROR), MAX_ERROR)
        per_step = difference[..., np.isfinite(self.spread)].mean(axis=2)
        weight = self.exists[:, :count].astype(np.float64)
        return np.asarray((per_step * weight).sum(axis=1) / weight.sum(axis=1))

    def errors_by_episode(self, predicted: Array, steps: int | None = None) -> Array:
        """Mean of `errors` over the rows of each episode."""
        errors = self.errors(predicted, steps)
        return np.array([errors[self.episode == one].mean() for one in np.unique(self.episode)])

    def errors_by_element(self, predicted: Array, names: Sequence[str]) -> dict[str, float]:
        """Mean difference of each element that was moved, in spreads."""
        found = {}
        for index in np.flatnonzero(np.isfinite(self.spread)).tolist():
            only = np.where(np.arange(len(self.spread)) == index, self.spread, np.inf)
            one = replace(self, spread=only)
            found[names[index] if names else str(index)] = float(one.errors(predicted).mean())
        return found


def take_rows(dataset: Dataset, rows: int, seed: int) -> RecordedRows:
    """Rows drawn from evenly drawn episodes, with the actions that followed."""
    starts = dataset.index.starts
    count = len(starts) - 1
    if count < FEWEST_EPISODES:
        raise WrongUse(
            "too few recorded episodes to tell a fault from chance",
            got=count,
            expected=f"{FEWEST_EPISODES} or more",
            remedy="record demonstrations, or name a larger --dataset",
        )
    rng = np.random.default_rng(seed)
    episodes = np.sort(rng.permutation(count)[: min(count, max(FEWEST_EPISODES, rows // ROWS_PER_EPISODE))])
    each = -(-rows // len(episodes))
    wanted = np.concatenate([np.sort(rng.integers(starts[e], starts[e + 1], size=each)) for e in episodes])
    interface = make_interface(
        dataset.schema, [s.name for s in dataset.schema.signals if is_observed(s)], "the dataset"
    )
    read = {signal.name: [0] for signal in interface.observations}
    batch = dataset.windows({"action": range(HORIZON), **read}).batch(wanted)
    actions = np.asarray(batch["action"], np.float64)
    readings = np.asarray(interface.vector({name: batch[name][:, 0] for name in read}), np.float64)
    mean = actions.mean(axis=(0, 1))
    still = np.where(interface.readings >= 0, readings[:, np.maximum(interface.readings, 0)], mean)
    spread = actions.reshape(-1, actions.shape[-1]).std(axis=0)
    if (spread < SMALLEST_SPREAD).all():
        raise WrongUse(
            "nothing moves in the recorded episodes", remedy="name recordings of the robot at work"
        )
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    still = np.repeat(still[:, None], HORIZON, axis=1)
    return RecordedRows(wanted, actions, ~batch["action_is_pad"], still, np.repeat(episodes, each), spread)


def is_observed(signal: Signal) -> bool:
    """Whether a robot reports a signal: it is not its commands, and not what only a simulation knows."""
    return signal.name.startswith("observation.") and len(signal.shape) == 1
