"""What a lens does to light: less of it off the axis, and more of it where a lamp shines in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import ndimage

from twinloop.episode import Array
from twinloop.looks.frames import CameraFrames
from twinloop.looks.measured import LookQuantity, look_quantity
from twinloop.measure.photometry import (
    FULL,
    measure_veil,
    measure_vignetting,
    without_veil,
    without_vignetting,
)
from twinloop.stats.bootstrap import resampled_means
from twinloop.twins import Twin
from twinloop.twins.images import asset_name, encode_photograph

RELEVANT_VIGNETTING = 0.15
RELEVANT_VEIL = 0.05
"""Fraction of full scale that a lens adds in the brightest twentieth of the image."""
BRIGHTEST_PART = 0.95
LEFT_OF_PATTERN = 1.0
"""Part of a pattern's contrast that frames of a few runs leave over."""
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Optics:
    """What was found, the twin's parameters and the photograph that put it in, and frames without it."""

    frames: CameraFrames
    quantities: tuple[LookQuantity, ...] = ()
    values: Mapping[str, Array] = field(default_factory=dict)
    assets: Mapping[str, bytes] = field(default_factory=dict)


def measure_optics(
    twin: Twin, frames: CameraFrames, moves: bool, rows: int, rng: np.random.Generator
) -> Optics:
    """Vignetting, and light that the lens adds, from the table's brightness over the image.

    Light that is added can only be told from a pattern of the table where the camera moves over it.
    """
    camera, runs = frames.evidence.camera, frames.evidence.runs.tolist()
    table = np.asarray(ndimage.minimum_filter(frames.on_role(twin, "table"), (1, 5, 5)))
    veil, darker = np.zeros(frames.real.shape[1:]), np.zeros(0)
    for _ in range(ROUNDS):
        darker = measure_vignetting(without_veil(frames.real, veil), table, frames.focal_px, runs)
        if len(darker) < 2 or not moves:
            break
        veil = measure_veil(frames.real, table, max(float(np.median(darker)), 0.0), frames.focal_px)
    real, values, assets = frames.real, {}, {}
    quantities = []
    if moves:
        # A table with a strong pattern is brighter here than there, however far the camera moves over it.
        floor = max(RELEVANT_VEIL, LEFT_OF_PATTERN * _contrast(frames.real, table))
        added = float(np.quantile((veil.mean(axis=2) / FULL) ** 2, BRIGHTEST_PART))
        quantities.append(look_quantity("lens", "added light", camera, "1", 0.0, np.full(rows, added), floor))
        if quantities[-1].differs:
            assets[asset_name("veil", camera)] = encode_photograph(np.clip(np.rint(veil), 0, 255))
            real = without_veil(real, veil)
    if len(darker) > 1:
        draws = np.maximum(resampled_means(darker, rows, rng), 0.0)
        quantities.append(look_quantity("lens", "vignetting", camera, "1", 0.0, draws, RELEVANT_VIGNETTING))
        if quantities[-1].differs:
            values["lens_vignetting"] = draws
            real = without_vignetting(real, float(np.median(draws)), frames.focal_px)
    return Optics(replace(frames, real=real), tuple(quantities), values, assets)


def _contrast(real: Array, surface: Array) -> float:
    """How much a surface's linear brightness varies from frame to frame at a pixel."""
    linear = np.where(surface, (real.astype(np.float32).mean(axis=3) / FULL) ** 2, np.nan)
    often = surface.sum(axis=0) >= 3
    return float(np.median(np.nanstd(linear[:, often], axis=0))) if often.any() else 0.0
