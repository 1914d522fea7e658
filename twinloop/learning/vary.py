"""Images with another look at every turn, so that a network learns to do without any one of them: what they show stays."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array

GAIN = (0.5, 1.6)
"""Of the whole image, as exposure changes it; the bounds are as likely as what lies between, on a logarithmic scale."""

TINT = (0.75, 1.33)
"""Of each colour beside it, as the light's temperature changes it."""

GAMMA = (0.7, 1.4)
FADED = (0.0, 0.7)
"""Share of the colours that is lost."""

NOISE = (0.0, 12.0)
"""Standard deviation, of 255 levels."""

SHARE = 0.8
"""Of the images; the others stay as they are."""


def varied(images: Array, rng: np.random.Generator) -> Array:
    """Some of the images (B, cameras, side, side, 3) uint8 with another exposure, tint, contrast, saturation and noise."""
    if not images.size:
        return images  # no camera, no chance: what else is drawn stays what it was
    chosen = np.flatnonzero(rng.random(len(images)) < SHARE)
    if not len(chosen):
        return images
    one = (len(chosen), images.shape[1], 1, 1, 1)
    seen = images[chosen].astype(np.float32) / 255.0
    seen = seen ** _between(rng, GAMMA, one)
    seen *= _between(rng, GAIN, one) * _between(rng, TINT, (*one[:-1], 3))
    grey = (seen[..., :1] + seen[..., 1:2] + seen[..., 2:]) / 3.0
    seen += rng.uniform(*FADED, one).astype(np.float32) * (grey - seen)
    seen *= 255.0
    seen += rng.uniform(*NOISE, one).astype(np.float32) * _noise(rng, seen.shape)
    made = images.copy()
    made[chosen] = np.clip(np.rint(seen), 0, 255).astype(np.uint8)
    return made


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Of standard deviation 1; evenly spread, which is ten times cheaper than normal and serves as well."""
    levels = np.frombuffer(rng.bytes(int(np.prod(shape))), np.uint8).reshape(shape)
    return (levels.astype(np.float32) - 127.5) / np.float32(256.0 / np.sqrt(12.0))


def _between(rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, ...]) -> Array:
    low, high = np.log(bounds)
    return np.exp(rng.uniform(low, high, shape)).astype(np.float32)
