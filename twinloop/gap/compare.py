"""The comparison that most metrics make: the same number of every episode, real against replayed and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.gap.evidence import REPLAY, Followings, GapEvidence
from twinloop.gap.result import ALL, Measure, NotEvaluated, measure
from twinloop.measure.delay import Following
from twinloop.stats.bootstrap import FEWEST, Difference, paired, unpaired

Number = Callable[[Following], float]

SMALL = {"rad": 2e-4, "m": 1e-4}
"""Differences below this are within the repeatability of arms."""

FEW = f"at least {FEWEST} episodes"
"""What is missing where there is no interval."""


def compare_tables(
    evidence: GapEvidence,
    dimension: str,
    name: str,
    unit: str,
    channels: Sequence[str],
    real: Array,
    sim: Array,
    *,
    against: str,
    samples: int,
    matched: bool,
    headline: bool = True,
    **more: Any,
) -> Iterator[Measure]:
    """Measures of (episodes, channels) numbers: one over all channels, and one for each when there are several.

    Without `headline` there are only those for each channel, which decide nothing.
    """
    parts: list[tuple[slice, str]] = [(slice(None), ALL)] if headline else []
    if len(channels) > 1 or not headline:
        parts += [(slice(k, k + 1), channel) for k, channel in enumerate(channels)]
    for columns, label in parts:
        found = _interval(
            evidence, real[:, columns], sim[:, columns], matched, (dimension, name, label, against)
        )
        if found is not None:
            yield measure(
                dimension, name, unit, found, against=against, samples=samples, channel=label, **more
            )


def compare_following(
    evidence: GapEvidence, dimension: str, name: str, unit: str | None, number: Number, **more: Any
) -> Iterator[Measure | NotEvaluated]:
    """A number of how joints follow commands: real against the twin's replay, and against simulated episodes.

    Without a unit the number has each joint's own, and joints of one unit are compared together.
    """
    problem = cannot_follow(evidence)
    if problem:
        yield NotEvaluated(dimension, problem, name)
        return
    yield from compare_following_tables(evidence, dimension, name, unit, number, evidence.following, **more)


def compare_following_tables(
    evidence: GapEvidence,
    dimension: str,
    name: str,
    unit: str | None,
    number: Number,
    replayed: tuple[Followings, Followings],
    **more: Any,
) -> Iterator[Measure | NotEvaluated]:
    """The same for tables of real and replayed joints."""
    real, twin = replayed
    sides = [(twin, REPLAY, True)]
    if evidence.has_sim and evidence.sim_following:
        sides.append((evidence.sim_following, evidence.sim.name, False))
    assert not isinstance(evidence.joints, TwinloopError)
    servos = [evidence.joints.channels[place] for place in evidence.servos]
    found = 0
    for there, against, matched in sides:
        for shown, columns in by_unit([unit or channel.unit for channel in servos]):
            tables = (_numbers(side, number)[:, columns] for side in (real, there))
            labels = [servos[column].name for column in columns]
            floor = {"floor": SMALL.get(shown, 0.0)} | more
            for made in compare_tables(
                evidence, dimension, name, shown, labels, *tables,
                against=against, samples=evidence.joint_samples, matched=matched, **floor,
            ):  # fmt: skip
                found += 1
                yield made
    if not found:
        yield NotEvaluated(dimension, f"{FEW} in which joints move and follow their commands", name)


def cannot_replay(evidence: GapEvidence) -> str | None:
    """Why the twin cannot replay the recordings, or None."""
    if isinstance(evidence.joints, TwinloopError):
        return f"joint readings and commands that the twin can replay ({evidence.joints.what})"
    if not evidence.replays:
        return "recordings of at least 4 finite rows"
    return None


def cannot_follow(evidence: GapEvidence) -> str | None:
    """Why joints cannot be compared with their commands, or None."""
    problem = cannot_replay(evidence)
    if problem is None and not evidence.servos:
        return "joints that follow position commands; these get forces, torques or volts, or none"
    return problem


def by_unit(units: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Columns of one unit together."""
    return [(one, [k for k, unit in enumerate(units) if unit == one]) for one in dict.fromkeys(units)]


def _numbers(rows: Followings, number: Number) -> Array:
    return np.array([[np.nan if one is None else number(one) for one in row] for row in rows], np.float64)


def _interval(
    evidence: GapEvidence, real: Array, sim: Array, matched: bool, words: tuple[str, ...]
) -> Difference | None:
    between = paired if matched else unpaired
    return between(real, sim, evidence.seed(*words), evidence.options.resamples)
