"""An identification's uncertainty as a distribution that `generate` draws from.

- Identified parameters vary around their estimates, by the posterior and by the variation from run to run, correlated.
- Parameters that are not separately identifiable vary along their combination, as far as bounds allow, and not against it.
- Parameters that are not identifiable keep their prior range, and are named.
- What the calibrated twin leaves unexplained at a joint becomes an offset of that joint from episode to episode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.identification.result import Estimate, Identification
from twinloop.randomization.distribution import Distribution, LogUniform, Normal, Uniform
from twinloop.randomization.randomization import MAX_FRACTION_OUTSIDE, Randomization, make_randomization
from twinloop.twins import Parameter, Twin
from twinloop.twins.declare import to_identifier

SUMS = (("action_delay_s", "observation_delay_s"),)
"""In open loop only the sum of these is identifiable: the identified one stands for both, and the other must not add to it."""

_EFFECTS: Mapping[str, set[tuple[str, int | None]]] = {
    "friction": {("dof_frictionloss", None)},
    "damping": {("dof_damping", None), ("actuator_damping", None), ("actuator_biasprm", 2)},
    "inertia": {("dof_armature", None)},
    "stiffness": {("actuator_gainprm", 0), ("actuator_biasprm", 1)},
}


@dataclass(frozen=True)
class PosteriorRandomization:
    """A randomization from an identification; `unidentified` parameters in it keep their prior range, `offsets` are of joints."""

    randomization: Randomization
    unidentified: tuple[str, ...]
    offsets: tuple[str, ...]


def posterior_randomization(result: Identification) -> PosteriorRandomization:
    """The distribution of the parameters that an identification was asked for.

    Args:
        result: The identification; its twin is the one that the randomization is for.

    Returns:
        The randomization, and which of its parameters are not identified.
    """
    twin = result.twin
    covariance = result.covariance + result.run_to_run
    together: list[int] = []
    alone: dict[str, Distribution] = {}
    unidentified = []
    for index, estimate in enumerate(result.estimates):
        parameter = twin.parameter(estimate.name)
        deviation = max(float(np.sqrt(covariance[index, index])), 1e-12)
        if estimate.name in result.confused and not _on_edge(parameter, estimate.value):
            together.append(index)
        elif estimate.status == "not identifiable":
            alone[estimate.name] = _prior(estimate)
            unidentified.append(estimate.name)
        elif _outside(parameter, estimate.value, deviation):
            alone[estimate.name] = _cut(parameter, estimate.value, deviation)
        else:
            together.append(index)
    offsets = _joint_offsets(result, set(result.names))
    correlated = []
    if len(together) == 1:
        only = result.estimates[together[0]]
        alone[only.name] = Normal(only.value, float(np.sqrt(covariance[together[0], together[0]])))
    elif together:
        names = [result.estimates[i].name for i in together]
        means = [result.estimates[i].value for i in together]
        parameters = [twin.parameter(name) for name in names]
        matrix = _within(parameters, means, _definite(covariance[np.ix_(together, together)]))
        correlated.append((names, means, matrix))
    randomization = make_randomization(twin, {**alone, **offsets}, correlated=correlated, name="posterior")
    return PosteriorRandomization(randomization, tuple(unidentified), tuple(offsets))


def without_identified(randomization: Randomization, twin: Twin, names: Collection[str]) -> Randomization:
    """The randomization without the identified parameters, and without those whose effect they include.

    These are the other part of a sum, and scales of all joints: an identified damping of a joint is all that brakes it in proportion
    to its speed, whether the twin writes it to the joint or to the servo.
    """
    identified = set(names)
    held = identified | {name for pair in SUMS if identified & set(pair) for name in pair}
    found = {effect for name in identified for effect in _effects(twin.parameter(name))}
    for parameter in twin.parameters:
        shared = any(target.rule == "scale" and len(target.objects) > 1 for target in parameter.targets)
        if shared and _effects(parameter) & found:
            held.add(parameter.name)
    return replace(randomization, variations=tuple(v for v in randomization.variations if v.name not in held))


def _effects(parameter: Parameter) -> set[str]:
    """What a parameter does to joints: to their friction, damping, inertia or stiffness."""
    places = {(target.field, index) for target in parameter.targets for index in target.index or (None,)}
    return {effect for effect, fields in _EFFECTS.items() if places & fields}


def _prior(estimate: Estimate) -> Distribution:
    low, high = estimate.prior
    return LogUniform(low, high) if low > 0.0 and high / low > 5.0 else Uniform(low, high)


def _outside(parameter: Parameter, value: float, deviation: float) -> bool:
    return Normal(value, deviation).outside(*parameter.bounds) > 0.5 * MAX_FRACTION_OUTSIDE


def _on_edge(parameter: Parameter, value: float) -> bool:
    """Whether half of any normal distribution around the value would lie outside, however narrow."""
    low, high = parameter.bounds
    return min(value - low, high - value) <= 1e-9 * (high - low)


def _within(parameters: Sequence[Parameter], means: Sequence[float], covariance: Array) -> Array:
    """The covariance with its widest directions drawn in until draws stay within bounds: combinations keep their value."""
    spans = np.array([high - low for low, high in (parameter.bounds for parameter in parameters)])
    values, vectors = np.linalg.eigh(covariance / spans[:, None] / spans[None, :])
    for _ in range(200):
        matrix = (vectors * values) @ vectors.T * spans[:, None] * spans[None, :]
        deviations = np.sqrt(np.diag(matrix)).tolist()
        if not any(_outside(*part) for part in zip(parameters, means, deviations, strict=True)):
            break
        values[-1] *= 0.8
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    # A value very close to its bound needs more than that: it is drawn in alone, which keeps the matrix definite.
    fitting = [_fitting(*part) for part in zip(parameters, means, deviations, strict=True)]
    ratio = np.array(fitting) / np.array(deviations)
    return np.asarray(matrix * ratio[:, None] * ratio[None, :])


def _fitting(parameter: Parameter, value: float, deviation: float) -> float:
    """The deviation, or as much of it as stays within bounds."""
    while _outside(parameter, value, deviation):
        deviation *= 0.8
    return deviation


def _cut(parameter: Parameter, value: float, deviation: float) -> Normal:
    return Normal(value, deviation, *parameter.bounds)


def _joint_offsets(result: Identification, taken: set[str]) -> dict[str, Distribution]:
    made: dict[str, Distribution] = {}
    for channel, unit, size in zip(result.channels, result.units, result.discrepancy, strict=True):
        name = f"{to_identifier(channel)}_encoder_bias_rad"
        if unit == "rad" and name not in taken and size > 0.0 and result.twin.has(name):
            parameter = result.twin.parameter(name)
            made[name] = _cut(parameter, float(parameter.nominal), size)
    return made


def _definite(matrix: Any) -> Any:
    """`matrix` with the least that makes every direction vary: rounding can leave one that does not."""
    size = np.sqrt(np.diag(matrix))
    correlation = matrix / size[:, None] / size[None, :]
    correlation = 0.5 * (correlation + correlation.T)
    lowest = float(np.linalg.eigvalsh(correlation).min())
    if lowest < 1e-9:
        correlation = correlation + (1e-9 - lowest) * np.eye(len(size))
        correlation /= correlation[0, 0]
    return correlation * size[:, None] * size[None, :]
