"""Actuation: what servos, gears and friction leave between command and joint, once the delay is taken out."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.gap.compare import compare_following
from twinloop.gap.evidence import Evidence
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated


@METRICS.register("actuation")
def actuation(evidence: Evidence) -> Iterator[Measure | NotEvaluated]:
    """Dead band, gain and what is left of tracking; friction as a torque where an effort was recorded."""
    for name, number, about in (
        (
            "dead band",
            lambda f: f.dead_band,
            "how far a command must turn back before the joint does: dry friction and play",
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
