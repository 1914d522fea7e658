"""Drift: which parameter of the robot has changed, and when, from episodes in the order they were recorded.

The first episodes give a reference fit. Every episode then gets one Gauss-Newton step from it, which is that episode's own
estimate of all parameters together, so that a change is not attributed to another parameter. Each series is monitored by
`change.watch`, in units of the scatter between the first episodes; so is the remaining error, which alarms when something
changed that no listed parameter explains. Parameters that alarmed are then fitted again to the episodes after the change:
one that is back at its old value has only followed another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.errors import WrongUse
from twinloop.identification.change import FEWEST, Watch, total_variances, watch
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import Prepared, RefusedData, check, prepare
from twinloop.identification.identifiable import BLUNT
from twinloop.identification.meter import Meter, OnProgress
from twinloop.identification.posterior import make_posterior
from twinloop.identification.problem import Linear, Problem, Solution
from twinloop.identification.scale import PRIOR_DEVIATION, Scale
from twinloop.identification.slopes import linearize
from twinloop.identification.solve import THOROUGH, solve, solve_from_many
from twinloop.identification.windows import cut, spread
from twinloop.records import Record, derived
from twinloop.stats.interval import NORMAL
from twinloop.twins import Twin

Role = Literal["moved", "followed"]

BASELINE = 20
CHANCE = 0.01
WATCHED = 100
UNEXPLAINED = "unexplained error"
_TOGETHER = 8
_REFITTED = 10
_CONFIRMED = 3.0


@dataclass(frozen=True)
class Series:
    """One monitored quantity over the episodes: estimates and standard deviations, and its baseline level and scatter.

    `evidence` is the log of the detector's statistic over its threshold: above 0 it alarms.
    """

    name: str
    unit: str
    dimension: str
    estimates: tuple[float, ...]
    deviations: tuple[float, ...]
    level: float
    scatter: float
    evidence: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """A quantity that alarmed: since which episode, when it was noticed, and its value before and after with 95 % intervals.

    `role` is `followed` when a fit to the episodes after the change finds it where it was.
    """

    name: str
    dimension: str
    began: int
    alarmed: int
    before: float
    after: float
    low: float
    high: float
    role: Role


@dataclass(frozen=True, eq=False)
class Drift(Record):
    """Changes of a robot over its episodes; numbers in `changes` are positions in `episodes`."""

    episodes: tuple[str, ...]
    baseline: int
    series: tuple[Series, ...]
    changes: tuple[Change, ...]
    unwatched: tuple[str, ...]
    chance: float
    watched: int

    @property
    def moved(self) -> tuple[Change, ...]:
        """Changes that are not a consequence of another, the most certain first."""
        return tuple(change for change in self.changes if change.role == "moved")

    @derived
    def drift(self) -> bool:
        """Whether anything moved."""
        return bool(self.moved)

    @derived
    def dimensions(self) -> tuple[str, ...]:
        """The gap dimensions that moved."""
        return tuple(dict.fromkeys(change.dimension for change in self.moved))


@dataclass(frozen=True, eq=False)
class Steps:
    """For every episode: the step (E, P) in place from the reference, its covariance (E, P, P), the log of the residual (E,)."""

    steps: Array
    covariances: Array
    left: Array
    open_deviation: Array


def watch_drift(
    twin: Twin,
    episodes: Iterable[Episode],
    parameters: Sequence[str],
    *,
    baseline: int = BASELINE,
    priors: Mapping[str, tuple[float, float]] | None = None,
    given: Mapping[str, str] | None = None,
    signals: Sequence[str] | None = None,
    horizon_s: float | None = None,
    chance: float = CHANCE,
    watched: int = WATCHED,
    seed: int = 0,
    threads: int = 0,
    on_progress: OnProgress | None = None,
) -> Drift:
    """Find which parameters of a robot have changed over its episodes, and when.

    Episodes are taken in the order of their recording times where all have one, else in the order of `episodes`.

    Args:
        twin: The twin.
        episodes: Real episodes.
        parameters: Names of the parameters to monitor.
        baseline: Number of first episodes, of the unchanged robot.
        priors: Range (low, high) of a parameter, in its unit; by default its bounds.
        given: Signal that holds the known value of a parameter in each run, by parameter.
        signals: Signals to compare; by default joint positions.
        horizon_s: Length of a replay window in seconds.
        chance: Probability of a false alarm, over all parameters, in `watched` episodes.
        watched: Number of episodes that `chance` refers to.
        seed: Random seed.
        threads: Simulation threads; 0 takes all cores.
        on_progress: Called with the seconds simulated so far and those expected in all.

    Returns:
        The estimate of each parameter in each episode, in its unit, and the changes with their episode.

    Raises:
        WrongUse: There are no episodes beyond the baseline, or `chance` is out of range.
        RefusedData: The recordings cannot determine the parameters.
    """
    ordered = in_time_order(list(episodes))
    if baseline < FEWEST or len(ordered) <= baseline:
        raise WrongUse(
            "too few episodes to distinguish a change from scatter",
            got=f"{len(ordered)} episodes, {baseline} of them as the baseline",
            expected=f"a baseline of at least {FEWEST}, and episodes after it",
            remedy="record more, or take a shorter baseline",
        )
    if not 0.0 < chance < 1.0 or watched < 1:
        raise WrongUse("a chance lies between 0 and 1", got=f"{chance:g} in {watched} episodes")
    config = IdentifyConfig(
        priors=priors or {},
        given=given or {},
        signals=signals,
        horizon_s=horizon_s,
        held_out=[episode.id for episode in ordered[baseline:]],
        threads=threads,
    )
    meter = Meter(on_progress)
    meter.expect(ordered, parameters, config.seconds)
    ready = prepare(twin, ordered, parameters, config, meter)
    if refusals := check(ready):
        raise RefusedData(
            "these recordings cannot identify the requested parameters", got="; ".join(refusals)
        )
    return follow(ready, solve_from_many(ready.problem, ready.start, seed), baseline, chance, watched)


def follow(
    ready: Prepared, reference: Solution, baseline: int, chance: float = CHANCE, watched: int = WATCHED
) -> Drift:
    """Watch recordings in the order they are in, from a reference fit to the first `baseline` of them."""
    steps = episode_steps(ready, reference)
    scales = ready.problem.scales
    blind = np.median(steps.open_deviation, axis=0) > BLUNT * PRIOR_DEVIATION
    seen = [index for index in range(len(scales)) if not blind[index]]
    count = len(seen) + 1
    made, watches = [], []
    for index in seen:
        own = steps.covariances[:, index, index]
        variances = total_variances(steps.steps[:, index], own, baseline)
        found = watch(
            steps.steps[:, index], variances, baseline, chance=chance, watched=watched, series=count
        )
        watches.append(found)
        made.append(_series(scales[index], reference, index, steps, variances, baseline, found))
    even = np.ones(len(ready.recordings))
    found = watch(steps.left, even, baseline, chance=chance, watched=watched, series=count)
    watches.append(found)
    made.append(_unexplained(steps.left, baseline, found))
    changes = _attribute(ready, reference, steps, seen, watches, baseline)
    return Drift(
        episodes=tuple(recording.id for recording in ready.recordings),
        baseline=baseline,
        series=tuple(made),
        changes=changes,
        unwatched=tuple(scale.name for scale, hidden in zip(scales, blind, strict=True) if hidden),
        chance=chance,
        watched=watched,
    )


def in_time_order(episodes: list[Episode]) -> list[Episode]:
    """Episodes by the time they were recorded; in their present order if one has no time."""
    times = [episode.provenance.recorded_at for episode in episodes]
    if any(time is None for time in times):
        return episodes
    return [episodes[i] for i in sorted(range(len(episodes)), key=lambda i: (times[i], i))]


def episode_steps(ready: Prepared, reference: Solution) -> Steps:
    """One Gauss-Newton step per episode from a fit to the first ones."""
    steps, covariances, left, deviations = [], [], [], []
    count = len(ready.problem.scales)
    for begin in range(0, len(ready.recordings), _TOGETHER):
        which = range(begin, min(begin + _TOGETHER, len(ready.recordings)))
        problem = replace(reference.problem, windows=cut(ready.recordings, which, ready.horizon_s))
        linear = linearize(problem, solve(problem, reference.place, endings=()))
        for index in which:
            residual, jacobian = _of_episode(problem, linear, index)
            seen = jacobian.T @ jacobian
            inverse = np.linalg.inv(seen + np.eye(count) / PRIOR_DEVIATION**2)
            step = -inverse @ (jacobian.T @ residual)
            steps.append(step)
            covariances.append(inverse @ seen @ inverse)
            deviations.append(np.sqrt(np.diag(inverse)))
            left.append(0.5 * float(np.log(np.mean((residual + jacobian @ step) ** 2))))
    return Steps(np.stack(steps), np.stack(covariances), np.array(left), np.stack(deviations))


def _of_episode(problem: Problem, linear: Linear, index: int) -> tuple[Array, Array]:
    parts = [
        rows
        for window, rows in zip(problem.windows, problem.window_rows, strict=True)
        if window.recording == index
    ]
    residual = np.concatenate([linear.residual[rows].reshape(-1) for rows in parts])
    return residual, np.concatenate(
        [linear.jacobian[rows].reshape(-1, len(problem.scales)) for rows in parts]
    )


def _series(
    scale: Scale,
    reference: Solution,
    index: int,
    steps: Steps,
    variances: Array,
    baseline: int,
    found: Watch,
) -> Series:
    places = reference.place[index] + steps.steps[:, index]
    slope = scale.slope(float(reference.place[index]))
    level = float(np.average(places[:baseline], weights=1.0 / variances[:baseline]))
    return Series(
        name=scale.name,
        unit=scale.parameter.unit,
        dimension=scale.parameter.dimension,
        estimates=tuple(scale.outward(places).tolist()),
        deviations=tuple((np.sqrt(steps.covariances[:, index, index]) * slope).tolist()),
        level=float(scale.outward(level)),
        scatter=float(np.sqrt(np.mean(variances[:baseline])) * slope),
        evidence=tuple((found.log_evidence - found.log_threshold).tolist()),
    )


def _unexplained(left: Array, baseline: int, found: Watch) -> Series:
    """What is left, relative to the baseline's."""
    relative = np.exp(left - np.mean(left[:baseline]))
    return Series(
        name=UNEXPLAINED,
        unit="1",
        dimension="unexplained",
        estimates=tuple(relative.tolist()),
        deviations=tuple(np.zeros(len(left)).tolist()),
        level=1.0,
        scatter=float(np.std(relative[:baseline], ddof=1)),
        evidence=tuple((found.log_evidence - found.log_threshold).tolist()),
    )


def _attribute(
    ready: Prepared,
    reference: Solution,
    steps: Steps,
    seen: Sequence[int],
    watches: Sequence[Watch],
    baseline: int,
) -> tuple[Change, ...]:
    """Changes, the most certain first; a fit to the episodes after each decides which only followed."""
    found: list[tuple[float, Change]] = []
    explained = False
    refits: dict[int, tuple[Array, Array]] = {}
    for index, seen_by in zip(seen, watches, strict=False):
        if seen_by.alarm is None or seen_by.began is None:
            continue
        began = seen_by.began
        if began not in refits:
            refits[began] = _refitted(ready, reference, began)
        place, covariance = refits[began]
        shift, scatter = place[index] - reference.place[index], _scatter(steps, index, baseline)
        after = min(len(ready.recordings) - began, _REFITTED)
        deviation = np.sqrt(covariance[index, index] + scatter**2 * (1.0 / baseline + 1.0 / after))
        sure = float(abs(shift) / deviation)
        explained |= sure >= _CONFIRMED
        scale, half = ready.problem.scales[index], NORMAL * deviation
        change = Change(
            name=scale.name,
            dimension=scale.parameter.dimension,
            began=began,
            alarmed=seen_by.alarm,
            before=float(scale.outward(reference.place[index])),
            after=float(scale.outward(place[index])),
            low=float(scale.outward(max(place[index] - half, 0.0))),
            high=float(scale.outward(min(place[index] + half, 1.0))),
            role="moved" if sure >= _CONFIRMED else "followed",
        )
        found.append((sure, change))
    rest = watches[-1]
    if rest.alarm is not None and rest.began is not None:
        relative = np.exp(steps.left[rest.began :] - np.mean(steps.left[:baseline]))
        low, after, high = np.quantile(relative, (0.025, 0.5, 0.975)).tolist()
        role: Role = "followed" if explained else "moved"
        found.append(
            (0.0, Change(UNEXPLAINED, "unexplained", rest.began, rest.alarm, 1.0, after, low, high, role))
        )
    elif found and not explained:
        # Something alarmed and nothing explains it: keep the most certain change.
        best = max(range(len(found)), key=lambda i: found[i][0])
        found[best] = (found[best][0], replace(found[best][1], role="moved"))
    return tuple(change for _, change in sorted(found, key=lambda pair: -pair[0]))


def _refitted(ready: Prepared, reference: Solution, began: int) -> tuple[Array, Array]:
    """Place and covariance of a fit to the first episodes after a change."""
    which = range(began, min(began + _REFITTED, len(ready.recordings)))
    windows = spread(ready.recordings, which, ready.horizon_s, 60.0)
    solution = solve(replace(reference.problem, windows=windows), reference.place, endings=THOROUGH[1:])
    posterior = make_posterior(solution, linearize(solution.problem, solution))
    return posterior.mean, posterior.covariance


def _scatter(steps: Steps, index: int, baseline: int) -> float:
    return float(np.std(steps.steps[:baseline, index], ddof=1))
