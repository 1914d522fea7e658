"""A dataset as points: moments (sampled rows) and situations (how each episode began), with how it ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twinloop.coverage.images import Look, look_at
from twinloop.coverage.variables import (
    Columns,
    Variable,
    make_columns,
    shared_signals,
    start_of,
    units_of,
)
from twinloop.datasets.query import episode_rows
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import UnknownName, WrongUse

OnProgress = Callable[[int, int], None]

FEWEST_ROWS = 4
"""Sampled rows of an episode, however many episodes there are."""
TEXT_CONDITIONS = ("task", "site")


@dataclass(frozen=True, eq=False)
class Points:
    """Named values (N, V) of points, and the episode (place in the sample's list) and row each belongs to."""

    variables: tuple[Variable, ...]
    values: Array
    episode: Array
    frame: Array

    def of(self, episodes: Array) -> Points:
        """The points of these episodes, in ascending order, renumbered from zero."""
        number = np.full(int(self.episode.max(initial=-1)) + 1, -1)
        number[episodes] = np.arange(len(episodes))
        kept = number[self.episode] >= 0
        return Points(self.variables, self.values[kept], number[self.episode[kept]], self.frame[kept])

    def without(self, names: Collection[str]) -> Points:
        """The same points without these variables."""
        kept = [i for i, variable in enumerate(self.variables) if variable.name not in names]
        return replace(self, variables=tuple(self.variables[i] for i in kept), values=self.values[:, kept])


@dataclass(frozen=True, eq=False)
class SampledEpisodes:
    """Real or simulated episodes as named points, with how each ended.

    `conditions` are text labels of each episode, by field; None where there is none. `twin` is the one that the first episodes name.
    """

    name: str
    dataset_id: str
    numbers: tuple[int, ...]
    success: tuple[bool | None, ...]
    failure: tuple[str | None, ...]
    conditions: Mapping[str, tuple[str | None, ...]]
    moments: Points
    situations: Points
    twin: str | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class DatasetSample(SampledEpisodes):
    """Sampled episodes with what their comparison needs.

    `raw` (N, elements) holds the moments' signals, `smallest` the smallest relevant difference of each, and `views` (N, D) image
    descriptors for the embedding.
    """

    raw: Array
    smallest: Array
    views: Array | None = None

    def of(self, episodes: Sequence[int] | Array) -> DatasetSample:
        """Only these episodes, by place; their order stays."""
        places = np.unique(np.asarray(episodes, dtype=int))
        kept = np.isin(self.moments.episode, places)
        return replace(
            self,
            numbers=tuple(self.numbers[i] for i in places),
            success=tuple(self.success[i] for i in places),
            failure=tuple(self.failure[i] for i in places),
            conditions={k: tuple(v[i] for i in places) for k, v in self.conditions.items()},
            moments=self.moments.of(places),
            situations=self.situations.of(places),
            raw=self.raw[kept],
            views=None if self.views is None else self.views[kept],
        )


def sample_datasets(
    real: Dataset,
    sim: Dataset,
    *,
    signals: Sequence[str] | None = None,
    points: int = 20_000,
    images: bool = True,
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[DatasetSample, DatasetSample]:
    """Both datasets as points over their common variables; at most about `points` moments of each."""
    _require_names(real, sim, signals)
    names = shared_signals(real.schema, sim.schema, signals)
    if not names:
        raise WrongUse(
            "these datasets have no signal of the same size in common",
            got=", ".join(s.name for s in real.schema.signals),
            available=[s.name for s in sim.schema.signals],
        )
    _require_units(real, sim, names)
    columns = make_columns([real.schema.signal(name) for name in names])
    theirs = {camera.name for camera in sim.schema.cameras}
    cameras = [c.name for c in real.schema.cameras if c.name in theirs] if images else []
    rows = {"real": episode_rows(real), "sim": episode_rows(sim)}
    draws = sorted(_drawn(rows["real"]) & _drawn(rows["sim"]))
    total, done = len(real) + len(sim), 0
    made = []
    for role, dataset in (("real", real), ("sim", sim)):

        def on_episode(count: int, before: int = done) -> None:
            on_progress(before + count, total)

        made.append(_read(dataset, rows[role], columns, cameras, draws, points, on_episode))
        done += len(dataset)
    return made[0], made[1]


def _read(
    dataset: Dataset,
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    cameras: Sequence[str],
    draws: Sequence[str],
    points: int,
    on_episode: Callable[[int], None],
) -> DatasetSample:
    if not len(dataset):
        raise WrongUse(f"{dataset.place} holds no episode")
    each = max(FEWEST_ROWS, points // len(dataset))
    raws, owners, frames, firsts, looks = [], [], [], [], []
    for place, number in enumerate(dataset.numbers):
        episode = dataset.episode(number)
        chosen = sampled_rows(len(episode), each, np.random.default_rng([place, each]))
        parts = [episode[s.name].reshape(len(episode), -1)[chosen] for s in columns.signals]
        raws.append(np.concatenate(parts, axis=1).astype(np.float64))
        owners.append(np.full(len(chosen), place))
        frames.append(chosen)
        firsts.append(raws[-1][:1])
        if cameras:
            looks.append(look_at(episode, cameras, chosen))
        on_episode(place + 1)
    raw = np.concatenate(raws)
    look = Look.joined(looks) if looks else None
    moments = Points(
        (*columns.variables, *(look.variables if look else ())),
        np.concatenate([columns.values(raw), *([look.values] if look else [])], axis=1),
        np.concatenate(owners),
        np.concatenate(frames),
    )
    return DatasetSample(
        name=dataset.root.resolve().name,
        dataset_id=dataset.id,
        numbers=tuple(dataset.numbers),
        success=tuple(row["success"] for row in rows),
        failure=tuple(row["failure"] for row in rows),
        conditions=_conditions(rows),
        moments=moments,
        situations=_situations(rows, columns.values(np.concatenate(firsts)), columns, look, moments, draws),
        raw=raw,
        smallest=columns.smallest,
        views=look.vectors if look else None,
        twin=next((row["twin"] for row in rows if row["twin"]), None),
    )


def sampled_rows(length: int, count: int, rng: np.random.Generator) -> Array:
    """The first row and one from each of `count` - 1 equal stretches, at random: a fixed stride would miss the same moments
    in every episode."""
    if length <= count:
        return np.arange(length)
    edges = np.linspace(1, length, count)
    drawn = edges[:-1] + rng.random(count - 1) * np.diff(edges)
    return np.unique(np.concatenate([[0], drawn.astype(int)]))


def _situations(
    rows: Sequence[Mapping[str, Any]],
    starts: Array,
    columns: Columns,
    look: Look | None,
    moments: Points,
    draws: Sequence[str],
) -> Points:
    variables = [start_of(v) for v in columns.variables]
    values = [starts]
    if draws:
        maps = [dict(row["draw"] or []) for row in rows]
        values.append(np.array([[m.get(name, np.nan) for name in draws] for m in maps], dtype=np.float64))
        variables += [Variable(name, _unit_of(name), "episodes", f"draw['{name}']") for name in draws]
    if look is not None:
        first = np.searchsorted(moments.episode, np.arange(len(rows)))
        values.append(look.values[first])
        variables += [start_of(v) for v in look.variables]
    numbers = np.arange(len(rows))
    return Points(tuple(variables), np.concatenate(values, axis=1), numbers, np.zeros(len(rows), dtype=int))


def _conditions(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str | None, ...]]:
    """Text labels by field: task, site, person, categorical draws and labels."""
    found: dict[str, list[str | None]] = {
        name: [row[name] or None for row in rows] for name in TEXT_CONDITIONS
    }
    found["actor_id"] = [row["actor_id"] if row["actor"] == "operator" else None for row in rows]
    for column, form in (("draw_text", "draw_text['{}']"), ("label", "label['{}']")):
        maps = [dict(row[column] or []) for row in rows]
        for key in sorted(set().union(*maps)):
            found[form.format(key)] = [m.get(key) for m in maps]
    return {name: tuple(values) for name, values in found.items() if any(v is not None for v in values)}


def _drawn(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {name for row in rows for name, _ in (row["draw"] or [])}


def _unit_of(parameter: str) -> str:
    """The unit in which a parameter's name ends."""
    for ending, unit in (("_m", "m"), ("_rad", "rad"), ("_kg", "kg"), ("_s", "s"), ("_k", "K")):
        if parameter.endswith(ending):
            return unit
    return "1"


def _require_names(real: Dataset, sim: Dataset, signals: Sequence[str] | None) -> None:
    for name in signals or ():
        for dataset in (real, sim):
            known = [s.name for s in dataset.schema.signals]
            if name not in known:
                raise UnknownName(f"signal of {dataset.place}", name, known)


def _require_units(real: Dataset, sim: Dataset, names: Sequence[str]) -> None:
    for name in names:
        mine, theirs = (units_of([dataset.schema.signal(name)]) for dataset in (real, sim))
        if mine != theirs and "unknown" not in {*mine, *theirs}:
            raise WrongUse(
                f"{name} has other units in {sim.root} than in {real.root}",
                got=", ".join(dict.fromkeys(theirs)),
                expected=", ".join(dict.fromkeys(mine)),
                remedy="convert one of them; `twinloop ingest` takes units in its map",
            )
