"""Human: how far people reach and how they pace themselves, against the actor in simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.gap.compare import FEW
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.replay import tool_places
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.identification.recording import Recording
from twinloop.stats.bootstrap import unpaired
from twinloop.tasks import Cell

SLOW_FRACTION = 0.05
"""A person pauses where the tool is slower than this fraction of its 95th percentile."""
FLOOR_FRACTION = 0.05
"""Differences smaller than this fraction are within one person's variation."""


@METRICS.register("human motion")
def human(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Duration, reach, speed and pauses of people's episodes against simulated ones."""
    people = [k for k, one in enumerate(evidence.real) if one.provenance.actor == "operator"]
    if not people:
        actors = ", ".join(sorted({one.provenance.actor for one in evidence.real}))
        yield NotEvaluated(
            "human", f"episodes in which a person acted; these are by: {actors}", "reach and timing"
        )
        return
    if isinstance(evidence.joints, TwinloopError) or isinstance(evidence.sim_joints, TwinloopError):
        yield NotEvaluated("human", "joint readings that the twin knows", "reach and timing")
        return
    acted = set(people)
    mine = [
        recording
        for recording, origin in zip(evidence.joints.recordings, evidence.joints.origin, strict=True)
        if origin in acted
    ]
    tables = [_numbers(evidence.cell, rows) for rows in (mine, list(evidence.sim_joints.recordings))]
    names = tuple(tables[0][0]) if tables[0] else ()
    found = 0
    for name, unit, about in names:
        sides = [np.array([row[name, unit, about] for row in table]) for table in tables]
        interval = unpaired(sides[0], sides[1], evidence.seed("human", name))
        if interval is not None:
            found += 1
            yield measure(
                "human", name, unit, interval, against=evidence.sim.name, samples=_samples(mine), about=about,
                floor=FLOOR_FRACTION * abs(interval.real or 0.0),
            )  # fmt: skip
    if not found:
        yield NotEvaluated("human", f"{FEW} by people", "reach and timing")


def _samples(recordings: list[Recording]) -> int:
    return sum(len(recording) for recording in recordings)


def _numbers(cell: Cell, recordings: list[Recording]) -> list[dict[tuple[str, str, str], float]]:
    made = []
    for recording in recordings:
        path = _path(cell, recording)
        where, unit = ("the tool", "m") if "tool" in cell.twin.roles else ("the joints", "rad")
        dt_s = np.diff(recording.time_s)
        speed = np.linalg.norm(np.diff(path, axis=0), axis=1) / np.maximum(dt_s, 1e-9)
        fast = float(np.quantile(speed, 0.95))
        made.append(
            {
                ("duration", "s", "how long an episode takes"): float(
                    recording.time_s[-1] - recording.time_s[0]
                ),
                ("reach", unit, f"how far {where} gets from where it starts"): float(
                    np.linalg.norm(path - path[0], axis=1).max()
                ),
                ("peak speed", f"{unit}/s", f"95th percentile of the speed of {where}"): fast,
                ("pauses", "1", f"fraction of time in which {where} hardly moves"): float(
                    dt_s[speed < SLOW_FRACTION * fast].sum() / dt_s.sum()
                ),
            }
        )
    return made


def _path(cell: Cell, recording: Recording) -> Array:
    """Where the tool is at every row (T, 3); without a tool, the joints themselves."""
    return tool_places(cell, recording.qpos) if "tool" in cell.twin.roles else recording.readings
