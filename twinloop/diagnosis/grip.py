"""Contact: how held objects slip, and the friction with which the twin's slip alike.

Friction is not read off any signal; slip is. Where real grasps slip more than the twin's, the policy grasps in the twin with
a range of frictions, and those count whose slips look like the real ones. Where nothing slips, friction is enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinloop.diagnosis.evidence import Run, RunEvidence
from twinloop.diagnosis.measured import Measured, Quantity, quantity
from twinloop.episode import Array
from twinloop.measure.trace import find_stretches
from twinloop.stats.bootstrap import resampled_means

MOST_M = 0.06
"""A grasp that is lost has slipped by this much: more than any object's half."""
LEAVES_ROWS = 60
TRIED = 24
LEAST_FRICTION = 0.002
LIKE = 0.35
"""How alike slips must be, in logarithms, for a friction to count."""
SMALLEST_M = 0.002

Trial = Callable[[dict[str, Array]], tuple[Run, ...]]
"""Lets the policy act in the twin with these values (n,), one run each, and with what else was measured of the hand."""


def slip_m(run: Run) -> float | None:
    """How far the object moved in the hand while it was held; None where nothing was grasped."""
    if run.place is None or run.tool is None or run.frame is None or run.gripper is None:
        return None
    worst: float | None = None
    for first, last in find_stretches(run.holding):
        if last - first < 8 or np.linalg.norm(run.place[first] - run.tool[first]) > 0.05:
            continue
        if np.all(run.place[first:last] == run.place[first]):
            continue
        seen = np.einsum("tji,tj->ti", run.frame[first:last], run.place[first:last] - run.tool[first:last])
        moved = float(np.linalg.norm(np.median(seen[-5:], axis=0) - np.median(seen[4:9], axis=0)))
        moved = MOST_M if _emptied(run, first, last) else min(moved, MOST_M)
        worst = moved if worst is None else max(worst, moved)
    return worst


def _emptied(run: Run, first: int, last: int) -> bool:
    """Whether a hand that is still commanded to close closes well beyond what it held: the object has left it."""
    assert run.gripper is not None
    half = 0.5 * (run.closed + float(np.median(run.position[first:last, run.gripper])))
    after = slice(last, min(last + LEAVES_ROWS, len(run)))
    closing = np.cumprod(run.action[after, run.gripper] < half).astype(bool)
    return bool(np.any(run.position[after, run.gripper][closing] < half))


def measure_contact(
    real: RunEvidence, sim: RunEvidence, trial: Trial | None, rows: int, rng: np.random.Generator
) -> Measured:
    """The friction with which the twin's grasps slip as the robot's do; without `trial` it is not measured."""
    missing = ("softness and bounce of contacts: need a force sensor",)
    if trial is None:
        return Measured(
            "contact", missing=("friction: needs a gripper that presses as the twin's does", *missing)
        )
    mine = _slips(real.all)
    usual = _slips(trial({}))
    usual = usual if len(usual) else _slips(sim.runs)
    if len(mine) < 3 or len(usual) == 0 or not real.twin.has("object_friction"):
        return Measured(
            "contact", missing=("friction: needs at least three grasps of a perceived object", *missing)
        )
    draws = np.exp(resampled_means(np.log(mine), rows, rng))
    found = quantity("slip of held objects", "m", float(np.exp(np.mean(np.log(usual)))), draws, 0.004)
    quantities: list[Quantity] = [found]
    if not found.differs or found.real < found.twin:
        return Measured("contact", tuple(quantities), {}, missing)
    friction = real.twin.parameter("object_friction")
    own, least = float(friction.nominal), max(LEAST_FRICTION, friction.bounds[0])
    tried = np.exp(np.linspace(np.log(least), np.log(own), TRIED))
    slips = [slip_m(run) for run in trial({"object_friction": np.repeat(tried, 2)})]
    seen = np.array([np.nan if slip is None else np.log(max(slip, SMALLEST_M)) for slip in slips]).reshape(
        -1, 2
    )
    known = ~np.isnan(seen).all(axis=1)
    if not known.any():
        return Measured("contact", tuple(quantities), {}, missing)
    middle = np.nanmean(seen[known], axis=1)
    wanted = np.log(draws)
    fits = np.exp(-0.5 * ((middle[None] - wanted[:, None]) / LIKE) ** 2)
    fits /= np.maximum(fits.sum(axis=1, keepdims=True), 1e-300)
    frictions = tried[known]
    nearest = np.argmin(np.abs(middle[None] - wanted[:, None]), axis=1)
    picked = np.array(
        [
            rng.choice(frictions, p=p) if p.sum() > 0.5 else frictions[n]
            for p, n in zip(fits, nearest, strict=True)
        ]
    )
    quantities.append(quantity("friction with which the twin slips alike", "1", own, picked, 0.0))
    return Measured("contact", tuple(quantities), {"object_friction": picked}, missing)


def _slips(runs: tuple[Run, ...]) -> Array:
    found = [slip for run in runs if (slip := slip_m(run)) is not None]
    return np.maximum(np.array(found), SMALLEST_M) if found else np.zeros(0)
