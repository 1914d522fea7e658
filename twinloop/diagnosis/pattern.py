"""Visual: whether table and floor have another pattern on the robot, and textures of the twin's pool that look like it.

Cameras see the same edges of robot and table in both cells. Edges that one side alone has are a pattern, or a camera
that stands elsewhere, or light that throws other shading; the sizes of edges do not count, because light and lens change them. The
real pattern itself cannot be put into a simulation whose cameras move. Textures with the same contrast at each scale stand for
it, so what is evaluated is the cost of a pattern like the real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import ndimage

from twinloop.diagnosis.measured import Quantity, quantity, resampled
from twinloop.episode import Array
from twinloop.measure.images import LUMINANCE, shrink

SIDE = 64
SCALES_PX = (1.0, 2.0, 4.0, 8.0)
"""Of images shrunk to `SIDE`: a pattern is what differs between one of these blurs and the next."""
SHIFT_PX = 2
"""A camera that is off by less shows the same pattern."""
DARK_LEVELS, FAINT = 8.0, 0.01
"""Darker pixels, and edges of less relative contrast, are noise."""
UNLIKE = 0.22
"""A background is another one when it is less like the twin's than the twin's own runs by this much.

Set on images of `franka_pick_place`: likeness 0.34 to 0.71 with the patterned textures 1, 2, 3, 7, 37 and 40, 0.76 and 0.87 with
the lights turned by 0.8 and 1 rad, 0.97 and more with another exposure, colour, blur, noise, vignetting, flare or plain texture.
"""
POOL = range(5000, 5032)
"""Textures that are tried: of the twin's pool, beyond those that randomizations draw from."""
ALIKE = 8
"""So many of them, those most like the real pattern, stand for it."""

Textured = Callable[[Array], Mapping[str, Array]]
"""Simulated images (n, height, width, 3) by camera, one for each texture index (n,)."""


def measure_pattern(
    camera: str, real: Sequence[Array], sim: Sequence[Array], rows: int, rng: np.random.Generator
) -> Quantity:
    """How much the background of each run is like the twin's, 1 for the same edges, from images (n, height, width, 3) per run."""
    usual = _edges(_background(np.concatenate(sim)))
    mine, theirs = (
        np.array([_likeness(_edges(_background(frames)), usual) for frames in side]) for side in (real, sim)
    )
    draws = resampled(mine, rows, rng)
    return quantity(
        f"likeness of the background, {camera}", "1", float(np.mean(theirs)), draws, relevant=UNLIKE
    )


def find_textures(real: Mapping[str, Array], textured: Textured) -> Array:
    """Indices (ALIKE,) of textures with which simulated images have the contrasts of real ones (n, height, width, 3)."""
    indices = np.array(POOL)
    simulated = textured(indices)
    apart = np.zeros(len(indices))
    for camera, frames in real.items():
        wanted = contrast_by_scale(_background(frames))
        tried = np.array([contrast_by_scale(_background(frame[None])) for frame in simulated[camera]])
        apart += np.sum((np.log(tried) - np.log(wanted)) ** 2, axis=1)
    return indices[np.argsort(apart, kind="stable")[:ALIKE]]


def contrast_by_scale(background: Array) -> Array:
    """Contrast of logarithmic brightness (SIDE, SIDE) from each scale to the next coarser one: (scales,)."""
    blurred = [ndimage.gaussian_filter(background, scale) for scale in SCALES_PX]
    return np.array([np.sqrt(np.mean((a - b) ** 2)) for a, b in itertools.pairwise(blurred)]) + 1e-3


def _background(frames: Array) -> Array:
    """Logarithm of the brightness (SIDE, SIDE) that most images (n, height, width, 3) have in common."""
    light = np.median([shrink(frame, SIDE) @ LUMINANCE for frame in frames], axis=0)
    return np.asarray(np.log(light + DARK_LEVELS))


def _edges(background: Array) -> Array:
    """Edges of a background, each as strong as those around it."""
    fine, coarse = (ndimage.gaussian_filter(background, scale) for scale in (SCALES_PX[0], SCALES_PX[2]))
    edges = fine - coarse
    around = np.sqrt(ndimage.gaussian_filter(edges**2, 6.0))
    return np.asarray(edges / (around + FAINT))


def _likeness(one: Array, other: Array) -> float:
    """Correlation of two edge images, the best over shifts by a few pixels."""
    size = float(np.sqrt(np.sum(one**2) * np.sum(other**2))) + 1e-9
    shifts = itertools.product(range(-SHIFT_PX, SHIFT_PX + 1), repeat=2)
    return max(float(np.sum(one * np.roll(other, shift, (0, 1)))) / size for shift in shifts)
