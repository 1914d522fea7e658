"""Occlusion and clutter: what covers a lens, and things on the table that the twin does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from twinloop.episode import Array
from twinloop.looks.cover import SMALLEST_COVER
from twinloop.looks.frames import CameraFrames
from twinloop.looks.measured import LookQuantity, look_quantity
from twinloop.looks.surface import SIDE, SurfaceMap, paint_surface
from twinloop.looks.textures import Textures
from twinloop.stats.bootstrap import resampled_means
from twinloop.twins import Twin
from twinloop.twins.images import asset_name, encode_photograph

FOREIGN_LEVELS = 40.0
"""A place of the table with something on it has another colour than in other runs, by so many levels."""
SAME_HUE = 0.06
"""Difference of the channels' fractions by which a shadow's colour may differ: light from elsewhere falls into it."""
SMALLEST_M2, LARGEST_M2 = 6e-4, 2e-2
"""Sizes on the table of things that count as clutter: smaller ones are shadows' edges, larger ones shadows."""
LAYOUTS = 10_000


@dataclass(frozen=True, eq=False)
class Clutter:
    """What was found, the twin's parameters that put it in, and a photograph of what covers the lens."""

    quantities: tuple[LookQuantity, ...] = ()
    values: Mapping[str, Array] = field(default_factory=dict)
    assets: Mapping[str, bytes] = field(default_factory=dict)


def measure_clutter(
    twin: Twin,
    frames: CameraFrames,
    surfaces: list[SurfaceMap],
    textures: Textures,
    rows: int,
    rng: np.random.Generator,
) -> Clutter:
    """What covers the lens, and how many things stand on the table in each run."""
    camera = frames.evidence.camera
    hidden = np.full(rows, float(frames.cover[..., 3].mean()) / 255.0)
    quantities = [
        look_quantity(
            "occlusion and clutter", "covered part of the image", camera, "1", 0.0, hidden, SMALLEST_COVER
        )
    ]
    assets = {}
    if quantities[0].differs:
        assets[asset_name("cover", camera)] = encode_photograph(frames.cover)
    values: dict[str, Array] = {}
    counts = np.array(
        [_count_things(twin, frames, surfaces, textures, run) for run in np.unique(frames.evidence.runs)]
    )
    if len(counts) > 1:
        draws = resampled_means(counts.astype(np.float64), rows, rng)
        quantities.append(
            look_quantity("occlusion and clutter", "things on the table", camera, "1", 0.0, draws, 0.75)
        )
        if quantities[-1].differs and twin.has("clutter_count"):
            high = twin.parameter("clutter_count").bounds[1]
            values["clutter_count"] = np.clip(np.rint(rng.choice(counts, rows)), 0, high)
            values["clutter_layout"] = rng.integers(0, LAYOUTS, rows).astype(np.float64)
    return Clutter(tuple(quantities), values, assets)


def _shadowed(colours: Array, usual: Array) -> Array:
    """Where colours (n, 3) are the usual ones, only darker."""
    hues = [side / np.maximum(side.sum(axis=1, keepdims=True), 1.0) for side in (colours, usual)]
    return np.asarray(
        (np.abs(hues[0] - hues[1]).max(axis=1) < SAME_HUE) & (colours.sum(axis=1) < usual.sum(axis=1))
    )


def _count_things(
    twin: Twin, frames: CameraFrames, surfaces: list[SurfaceMap], textures: Textures, run: int
) -> int:
    """Places of the table that have another colour in this run than usual, and are as large as things are."""
    mine = frames.evidence.runs == run
    count = 0
    for one in surfaces:
        usual, _ = textures.painted[one.texture]
        colours, seen = paint_surface(textures.own[mine], one.texel[mine])
        other = (np.abs(colours - usual).max(axis=1) > FOREIGN_LEVELS) & (seen >= 2)
        other &= ~_shadowed(colours, usual)
        label, found = ndimage.label(ndimage.binary_opening(other.reshape(SIDE, SIDE)))
        sizes = ndimage.sum_labels(label > 0, label, np.arange(1, found + 1)) * one.texel_m**2
        count += int(((sizes > SMALLEST_M2) & (sizes < LARGEST_M2)).sum())
    # An object that nothing perceived is a thing on the table too.
    return max(count - (0 if frames.evidence.placed else int("object" in twin.roles)), 0)
