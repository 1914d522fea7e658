"""Real frames of one camera beside the twin's, from where the real camera stands and through its lens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import mujoco
import numpy as np
from scipy import ndimage

from twinloop.episode import Array
from twinloop.looks.evidence import LookEvidence
from twinloop.twins import Twin


@dataclass(frozen=True, eq=False)
class CameraFrames:
    """Real frames (n, height, width, 3), without what a lens adds once that is known, and the twin's, `sim`, of the same joint states.

    `geoms` is the geometry at each pixel.

    `lens` says which ideal pixel (rows, columns) each pixel shows; `known` are pixels of what the recordings place and nothing covers;
    `cover` (height, width, 4) is what covers the lens.
    """

    evidence: LookEvidence
    real: Array
    sim: Array
    geoms: Array
    lens: tuple[Array, Array]
    focal_px: float
    known: Array
    cover: Array

    def without(self, cover: Array) -> CameraFrames:
        """The same frames, of which what is behind a cover (height, width, 4) counts for nothing."""
        return replace(self, cover=cover, known=self.known & (cover[..., 3] == 0))

    def textured(self, twin: Twin) -> Array:
        """Pixels (n, height, width) of surfaces that have a texture, such as table and floor."""
        return np.isin(self.geoms, _textured(twin.patch.model))

    def labels(self, twin: Twin, blur_px: float) -> tuple[Array, list[int]]:
        """The number of the surface at each pixel, -1 at borders (as far as a blur carries colours over them) and where nothing is
        known; and those with a texture, of which the twin hardly knows the colour."""
        there = np.where(self.known, self.geoms, -1)
        side = 3 + 2 * math.ceil(1.5 * blur_px)
        inner = ndimage.minimum_filter(there, (1, side, side)) == ndimage.maximum_filter(
            there, (1, side, side)
        )
        return np.where(inner, there, -1), _textured(twin.patch.model).tolist()

    def on_role(self, twin: Twin, role: str) -> Array:
        """Pixels (n, height, width) that show the body of a role."""
        if role not in twin.roles:
            return np.zeros(self.geoms.shape, dtype=bool)
        model = twin.patch.model
        body = model.body(twin.role(role)).id
        return np.isin(self.geoms, np.flatnonzero(model.geom_bodyid == body)) & self.known


def _textured(model: mujoco.MjModel) -> Array:
    return np.flatnonzero([_has_texture(model, geom) for geom in range(model.ngeom)])


def _has_texture(model: mujoco.MjModel, geom: int) -> bool:
    material = int(model.geom_matid[geom])
    return material >= 0 and bool((model.mat_texid[material] >= 0).any())


def camera_moves(twin: Twin, camera: str) -> bool:
    """Whether a camera is on a part of the robot."""
    model = twin.patch.model
    return int(model.body_weldid[model.camera(camera).bodyid[0]]) != 0
