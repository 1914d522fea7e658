"""Offsets that wander: a random walk, and a force-torque sensor that warms up.

`RandomWalk` grows by rate sqrt(dt) per step, in unit per square root of second: after t seconds its standard deviation is
rate sqrt(t) and its Allan deviation rate sqrt(tau / 3). A finite `correlation_time_s` pulls it back (first-order
Gauss-Markov): it then settles at rate sqrt(correlation_time / 2), which is how a bias instability is written.

`TemperatureDrift` is an offset in proportion to how far the sensor is from the temperature at which it was zeroed, while
the sensor approaches its surroundings with its own time constant. Both are exact at any step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.imperfect.parameters import Array, Value, broadcast, check_field, per_environment, require_noise


@dataclass(frozen=True)
class RandomWalk:
    """`rate` in the unit of the signal per square root of second."""

    rate: Value = 0.0
    correlation_time_s: Value = np.inf

    def __post_init__(self) -> None:
        check_field(self, "rate", at_least=0.0)
        check_field(self, "correlation_time_s", above=0.0, infinite=True)


@dataclass(frozen=True)
class WalkState:
    """Where the offset is now: (N, ...)."""

    offset: Array


def make_walk_state(initial: Array) -> WalkState:
    """An offset of `initial` (N, ...), usually zeros."""
    return WalkState(np.array(initial, dtype=np.float64))


def step_walk(
    params: RandomWalk, state: WalkState, truth: Array, dt_s: float, normal: Array | None = None
) -> tuple[WalkState, Array]:
    """`truth` (N, ...) plus the present offset, which then moves on by `dt_s`; `normal` (N, ...) is standard normal."""
    truth = np.asarray(truth)
    reading = truth + state.offset
    steps = dt_s / broadcast(params.correlation_time_s, truth.shape)
    offset = state.offset * np.exp(-steps)
    normal = require_noise(normal, params.rate, "RandomWalk.rate")
    if normal is not None:
        # (1 - exp(-2 s)) / (2 s) tends to 1 as the correlation time grows: the plain random walk.
        kept = np.where(steps > 0.0, -np.expm1(-2.0 * steps) / np.where(steps > 0.0, 2.0 * steps, 1.0), 1.0)
        offset += broadcast(params.rate, truth.shape) * np.sqrt(dt_s * kept) * normal
    return WalkState(offset), reading


@dataclass(frozen=True)
class TemperatureDrift:
    """`offset_per_k` in the unit of the signal per kelvin: a number, (N,), or (N, 6) for the axes of a force-torque sensor."""

    offset_per_k: Value = 0.0
    ambient_c: Value = 22.0
    self_heating_k: Value = 0.0
    zeroed_at_c: Value = 22.0
    time_constant_s: Value = 600.0

    def __post_init__(self) -> None:
        for name in ("offset_per_k", "ambient_c", "self_heating_k", "zeroed_at_c"):
            check_field(self, name)
        check_field(self, "time_constant_s", above=0.0)


@dataclass(frozen=True)
class TemperatureState:
    """How warm each sensor is: (N,)."""

    temperature_c: Array


def make_temperature_state(temperature_c: Value, environments: int) -> TemperatureState:
    """Sensors at a known temperature, usually the ambient one."""
    return TemperatureState(per_environment(temperature_c, environments).copy())


def step_temperature(
    params: TemperatureDrift, state: TemperatureState, truth: Array, dt_s: float
) -> tuple[TemperatureState, Array]:
    """`truth` (N, ...) plus the present offset; the sensor then warms or cools for `dt_s`."""
    truth = np.asarray(truth)
    environments = len(truth)
    warmer_k = state.temperature_c - per_environment(params.zeroed_at_c, environments)
    reading = truth + broadcast(params.offset_per_k, truth.shape) * broadcast(warmer_k, truth.shape)
    target_c = per_environment(params.ambient_c, environments) + per_environment(
        params.self_heating_k, environments
    )
    kept = np.exp(-dt_s / per_environment(params.time_constant_s, environments))
    return TemperatureState(target_c + (state.temperature_c - target_c) * kept), reading
