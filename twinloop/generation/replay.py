"""Make a simulated episode again from its provenance, and compare bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets import sidecar
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.engines import DEFAULT_ENGINE
from twinloop.episode import Array, Episode, content_id
from twinloop.errors import GenerationError, WrongUse
from twinloop.experts.multiply import make_multiplier
from twinloop.generation.job import parse_actor
from twinloop.generation.multiply import MULTIPLY
from twinloop.generation.record import find_stored_twin, load_record, this_build
from twinloop.generation.rollout import rollout_drawn
from twinloop.twins import Twin


@dataclass(frozen=True)
class SignalError:
    """How far a signal of the repeated episode is from the original one, in the signal's unit."""

    signal: str
    unit: str
    largest: float
    root_mean_square: float


@dataclass(frozen=True)
class Replay:
    """An episode, made again.

    `same` is bit for bit: times, every signal, events, task and provenance, which is what an episode's id stands for,
    and how it ended. `differences` says what is not the same, `build_changes` what about this installation differs from
    the one that made the episode; a changed build need not give the same bits.
    """

    original: Episode
    replayed: Episode
    differences: tuple[str, ...]
    build_changes: tuple[str, ...]
    errors: tuple[SignalError, ...]

    @property
    def same(self) -> bool:
        """Whether not a single bit differs."""
        return not self.differences


def replay(
    dataset: Dataset | str | Path, number: int, *, twin: Twin | None = None, threads: int = 1
) -> Replay:
    """Simulate a generated episode again and compare it bit for bit.

    Images are not compared: they are stored as lossy video.

    Args:
        dataset: The dataset or its folder.
        number: Number of the episode.
        twin: The twin to use; by default the one stored in the dataset.
        threads: Simulation threads.

    Returns:
        Both episodes, whether they are the same, what differs, and what differs in the installation.

    Raises:
        WrongUse: The episode is not simulated, or names no twin that is known.
        GenerationError: The demonstration that it was made from is not in the dataset.
    """
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    original = source.episode(number)
    made = original.provenance
    if made.source != "sim" or made.engine != DEFAULT_ENGINE or made.twin_hash is None or made.seed is None:
        raise WrongUse(
            f"episode {number} of {source.root} was not simulated by this engine",
            got=f"source {made.source}, engine {made.engine or 'unknown'}",
            remedy="its actions can be replayed in a twin: --twin NAME",
        )
    if made.actor == "policy" or made.actor_id is None:
        raise WrongUse(
            f"episode {number} of {source.root} was not made by an expert", got=made.actor_id or made.actor
        )
    if twin is None:
        twin = find_stored_twin(source.root, made.twin_hash, made.twin or "unnamed")
    elif twin.content_hash != made.twin_hash:
        raise GenerationError(
            f"episode {number} was made with another twin than {twin.name!r}",
            got=twin.content_hash,
            expected=made.twin_hash,
            remedy="leave --twin out to use the one kept in the dataset",
        )
    again = regenerate(original, twin, demonstrations=find_demonstrations(source, original), threads=threads)
    side = _side_row(source, number)
    return Replay(
        original,
        again,
        (*_differences(original, again), *_outcome_differences(side, again)),
        tuple(_build_changes(source, side, original)),
        signal_errors(original, again.signals, len(again)),
    )


def find_demonstrations(source: Dataset, episode: Episode) -> list[Episode]:
    """The demonstrations that an episode was multiplied from; none for an episode of any other kind."""
    made = episode.provenance
    if made.actor_id is None or made.actor_id.split()[0] != MULTIPLY:
        return []
    side = source.provenance_table()
    identities = side.column("episode_id").to_pylist() if side is not None else []
    numbers = dict(zip(identities, source.numbers, strict=True))
    for parent in made.parents:
        if parent not in numbers:
            raise GenerationError(
                f"the demonstration that an episode was made from is not in {source.root}",
                got=f"{len(numbers)} other episodes",
                expected=parent,
                remedy="merge it with the demonstrations' dataset: twinloop data merge",
            )
    return [source.episode(numbers[parent]) for parent in made.parents]


def regenerate(
    original: Episode, twin: Twin, *, demonstrations: Sequence[Episode] = (), threads: int = 1
) -> Episode:
    """The episode that its provenance describes, without images; one that was multiplied, from its `demonstrations`."""
    made = original.provenance
    assert made.seed is not None and made.actor_id is not None
    job = parse_actor(twin, made.actor_id)
    drawn = {name: np.array([value], dtype=None) for name, value in made.draw.items()}
    drawn = {name: v.astype(object) if v.dtype.kind == "U" else v for name, v in drawn.items()}
    make_expert = make_multiplier(demonstrations) if demonstrations else None
    again = next(iter(rollout_drawn(job, [made.seed], drawn, threads, make_expert=make_expert)))
    provenance = replace(again.provenance, randomization=made.randomization)
    schema = replace(again.schema, cameras=original.schema.cameras)
    identity = content_id(schema, again.time_s, again.signals, again.events, again.task, provenance)
    return replace(again, schema=schema, provenance=provenance, id=identity)


def signal_errors(original: Episode, signals: Mapping[str, Array], rows: int) -> tuple[SignalError, ...]:
    """Differences over the rows and signals that both have; (again - original)."""
    errors = []
    shared = min(rows, len(original))
    for signal in original.schema.signals:
        other = signals.get(signal.name)
        if other is None or other.shape[1:] != signal.shape:
            continue
        apart = other[:shared].astype(np.float64) - original.signals[signal.name][:shared].astype(np.float64)
        units = tuple(dict.fromkeys(signal.units))
        errors.append(
            SignalError(
                signal.name,
                ", ".join(units),
                float(np.abs(apart).max()) if apart.size else 0.0,
                float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0,
            )
        )
    return tuple(errors)


def _differences(original: Episode, again: Episode) -> list[str]:
    found = []
    if len(original) != len(again):
        found.append(f"length: got {len(again)} rows, expected {len(original)}")
    elif original.time_s.tobytes() != again.time_s.tobytes():
        found.append("time_s")
    for signal in original.schema.signals:
        other = again.signals.get(signal.name)
        if other is None:
            found.append(f"{signal.name}: not made any more")
        elif other.tobytes() != original.signals[signal.name].tobytes():
            row = _first_difference(original.signals[signal.name], other)
            found.append(f"{signal.name}: from row {row} on")
    if original.events != again.events:
        found.append("events")
    if original.task != again.task:
        found.append(f"task: got {again.task!r}, expected {original.task!r}")
    found += _provenance_differences(original, again)
    if not found and original.id != again.id:
        found.append("what the schema says of its signals")
    return found


def _provenance_differences(original: Episode, again: Episode) -> list[str]:
    mine, theirs = original.provenance.as_json(), again.provenance.as_json()
    return [
        f"provenance, {name}: got {theirs[name]!r}, expected {mine[name]!r}"
        for name in mine
        if mine[name] != theirs[name] and name not in ("software", "engine_version")
    ]


def _first_difference(original: Array, again: Array) -> int:
    shared = min(len(original), len(again))
    axes: Any = tuple(range(1, original.ndim))
    differs = (original[:shared] != again[:shared]).any(axis=axes)
    return int(np.argmax(differs)) if differs.any() else shared


def _side_row(source: Dataset, number: int) -> dict[str, Any]:
    """Origin and outcome of the episode as recorded, whatever labels say since."""
    side = source.provenance_table()
    assert side is not None
    row: dict[str, Any] = side.slice(source.numbers.index(number), 1).to_pylist()[0]
    return row


def _outcome_differences(side: Mapping[str, Any], again: Episode) -> list[str]:
    recorded = sidecar.make_outcome(side)
    return [] if recorded == again.outcome else [f"outcome: got {again.outcome}, expected {recorded}"]


def _build_changes(source: Dataset, side: Mapping[str, Any], original: Episode) -> list[str]:
    """What about this installation is not as it was when the episode was made."""
    here = this_build()
    record = load_record(source.root, side["origin_dataset"])
    then = dict(original.provenance.software) | (dict(record.build) if record else {})
    return [
        f"{name}: {then[name]} then, {here[name]} now"
        for name in sorted(then)
        if name in here and then[name] != here[name]
    ]
