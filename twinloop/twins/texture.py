"""A pool of procedural textures: the same number always paints the same image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinloop.episode import Array


def paint_texture(index: int, height: int, width: int) -> Array:
    """Texture number `index` of the pool, (height, width, 3) uint8; tiles without a seam."""
    rng = np.random.Generator(np.random.Philox(key=index))
    first = rng.uniform(0.25, 0.95, 3)
    second = np.clip(first + rng.normal(0.0, 0.22, 3), 0.05, 1.0)
    y, x = np.meshgrid(np.arange(height) / height, np.arange(width) / width, indexing="ij")
    share = PATTERNS[index % len(PATTERNS)](rng, x, y)[..., None]
    grain = 1.0 + rng.normal(0.0, 0.02, (height, width, 1))
    return np.asarray(np.clip((first * (1.0 - share) + second * share) * grain, 0.0, 1.0) * 255.0, np.uint8)


def _plain(rng: np.random.Generator, x: Array, y: Array) -> Array:
    return np.zeros_like(x)


def _checks(rng: np.random.Generator, x: Array, y: Array) -> Array:
    count = 2 * int(rng.integers(1, 5))
    return np.asarray((np.floor(x * count) + np.floor(y * count)) % 2)


def _stripes(rng: np.random.Generator, x: Array, y: Array) -> Array:
    along, across = rng.integers(0, 4, 2)
    return np.asarray(0.5 + 0.5 * np.sign(np.sin(2 * np.pi * ((along + 1) * x + across * y))))


def _clouds(rng: np.random.Generator, x: Array, y: Array) -> Array:
    field = np.zeros_like(x)
    for octave in range(1, 6):
        for _ in range(3):
            across, down = rng.integers(-octave, octave + 1, 2)
            field += np.sin(2 * np.pi * (across * x + down * y + rng.random())) / octave
    return np.asarray((field - field.min()) / (np.ptp(field) + 1e-9))


def _wood(rng: np.random.Generator, x: Array, y: Array) -> Array:
    rings = int(rng.integers(4, 10))
    return np.asarray(0.5 + 0.5 * np.sin(2 * np.pi * (rings * x + 0.6 * _clouds(rng, x, y))))


def _tiles(rng: np.random.Generator, x: Array, y: Array) -> Array:
    count = int(rng.integers(2, 6))
    joint = 0.06
    return np.asarray(((x * count) % 1.0 < joint) | ((y * count) % 1.0 < joint), np.float64)


PATTERNS: tuple[Callable[[np.random.Generator, Array, Array], Array], ...] = (
    _plain,
    _checks,
    _stripes,
    _clouds,
    _wood,
    _tiles,
)
