"""What covers part of a lens: tape, a cable, dirt. It looks the same in every frame while what is behind it changes."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from twinloop.episode import Array
from twinloop.looks.frames import CameraFrames
from twinloop.measure.images import LUMINANCE

STILL_LEVELS, STRANGE_LEVELS = 7.0, 25.0
"""It varies by less than the first from frame to frame, and differs by more than the second from what should be there."""
OFTEN = 0.9
"""Fraction of the frames in which it varies so little."""
SEEN = 0.3
"""Fraction of the frames in which the twin shows a surface at a pixel, for a camera that moves over it."""
SHARPEST = 8.0
"""Levels per pixel at its border: what a lens does to light has no edges."""
SMALLEST_COVER = 0.01
"""Fraction of the image."""


def find_cover(frames: CameraFrames, surface: Array, moves: bool) -> Array:
    """What hides part of every frame, (height, width, 4) uint8 with transparency.

    `surface` (n, height, width) are pixels of table and floor, and `moves` says whether the camera moves over them.
    """
    real = frames.real
    usual = np.median(real, axis=0)
    away = np.abs(real - usual).max(axis=3)
    grain = min(float(np.median(away)), STILL_LEVELS)
    still = np.quantile(away, OFTEN, axis=0) < STILL_LEVELS + 2.0 * grain
    apart = np.abs(real.astype(np.float64) - _expected(frames, surface)).max(axis=3)
    behind = (frames.geoms != np.median(frames.geoms, axis=0)).mean(axis=0) > 1.0 - OFTEN
    if moves:
        behind |= surface.mean(axis=0) > SEEN
    strange = ndimage.binary_opening(
        still & behind & (np.median(apart, axis=0) > STRANGE_LEVELS), iterations=2
    )
    label, count = ndimage.label(strange)
    steep = ndimage.gaussian_gradient_magnitude(usual @ LUMINANCE, 1.0)
    kept = np.zeros(strange.shape, dtype=bool)
    for index in range(1, count + 1):
        part = label == index
        border = ndimage.binary_dilation(part, iterations=2) & ~ndimage.binary_erosion(
            part, iterations=1, border_value=1
        )
        if part.mean() >= SMALLEST_COVER and float(np.median(steep[border])) > SHARPEST:
            kept |= part
    kept = _grown(kept, usual, still)
    return np.dstack([np.rint(usual), 255.0 * kept]).astype(np.uint8)


def _grown(kept: Array, usual: Array, still: Array) -> Array:
    """A cover with what is beside it, as still and of its colour: in front of a gripper that never moves it is no less a cover."""
    if not kept.any():
        return kept
    near = np.abs(usual - np.median(usual[kept], axis=0)).max(axis=2) < 0.5 * STRANGE_LEVELS
    label, _ = ndimage.label(kept | (still & near))
    return np.asarray(np.isin(label, np.unique(label[kept])))


def _expected(frames: CameraFrames, surface: Array) -> Array:
    """The twin's frames, with the colour on table and floor that they usually have."""
    made = frames.sim.astype(np.float64)
    return (
        np.where(surface[..., None], np.median(frames.real[surface], axis=0), made) if surface.any() else made
    )
