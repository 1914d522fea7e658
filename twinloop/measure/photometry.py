"""What light and a camera do to colours and detail, from real frames beside simulated ones of the same moments.

Light and colour are read from surfaces whose colour is known, such as the robot's own: a table of another colour is not another light.
Everything is in linear light, which is taken as the square of a pixel's value (gamma 2), as in `twinloop.imperfect.camera`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, optimize

from twinloop.episode import Array
from twinloop.measure.images import LUMINANCE

FULL = 255.0
DARKEST, BRIGHTEST = 6.0, 250.0
"""Levels between which a pixel tells about light: below is noise, above is clipped."""
LIT, SHADOWED = 0.7, 0.4
"""The quantile of a surface's pixels above which they are in the light, and the weight of surfaces that look shadowed."""
FEWEST_PIXELS = 12
"""Pixels of a surface in a run before their median counts."""
RESPONSE_PRIOR = np.array([2.0, 0.6, 0.6, 0.5])
"""Standard deviations of weak priors of stops, red and blue stops, and saturation: what grey surfaces leave open stays as simulated."""
SCATTER, DARK, UNSURE = 0.25, 0.02, 1.0
"""Typical error of a surface's colour in stops: paint differs from its drawing, and shadows fall. A dark one is off by more, by the
second number over its linear brightness; one whose colour is hardly known by the third."""
BLURS_PX = (0.0, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)
FINE_PX, COARSE_PX = 0.8, 2.5
NOISE_BINS = 6
VEIL_FRAMES, VEIL_PX, DARKER_PART = 5, 4.0, 0.3
"""Frames that must show a surface at a pixel, the smoothness of light in a lens, and the part of the image that has the least of it."""
NOISE_MASK = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
"""Cancels planes and edges (Immerkaer 1996); six times as strong as white noise."""


@dataclass(frozen=True, eq=False)
class Surfaces:
    """Median linear colours of surfaces: `real` and `sim` (n, 3) of full scale, `weight` (n,), and the `run` (n,) they are from.

    `scatter` (n,) is by how many stops their colours are typically off.
    """

    real: Array
    sim: Array
    weight: Array
    run: Array
    scatter: Array


def read_surfaces(
    real: Array, sim: Array, labels: Array, runs: Sequence[int], unsure: Sequence[int] = ()
) -> Surfaces:
    """Colours of surfaces in frames (n, height, width, 3); `labels` (n, height, width) names the surface of a pixel, -1 is none.

    Of the surfaces `unsure` the simulation hardly knows the colour, such as of a table.
    """
    rows = []
    for run in np.unique(runs):
        frames = np.flatnonzero(np.asarray(runs) == run)
        label, mine, theirs = labels[frames], real[frames], sim[frames]
        for surface in np.unique(label[label >= 0]):
            pixels = label == surface
            one, other = mine[pixels].astype(np.float64), theirs[pixels].astype(np.float64)
            good = (one.max(axis=1) > DARKEST) & (one.max(axis=1) < BRIGHTEST) & (other.max(axis=1) > DARKEST)
            if good.sum() >= FEWEST_PIXELS:
                lit = _lit(one[good], other[good])
                colours = [np.median((side[good][lit] / FULL) ** 2, axis=0) for side in (one, other)]
                # A dark surface shows more of what shines on it from elsewhere than of its own colour.
                scatter = UNSURE if surface in unsure else SCATTER + DARK / float(colours[1].mean())
                rows.append((*colours, np.sqrt(good.sum()), run, scatter))
    if not rows:
        none = np.zeros(0)
        return Surfaces(np.zeros((0, 3)), np.zeros((0, 3)), none, none.astype(np.int64), none)
    return Surfaces(*(np.array(column) for column in zip(*rows, strict=True)))


def _lit(one: Array, other: Array) -> Array:
    """The pixels (n,) of a surface that are not in a shadow: those that are brightest beside the simulated ones."""
    ratio = (one.mean(axis=1) + 1.0) / (other.mean(axis=1) + 1.0)
    return np.asarray(ratio >= np.quantile(ratio, LIT))


def measure_response(surfaces: Surfaces, rows: int, rng: np.random.Generator) -> Array:
    """Exposure, red and blue over green (in stops), and saturation of a real camera over the simulated: draws (rows, 4)."""
    runs = np.unique(surfaces.run)
    if not len(runs):
        return np.tile([0.0, 0.0, 0.0, 1.0], (rows, 1))
    made = []
    for _ in range(rows):
        picked = rng.choice(runs, len(runs))
        count = (picked[:, None] == surfaces.run[None]).sum(axis=0)
        made.append(_fit_response(surfaces, surfaces.weight * count))
    return np.array(made)


def _fit_response(surfaces: Surfaces, weight: Array) -> Array:
    scale = np.sqrt(weight / max(float(weight.sum()), 1e-9))[:, None] * np.sqrt(len(weight))
    measured = np.log2(surfaces.real + 1e-3)

    def residuals(values: Array) -> Array:
        predicted = np.log2(respond(surfaces.sim, values) + 1e-3)
        prior = (values - (0.0, 0.0, 0.0, 1.0)) / RESPONSE_PRIOR
        apart = predicted - measured
        # Shadows only darken: a surface that is too dark says less than one that is too bright.
        apart = np.where(apart.mean(axis=1, keepdims=True) > 0.0, SHADOWED * apart, apart)
        return np.concatenate([(scale * apart / surfaces.scatter[:, None]).ravel(), prior])

    start = np.array([0.0, 0.0, 0.0, 1.0])
    bounds = ([-6.0, -2.0, -2.0, 0.0], [6.0, 2.0, 2.0, 2.0])
    return np.asarray(optimize.least_squares(residuals, start, bounds=bounds, loss="soft_l1").x)


def respond(linear: Array, values: Array) -> Array:
    """Linear colours (..., 3) as a camera with this exposure, red and blue stops and saturation has them."""
    exposure, red, blue, saturation = values
    gains = 2.0 ** (exposure + np.array([red, 0.0, blue]))
    mixed = saturation * np.eye(3) + (1.0 - saturation) / 3.0
    return np.asarray(np.maximum(np.asarray(linear) * gains @ mixed.T, 0.0))


def measure_vignetting(real: Array, surface: Array, focal_px: float, runs: Sequence[int]) -> Array:
    """How much light a lens loses off its axis, in cos^4 laws, for each run (runs,), from the pixels of one `surface` (n, height, width)."""
    height, width = surface.shape[1:]
    x = (np.arange(width) - (width - 1) / 2.0) / focal_px
    y = ((np.arange(height) - (height - 1) / 2.0) / focal_px)[:, None]
    away = np.log(1.0 + x * x + y * y)
    found = []
    for run in np.unique(runs):
        slopes, weights = [], []
        for index in np.flatnonzero(np.asarray(runs) == run):
            light = (real[index].astype(np.float32) @ LUMINANCE.astype(np.float32)) / FULL
            good = surface[index] & (light > DARKEST / FULL) & (light < BRIGHTEST / FULL)
            if good.sum() < 0.1 * good.size:
                continue
            apart, logged = away[good], np.log(light[good] ** 2)
            for _ in range(3):  # what is far below is in a shadow
                slope, height_ = np.polyfit(apart, logged, 1)
                rest = logged - slope * apart - height_
                keep = np.abs(rest) < 2.0 * max(float(np.median(np.abs(rest))), 0.02)
                if keep.sum() < 50:
                    break
                apart, logged = apart[keep], logged[keep]
            slopes.append(slope)
            weights.append(len(apart) * float(np.var(apart)) + 1e-9)
        if slopes:
            found.append(float(np.average(slopes, weights=weights)) / -2.0)
    return np.array(found)


def measure_veil(real: Array, surface: Array, vignetting: float, focal_px: float) -> Array:
    """Light that a lens adds to every frame, (height, width, 3) in levels, from the pixels of one `surface` (n, height, width).

    The camera moves over the surface, so that on average it is as bright at one place of the image as at another, but for vignetting.
    What is brighter at the same place of every image is the lens.
    """
    linear = np.where(surface[..., None], (real.astype(np.float32) / FULL) ** 2, np.nan)
    count = surface.sum(axis=0)
    often = count >= max(VEIL_FRAMES, 0.15 * len(real))
    if often.mean() < 0.2:
        return np.zeros(real.shape[1:])
    usual = np.nanmedian(np.where(often[None, ..., None], linear, 0.0), axis=0)
    height, width = often.shape
    x = (np.arange(width) - (width - 1) / 2.0) / focal_px
    y = ((np.arange(height) - (height - 1) / 2.0) / focal_px)[:, None]
    law = ((1.0 + x * x + y * y) ** (-2.0 * vignetting))[..., None]
    plain = np.quantile((usual / law)[often], DARKER_PART, axis=0)
    more = np.where(often[..., None], np.maximum(usual - plain * law, 0.0), 0.0)
    # Light in a lens has no edges; where no frame shows the surface, it is like beside it.
    spread = [
        ndimage.gaussian_filter(part, (VEIL_PX, VEIL_PX, 0.0)) for part in (more, 1.0 * often[..., None])
    ]
    return np.asarray(FULL * np.sqrt(spread[0] / np.maximum(spread[1], 0.05)))


def without_veil(real: Array, veil: Array) -> Array:
    """Frames (n, height, width, 3) in levels, not rounded, without the light (height, width, 3) that a lens added."""
    return np.asarray(
        np.sqrt(np.maximum(np.square(real.astype(np.float32)) - np.square(veil), 0.0)), np.float32
    )


def without_vignetting(real: Array, vignetting: float, focal_px: float) -> Array:
    """Frames (n, height, width, 3) in levels, not rounded, with the light that a lens lost off its axis."""
    height, width = real.shape[1:3]
    x = (np.arange(width) - (width - 1) / 2.0) / focal_px
    y = ((np.arange(height) - (height - 1) / 2.0) / focal_px)[:, None]
    # Half of the law's power: levels are roots of light.
    return np.asarray(real * ((1.0 + x * x + y * y) ** vignetting)[..., None], np.float32)


def measure_noise(real: Array, runs: Sequence[int]) -> Array:
    """Shot noise at full scale and read noise, fractions of full scale, for each run: (runs, 2)."""
    found = []
    for run in np.unique(runs):
        light, apart = [], []
        for frame in real[np.asarray(runs) == run]:
            for channel in range(3):
                plane = frame[..., channel].astype(np.float32)
                apart.append(np.abs(ndimage.convolve(plane, NOISE_MASK, mode="nearest"))[1:-1, 1:-1].ravel())
                light.append(ndimage.uniform_filter(plane, 5)[1:-1, 1:-1].ravel())
        found.append(_fit_noise(np.concatenate(light), np.concatenate(apart)))
    return np.array(found)


def _fit_noise(light: Array, apart: Array) -> tuple[float, float]:
    good = (light > DARKEST) & (light < BRIGHTEST)
    light, apart = light[good], apart[good]
    if len(light) < 100:
        return 0.0, 0.0
    edges = np.unique(np.quantile(light, np.linspace(0, 1, NOISE_BINS + 1)))
    rows = []
    for low, high in itertools.pairwise(edges):
        inside = (light >= low) & (light <= high)
        if inside.sum() < 50:
            continue
        deviation = 1.4826 * float(np.median(apart[inside])) / 6.0 / FULL
        # Rounding to 8 bits is noise of its own.
        variance = max(deviation**2 - (1.0 / FULL) ** 2 / 12.0, 0.0)
        level = (float(np.median(light[inside])) / FULL) ** 2
        rows.append((0.25, 0.25 / level, variance, inside.sum()))
    table = np.array(rows)
    # Root of light: shot noise is the same everywhere, read noise is larger in the dark.
    scale = np.sqrt(table[:, 3]) / (table[:, 2] + 1e-6)
    fitted, _ = optimize.nnls(table[:, :2] * scale[:, None], table[:, 2] * scale)
    return float(np.sqrt(fitted[0])), float(np.sqrt(fitted[1]))


def measure_blur(real: Array, sim: Array, edges: Array, runs: Sequence[int]) -> Array:
    """Deviation of a Gaussian, in pixels, that makes simulated edges as soft as real ones, for each run (runs,).

    `edges` (n, height, width) marks pixels on edges that both have. A real frame sharper than the simulated one has 0.
    """
    known = [
        np.mean([_softness(frame, mask, blur) for frame, mask in _some(sim, edges)], axis=0)
        for blur in BLURS_PX
    ]
    table = np.array([fine / coarse for fine, coarse in known])
    found = []
    for run in np.unique(runs):
        mine = np.flatnonzero(np.asarray(runs) == run)
        parts = [_softness(real[i], edges[i], 0.0) for i in mine if edges[i].sum() > FEWEST_PIXELS]
        if not parts:
            continue
        fine, coarse = np.mean(parts, axis=0)
        ratio = float(np.clip(fine / max(coarse, 1e-9), table[-1], table[0]))
        found.append(float(np.interp(-ratio, -table, BLURS_PX)))
    return np.array(found)


def _some(frames: Array, edges: Array) -> list[tuple[Array, Array]]:
    picked = [i for i in range(len(frames)) if edges[i].sum() > FEWEST_PIXELS]
    return [(frames[i], edges[i]) for i in picked[:: 1 + len(picked) // 16]]


def _softness(frame: Array, edges: Array, blur_px: float) -> Array:
    """Energy of edges at a fine and at a coarse scale, without what noise adds: (2,)."""
    light = np.asarray(frame, np.float32) @ LUMINANCE.astype(np.float32)
    if blur_px:
        light = ndimage.gaussian_filter(light, blur_px, mode="nearest")
    noise = 1.4826 * float(np.median(np.abs(ndimage.convolve(light, NOISE_MASK)))) / 6.0
    made = []
    for scale in (FINE_PX, COARSE_PX):
        energy = ndimage.gaussian_gradient_magnitude(light, scale, mode="nearest")[edges] ** 2
        made.append(max(float(np.mean(energy)) - noise**2 / (4.0 * np.pi * scale**4), 1e-6))
    return np.array(made)
