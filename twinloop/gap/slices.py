"""Object, environment and human by slice: replay error and success rate under each condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.gap.compare import FEW
from twinloop.gap.conditions import dimension_of, most_frequent, sliced
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.stats.bootstrap import FEWEST, unpaired

MOST_SLICES = 12
NEEDS = {
    "object": "real episodes with different objects, named by a column 'object' of --conditions or a signal condition.object",
    "environment": "real episodes under different conditions (site, light, clutter ...), named by their provenance or --conditions",
    "human": "real episodes of different people: provenance with an operator, or a column 'participant' of --conditions",
}


def _metric(dimension: str) -> Callable[[GapEvidence], Iterator[Measure | NotEvaluated]]:
    def by_slice(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
        found = 0
        for made in _measures(evidence, dimension):
            found += 1
            yield made
        if not found:
            yield NotEvaluated(dimension, f"{NEEDS[dimension]}; {FEW} of each", f"by {dimension}")

    by_slice.__doc__ = f"Replay error and success by {dimension}."
    return by_slice


for _dimension in NEEDS:
    METRICS.register(f"{_dimension} by slice")(_metric(_dimension))


def _measures(evidence: GapEvidence, dimension: str) -> Iterator[Measure]:
    sim = evidence.sim.known if evidence.has_sim else ()
    for name, (here, there) in sliced(evidence.known, sim).items():
        if dimension_of(name, evidence.twin) != dimension:
            continue
        for value in most_frequent(here, MOST_SLICES):
            inside = np.array([where == value for where in here])
            yield from _replay_error(evidence, dimension, f"{name} {value}", inside)
            if evidence.has_sim:
                sim_inside = np.array([where == value for where in there], dtype=bool)
                yield from _success(evidence, dimension, f"{name} {value}", inside, sim_inside)


def _replay_error(evidence: GapEvidence, dimension: str, label: str, inside: Array) -> Iterator[Measure]:
    """How much worse the twin replays episodes of this slice than the others."""
    for unit, errors in episode_errors(evidence).items():
        # Both groups are real, so there is no simulated level to report.
        interval = unpaired(errors[~inside], errors[inside], evidence.seed(dimension, label, unit))
        if interval is not None:
            interval = replace(interval, real=None, sim=None)
            yield measure(
                dimension, f"replay error, {label}", unit, interval, against="the other real episodes",
                samples=evidence.joint_samples, about="RMS replay error of the joints in these episodes beyond the others",
            )  # fmt: skip


def _success(
    evidence: GapEvidence, dimension: str, label: str, inside: Array, sim_inside: Array
) -> Iterator[Measure]:
    sides = [
        np.array([np.nan if one.success is None else 100.0 * one.success for one in episodes])[which]
        for episodes, which in ((evidence.real, inside), (evidence.sim.episodes, sim_inside))
    ]
    if min(np.isfinite(side).sum() for side in sides) < FEWEST:
        return
    interval = unpaired(sides[0], sides[1], evidence.seed(dimension, label, "success"))
    if interval is not None:
        yield measure(
            dimension, f"success, {label}", "points", interval, against=evidence.sim.name,
            samples=interval.real_count + interval.sim_count, about="success in simulation minus on the robot",
        )  # fmt: skip


def episode_errors(evidence: GapEvidence) -> dict[str, Array]:
    """RMS replay error of the joints of every real episode, by unit; NaN for those that cannot be replayed."""
    joints = evidence.joints
    if isinstance(joints, TwinloopError):
        return {}
    made: dict[str, Array] = {}
    origin = {id(one): where for one, where in zip(joints.recordings, joints.origin, strict=True)}
    for unit in dict.fromkeys(joints.channels[k].unit for k in evidence.encoders):
        columns = [k for k in evidence.encoders if joints.channels[k].unit == unit]
        errors = np.full(len(evidence.real), np.nan)
        for replay in evidence.replays:
            left = (replay.twin - replay.real)[:, columns]
            errors[origin[id(replay.recording)]] = float(np.sqrt(np.mean(left**2)))
        made[unit] = errors
    return made
