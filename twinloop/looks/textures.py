"""Texture and background: what colour the real table and floor have, once light and lens are taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from twinloop.episode import Array
from twinloop.looks.frames import CameraFrames
from twinloop.looks.measured import LookQuantity, look_quantity
from twinloop.looks.surface import (
    FEWEST_PIXELS,
    FEWEST_TEXELS,
    MOST,
    SurfaceMap,
    fill_surface,
    paint_surface,
)
from twinloop.measure.photometry import FULL
from twinloop.stats.bootstrap import resampled_means
from twinloop.twins import Twin
from twinloop.twins.images import asset_name, encode_photograph

RELEVANT_LEVELS = 15.0
"""Mean difference of a surface's colour from the drawn one, of 255, that is another surface."""
BRIGHTEST = 0.95
"""No surface reflects more light than falls on it: where this fraction of one would, the light is stronger than thought."""


@dataclass(frozen=True, eq=False)
class Textures:
    """The measured surfaces: quantities, photographs, and the pixels' own colours (n, height, width, 3) in levels, light taken away.

    `values` corrects what was measured of the light; `painted` has each surface's colours and how many pixels show them.
    """

    own: Array
    painted: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    quantities: tuple[LookQuantity, ...] = ()
    values: Mapping[str, dict[str, Array]] = field(default_factory=dict)
    assets: Mapping[str, bytes] = field(default_factory=dict)


def measure_textures(
    twin: Twin,
    frames: CameraFrames,
    surfaces: list[SurfaceMap],
    light: Mapping[str, Mapping[str, Array]],
    rows: int,
    rng: np.random.Generator,
) -> Textures:
    """Colours of the surfaces that have a texture, place by place."""
    own = _own_colours(frames, surfaces, light)
    everywhere = np.concatenate([own[one.texel >= 0] for one in surfaces]) if surfaces else np.zeros((0, 3))
    values: dict[str, dict[str, Array]] = {}
    if len(everywhere):
        excess = float(np.quantile(everywhere.max(axis=1), BRIGHTEST)) / MOST
        if excess > 1.0:
            own = own / excess
            exposure = light.get("light and colour", {}).get("exposure_stops", np.zeros(rows))
            values["light and colour"] = {"exposure_stops": exposure + 2.0 * np.log2(excess)}
    quantities, painted, assets = [], {}, {}
    for one in surfaces:
        colours, count = paint_surface(own, one.texel)
        painted[one.texture] = colours, count
        if (count >= FEWEST_PIXELS).sum() < FEWEST_TEXELS:
            continue
        drawn = frames.sim / np.maximum(one.shade, 1e-3)
        apart = [
            float(np.abs(colours[one.texel[i][one.texel[i] >= 0]] - drawn[i][one.texel[i] >= 0]).mean())
            for i in range(len(drawn))
            if (one.texel[i] >= 0).any()
        ]
        draws = resampled_means(np.array(apart), rows, rng)
        camera = frames.evidence.camera
        words = f"difference of the {one.texture}"
        quantities.append(
            look_quantity("texture and background", words, camera, "levels", 0.0, draws, RELEVANT_LEVELS)
        )
        if quantities[-1].differs:
            assets[asset_name("surface", one.texture)] = encode_photograph(fill_surface(colours, count))
    return Textures(own, painted, tuple(quantities), values, assets)


def _own_colours(
    frames: CameraFrames, surfaces: list[SurfaceMap], light: Mapping[str, Mapping[str, Array]]
) -> Array:
    """What colour pixels of surfaces have in white light, in levels; elsewhere without meaning."""
    linear = (frames.real.astype(np.float64) / FULL) ** 2
    part = {name: float(np.median(draws)) for name, draws in light.get("light and colour", {}).items()}
    saturation = max(part.get("colour_saturation", 1.0), 0.2)
    mixed = np.linalg.inv(saturation * np.eye(3) + (1.0 - saturation) / 3.0)
    balance = np.array(
        [part.get("white_balance_red_stops", 0.0), 0.0, part.get("white_balance_blue_stops", 0.0)]
    )
    linear = np.maximum(linear @ mixed.T, 0.0) / 2.0 ** (part.get("exposure_stops", 0.0) + balance)
    shade = np.ones(linear.shape)
    for one in surfaces:
        shade = np.where((one.texel >= 0)[..., None], one.shade, shade)
    return np.asarray(FULL * np.sqrt(linear) / shade)
