"""Sensing: noise, its spectrum, Allan deviation, step and drift of readings, real against simulated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.errors import TwinloopError
from twinloop.gap.compare import FEW, by_unit, cannot_replay, compare_following_tables, compare_tables
from twinloop.gap.evidence import JOINTS, REPLAY, GapEvidence
from twinloop.gap.friction import EFFORTS
from twinloop.gap.registry import METRICS
from twinloop.gap.replay import through_twins_sensor
from twinloop.gap.result import Measure, NotEvaluated
from twinloop.measure.delay import DRIFT_S
from twinloop.measure.noise import STILL_S, allan_deviation, find_rests, noise_density, noise_of
from twinloop.measure.quantization import resolution_of
from twinloop.measure.trace import Trace, split_columns
from twinloop.stats.bootstrap import FEWEST

Number = Callable[[Trace], float]

ALLAN_S = (0.1, 1.0, 10.0)
FLOOR_FRACTION = 0.1
"""Differences smaller than this fraction of the real level are ignored."""
COUNTING_FRACTION = 0.15
"""Of an encoder's step: how much noise counting alone may seem to add or take away, as the motion goes."""
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
def sensing(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Encoders against the twin's own, in the twin's replay of the same commands, and against simulated episodes."""
    yield from _other_signals(evidence)
    problem = cannot_replay(evidence)
    if problem:
        yield NotEvaluated("sensing", problem, "encoders")
        return
    yield from _by_row(evidence, "noise", _noises, "standard deviation of a reading, from third differences")
    yield from _by_row(
        evidence, "quantization step", _steps, "the step in which a reading counts; 0: none seen"
    )
    yield from _still(evidence)
    yield from _drift(evidence)


def _other_signals(evidence: GapEvidence) -> Iterator[Measure]:
    """Noise of signals that replay does not give (poses, speeds, forces), against simulated episodes of other motions."""
    candidates = [
        signal
        for signal in evidence.real[0].schema.signals
        if signal.name.startswith("observation.")
        and signal.name not in (*JOINTS, *EFFORTS)
        and signal.dtype.startswith("float")
    ]
    if not candidates:
        return
    sides = (evidence.real, evidence.sim.episodes)
    known = {signal.name for signal in evidence.sim.episodes[0].schema.signals}
    for signal in (one for one in candidates if one.name in known):
        units = list(signal.units) * (signal.size if len(signal.units) == 1 else 1)
        labels = list(signal.elements or map(str, range(signal.size)))
        real, sim = (_noises([_rows(episode, signal.name) for episode in side]) for side in sides)
        if real.shape[1:] != sim.shape[1:]:
            continue
        for unit, columns in by_unit(units):
            yield from compare_tables(
                evidence, "sensing", f"noise of {signal.name.removeprefix('observation.')}", unit,
                [labels[column] for column in columns], real[:, columns], sim[:, columns], against=evidence.sim.name,
                samples=sum(map(len, evidence.real)), matched=False, floor=OTHER_FLOORS.get(unit, 0.0),
                about="from third differences; the motions are not the same",
            )  # fmt: skip


def _rows(episode: Episode, name: str) -> Array:
    return np.asarray(episode.signals[name], np.float64).reshape(len(episode), -1)


def _by_row(
    evidence: GapEvidence, name: str, table: Callable[[Sequence[Array]], Array], about: str
) -> Iterator[Measure | NotEvaluated]:
    """A number of whole columns of readings."""
    real = table([replay.real for replay in evidence.replays])
    sides = [(table(evidence.sensed), REPLAY, True)]
    if evidence.has_sim and not isinstance(evidence.sim_joints, TwinloopError):
        rows = [recording.readings for recording in evidence.sim_joints.recordings]
        sides.append((table(rows), evidence.sim.name, False))
    found = 0
    for sim, against, matched in sides:
        for made in _measures(evidence, name, real, sim, against, matched, about):
            found += 1
            yield made
    if not found:
        yield NotEvaluated("sensing", FEW, name)


def _still(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Spectrum and Allan deviation, which need readings at rest."""
    assert not isinstance(evidence.joints, TwinloopError)
    about = "at rest, under an unchanging command"
    rests, periods = [], []
    for replay in evidence.replays:
        commands = replay.recording.row_commands[replay.rows]
        parts = find_rests(split_columns(replay.time_s, replay.real), commands)
        periods.append(float(np.median(np.diff(replay.time_s))))
        if parts:
            rests.append((replay, max(parts, key=lambda part: part[1] - part[0])))
    if len(rests) < FEWEST:
        needs = f"{FEW} with {STILL_S:g} s at rest under an unchanging command"
        yield NotEvaluated("sensing", needs, "noise spectrum and Allan deviation")
        return
    channels, rng = evidence.joints.channels, evidence.rng("at rest")
    here, there = [], []
    for replay, (first, last) in rests:
        time_s = replay.time_s[first:last]
        here.append(split_columns(time_s, replay.real[first:last]))
        still = np.tile(replay.twin[first:last].mean(axis=0), (last - first, 1))
        sensed = through_twins_sensor(evidence.cell, channels, time_s, still, rng)
        there.append(split_columns(time_s, sensed))
    for name, per, number in _at_rest(1.0 / float(np.median(periods))):
        yield from _measures(
            evidence,
            name,
            _numbers(here, number),
            _numbers(there, number),
            "the twin's encoders at rest",
            True,
            about,
            per,
        )


def _at_rest(rate_hz: float) -> Iterator[tuple[str, str, Number]]:
    """Names, what the unit is divided by, and numbers of a stretch at rest."""
    edges = (0.02 * rate_hz, 0.1 * rate_hz, 0.25 * rate_hz, 0.5 * rate_hz)
    for low, high in itertools.pairwise(edges):
        number = partial(noise_density, low_hz=low, high_hz=high)
        yield f"noise density {low:.2g} to {high:.2g} Hz", "/√Hz", number
    for over_s in ALLAN_S:
        yield (
            f"Allan deviation over {over_s:g} s",
            "",
            partial(allan_deviation, over_s=over_s),
        )


def _drift(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
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
        about="random walk of a reading in 60 s, relative to its command",
        floor=_drift_floor(evidence),
    )


def _drift_floor(evidence: GapEvidence) -> float:
    """Smallest drift that counts: rest positions within the dead band look like drift."""
    bands = [one.dead_band.value for row in evidence.following[0] for one in row if one is not None]
    durations = [float(replay.time_s[-1] - replay.time_s[0]) for replay in evidence.replays]
    if not bands:
        return DRIFT_FLOOR
    scale = float(np.sqrt(DRIFT_S / max(float(np.mean(durations)), 1e-9)))
    return max(DRIFT_FLOOR, 0.5 * float(np.mean(bands)) * scale)


def _measures(
    evidence: GapEvidence,
    name: str,
    real: Array,
    sim: Array,
    against: str,
    matched: bool,
    about: str,
    per: str = "",
) -> Iterator[Measure]:
    assert not isinstance(evidence.joints, TwinloopError)
    channels = evidence.joints.channels
    step = float(np.nanmean(_steps([replay.real for replay in evidence.replays])[:, list(evidence.encoders)]))
    for unit, places in by_unit([channels[k].unit for k in evidence.encoders]):
        columns = [evidence.encoders[place] for place in places]
        labels = [channels[k].name for k in columns]
        level = real[:, columns]
        floor = FLOOR_FRACTION * float(np.nanmean(level)) if np.isfinite(level).any() else 0.0
        if name == "noise":
            floor = max(floor, COUNTING_FRACTION * step)
        yield from compare_tables(
            evidence, "sensing", name, unit + per, labels, level, sim[:, columns],
            against=against, samples=evidence.joint_samples, matched=matched, about=about, floor=floor,
        )  # fmt: skip


def _numbers(tables: Sequence[Sequence[Trace]], number: Number) -> Array:
    return np.array([[number(trace) for trace in traces] for traces in tables], np.float64)


def _noises(tables: Sequence[Array]) -> Array:
    return np.array([noise_of(rows) for rows in tables])


def _steps(tables: Sequence[Array]) -> Array:
    """Quantization steps; where some episodes of a channel have one, the others moved too little to measure it."""
    found = np.array([[resolution_of(column) for column in rows.T] for rows in tables])
    return np.where((found > 0.0) | ~(found > 0.0).any(axis=0), found, np.nan)
