"""Actuation: what servos, gears and friction leave between command and joint, once the delay is taken out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.errors import TwinloopError
from twinloop.gap.compare import by_unit, cannot_replay, compare_following, compare_tables
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.friction import dry_friction, effort_signal
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated

FLOOR_FRACTION = 0.1
"""Differences of friction smaller than this fraction of the simulated one are ignored."""


@METRICS.register("actuation")
def actuation(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Dead band, gain and what is left of tracking; friction as a torque where an effort was recorded."""
    for name, number, about in (
        (
            "dead band",
            lambda f: f.dead_band.value,
            "how far a command must turn back before the joint does: dry friction and backlash",
        ),
        (
            "tracking residual",
            lambda f: f.residual,
            "RMS of what lag, gain and dead band leave between command and joint",
        ),
    ):
        yield from compare_following(evidence, "actuation", name, None, number, about=about)
    yield from compare_following(
        evidence,
        "actuation",
        "gain",
        "1",
        lambda f: f.gain,
        about="joint motion per commanded motion",
        floor=1e-3,
    )
    yield from _friction(evidence)


def _friction(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Dry friction as a torque, against simulated episodes.

    Joint by joint and never as a headline: what robots report as effort is often an estimate, and not always of the same.
    """
    name = "dry friction"
    if cannot_replay(evidence) or not evidence.encoders:
        return
    if effort_signal(evidence.real[0], evidence.cell) is None:
        needs = "observation.effort of every actuator in N·m (or N) in the recordings"
        yield NotEvaluated("actuation", needs, name)
        return
    joints, sim = evidence.joints, evidence.sim_joints
    assert not isinstance(joints, TwinloopError)
    if isinstance(sim, TwinloopError) or effort_signal(evidence.sim.episodes[0], evidence.cell) is None:
        yield NotEvaluated("actuation", "simulated episodes with observation.effort", name)
        return
    real = dry_friction(evidence.cell, joints, evidence.real, evidence.encoders)
    simulated = dry_friction(evidence.cell, sim, evidence.sim.episodes, evidence.encoders)
    for unit, columns in by_unit([_force(joints.channels[k].unit) for k in evidence.encoders]):
        labels = [joints.channels[evidence.encoders[column]].name for column in columns]
        here, there = real[:, columns], simulated[:, columns]
        level = np.nanmean(there) if np.isfinite(there).any() else 0.0
        yield from compare_tables(
            evidence, "actuation", name, unit, labels, here, there, against=evidence.sim.name,
            samples=evidence.joint_samples, matched=False, headline=False, floor=FLOOR_FRACTION * abs(float(level)),
            about="effort that opposes motion at any speed, beyond what the twin's bodies need to move so",
        )  # fmt: skip


def _force(unit: str) -> str:
    return "N" if unit == "m" else "N·m"
