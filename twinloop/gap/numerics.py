"""Numerics: convergence at half the time step, and simulation artefacts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.engines import DEFAULT_ENGINE
from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.generation.artefacts import KIND
from twinloop.generation.convergence import Convergence, check_time_step, list_simulated
from twinloop.stats.bootstrap import of_fraction, of_mean, unpaired

CHECKED = 4
"""Episodes that are made again at half the time step."""
STATE_FLOOR = {"rad": 2e-3, "m": 1e-3}
"""Differences smaller than this are below what a robot repeats."""
OBJECT_FLOOR_M = 5e-3
FEWEST_IN_ENGINE = 5
"""Fewer episodes of an engine than this say nothing about it."""
ENGINES_FLOOR = 0.05
"""Differences of success rates below this are not worth a look."""


@METRICS.register("numerics")
def numerics(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """How much simulated episodes change with the time step, and how many have artefacts."""
    yield from _time_step(evidence)
    yield from _engines(evidence)
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


def _engines(evidence: GapEvidence) -> Iterator[Measure]:
    """How much success differs between the physics engines of the simulated episodes, where there are several."""
    outcomes: dict[str, list[float]] = {}
    for one in evidence.sim.episodes:
        if one.provenance.engine is not None and one.success is not None:
            outcomes.setdefault(one.provenance.engine, []).append(float(one.success))
    known = {
        engine: np.array(values) for engine, values in outcomes.items() if len(values) >= FEWEST_IN_ENGINE
    }
    if len(known) < 2:
        return
    first = max(known, key=lambda engine: (engine == DEFAULT_ENGINE, len(known[engine])))
    for engine in sorted(known.keys() - {first}):
        interval = unpaired(known[first], known[engine], evidence.seed("engines", engine))
        if interval is not None:
            yield measure(
                "numerics", f"success, {engine} minus {first}", "1", interval, against=evidence.sim.name,
                samples=len(known[first]) + len(known[engine]), floor=ENGINES_FLOOR,
                about="difference of success rates of episodes simulated in two engines",
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
