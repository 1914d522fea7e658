"""A deterministic synthetic robot: smooth motions, and a camera that sees moving shapes with mild sensor noise.

numpy only, so that both sides of a comparison record exactly the same images.
``scene_frame(episode, t)`` depends on nothing but its arguments.
"""

from __future__ import annotations

import functools
import resource
from collections.abc import Sequence

import numpy as np

STATE_SIZE, ACTION_SIZE = 14, 7
SIDE = 128
RATE_HZ = 30
NOISE_BANK = 16  # distinct noise fields, reused with a shift


@functools.lru_cache(maxsize=4)
def _grid(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    return x / width, y / height


@functools.lru_cache(maxsize=4)
def _noise(height: int, width: int, sigma: float) -> np.ndarray:
    rng = np.random.default_rng(20240229)
    return rng.normal(0.0, sigma, size=(NOISE_BANK, height, width, 1)).astype(np.float32)


@functools.lru_cache(maxsize=64)
def _episode(episode: int, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Background image and the shapes' parameters of one episode."""
    rng = np.random.default_rng([7, episode])
    x, y = _grid(height, width)
    angle = rng.uniform(0.0, 2.0 * np.pi)
    ramp = np.cos(angle) * x + np.sin(angle) * y
    low, high = rng.uniform(40.0, 110.0, size=3), rng.uniform(110.0, 200.0, size=3)
    stripes = 8.0 * np.sin(2.0 * np.pi * (3.0 * x + 2.0 * y))
    background = low + (high - low) * (0.5 + 0.5 * ramp[..., None]) + stripes[..., None]
    return background.astype(np.float32), rng.uniform(0.0, 1.0, size=(3, 9)).astype(np.float32)


def scene_frame(
    episode: int, t: int, height: int = SIDE, width: int = SIDE, noise: float = 2.0
) -> np.ndarray:
    """The camera image of frame ``t`` of an episode: uint8, (height, width, 3), RGB."""
    x, y = _grid(height, width)
    background, shapes = _episode(int(episode), height, width)
    image = background.copy()
    for kind, p in enumerate(shapes):
        phase = 2.0 * np.pi * (p[0] + t * (0.004 + 0.008 * p[1]))
        cx = 0.5 + (0.2 + 0.15 * p[2]) * np.cos(phase)
        cy = 0.5 + (0.2 + 0.15 * p[3]) * np.sin(phase * (1.0 + 0.5 * p[4]) + p[5])
        size = 0.08 + 0.06 * p[6]
        across, down = np.abs(x - cx), np.abs(y - cy)
        is_box = kind == 1  # the others are discs
        distance = np.maximum(across, down) if is_box else np.hypot(across, down)
        edge = np.clip((size - distance) * width / 2.0 + 0.5, 0.0, 1.0)[..., None]  # 2-pixel edge
        color = np.array(
            [40.0 + 200.0 * p[7], 240.0 - 200.0 * p[8], 60.0 + 170.0 * p[(kind * 3) % 9]], np.float32
        )
        image += edge * (color - image)
    if noise > 0.0:
        image += _noise(height, width, float(noise))[(7 * int(episode) + int(t)) % NOISE_BANK]
    return np.clip(image + 0.5, 0.0, 255.0).astype(np.uint8)


def scene_rows(episode: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth float32 states (length, 14) and actions (length, 7) of an episode."""
    row = np.arange(length)[:, None]
    k = np.arange(1, STATE_SIZE + 1)
    states = np.sin(0.02 * k * row + 0.7 * episode) + 0.01 * k
    j = np.arange(1, ACTION_SIZE + 1)
    actions = np.cos(0.03 * j * row + 0.3 * episode) - 0.02 * j
    return states.astype(np.float32), actions.astype(np.float32)


def cpu_seconds() -> float:
    """Processor time this process and its finished children have used: fair where the machine is shared."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def image_error(decoded: Sequence[np.ndarray], raw: Sequence[np.ndarray]) -> dict[str, float]:
    """PSNR (dB) and mean absolute error (levels of 255) of decoded images, over all pixels of all of them."""
    squared, absolute = [], []
    for shown, true in zip(decoded, raw, strict=True):
        difference = shown.astype(np.float64) - true
        squared.append((difference**2).mean())
        absolute.append(np.abs(difference).mean())
    return {
        "psnr_db": float(10.0 * np.log10(255.0**2 / np.mean(squared))),
        "mean_absolute_error": float(np.mean(absolute)),
    }
