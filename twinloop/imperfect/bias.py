"""Bias, scale error and noise of a reading: reading = (1 + scale_error) truth + bias + noise.

Noise is given per reading (`noise`, a standard deviation: encoders, poses) or as a density (`noise_density`, unit per
square root of Hz: gyroscopes, accelerometers), whose standard deviation per reading is density / sqrt(dt). The Allan
deviation of the latter is density / sqrt(tau), whatever the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect.parameters import Array, Value, broadcast, check_field, require_noise


@dataclass(frozen=True)
class Bias:
    """In the unit of the signal; `scale_error` is a fraction."""

    bias: Value = 0.0
    scale_error: Value = 0.0
    noise: Value = 0.0
    noise_density: Value = 0.0

    def __post_init__(self) -> None:
        check_field(self, "bias")
        check_field(self, "scale_error", above=-1.0)
        check_field(self, "noise", at_least=0.0)
        check_field(self, "noise_density", at_least=0.0)


def noise_std(params: Bias, shape: tuple[int, ...], dt_s: float) -> Array:
    """The standard deviation of one reading's noise."""
    per_reading = broadcast(params.noise, shape)
    density = broadcast(params.noise_density, shape)
    return np.sqrt(per_reading * per_reading + density * density / dt_s)


def apply(params: Bias, truth: Array, dt_s: float, normal: Array | None = None) -> Array:
    """Readings (N, ...) of `truth` (N, ...), sampled every `dt_s`; `normal` (N, ...) is standard normal."""
    if not dt_s > 0:
        raise WrongUse("the time between readings must be positive", got=dt_s, expected="dt_s > 0")
    truth = np.asarray(truth)
    reading = truth * (1.0 + broadcast(params.scale_error, truth.shape))
    reading += broadcast(params.bias, truth.shape)
    deviation = noise_std(params, truth.shape, dt_s)
    normal = require_noise(normal, deviation, "Bias.noise")
    if normal is not None:
        reading += deviation * normal
    return reading
