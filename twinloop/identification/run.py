"""`identify`: from real episodes to a calibrated twin that knows how sure it is. The path on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import TwinloopError, WrongUse
from twinloop.identification.accept import judge, replay_errors
from twinloop.identification.bands import coverage, fit_bands
from twinloop.identification.config import IdentifyConfig, expand_parameters
from twinloop.identification.identifiable import find_confusions, find_individually_identifiable, status_of
from twinloop.identification.posterior import Posterior, make_posterior
from twinloop.identification.predict import Predictor
from twinloop.identification.problem import Noise, Problem, Solution
from twinloop.identification.recording import (
    Channel,
    Recording,
    find_channels,
    find_travel,
    read_recording,
    unknown_joints,
)
from twinloop.identification.result import Estimate, Identification
from twinloop.identification.scale import Scale, make_scales, start_places, values_at
from twinloop.identification.scatter import run_to_run
from twinloop.identification.slopes import linearize
from twinloop.identification.solve import Progress, solve_from_many
from twinloop.identification.windows import (
    cut,
    find_horizon_s,
    sensor_noise,
    split_episodes,
    start_deviation,
    thinned,
    unmoved_noise,
)
from twinloop.quality.require import require_usable
from twinloop.tasks import make_cell
from twinloop.twins import Twin
from twinloop.twins.declare import to_identifier

Array = NDArray[Any]

SLOWEST_HZ = 30.0
"""Logged below this rate, joint parameters come out wrong by 40 to 56 %, as public experience has it."""
_DYNAMIC = ("friction", "damping", "armature", "delay", "stiffness", "backlash", "inertia")
_SAMPLES = 1000
_EDGE = 1e-3


class RefusedData(TwinloopError):
    """The recordings cannot identify the parameters; fitting them would fit noise."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Prepared data: recordings, which of them are fitted and which held out, and the problem to solve."""

    recordings: tuple[Recording, ...]
    channels: tuple[Channel, ...]
    fitted: tuple[int, ...]
    held_out: tuple[int, ...]
    horizon_s: float | None
    problem: Problem
    start: Array
    warnings: tuple[str, ...]


def identify(
    twin: Twin,
    real: Iterable[Episode],
    parameters: Sequence[str] | None = None,
    *,
    config: IdentifyConfig | None = None,
    on_progress: Progress | None = None,
) -> Identification:
    """Fit parameters of a twin to real episodes and say how certain the values are.

    Args:
        twin: The twin to calibrate.
        real: A dataset or episodes. Part of them is never fitted and judges the result. A dataset must pass the quality check
            unless `config.force` gives a reason.
        parameters: Names, in which `*` and `?` match; default: friction, damping and rotor inertia of every joint that is read, and
            the action delay.
        config: Ranges, signals, held-out episodes, limits and seed.
        on_progress: Called with (iteration, cost) of the search.

    Returns:
        Values with intervals and correlations, what is identifiable, and whether held-out replay accepts the calibrated twin.

    Raises:
        RefusedData: If the recordings cannot identify what is asked.
        UnknownName: If the twin has no such parameter.
        WrongUse: If there are too few episodes.
    """
    config = config or IdentifyConfig()
    if isinstance(real, Dataset) and config.force is None:
        require_usable(real, "identify")
    episodes = list(real)
    if parameters is None:
        parameters = default_parameters(twin, episodes)
    ready = prepare(twin, episodes, expand_parameters(twin, parameters), config)
    force, seed = config.force, config.seed
    refusals = check(ready)
    if refusals and force is None:
        raise RefusedData(
            "these recordings cannot identify the requested parameters",
            got="; ".join(refusals),
            remedy="record what is missing, request fewer parameters, or pass a reason with --force",
        )
    solution = solve_from_many(ready.problem, ready.start, on_progress, seed)
    linear = linearize(solution.problem, solution, central=True)
    posterior = make_posterior(solution, linear)
    scales = ready.problem.scales
    statuses = status_of(scales, posterior)
    kept = find_individually_identifiable(posterior)
    calibrated, place = _calibrated(twin, scales, solution, kept, ready.start)
    windows = cut(ready.recordings, ready.held_out, ready.horizon_s)
    windows = thinned(windows, ready.recordings, config.seconds)
    places = np.stack([ready.start, place])
    both = ready.problem.predictor.residuals(values_at(scales, places), windows, None)
    nominal = ready.problem.predictor.residuals({}, windows, None)[0]
    ids = [recording.id for recording in ready.recordings]
    bands = fit_bands(solution, linear)
    covariance, samples = _in_units(scales, posterior, seed)
    warnings = [*ready.warnings, *refusals]
    if not solution.converged:
        warnings.append("the search stopped before it converged; values may still change")
    noise = ready.problem.noise.sensor
    left = np.sqrt(np.maximum(np.mean(solution.residual**2, axis=0) - noise**2, 0.0))
    return Identification(
        twin=calibrated,
        base=twin.content_hash,
        estimates=_estimates(scales, posterior, statuses, ready.start),
        covariance=covariance,
        run_to_run=_scaled(scales, posterior, run_to_run(solution, linear)),
        samples=samples,
        confusions=find_confusions(scales, posterior),
        channels=tuple(channel.name for channel in ready.channels),
        units=tuple(channel.unit for channel in ready.channels),
        sensor_noise=tuple(noise.tolist()),
        discrepancy=tuple(left.tolist()),
        bands=bands,
        coverage=tuple(coverage(bands, ready.recordings, windows, both[1]).tolist()),
        horizon_s=ready.horizon_s,
        fitted=tuple(ids[index] for index in ready.fitted),
        held_out=tuple(ids[index] for index in ready.held_out),
        errors=replay_errors(ids, windows, nominal, both[1]),
        gate=judge(windows, nominal, both[1], noise),
        warnings=tuple(warnings),
        forced=force if refusals else None,
        seed=seed,
        details={
            "iterations": solution.iterations,
            "physics_steps": ready.problem.predictor.steps_done,
            "blocks": posterior.blocks,
        },
    )


def prepare(
    twin: Twin, episodes: Sequence[Episode], parameters: Sequence[str], config: IdentifyConfig
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
    predictor = Predictor(cell, recordings, channels, [scale.name for scale in scales], config.threads)
    horizon = config.horizon_s or find_horizon_s(predictor, fitted)
    windows = thinned(cut(recordings, fitted, horizon), recordings, config.seconds)
    used = [recordings[index] for index in fitted]
    noise = unmoved_noise(sensor_noise(used), used, find_travel(cell, channels))
    residual = predictor.residuals({}, windows, None)[0]
    start_noise = Noise(noise, np.maximum(noise, np.sqrt(np.mean(np.minimum(residual, 1e2) ** 2, axis=0))))
    start = start_places(scales)
    problem = Problem(predictor, scales, windows, start_noise, start_deviation(predictor, noise), start)
    warnings = []
    if noted := [r.id for r in recordings if float(np.median(np.diff(r.time_s))) > 0.5 / SLOWEST_HZ * 2.0]:
        warnings.append(f"{len(noted)} episodes are logged below {SLOWEST_HZ:g} Hz")
    if strangers := unknown_joints(cell, episodes[0]):
        warnings.append(
            f"twin {twin.name} has no joint called {', '.join(strangers)}: is it the twin of the robot that was recorded?"
        )
    return Prepared(
        recordings, channels, tuple(fitted), tuple(kept), horizon, problem, start, tuple(warnings)
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
    names = [scale.name for scale in ready.problem.scales]
    rate_hz = 1.0 / float(np.median(np.concatenate([np.diff(r.time_s) for r in ready.recordings])))
    reasons = []
    dynamic = [name for name in names if any(kind in name for kind in _DYNAMIC)]
    if rate_hz < SLOWEST_HZ and dynamic:
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


def _estimates(
    scales: Sequence[Scale], posterior: Posterior, statuses: Sequence[Any], start: Array
) -> tuple[Estimate, ...]:
    half = posterior.half_width()
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
                low=float(scale.outward(max(place - half[index], 0.0))),
                high=float(scale.outward(min(place + half[index], 1.0))),
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


def default_parameters(twin: Twin, real: Iterable[Episode]) -> list[str]:
    """Default parameters: friction, damping and rotor inertia of every measured joint, and the action delay."""
    cell = make_cell(twin)
    channels = find_channels(cell, next(iter(real)))
    names = []
    for channel in channels:
        if channel.kind == "position":
            stem = to_identifier(channel.name)
            wanted = (f"{stem}_friction_", f"{stem}_damping_", f"{stem}_armature_")
            names += [p.name for p in twin.parameters if p.stage == "model" and p.name.startswith(wanted)]
    if twin.has("action_delay_s"):
        names.append("action_delay_s")
    if any(channel.kind == "place" for channel in channels):
        names += [p.name for p in twin.parameters if p.stage == "model" and p.dimension == "contact"]
    if not names:
        raise WrongUse(
            f"twin {twin.name!r} has none of the parameters that are fitted by default",
            remedy="name some; `twinloop twin show` lists them",
        )
    return names
