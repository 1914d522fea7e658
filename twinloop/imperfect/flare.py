"""Lens flare: light from a lamp in or near the view that the lens scatters over the image.

A glow around the lamp, a veil over everything, and two ghosts on the line from the lamp through the centre, where
reflections between lens surfaces land. It is added in linear light and does not depend on the image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.imperfect.parameters import Array, Value, check_field

_VEIL = 0.08
_GHOSTS = (
    (-0.6, 0.09, 0.12, (0.6, 1.0, 0.7)),
    (-1.25, 0.16, 0.08, (1.0, 0.7, 0.5)),
)
"""Place along the line (lamp = 1, centre = 0), radius, brightness and tint of each ghost, relative to the lamp."""


@dataclass(frozen=True)
class Flare:
    """`strength` is the glow at the lamp as a fraction of full scale; `x` and `y` run from 0 to 1 over the image.

    The lamp may be outside the image. `radius` is where the glow has halved, as a fraction of the image's height.
    """

    strength: Value = 0.0
    x: Value = 0.5
    y: Value = 0.0
    radius: Value = 0.12

    def __post_init__(self) -> None:
        check_field(self, "strength", at_least=0.0)
        check_field(self, "x")
        check_field(self, "y")
        check_field(self, "radius", above=0.0)


def make_flare(flare: Flare, height: int, width: int) -> Array | None:
    """The light one environment's flare adds: (height, width, 3) float32, or None when there is no flare."""
    if not flare.strength:
        return None
    # Lengths are in image heights, so that a flare is round whatever the format.
    aspect = width / height
    x = (np.arange(width) + 0.5) / height - aspect / 2.0
    y = ((np.arange(height) + 0.5) / height - 0.5)[:, None]
    lamp_x, lamp_y = (flare.x - 0.5) * aspect, flare.y - 0.5
    away = ((x - lamp_x) ** 2 + (y - lamp_y) ** 2) / flare.radius**2
    light = np.repeat((1.0 / (1.0 + away) + _VEIL)[..., None], 3, axis=2)
    for along, radius, brightness, tint in _GHOSTS:
        distance = np.hypot(x - along * lamp_x, y - along * lamp_y)
        # A ghost is an image of the aperture: a disc with an edge a hundredth of the image wide.
        disc = np.clip((radius - distance) / 0.01 + 0.5, 0.0, 1.0)
        light += disc[..., None] * brightness * np.array(tint)
    return (flare.strength * light).astype(np.float32)
