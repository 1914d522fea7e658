"""Numerics: convergence at half the time step, and simulation artefacts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.generation.artefacts import KIND
from twinloop.generation.convergence import Convergence, check_time_step, list_simulated
from twinloop.stats.bootstrap import of_fraction, of_mean

CHECKED = 4
"""Episodes that are made again at half the time step."""
STATE_FLOOR = {"rad": 2e-3, "m": 1e-3}
"""Differences smaller than this are below what a robot repeats."""
OBJECT_FLOOR_M = 5e-3


@METRICS.register("numerics")
def numerics(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """How much simulated episodes change with the time step, and how many have artefacts."""
    yield from _time_step(evidence)
    flagged = np.array(
        [float(any(event.kind == KIND for event in one.events)) for one in evidence.sim.episodes]
    )
    interval = of_fraction(int(flagged.sum()), len(flagged))
    yield measure(
        "numerics", "episodes with artefacts", "1", interval, against=evidence.sim.name,
        samples=sum(map(len, evidence.sim.episodes)), about="fraction with penetration, tunnelling, jitter or energy gain",
    )  # fmt: skip


def _time_step(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    name = "half the time step"
    numbers = list_simulated(evidence.sim.dataset)
    if len(numbers) < 3:
        needs = "at least 3 episodes simulated by Twinloop whose twin is stored with them"
        yield NotEvaluated("numerics", needs, name)
        return
    places = np.unique(np.linspace(0, len(numbers) - 1, CHECKED).round().astype(int))
    try:
        found = [check_time_step(evidence.sim.dataset, [numbers[place]]) for place in places]
    except TwinloopError as error:
        yield NotEvaluated("numerics", f"simulated episodes that can be made again ({error.what})", name)
        return
    against = f"{evidence.sim.name} at {1e3 * found[0].physics_dt_s / 2:g} ms"
    samples = sum(len(one) for one in evidence.sim.episodes)
    for unit, values, floor, label in _columns(found):
        interval = of_mean(values, evidence.seed("time step", label))
        if interval is not None:
            yield measure(
                "numerics", f"{name}, {label}", unit, interval, against=against, samples=samples, floor=floor,
                about=f"how far apart episodes at {1e3 * found[0].physics_dt_s:g} ms and half of it come out",
            )  # fmt: skip
    changed = of_fraction(sum(one.outcome_changed for one in found), len(found))
    yield measure(
        "numerics", f"{name}, outcomes changed", "1", changed, against=against, samples=samples,
        about="fraction of episodes that succeed at one time step and fail at the other",
    )  # fmt: skip


def _columns(found: list[Convergence]) -> Iterator[tuple[str, Array, float, str]]:
    states = [error for one in found for error in one.errors if error.signal == "observation.state"]
    if states:
        unit = states[0].unit.split(",")[0].strip()
        values = np.array([error.root_mean_square for error in states])
        yield unit, values, STATE_FLOOR.get(unit, 0.0), "joints"
    ends = np.array([end for one in found for end in one.object_end_m])
    if len(ends):
        yield "m", ends, OBJECT_FLOOR_M, "object at the end"
