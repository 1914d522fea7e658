"""Experiment design: the motion that identifies the requested parameters best, within the limits of the machine.

A motion is a row of segments that start and end at rest at home, so the information they carry adds up. Many segments
are simulated side by side, the set with the largest information is picked by exchange, and the next generation of
segments is bred from the picked ones. What is reported is computed once more on the whole motion, with the start projected
out, and compared with a plain chirp of the same length within the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, InstanceOf, PlainSerializer

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.experts.excitation import chirp
from twinloop.experts.playback import Motion
from twinloop.identification.identifiable import Confusion, Status, find_confusions, status_of
from twinloop.identification.information import Gauge
from twinloop.identification.limits import MotionLimits, Peaks, Rehearsal, make_limits
from twinloop.identification.posterior import Posterior
from twinloop.identification.scale import Scale, make_scales
from twinloop.identification.segments import breed, draw_genes, fade, lay_out
from twinloop.records import Record, derived
from twinloop.stats.interval import NORMAL
from twinloop.tasks import make_cell
from twinloop.twins import Twin

OnProgress = Callable[[int, int], None]

SEGMENT_S = 3.0
MIN_DURATION_S = 2.0
GENERATIONS = 10
BROOD = 32
CHIRPS = 3
_MANY = 10_000


@dataclass(frozen=True)
class Expected:
    """Expected 95 % interval of one parameter from a recording of the motion, if the nominal value were true.

    `chirp` is the same interval's half width after a plain chirp.
    """

    name: str
    unit: str
    dimension: str
    nominal: float
    low: float
    high: float
    half_width: float
    chirp: float
    status: Status


@dataclass(frozen=True, eq=False)
class Design(Record):
    """A designed motion, the intervals it should give, and the plain chirp it is compared with.

    `gain` is how many times smaller the confidence volume of the requested parameters is than with the chirp.
    """

    motion: Annotated[InstanceOf[Motion], PlainSerializer(lambda motion: motion.digest)]
    chirp: Annotated[InstanceOf[Motion], Field(exclude=True)]
    twin: str
    expected: tuple[Expected, ...]
    confusions: tuple[Confusion, ...]
    gain: float
    peaks: Peaks
    noise: tuple[float, ...]
    seed: int

    @derived
    def unidentifiable(self) -> tuple[str, ...]:
        """Requested parameters that even this motion does not identify."""
        return tuple(e.name for e in self.expected if e.status == "not identifiable")

    @derived
    def seconds(self) -> float:
        """Length of the motion."""
        return self.motion.duration_s

    @derived
    def rate_hz(self) -> float:
        """Rate of the motion."""
        return self.motion.rate_hz

    @derived
    def actuators(self) -> tuple[str, ...]:
        """Actuators that move."""
        return self.motion.actuators


def design_excitation(
    twin: Twin,
    parameters: Sequence[str],
    seconds: float = 30.0,
    *,
    nuisance: Sequence[str] = (),
    priors: Mapping[str, tuple[float, float]] | None = None,
    limits: MotionLimits | None = None,
    noise: float | None = None,
    generations: int = GENERATIONS,
    brood: int = BROOD,
    seed: int = 0,
    threads: int = 0,
    on_progress: OnProgress | None = None,
) -> Design:
    """Design a motion that determines parameters of a twin best.

    The motion maximizes the expected Fisher information at the twin's nominal values; after identifying, design again
    from the calibrated twin.

    Args:
        twin: The twin.
        parameters: Names of the parameters to determine.
        seconds: Length of the motion in seconds.
        nuisance: Names of parameters that are unknown too but of no interest.
        priors: Range (low, high) of a parameter, in its unit; by default its bounds.
        limits: Reach, speed, acceleration, torque and clearance to keep; by default the twin's own.
        noise: Standard deviation of a position reading in rad or m; by default what the twin's encoder has.
        generations: Iterations of the search.
        brood: Motions per iteration.
        seed: Random seed for the search.
        threads: Simulation threads; 0 takes all cores.
        on_progress: Called with the numbers of iterations done and in all.

    Returns:
        The motion, the expected interval of each parameter, and its gain over a plain chirp.

    Raises:
        WrongUse: No parameter is named, `seconds` is out of range, or no motion keeps the limits.
    """
    if not parameters:
        raise WrongUse("no parameter to design for", remedy="name some; `twinloop twin show` lists them")
    if not MIN_DURATION_S <= seconds <= 600.0:
        raise WrongUse("a motion's length is out of range", got=f"{seconds:g} s", expected="2 to 600 s")
    if generations < 1:
        raise WrongUse("the search needs at least one generation", got=generations)
    if noise is not None and not noise > 0.0:
        raise WrongUse("a standard deviation must be positive", got=noise)
    cell = make_cell(twin)
    limits = limits or make_limits(cell)
    asked = len(parameters)
    scales = make_scales(twin, [*parameters, *(n for n in nuisance if n not in parameters)], priors)
    gauge = Gauge(cell, scales, asked, noise, threads)
    rehearsal = Rehearsal(cell, limits, threads)
    rows = round(seconds * twin.control_hz)
    count = max(1, round(seconds / SEGMENT_S)) if seconds >= 2 * MIN_DURATION_S else 1
    lengths = np.diff(np.linspace(0, rows, count + 1).round().astype(int))
    total = generations + 2
    report = on_progress or (lambda done, of: None)
    rng = np.random.default_rng(seed)
    signal = _search(gauge, rehearsal, limits, lengths, generations, brood, rng, lambda n: report(n, total))
    whole, refused = rehearsal.shrink(signal[None])
    if refused[0]:
        raise WrongUse(
            "no motion of this twin keeps the limits",
            got=f"speed {limits.speed_rad_s:g} rad/s, torque {np.round(limits.torque, 3).tolist()} N·m",
            remedy="allow more torque or speed, or a home pose that holds itself with less",
        )
    report(generations + 1, total)
    plain = _chirps(rehearsal, limits, rows, cell.dt_s, rng)
    motions = rehearsal.home + np.concatenate([whole, plain])
    information = gauge.whole(motions)
    values = [gauge.volume(matrix) for matrix in information]
    best = 1 + int(np.argmax(values[1:]))
    report(total, total)
    return Design(
        motion=Motion(cell.actuators, twin.control_hz, motions[0]),
        chirp=Motion(cell.actuators, twin.control_hz, motions[best]),
        twin=twin.name,
        expected=_expected(scales[:asked], gauge.places, information[0], information[best]),
        confusions=find_confusions(scales, _posterior(gauge.places, information[0])),
        gain=float(np.exp(0.5 * (values[0] - values[best]))),
        peaks=rehearsal.peaks(whole[0]),
        noise=tuple(gauge.noise.tolist()),
        seed=seed,
    )


def _search(
    gauge: Gauge,
    rehearsal: Rehearsal,
    limits: MotionLimits,
    lengths: Array,
    generations: int,
    brood: int,
    rng: np.random.Generator,
    report: Callable[[int], None],
) -> Array:
    """The signal (T, actuators) around home of the best set of segments, one for each of `lengths`."""
    longest, dt_s = int(max(lengths)), rehearsal.dt_s
    genes = draw_genes(rng, brood, len(limits.reach))
    kept_genes, kept_signals, kept = genes[:0], np.zeros((0, longest, len(limits.reach))), []
    picked: list[int] = []
    for generation in range(generations):
        signals, refused = rehearsal.shrink(lay_out(genes, longest, dt_s, limits))
        genes, signals = genes[~refused], signals[~refused]
        if len(signals):
            kept += list(gauge.parts(rehearsal.home + signals))
            kept_genes = np.concatenate([kept_genes, genes])
            kept_signals = np.concatenate([kept_signals, signals])
            picked = pick(np.stack(kept), len(lengths), gauge.volume_of_many, picked)
        report(generation + 1)
        width = 0.25 * 0.1 ** (generation / max(generations - 1, 1))
        genes = breed(rng, kept_genes[picked], brood, len(limits.reach), width)
    if not picked:
        return np.zeros((int(sum(lengths)), len(limits.reach)))
    made = []
    for length, index in zip(lengths, picked, strict=True):
        edge = fade(np.arange(length) * dt_s)[:, None]
        signal = kept_signals[index][:length]
        made.append(signal if length == longest else signal * np.minimum(edge, 1.0))
    return np.concatenate(made)


def pick(
    information: Array, count: int, volume: Callable[[Array], Array], start: Sequence[int] = ()
) -> list[int]:
    """`count` rows of information matrices (N, P, P), repeats allowed, whose sum has the largest `volume`: by exchange."""
    picked = list(start)
    while len(picked) < count:
        total = information[picked].sum(axis=0)
        picked.append(int(np.argmax(volume(total + information))))
    best = float(volume(information[picked].sum(axis=0)[None])[0])
    improved = True
    while improved:
        improved = False
        for place in range(count):
            rest = information[picked[:place] + picked[place + 1 :]].sum(axis=0)
            values = volume(rest + information)
            if float(values.max()) > best + 1e-9:
                best, improved = float(values.max()), True
                picked[place] = int(np.argmax(values))
    return picked


def _chirps(
    rehearsal: Rehearsal, limits: MotionLimits, rows: int, dt_s: float, rng: np.random.Generator
) -> Array:
    """Plain chirps (n, T, actuators) as large as the limits allow: one that starts from rest at home, others by phase."""
    time_s = np.arange(rows) * dt_s
    made = [
        chirp(
            time_s,
            limits.reach,
            rng.random((1, len(limits.reach), 2)) * float(number > 0),
            speed_rad_s=limits.speed_rad_s,
            acceleration_rad_s2=limits.acceleration_rad_s2,
            fastest_hz=limits.fastest_hz,
        )
        for number in range(CHIRPS)
    ]
    signals, refused = rehearsal.shrink(np.stack(made) * fade(time_s)[:, None])
    return signals * ~refused[:, None, None]


def _posterior(places: Array, information: Array) -> Posterior:
    covariance = np.linalg.inv(information)
    return Posterior(places, covariance, covariance, _MANY)


def _expected(
    scales: Sequence[Scale], places: Array, information: Array, plain: Array
) -> tuple[Expected, ...]:
    posterior = _posterior(places, information)
    statuses = status_of(scales, posterior)
    with_chirp = np.sqrt(np.diag(np.linalg.inv(plain)))
    made = []
    for index, (scale, status) in enumerate(zip(scales, statuses, strict=True)):
        place, half = float(places[index]), NORMAL * float(posterior.deviation[index])
        slope = scale.slope(place)
        made.append(
            Expected(
                name=scale.name,
                unit=scale.parameter.unit,
                dimension=scale.parameter.dimension,
                nominal=float(scale.parameter.nominal),
                low=float(scale.outward(max(place - half, 0.0))),
                high=float(scale.outward(min(place + half, 1.0))),
                half_width=half * slope,
                chirp=NORMAL * float(with_chirp[index]) * slope,
                status=status,
            )
        )
    return tuple(made)
