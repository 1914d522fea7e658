"""The comparison that most metrics make: the same number of every episode, real against replayed and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import TwinloopError
from twinloop.gap.bootstrap import FEWEST, Interval, paired, unpaired
from twinloop.gap.evidence import REPLAY, Evidence, Followings
from twinloop.gap.follow import Following
from twinloop.gap.result import ALL, Measure, NotEvaluated, measure
from twinloop.identify.recording import Channel

Array = NDArray[Any]
Number = Callable[[Following], float]

FEW = f"at least {FEWEST} episodes"
"""What is missing where an interval cannot be told."""


def compare_tables(
    evidence: Evidence,
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
    **more: Any,
) -> Iterator[Measure]:
    """Measures of (episodes, channels) numbers: one over all channels, and one for each when there are several."""
    single = len(channels) == 1
    for columns, label in [
        (slice(None), ALL),
        *((slice(k, k + 1), c) for k, c in enumerate(channels) if not single),
    ]:
        found = _interval(
            evidence, real[:, columns], sim[:, columns], matched, (dimension, name, label, against)
        )
        if found is not None:
            yield measure(
                dimension, name, unit, found, against=against, samples=samples, channel=label, **more
            )


def compare_following(
    evidence: Evidence, dimension: str, name: str, unit: str | None, number: Number, **more: Any
) -> Iterator[Measure | NotEvaluated]:
    """A number of how joints follow commands: real against the twin's replay, and against given simulated episodes.

    Without a unit the number has each joint's own, and joints of one unit are compared together.
    """
    problem = cannot_follow(evidence)
    if problem:
        yield NotEvaluated(dimension, problem, name)
        return
    real, twin = evidence.following
    sides = [(real, twin, REPLAY, True)]
    if evidence.has_sim and evidence.sim_following:
        sides.append((real, evidence.sim_following, evidence.sim.name, False))
    found = 0
    for here, there, against, matched in sides:
        for shown, columns in _by_unit(evidence, unit):
            tables = (_numbers(side, number)[:, columns] for side in (here, there))
            labels = [_servo(evidence, column).name for column in columns]
            for made in compare_tables(
                evidence, dimension, name, shown, labels, *tables,
                against=against, samples=evidence.joint_samples, matched=matched, **more,
            ):  # fmt: skip
                found += 1
                yield made
    if not found:
        yield NotEvaluated(dimension, f"{FEW} in which joints move and follow their commands", name)


def cannot_follow(evidence: Evidence) -> str | None:
    """Why how joints follow commands cannot be looked at, or None."""
    if isinstance(evidence.joints, TwinloopError):
        return f"recordings that the twin can replay: {evidence.joints.what}"
    if not evidence.servos:
        return "joints that follow position commands; these get forces, torques or volts, or none"
    return None


def _servo(evidence: Evidence, place: int) -> Channel:
    assert not isinstance(evidence.joints, TwinloopError)
    return evidence.joints.channels[evidence.servos[place]]


def _by_unit(evidence: Evidence, unit: str | None) -> list[tuple[str, list[int]]]:
    """Which servos are compared together, in which unit."""
    places = range(len(evidence.servos))
    if unit is not None:
        return [(unit, list(places))]
    units = [_servo(evidence, place).unit for place in places]
    return [(one, [place for place in places if units[place] == one]) for one in dict.fromkeys(units)]


def _numbers(rows: Followings, number: Number) -> Array:
    return np.array([[np.nan if one is None else number(one) for one in row] for row in rows], np.float64)


def _interval(
    evidence: Evidence, real: Array, sim: Array, matched: bool, words: tuple[str, ...]
) -> Interval | None:
    between = paired if matched else unpaired
    return between(real, sim, evidence.seed(*words), evidence.options.resamples)
