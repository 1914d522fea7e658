"""`anchor`: a randomization for training from the identification and diagnosis of a robot.

Default ranges are narrowed to the measurements of this robot, scenes are widened to its own. Where an expert fails much more often
than in the nominal twin, ranges of unmeasured parameters are wider than the task allows: `limit_to_task` finds and narrows those.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

from twinloop.alignment.result import Alignment
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.diagnosis.result import Diagnosis
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.generation.run import generate
from twinloop.identification.result import Identification
from twinloop.identification.uncertainty import posterior_randomization, without_identified
from twinloop.looks.measured import MeasuredLook, look_randomization
from twinloop.randomization import Randomization, default_randomization, load_randomization
from twinloop.randomization.distribution import Constant, Distribution, LogUniform, Normal, Uniform
from twinloop.randomization.randomization import make_randomization
from twinloop.records import SavedRecord, load_record
from twinloop.twins import SHARED_POSE, Twin, has_aligned_camera, list_twins, load_twin

PILOT_EPISODES = 64
"""Simulated episodes that test whether the expert still succeeds."""
LEVEL = 0.01
"""Probability of narrowing a parameter that does not cause the expert's failures."""
LARGEST_DROP = 0.05
"""An expert's success rate may fall by this much before ranges are narrowed."""
FEWEST_OUTSIDE = 5
"""Episodes beyond a limit before it counts."""


def anchored_randomization(
    identification: Identification,
    diagnosis: Diagnosis | None = None,
    *,
    scenes: Randomization | None = None,
    other_parameters: Randomization | None = None,
    look: Randomization | None = None,
    name: str = "anchored",
) -> Randomization:
    """Make a randomization of a twin from what was measured of its robot, and what was not.

    Identified parameters vary by their posterior, parameters that a diagnosis measured around the measured value and as widely as by
    default, because robots change over time. A parameter that was not identifiable varies by default around its nominal and its
    calibrated value: over its whole prior range, a gripper that was never excited would often be too stiff to grasp.

    Args:
        identification: Its accepted twin is the one that the randomization is for; a rejected calibration contributes nothing.
        diagnosis: Adds its measurements of sensors, actuators, objects and the scene.
        scenes: Where objects and targets lie in training, such as `training_scenes(twin)`; widened to where they were observed.
        other_parameters: How unmeasured parameters vary. Default: `default_randomization(twin)`.
        look: What real frames show, such as `look_randomization` and `Alignment.uncertainty`: which visual effects vary, and how widely;
            others then do not.
        name: Name of the randomization.

    Returns:
        The randomization, over parameters of `identification.accepted_twin`.
    """
    twin = identification.accepted_twin
    scenes = scenes or make_randomization(twin, {})
    usual = default_randomization(twin) if other_parameters is None else other_parameters
    usual = usual if look is None else _without_visual(usual, twin)
    measured = measured_parameters(identification, diagnosis)
    loose = {n: _loosened(twin, n, measured[n], usual[n]) for n in measured.names if n in usual.names}
    varied = usual | measured | make_randomization(twin, loose)
    if identification.gate.accepted:
        posterior = posterior_randomization(identification)
        nominal = {estimate.name: Constant(estimate.nominal) for estimate in identification.estimates}
        unidentified = {n: _union(nominal[n], varied[n]) for n in posterior.unidentified if n in varied.names}
        others = without_identified(varied, twin, identification.names)
        varied = others | posterior.randomization | make_randomization(twin, unidentified)
    wide = {n: _union(scenes[n], measured[n]) for n in scenes.names if n in measured.names}
    varied = varied | scenes | make_randomization(twin, wide)
    return (varied if look is None else varied | look).named(name)


def _without_visual(randomization: Randomization, twin: Twin) -> Randomization:
    """The randomization without what cameras alone see."""
    kept = {
        variation.name: variation.distribution
        for variation in randomization.variations
        if twin.parameter(variation.name).dimension != "visual"
    }
    return make_randomization(twin, kept, name=randomization.name)


def combine_look(twin: Twin, look: MeasuredLook | None, aligned: Sequence[Alignment] = ()) -> Randomization:
    """What frames show of a robot's cameras as one randomization: how they look, and how their alignment may still be off.

    Args:
        twin: The twin that varies.
        look: From `measure_look`, measured against this twin; None where it was not measured.
        aligned: Alignments of the twin's cameras.

    Returns:
        The randomization; where both say something, the look counts.

    Raises:
        WrongUse: The cameras of this twin are not aligned.
    """
    if aligned and not has_aligned_camera(twin):
        raise WrongUse(
            f"the cameras of twin {twin.name} stand where they were drawn",
            expected="a twin identified from the aligned one",
            remedy="twinloop identify --twin FOLDER, with the folder that `twinloop align --out` wrote, then anchor",
        )
    combined = make_randomization(twin, {}, name="look")
    for alignment in aligned:
        combined |= alignment.uncertainty_in(twin)
    return combined if look is None else combined | look_randomization(look, twin)


def measured_parameters(identification: Identification, diagnosis: Diagnosis | None) -> Randomization:
    """The parameters that a diagnosis measured, without those that identification or the alignment of cameras determines better.

    Args:
        identification: Its accepted twin is the one that the randomization is for.
        diagnosis: None if there is none.

    Returns:
        A randomization around the measured values, as wide as they are uncertain.
    """
    twin = identification.accepted_twin
    if diagnosis is None:
        return make_randomization(twin, {}, name="measured")
    measured = diagnosis.randomization(twin)
    if has_aligned_camera(twin):
        kept = {v.name: v.distribution for v in measured.variations if v.name not in SHARED_POSE}
        measured = make_randomization(twin, kept, name=measured.name)
    accepted = identification.gate.accepted
    return without_identified(measured, twin, identification.names) if accepted else measured


def measured_values(
    identification: Identification, diagnosis: Diagnosis | None, scenes: Randomization | None = None
) -> dict[str, float]:
    """The median of each measured parameter that scenes do not set: the robot's own values in every trial.

    Args:
        identification: As in `anchored_randomization`.
        diagnosis: As in `anchored_randomization`.
        scenes: Parameters that differ from trial to trial, which are left out.

    Returns:
        Values by parameter, in the parameters' own units.
    """
    measured = measured_parameters(identification, diagnosis)
    in_scene = set(scenes.names) if scenes is not None else set()
    return {v.name: value_at(v.distribution, 0.5) for v in measured.variations if v.name not in in_scene}


def value_at(distribution: Distribution, fraction: float) -> float:
    """The value below which this fraction of the draws lies."""
    return float(distribution.quantile(np.array([[fraction]]), np.zeros(1, dtype=np.int64))[0])


def _loosened(twin: Twin, name: str, measured: Distribution, usual: Distribution) -> Distribution:
    """Around the measured value, with the measured and the usual spread."""
    spread = math.hypot(*(0.5 * (value_at(one, 0.84) - value_at(one, 0.16)) for one in (measured, usual)))
    return Normal(value_at(measured, 0.5), spread, *twin.parameter(name).bounds) if spread > 0.0 else measured


def _union(usual: Distribution, measured: Distribution) -> Uniform:
    low, high = usual.support()
    return Uniform(min(low, value_at(measured, 0.005)), max(high, value_at(measured, 0.995)))


@dataclass(frozen=True)
class TaskLimit:
    """A parameter that correlates with an expert's failures: success rates within [low, high] and beyond, and the p-value."""

    parameter: str
    low: float
    high: float
    success_within: float
    success_beyond: float
    p_value: float
    narrowed: bool
    """False where the parameter was measured: narrowing it would leave out the robot itself."""


@dataclass(frozen=True)
class Anchor(SavedRecord):
    """A randomization within what its task allows.

    `expected` and `pilot` are success rates of the expert in the nominal twin and under the randomization before it was narrowed.
    """

    FILE, COMMAND = "anchor.json", "twinloop anchor --out FILE"

    config: Mapping[str, Any]
    expected: float
    pilot: float
    limits: tuple[TaskLimit, ...] = ()
    episodes: int = 0
    warnings: tuple[str, ...] = field(default=())

    def randomization(self, twin: Twin) -> Randomization:
        """The randomization over this twin's parameters."""
        return load_randomization(dict(self.config), twin)


def load_anchor(folder: str | Path) -> Anchor:
    """Read what `Anchor.save` wrote.

    Args:
        folder: The folder with `anchor.json`.

    Returns:
        The anchor.

    Raises:
        WrongUse: There is no such file or it is not an anchor.
    """
    return load_record(Anchor, folder)


def anchor(
    identification: Identification,
    diagnosis: Diagnosis | None = None,
    *,
    scenes: Randomization | None = None,
    other_parameters: Randomization | None = None,
    look: Randomization | None = None,
    expected: float = 1.0,
    episodes: int = PILOT_EPISODES,
    seed: int = 2,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Anchor:
    """Make the randomization that a robot's policies train on, within what the task allows.

    The result of `anchored_randomization`, narrowed where the expert would often fail.

    Args:
        identification: As in `anchored_randomization`.
        diagnosis: As in `anchored_randomization`.
        scenes: As in `anchored_randomization`.
        other_parameters: As in `anchored_randomization`.
        look: As in `anchored_randomization`.
        expected: The expert's success rate in the nominal twin, in [0, 1].
        episodes: Number of expert episodes to simulate as a pilot.
        seed: Random seed for these episodes.
        on_progress: Called with (episodes, total).

    Returns:
        The randomization, the limits that were found, and warnings.
    """
    twin = identification.accepted_twin
    randomization = anchored_randomization(
        identification, diagnosis, scenes=scenes, other_parameters=other_parameters, look=look
    )
    with tempfile.TemporaryDirectory() as folder:
        pilot = generate(
            twin,
            randomization,
            out=Path(folder) / "pilot",
            episodes=episodes,
            seed=seed,
            expert_noise=0.5,
            expert_sees_truth=True,
            on_progress=lambda now: on_progress(now.episodes, now.total),
        )
        measured = {*measured_parameters(identification, diagnosis).names, *identification.identified}
        in_scene = scenes.names if scenes is not None else ()
        return limit_to_task(twin, randomization, pilot, expected=expected, measured={*measured, *in_scene})


def limit_to_task(
    twin: Twin,
    randomization: Randomization,
    pilot: Dataset,
    *,
    expected: float,
    measured: Collection[str] = (),
) -> Anchor:
    """Narrow a randomization to what its task allows.

    Where the expert of a pilot dataset fails much more often than expected, the parameters whose draws correlate with its failures
    (Fisher's exact test at the best cut, corrected for the number of parameters) are cut there, one after the other.

    Args:
        twin: The randomization's twin.
        randomization: The randomization of the pilot.
        pilot: Simulated episodes of an expert, with their draws and outcomes.
        expected: The expert's success rate in the nominal twin, in [0, 1].
        measured: Parameters that were measured of the robot, which are reported and never narrowed.

    Returns:
        The randomization, narrowed where needed, with the limits that were found.
    """
    draws, success = _outcomes(pilot, randomization)
    rate = float(success.mean()) if len(success) else 1.0
    limits: list[TaskLimit] = []
    kept = np.ones(len(success), dtype=bool)
    while len(success) and expected - success[kept].mean() > LARGEST_DROP:
        tried = {
            name: values for name, values in draws.items() if name not in {one.parameter for one in limits}
        }
        limit = _worst_cut(tried, success, kept, measured)
        if limit is None:
            break
        limits.append(limit)
        values = draws[limit.parameter]
        kept &= (values >= limit.low) & (values <= limit.high)
    narrower = {
        one.parameter: _within(randomization[one.parameter], one.low, one.high)
        for one in limits
        if one.narrowed
    }
    narrowed = (randomization | make_randomization(twin, narrower)).named(randomization.name)
    return Anchor(
        narrowed.plain(),
        expected,
        rate,
        tuple(limits),
        len(success),
        _warnings(rate, expected, len(success), limits),
    )


def _warnings(rate: float, expected: float, episodes: int, limits: Sequence[TaskLimit]) -> tuple[str, ...]:
    if expected - rate <= LARGEST_DROP:
        return ()
    lines = [
        f"the expert succeeds in {rate:.0%} of {episodes} anchored episodes, in {expected:.0%} of nominal ones"
    ]
    for one in limits:
        what = "narrowed to" if one.narrowed else "measured on the robot, so not narrowed: fails beyond"
        lines.append(
            f"{one.parameter} {what} [{one.low:.3g}, {one.high:.3g}]: "
            f"{one.success_within:.0%} success within, {one.success_beyond:.0%} beyond"
        )
    if not limits:
        lines.append("no single parameter explains the failures")
    return tuple(lines)


def _outcomes(pilot: Dataset, randomization: Randomization) -> tuple[dict[str, Array], Array]:
    """Draws of each numeric parameter (N,), and success (N,), of the judged episodes."""
    episodes = [episode for episode in pilot if episode.success is not None]
    success = np.array([bool(episode.success) for episode in episodes])
    draws = {}
    for name in randomization.names:
        values = [episode.provenance.draw.get(name) for episode in episodes]
        if episodes and all(isinstance(value, int | float) for value in values) and len(set(values)) > 1:
            draws[name] = np.array(values, dtype=float)
    return draws, success


def _worst_cut(
    draws: Mapping[str, Array], success: Array, kept: Array, measured: Collection[str]
) -> TaskLimit | None:
    """The limit beyond which the expert fails most certainly more often; None where chance explains the failures."""
    found: list[TaskLimit] = []
    for name, values in draws.items():
        inner, won = values[kept], success[kept]
        for fraction in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            cut = float(np.quantile(inner, fraction))
            for beyond, low, high in (
                (inner > cut, float(inner.min()), cut),
                (inner < cut, cut, float(inner.max())),
            ):
                within = ~beyond
                if min(beyond.sum(), within.sum()) < FEWEST_OUTSIDE:
                    continue
                table = [[(~won[beyond]).sum(), won[beyond].sum()], [(~won[within]).sum(), won[within].sum()]]
                p_value = float(stats.fisher_exact(table, alternative="greater").pvalue)
                rates = float(won[within].mean()), float(won[beyond].mean())
                found.append(TaskLimit(name, low, high, *rates, p_value, name not in measured))
    best = min(found, key=lambda one: one.p_value, default=None)
    return best if best is not None and best.p_value * len(found) < LEVEL else None


def _within(distribution: Distribution, low: float, high: float) -> Distribution:
    """The distribution cut to [low, high]."""
    if isinstance(distribution, Normal):
        return replace(distribution, low=max(low, distribution.low), high=min(high, distribution.high))
    first, last = distribution.support()
    low, high = max(low, first), min(high, last)
    return LogUniform(low, high) if isinstance(distribution, LogUniform) else Uniform(low, high)


def write_config(
    randomization: Randomization, twin_place: str, file: str | Path, comments: Sequence[str] = ()
) -> Path:
    """Write a randomization as a config that `twinloop generate` takes.

    Args:
        randomization: What varies.
        twin_place: Name of a built-in twin, or a twin's folder as seen from the config's folder.
        file: The YAML file.
        comments: Lines for its head.

    Returns:
        The file.
    """
    target = Path(file)
    described = randomization.plain()
    values = {"name": described["name"], "twin": twin_place, "randomization": described["randomization"]}
    text = "".join(f"# {line}\n" for line in comments)
    text += yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text.encode())
    return target


def twin_reference(identification: Identification, folder: str | Path, config: str | Path) -> str:
    """How a config names the accepted twin of an identification.

    Args:
        identification: The identification.
        folder: The folder that `Identification.save` wrote.
        config: The config's file.

    Returns:
        The calibrated twin's folder, relative to the config's, or the built-in twin's name if calibration was rejected.

    Raises:
        WrongUse: Calibration was rejected, and the twin before calibration is not a built-in one.
    """
    if identification.gate.accepted:
        place = os.path.relpath(Path(folder).resolve(), Path(config).resolve().parent)
        return place if "/" in place else f"./{place}"
    name = identification.twin.name
    if name in [twin.name for twin in list_twins()] and load_twin(name).content_hash == identification.base:
        return name
    raise WrongUse(
        "this calibration was rejected, and its nominal twin is not built in",
        got=str(folder),
        remedy="generate with the nominal twin's own config, or identify again with more data",
    )
