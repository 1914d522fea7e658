"""Latency: how long after a command the joint answers, and how old an observation is when it is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Episode
from twinloop.gap.compare import compare_following
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.replay import nominal
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.quality.view import CLOCK_PREFIX
from twinloop.stats.bootstrap import paired

LARGEST_AGE_MS = 5000.0


@METRICS.register("latency")
def latency(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Command to response, against the twin's replay and against the simulated dataset; age of observations."""
    yield from compare_following(
        evidence,
        "latency",
        "command to response",
        "ms",
        lambda found: 1e3 * found.delay.value if found.delay_known else float("nan"),
        about="how late the joint follows its command",
        floor=1e3 * evidence.twin.physics_dt_s,
    )
    yield from _age(evidence)


def _age(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Row time minus a stream's own stamp, where streams were recorded with stamps of their own."""
    name = "observation age"
    streams = sorted({s.name for s in evidence.real[0].schema.signals if s.name.startswith(CLOCK_PREFIX)})
    found = 0
    for stream in streams:
        ages = np.array([_median_age_ms(episode, stream) for episode in evidence.real])
        # Clocks that were never set to each other differ by minutes, which is no age.
        if not np.isfinite(ages).any() or np.nanmax(np.abs(ages)) > LARGEST_AGE_MS:
            continue
        nominal_ms = 1e3 * nominal(evidence.cell, "observation_delay_s")
        interval = paired(ages, np.full(len(ages), nominal_ms), evidence.seed("age", stream))
        if interval is not None:
            found += 1
            yield measure(
                "latency", f"{name}, {stream.removeprefix(CLOCK_PREFIX)}", "ms", interval,
                against="the twin's observation delay", samples=sum(map(len, evidence.real)), floor=0.5,
                about="how old a reading is when its row is recorded",
            )  # fmt: skip
    if not found:
        needs = "a signal clock.NAME with each stream's own time stamps, on the clock of the rows"
        yield NotEvaluated("latency", needs, name)


def _median_age_ms(episode: Episode, stream: str) -> float:
    if stream not in episode.signals:
        return float("nan")
    stamps = np.asarray(episode.signals[stream], np.float64).reshape(len(episode), -1)[:, 0]
    return 1e3 * float(np.median(np.asarray(episode.time_s) - stamps))
