"""Sensing: noise, its spectrum, Allan deviation, step and drift of readings, real against simulated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Episode
from twinloop.errors import TwinloopError
from twinloop.gap.compare import FEW, by_unit, cannot_replay, compare_following_tables, compare_tables
from twinloop.gap.evidence import JOINTS, REPLAY, Evidence
from twinloop.gap.follow import DRIFT_S
from twinloop.gap.friction import EFFORTS
from twinloop.gap.noise import STILL_S, allan_deviation, density, noise_of, still_stretches
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated
from twinloop.quality.view import resolution

Array = NDArray[Any]
Number = Callable[[Array], float]

ALLAN_S = (0.1, 1.0, 10.0)
FLOOR_SHARE = 0.1
"""Differences smaller than this share of the real level are nothing."""
OTHER_FLOORS = {
    "m": 2e-4,
    "rad": 2e-4,
    "m/s": 5e-3,
    "rad/s": 5e-3,
    "m/s²": 0.1,
    "N": 0.1,
    "N·m": 0.01,
    "1": 1e-3,
}
"""Finer than sensors of such a kind are; motions that differ differ by as much."""
DRIFT_FLOOR = 1e-3
"""A load that is picked up on the way makes servos sag and looks like so much drift."""


@METRICS.register("sensing")
def sensing(evidence: Evidence) -> Iterator[Measure | NotEvaluated]:
    """Encoders against the twin's own, in the twin's replay of the same commands, and against simulated episodes."""
    yield from _other_signals(evidence)
    problem = cannot_replay(evidence)
    if problem:
        yield NotEvaluated("sensing", problem, "encoders")
        return
    for name, number, about in (
        ("noise", noise_of, "standard deviation of a reading, from third differences"),
        ("quantization step", resolution, "the step in which a reading counts; 0: none seen"),
    ):
        yield from _by_row(evidence, name, number, about)
    yield from _still(evidence)
    yield from _drift(evidence)


def _other_signals(evidence: Evidence) -> Iterator[Measure]:
    """Noise of what replay cannot tell (poses, speeds, forces), against simulated episodes of other motions."""
    sides = (evidence.real, evidence.sim.episodes)
    known = {signal.name for signal in evidence.sim.episodes[0].schema.signals}
    for signal in evidence.real[0].schema.signals:
        skipped = signal.name in (*JOINTS, *EFFORTS) or not signal.dtype.startswith("float")
        if skipped or not signal.name.startswith("observation.") or signal.name not in known:
            continue
        units = list(signal.units) * (signal.size if len(signal.units) == 1 else 1)
        labels = list(signal.elements or map(str, range(signal.size)))
        real, sim = (np.array([_noises(episode, signal.name) for episode in side]) for side in sides)
        if real.shape[1:] != sim.shape[1:]:
            continue
        for unit, columns in by_unit(units):
            yield from compare_tables(
                evidence, "sensing", f"noise of {signal.name.removeprefix('observation.')}", unit,
                [labels[column] for column in columns], real[:, columns], sim[:, columns], against=evidence.sim.name,
                samples=sum(map(len, evidence.real)), matched=False, floor=OTHER_FLOORS.get(unit, 0.0),
                about="from third differences; the motions are not the same",
            )  # fmt: skip


def _noises(episode: Episode, name: str) -> list[float]:
    rows = np.asarray(episode.signals[name], np.float64).reshape(len(episode), -1)
    return [noise_of(column) for column in rows.T]


def _by_row(evidence: Evidence, name: str, number: Number, about: str) -> Iterator[Measure | NotEvaluated]:
    """A number of whole columns of readings."""
    real = _columns([replay.real for replay in evidence.replays], number)
    sides = [(_columns(evidence.sensed, number), REPLAY, True)]
    if evidence.has_sim and not isinstance(evidence.sim_joints, TwinloopError):
        rows = [recording.readings for recording in evidence.sim_joints.recordings]
        sides.append((_columns(rows, number), evidence.sim.name, False))
    found = 0
    for sim, against, matched in sides:
        for made in _measures(evidence, name, real, sim, against, matched, about):
            found += 1
            yield made
    if not found:
        yield NotEvaluated("sensing", FEW, name)


def _still(evidence: Evidence) -> Iterator[Measure | NotEvaluated]:
    """Spectrum and Allan deviation, which only readings at rest can tell."""
    stretches = [
        still_stretches(replay.time_s, replay.recording.commands[replay.rows], replay.real)
        for replay in evidence.replays
    ]
    rates = [1.0 / float(np.median(np.diff(replay.time_s))) for replay in evidence.replays]
    if sum(map(bool, stretches)) < 3:
        needs = f"at least 3 episodes with {STILL_S:g} s at rest under an unchanging command"
        yield NotEvaluated("sensing", needs, "noise spectrum and Allan deviation")
        return
    real = [replay.real for replay in evidence.replays]
    for name, number in _still_numbers(float(np.median(rates))):
        here, there = (_at_rest(side, stretches, number) for side in (real, evidence.sensed))
        about = "at rest, under an unchanging command"
        yield from _measures(evidence, name, here, there, REPLAY, True, about)


def _still_numbers(rate_hz: float) -> Iterator[tuple[str, Number]]:
    edges = (0.02 * rate_hz, 0.1 * rate_hz, 0.25 * rate_hz, 0.5 * rate_hz)
    for low, high in itertools.pairwise(edges):
        yield (
            f"noise density {low:.2g} to {high:.2g} Hz",
            partial(density, rate_hz=rate_hz, low_hz=low, high_hz=high),
        )
    for over_s in ALLAN_S:
        yield f"Allan deviation over {over_s:g} s", partial(allan_deviation, rate_hz=rate_hz, over_s=over_s)


def _at_rest(side: Sequence[Array], stretches: Sequence[Sequence[tuple[int, int]]], number: Number) -> Array:
    return np.array(
        [
            [_longest(column, parts, number) for column in rows.T]
            for rows, parts in zip(side, stretches, strict=True)
        ]
    )


def _longest(column: Array, parts: Sequence[tuple[int, int]], number: Number) -> float:
    if not parts:
        return float("nan")
    first, last = max(parts, key=lambda part: part[1] - part[0])
    return number(column[first:last])


def _drift(evidence: Evidence) -> Iterator[Measure | NotEvaluated]:
    """How far joints move from where their commands put them, in the course of an episode."""
    if not evidence.servos:
        yield NotEvaluated("sensing", "joints that follow position commands", "drift")
        return
    yield from compare_following_tables(
        evidence,
        "sensing",
        "drift",
        None,
        lambda found: found.drift,
        (evidence.following[0], evidence.sensed_following),
        about="random walk of a reading in 60 s, beside its command",
        floor=_drift_floor(evidence),
    )


def _drift_floor(evidence: Evidence) -> float:
    """Where in its dead band a joint comes to rest cannot be told from drift."""
    bands = [one.dead_band for row in evidence.following[0] for one in row if one is not None]
    durations = [float(replay.time_s[-1] - replay.time_s[0]) for replay in evidence.replays]
    if not bands:
        return DRIFT_FLOOR
    scale = float(np.sqrt(DRIFT_S / max(float(np.mean(durations)), 1e-9)))
    return max(DRIFT_FLOOR, 0.5 * float(np.mean(bands)) * scale)


def _measures(
    evidence: Evidence, name: str, real: Array, sim: Array, against: str, matched: bool, about: str
) -> Iterator[Measure]:
    assert not isinstance(evidence.joints, TwinloopError)
    channels = evidence.joints.channels
    for unit, places in by_unit([channels[k].unit for k in evidence.encoders]):
        columns = [evidence.encoders[place] for place in places]
        labels = [channels[k].name for k in columns]
        level = real[:, columns]
        floor = FLOOR_SHARE * float(np.nanmean(level)) if np.isfinite(level).any() else 0.0
        yield from compare_tables(
            evidence, "sensing", name, unit, labels, level, sim[:, columns],
            against=against, samples=evidence.joint_samples, matched=matched, about=about, floor=floor,
        )  # fmt: skip


def _columns(tables: Sequence[Array], number: Number) -> Array:
    return np.array([[number(column) for column in rows.T] for rows in tables], np.float64)
