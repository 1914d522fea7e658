"""Check that the physics time step is small enough: simulate episodes again at half the step and compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.engines import ENGINES
from twinloop.episode import Episode
from twinloop.errors import WrongUse
from twinloop.generation.record import find_stored_twin
from twinloop.generation.replay import SignalError, find_demonstrations, regenerate, signal_errors
from twinloop.twins import with_time_step

OBJECT = "simulation.object"


@dataclass(frozen=True)
class Convergence:
    """How much episodes change when the time step is halved.

    `outcome_changed` counts episodes that succeed with one step and fail with the other. `errors` are over all rows that
    both versions of an episode have; `object_end_m` is, per episode, how far apart the object ends, where there is one.
    """

    physics_dt_s: float
    episodes: tuple[int, ...]
    outcome_changed: int
    errors: tuple[SignalError, ...]
    object_end_m: tuple[float, ...]


def check_time_step(
    dataset: Dataset | str | Path, numbers: Sequence[int] | None = None, *, count: int = 8, threads: int = 1
) -> Convergence:
    """Compare simulated episodes with themselves at half the time step: `numbers`, or `count` spread over all."""
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    simulated = list_simulated(source)
    if not simulated:
        raise WrongUse(f"{source.root} has no episode of a known engine to simulate at half the time step")
    if numbers is None:
        places = np.unique(np.linspace(0, len(simulated) - 1, count).round().astype(int))
        numbers = [simulated[place] for place in places]
    pairs: list[tuple[Episode, Episode]] = []
    dt_s = 0.0
    for number in numbers:
        original = source.episode(number)
        provenance = original.provenance
        twin = find_stored_twin(source.root, provenance.twin_hash or "", provenance.twin or "unnamed")
        dt_s = twin.physics_dt_s
        finer = with_time_step(twin, dt_s / 2.0)
        parents = find_demonstrations(source, original)
        pairs.append((original, regenerate(original, finer, demonstrations=parents, threads=threads)))
    ends = [_object_end_m(coarse, fine) for coarse, fine in pairs]
    return Convergence(
        dt_s,
        tuple(int(number) for number in numbers),
        sum(coarse.success != fine.success for coarse, fine in pairs),
        _pooled([signal_errors(coarse, fine.signals, len(fine)) for coarse, fine in pairs]),
        tuple(end for end in ends if end is not None),
    )


def list_simulated(source: Dataset) -> list[int]:
    """Numbers of the episodes that can be simulated again in the twin stored with them."""
    side = source.provenance_table()
    if side is None:
        return []
    columns = (side.column(name).to_pylist() for name in ("episode_index", "engine", "twin_hash", "actor"))
    rows = zip(*columns, strict=True)
    return [
        number for number, engine, twin, actor in rows if engine in ENGINES and twin and actor != "policy"
    ]


def _object_end_m(coarse: Episode, fine: Episode) -> float | None:
    if OBJECT not in coarse.signals or OBJECT not in fine.signals:
        return None
    row = min(len(coarse), len(fine)) - 1
    return float(np.linalg.norm(coarse[OBJECT][row, :3] - fine[OBJECT][row, :3]))


def _pooled(errors: Sequence[Sequence[SignalError]]) -> tuple[SignalError, ...]:
    """The largest difference and the root mean square over episodes, by signal."""
    pooled = []
    for same_signal in zip(*errors, strict=True):
        squares = [error.root_mean_square**2 for error in same_signal]
        largest = max(error.largest for error in same_signal)
        first = same_signal[0]
        pooled.append(SignalError(first.signal, first.unit, largest, float(np.sqrt(np.mean(squares)))))
    return tuple(pooled)
