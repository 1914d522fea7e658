"""Segments of motion as points of a unit cube: drawn, bred, and laid out within limits.

A gene (actuators, 2 + 3 * TONES) holds for each actuator a size, an offset from home, and for each tone a rate, a weight
and a phase. An actuator of small size holds its offset while others move, so that a segment may also be a pose.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.excitation import FADE_S, SLOWEST_HZ
from twinloop.experts.motion import minimum_jerk
from twinloop.identification.limits import MotionLimits

TONES = 4
_FRESH = 0.25
"""The fraction of each generation that is drawn at random."""


def draw_genes(rng: np.random.Generator, count: int, actuators: int) -> Array:
    """`count` genes, uniform in the unit cube."""
    return rng.random((count, actuators, 2 + 3 * TONES))


def breed(rng: np.random.Generator, parents: Array, count: int, actuators: int, width: float) -> Array:
    """`count` genes: some drawn anew, the others mixed from two parents, actuator by actuator, and moved by `width`."""
    if not len(parents):
        return draw_genes(rng, count, actuators)
    fresh = max(1, round(_FRESH * count))
    mothers, fathers = parents[rng.integers(len(parents), size=(2, count - fresh))]
    mixed = np.where(rng.random((count - fresh, actuators, 1)) < 0.7, mothers, fathers)
    moved = mixed + width * rng.standard_normal(mixed.shape) * (rng.random(mixed.shape) < 0.5)
    # Reflected at the borders, so that they are as reachable as the middle.
    moved = 1.0 - np.abs(1.0 - np.abs(moved) % 2.0)
    return np.concatenate([moved, draw_genes(rng, fresh, actuators)])


def fade(time_s: Array) -> Array:
    """0 at both ends, 1 in the middle, smooth between."""
    return minimum_jerk(np.clip(np.minimum(time_s, time_s[-1] - time_s) / FADE_S, 0.0, 1.0))


def lay_out(genes: Array, rows: int, dt_s: float, limits: MotionLimits) -> Array:
    """Signals (N, rows, actuators) around home; as commands they keep reach, speed and acceleration."""
    time_s = np.arange(rows) * dt_s
    slowest_hz = max(SLOWEST_HZ, 1.0 / float(time_s[-1] + dt_s))
    size = np.clip(1.4 * genes[:, :, 0] - 0.2, 0.0, 1.0)
    offset = (2.0 * genes[:, :, 1] - 1.0) * (1.0 - size)
    tones = genes[:, :, 2:].reshape(*genes.shape[:2], TONES, 3)
    rate_hz = slowest_hz * (limits.fastest_hz / slowest_hz) ** tones[..., 0]
    angle = 2.0 * np.pi * (rate_hz[..., None] * time_s + tones[..., 2, None])
    # Equal weights are equal speeds. Weights differ widely, so that few tones dominate: many would peak together.
    waves = (tones[..., 1] ** 6 / rate_hz)[..., None] * np.sin(angle)
    edge = fade(time_s)
    wave = waves.sum(axis=2) * edge
    wave = wave / np.maximum(_asked(wave, dt_s, limits), 1e-12)[..., None] * size[..., None]
    signal = wave + (offset * limits.reach)[..., None] * edge
    signal = signal / np.maximum(_asked(signal, dt_s, limits), 1.0)[..., None]
    return np.asarray(np.where(limits.reach[:, None] > 0.0, signal, 0.0).transpose(0, 2, 1))


def _asked(wave: Array, dt_s: float, limits: MotionLimits) -> Array:
    """How many times over its limits each wave (N, actuators, rows) is."""
    reach = np.abs(wave).max(axis=2) / np.maximum(limits.reach, 1e-12)
    speed = np.abs(np.diff(wave, axis=2)).max(axis=2) / dt_s / limits.speed_rad_s
    force = np.abs(np.diff(wave, 2, axis=2)).max(axis=2) / dt_s**2 / limits.acceleration_rad_s2
    return np.asarray(np.maximum(reach, np.maximum(speed, force)))
