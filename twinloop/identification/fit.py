"""One set of parameters fitted to real episodes: from recordings to estimates that know how sure they are. The path on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinloop.engines.stability import find_unstable_servos
from twinloop.episode import Array, Episode
from twinloop.errors import TwinloopError, WrongUse
from twinloop.identification.accept import ReplayError, judge, replay_errors
from twinloop.identification.bands import coverage, fit_bands, left_out_residuals
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.identifiable import find_confusions, find_individually_identifiable, status_of
from twinloop.identification.meter import Meter
from twinloop.identification.possible import find_impossible
from twinloop.identification.posterior import Posterior, make_posterior
from twinloop.identification.predict import LOST, Predictor, Window
from twinloop.identification.problem import Linear, Noise, Problem, Solution
from twinloop.identification.recording import (
    Channel,
    Recording,
    find_channels,
    find_travel,
    read_recording,
    unknown_joints,
)
from twinloop.identification.reservations import find_doubts, find_outlying, find_unexplained
from twinloop.identification.result import Estimate, Identification
from twinloop.identification.scale import Scale, make_scales, places_of, values_at
from twinloop.identification.scatter import run_to_run
from twinloop.identification.slopes import best_slopes, project
from twinloop.identification.solve import GOOD, find_starts, solve, solve_from
from twinloop.identification.systematic import (
    StepEffect,
    clock_shift,
    find_coarse,
    time_step_effect,
    widened,
)
from twinloop.identification.windows import (
    cut,
    duration_s,
    measure_start_effect,
    sensor_noise,
    split_episodes,
    spread,
    start_deviation,
    unmoved_noise,
    whole,
)
from twinloop.tasks import make_cell
from twinloop.twins import Twin

SLOWEST_HZ = 30.0
"""Logged below this rate, joint parameters come out wrong by 40 to 56 %, as public experience has it."""
UNEVEN = 0.9
"""A loop that is meant to run at a rate may run this much slower: clocks are uneven, and cameras give 29.97 Hz."""
_DYNAMIC = ("friction", "damping", "armature", "delay", "stiffness", "backlash", "inertia")
UNSTABLE = "lower the servo's gain, add damping or armature, or shorten the physics step of the twin"
MISSING = "record what is missing, request fewer parameters, or pass a reason with --force"
REPLAYED_S = 3600.0
"""Whole recordings up to this duration are replayed, to judge the fit and to size its bands."""
_SAMPLES = 1000
_EDGE = 1e-3


class RefusedData(TwinloopError):
    """The recordings cannot identify the parameters; fitting them would fit noise."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Prepared data: recordings, which of them are fitted and which held out, and the problem to solve.

    `lost` are windows in which the nominal twin's simulation diverges.
    """

    recordings: tuple[Recording, ...]
    channels: tuple[Channel, ...]
    fitted: tuple[int, ...]
    held_out: tuple[int, ...]
    horizon_s: float | None
    problem: Problem
    start: Array
    warnings: tuple[str, ...]
    lost: tuple[Window, ...] = ()


@dataclass(frozen=True, eq=False)
class Tried:
    """A model fitted for comparison: its best values, others worth a search, and its errors on held-out episodes."""

    values: tuple[dict[str, float], ...]
    errors: tuple[ReplayError, ...]


def try_model(
    twin: Twin,
    episodes: Sequence[Episode],
    parameters: Sequence[str],
    config: IdentifyConfig,
    meter: Meter,
    near: Mapping[str, float],
) -> Tried:
    """Fit `parameters`, searching from the values `near`, and replay the held-out episodes; nothing about uncertainty."""
    ready, _ = _prepare_usable(twin, episodes, parameters, config, meter)
    scales, predictor = ready.problem.scales, ready.problem.predictor
    start = places_of(scales, near)
    starts = find_starts(ready.problem, start, config.seed)
    solution = solve(ready.problem, starts[0], GOOD)
    windows = whole(ready.recordings, ready.held_out, ready.horizon_s, REPLAYED_S)
    after = predictor.residuals(values_at(scales, solution.place[None]), windows)[0]
    ids = [recording.id for recording in ready.recordings]
    found = values_at(scales, np.stack([solution.place, *starts[1:]]))
    values = [{name: float(column[k]) for name, column in found.items()} for k in range(len(starts))]
    return Tried(tuple(values), replay_errors(ids, windows, after, after))


def fit(
    twin: Twin,
    episodes: Sequence[Episode],
    parameters: Sequence[str],
    config: IdentifyConfig,
    meter: Meter,
    starts: Sequence[Mapping[str, float]] = (),
) -> Identification:
    """Fit `parameters` to all but the held-out episodes, which judge the result; as `identify`, with nothing left to choose.

    `starts` are values to search from, found in an earlier fit.
    """
    ready, refusals = _prepare_usable(twin, episodes, parameters, config, meter)
    seed = config.seed
    places = [places_of(ready.problem.scales, values) for values in starts]
    places = places or find_starts(ready.problem, ready.start, seed)
    solution = solve_from(ready.problem, places)
    slopes = best_slopes(solution)
    linear = project(solution.problem, solution, slopes)
    posterior, step = _posteriors(solution, slopes, linear)
    scales, predictor = ready.problem.scales, ready.problem.predictor
    kept = find_individually_identifiable(posterior)
    calibrated, place = _calibrated(twin, scales, solution, kept, ready.start)
    windows = whole(ready.recordings, ready.held_out, ready.horizon_s, REPLAYED_S)
    training = whole(ready.recordings, ready.fitted, ready.horizon_s, REPLAYED_S)
    replayed = predictor.residuals(values_at(scales, place[None]), [*windows, *training])[0]
    after, trained = np.split(replayed, [sum(map(len, windows))])
    nominal = predictor.residuals({}, windows)[0]
    if training == ready.problem.windows:
        trained = left_out_residuals(solution, linear, trained)
    bands = fit_bands(ready.recordings, training, trained)
    covariance, samples = _in_units(scales, posterior, seed)
    estimates = _estimates(scales, posterior, step)
    noise = ready.problem.noise.sensor
    left = np.sqrt(np.maximum(np.mean(solution.residual**2, axis=0) - noise**2, 0.0))
    ids = [recording.id for recording in ready.recordings]
    return Identification(
        twin=calibrated,
        base=twin.content_hash,
        estimates=estimates,
        covariance=covariance,
        run_to_run=_scaled(scales, posterior, run_to_run(solution, linear)),
        samples=samples,
        confusions=find_confusions(scales, posterior),
        channels=tuple(channel.name for channel in ready.channels),
        units=tuple(channel.unit for channel in ready.channels),
        sensor_noise=tuple(noise.tolist()),
        discrepancy=tuple(left.tolist()),
        bands=bands,
        coverage=tuple(coverage(bands, ready.recordings, windows, after).tolist()),
        horizon_s=ready.horizon_s,
        fitted=tuple(ids[index] for index in sorted({w.recording for w in ready.problem.windows})),
        held_out=tuple(ids[index] for index in ready.held_out),
        errors=replay_errors(ids, windows, nominal, after),
        gate=judge(windows, nominal, after, noise, [channel.name for channel in ready.channels]),
        warnings=(
            *ready.warnings,
            *refusals,
            *find_doubts(solution, estimates),
            *find_coarse(scales, posterior, step, predictor.dt_s),
            *(find_impossible(calibrated) if calibrated is not twin else ()),
            *find_unexplained(ready.recordings, ready.channels, noise, windows, after),
            *find_outlying(ready.recordings, ready.channels, noise, [*windows, *training], replayed),
        ),
        forced=config.force if refusals else None,
        seed=seed,
        details=_details(ready, solution, posterior),
    )


def _posteriors(solution: Solution, slopes: Array, linear: Linear) -> tuple[Posterior, StepEffect]:
    """The posterior at the twin's time step, and the effect of ever shorter ones, each with a clock that may be off."""
    clock, step = clock_shift(solution, linear), time_step_effect(solution, slopes)
    posterior = widened(make_posterior(solution, linear), clock)
    if step.posterior is None:
        return posterior, step
    return posterior, replace(step, posterior=widened(step.posterior, clock))


def _details(ready: Prepared, solution: Solution, posterior: Posterior) -> dict[str, Any]:
    """How much was done, and on how much of the data."""
    return {
        "iterations": solution.iterations,
        "physics_steps": ready.problem.predictor.steps_done,
        "blocks": posterior.blocks,
        "windows": len(ready.problem.windows),
        "fitted_s": duration_s(ready.problem.windows, ready.recordings),
        "available_s": duration_s(cut(ready.recordings, ready.fitted, None), ready.recordings),
    }


def _prepare_usable(
    twin: Twin, episodes: Sequence[Episode], parameters: Sequence[str], config: IdentifyConfig, meter: Meter
) -> tuple[Prepared, list[str]]:
    """Prepared data, with the reasons against fitting it, which are refused unless `config.force` gives another."""
    ready = prepare(twin, episodes, parameters, config, meter)
    refusals = check(ready)
    if refusals and config.force is None:
        raise RefusedData(
            "these recordings cannot identify the requested parameters",
            got="; ".join(refusals),
            remedy=UNSTABLE if any("simulation" in reason for reason in refusals) else MISSING,
        )
    return ready, refusals


def prepare(
    twin: Twin,
    episodes: Sequence[Episode],
    parameters: Sequence[str],
    config: IdentifyConfig,
    meter: Meter | None = None,
) -> Prepared:
    """Everything up to the first fit: channels found, episodes split, windows cut, noise measured."""
    if not parameters:
        raise WrongUse("no parameter to identify", remedy="name some; `twinloop twin show` lists them")
    cell = make_cell(twin)
    if not episodes:
        raise WrongUse("no episodes to identify from", expected="at least 2 real episodes")
    channels = find_channels(cell, episodes[0], config.signals)
    recordings = tuple(read_recording(cell, episode, channels, config.given) for episode in episodes)
    for recording in recordings:
        if not np.isfinite(recording.readings).all() or not np.isfinite(recording.commands).all():
            raise RefusedData(
                f"episode {recording.id} contains values that are not finite",
                remedy="`twinloop check` says where; repair or leave out the episode",
            )
    fitted, kept = _split(recordings, config)
    scales = make_scales(twin, parameters, config.priors)
    predictor = Predictor(cell, recordings, channels, [scale.name for scale in scales], config.threads, meter)
    starts = measure_start_effect(predictor, fitted)
    horizon = config.horizon_s or starts.horizon_s
    windows = spread(recordings, fitted, horizon, config.seconds)
    used = [recordings[index] for index in fitted]
    noise = unmoved_noise(sensor_noise(used), used, find_travel(cell, channels))
    residual = predictor.residuals({}, windows, None)[0]
    start_noise = Noise(noise, np.maximum(noise, np.sqrt(np.mean(np.minimum(residual, 1e2) ** 2, axis=0))))
    start = places_of(scales, {})
    problem = Problem(
        predictor,
        scales,
        windows,
        start_noise,
        start_deviation(predictor, noise, windows, starts.effect),
        start,
    )
    warnings = []
    if noted := [r.id for r in recordings if float(np.median(np.diff(r.time_s))) > 0.5 / SLOWEST_HZ * 2.0]:
        warnings.append(f"{len(noted)} episodes are logged below {SLOWEST_HZ:g} Hz")
    if strangers := unknown_joints(cell, episodes[0]):
        warnings.append(
            f"twin {twin.name} has no joint called {', '.join(strangers)}: is it the twin of the robot that was recorded?"
        )
    lost = [w for w, rows in zip(windows, problem.window_rows, strict=True) if (residual[rows] == LOST).all()]
    return Prepared(
        recordings,
        channels,
        tuple(fitted),
        tuple(kept),
        horizon,
        problem,
        start,
        tuple(warnings),
        tuple(lost),
    )


def _split(recordings: Sequence[Recording], config: IdentifyConfig) -> tuple[list[int], list[int]]:
    """Which recordings are fitted, and which are held out."""
    if config.held_out_every is not None:
        held_out = [recording.id for recording in recordings[1 :: config.held_out_every]]
    elif config.held_out is not None:
        held_out = list(config.held_out)
    else:
        return split_episodes([recording.id for recording in recordings])
    kept = [i for i, recording in enumerate(recordings) if recording.id in held_out]
    fitted = [i for i in range(len(recordings)) if i not in kept]
    if not kept or not fitted:
        raise WrongUse("at least one and not all episodes must be held out", got=held_out)
    return fitted, kept


def check(ready: Prepared) -> list[str]:
    """Reasons against fitting the data; empty if there are none."""
    predictor = ready.problem.predictor
    names = [scale.name for scale in ready.problem.scales]
    reasons = [f"the simulation is unstable: {found}" for found in find_unstable_servos(predictor.cell)]
    if ready.lost and not reasons:
        window = ready.lost[0]
        at_s = float(ready.recordings[window.recording].time_s[window.start])
        found = predictor.find_runaway(window)
        where = f"in {len(ready.lost)} windows, first in episode {ready.recordings[window.recording].id} after {at_s:.3g} s"
        reasons.append(f"the nominal twin's simulation diverges {where}" + (f": {found}" if found else ""))
    rate_hz = 1.0 / float(np.median(np.concatenate([np.diff(r.time_s) for r in ready.recordings])))
    dynamic = [name for name in names if any(kind in name for kind in _DYNAMIC)]
    if rate_hz < UNEVEN * SLOWEST_HZ and dynamic:
        reasons.append(
            f"logged at {rate_hz:.3g} Hz, where {', '.join(dynamic[:3])} come out biased: log at {SLOWEST_HZ:g} Hz or more"
        )
    moved = np.max([np.ptp(ready.recordings[i].readings, axis=0) for i in ready.fitted], axis=0)
    turns = np.array([channel.kind == "turn" for channel in ready.channels])
    if not turns.all() and np.all(moved[~turns] < 10.0 * ready.problem.noise.sensor[~turns]):
        reasons.append("nothing moves by more than its sensor's noise: excite the robot (`twinloop excite`)")
    return reasons


def _calibrated(
    twin: Twin, scales: Sequence[Scale], solution: Solution, kept: Array, start: Array
) -> tuple[Twin, Array]:
    """The twin with the identified values; the rest stays nominal."""
    place = np.where(kept, solution.place, start)
    values = values_at(scales, place[None])
    changes = {
        scale.name: float(values[scale.name][0]) for scale, keep in zip(scales, kept, strict=True) if keep
    }
    return (twin.with_values(changes) if changes else twin), place


def _estimates(scales: Sequence[Scale], posterior: Posterior, step: StepEffect) -> tuple[Estimate, ...]:
    """Estimates whose intervals reach to where shorter time steps would take them."""
    below, above = step.reach(posterior)
    statuses = status_of(scales, step.posterior or posterior, np.maximum(below, above))
    made = []
    for index, (scale, status) in enumerate(zip(scales, statuses, strict=True)):
        place = float(posterior.mean[index])
        parameter = scale.parameter
        made.append(
            Estimate(
                name=scale.name,
                unit=parameter.unit,
                dimension=parameter.dimension,
                nominal=float(parameter.nominal),
                value=float(scale.outward(place)),
                low=float(scale.outward(max(place - below[index], 0.0))),
                high=float(scale.outward(min(place + above[index], 1.0))),
                prior=(scale.low, scale.high),
                status=status,
                at_edge=bool(place < _EDGE or place > 1.0 - _EDGE),
            )
        )
    return tuple(made)


def _in_units(scales: Sequence[Scale], posterior: Posterior, seed: int) -> tuple[Array, Array]:
    samples = posterior.samples(_SAMPLES, seed)
    drawn = np.stack(list(values_at(scales, samples).values()), axis=1)
    return _scaled(scales, posterior, posterior.covariance), drawn


def _scaled(scales: Sequence[Scale], posterior: Posterior, covariance: Array) -> Array:
    """A covariance of places as one of values."""
    places = posterior.mean.tolist()
    slopes = np.array([scale.slope(place) for scale, place in zip(scales, places, strict=True)])
    return np.asarray(covariance * slopes[:, None] * slopes[None, :])
