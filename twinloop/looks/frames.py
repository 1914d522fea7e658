"""Real frames of one camera beside the twin's, from where the real camera stands and through its lens."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy import ndimage

from twinloop.episode import Array
from twinloop.looks.evidence import LookEvidence
from twinloop.twins import Twin


@dataclass(frozen=True, eq=False)
class CameraFrames:
    """The twin's frames `sim` (n, height, width, 3) of the same joint states, and the geometry at each pixel, `geoms`.

    `lens` says which ideal pixel (rows, columns) each pixel shows; `known` are pixels of what the recordings place.
    """

    evidence: LookEvidence
    sim: Array
    geoms: Array
    lens: tuple[Array, Array]
    focal_px: float
    known: Array

    def labels(self, twin: Twin) -> Array:
        """Pixels of surfaces whose colour the twin knows, by number: not of those with a texture, nor at a border; -1 elsewhere."""
        model = twin.patch.model
        textured = np.flatnonzero([_has_texture(model, geom) for geom in range(model.ngeom)])
        plain = np.where(np.isin(self.geoms, textured) | ~self.known, -1, self.geoms)
        inner = ndimage.minimum_filter(plain, (1, 3, 3)) == ndimage.maximum_filter(plain, (1, 3, 3))
        return np.where(inner, plain, -1)

    def on_role(self, twin: Twin, role: str) -> Array:
        """Pixels (n, height, width) that show the body of a role."""
        if role not in twin.roles:
            return np.zeros(self.geoms.shape, dtype=bool)
        model = twin.patch.model
        body = model.body(twin.role(role)).id
        return np.isin(self.geoms, np.flatnonzero(model.geom_bodyid == body))


def _has_texture(model: mujoco.MjModel, geom: int) -> bool:
    material = int(model.geom_matid[geom])
    return material >= 0 and bool((model.mat_texid[material] >= 0).any())
