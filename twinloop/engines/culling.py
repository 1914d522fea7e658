"""What a camera cannot see is not drawn: without a graphics card, a shape outside the view costs as much as one inside.

Frames are the same, pixel by pixel. A shape is left out when its bounding sphere is outside the view, and the sky, which costs as much
as ten shapes, when nothing shows it.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from twinloop.episode import Array

AGAIN = 16
"""A camera that saw the sky is drawn with it for so many frames before it is tried without."""
HIDDEN_GROUP = 5
"""A group that `mujoco.MjvOption` does not draw."""


class View:
    """One fixed camera of a model, whose geometry groups it changes while drawing.

    `skies` is how many more frames each camera is drawn with the sky at once; a renderer keeps it.
    """

    def __init__(
        self, model: mujoco.MjModel, camera: str, height: int, width: int, skies: dict[str, int]
    ) -> None:
        self._name, self._skies = camera, skies
        self.camera = mujoco.MjvCamera()
        self.camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self.camera.fixedcamid = model.camera(camera).id
        self.rectangle = mujoco.MjrRect(0, 0, width, height)
        self._model = model
        self._groups = np.array(model.geom_group)
        self._radius = np.where(model.geom_rbound > 0.0, model.geom_rbound, np.inf)[:, None]
        self._normals = _normals(float(model.cam_fovy[self.camera.fixedcamid]), width / height)
        self._pixels = np.empty((height, width, 3), dtype=np.uint8)

    def draw(
        self,
        data: mujoco.MjData,
        scene: mujoco.MjvScene,
        option: mujoco.MjvOption,
        context: mujoco.MjrContext,
    ) -> Array:
        """The frame (height, width, 3), whose memory the next call uses again."""
        model, camera = self._model, self.camera.fixedcamid
        axes = data.cam_xmat[camera].reshape(3, 3)
        outside = ((data.geom_xpos - data.cam_xpos[camera]) @ axes @ self._normals > self._radius).any(axis=1)
        model.geom_group[:] = np.where(outside, HIDDEN_GROUP, self._groups)
        mujoco.mjv_updateScene(model, data, option, None, self.camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
        model.geom_group[:] = self._groups
        for sky in (self._skies.get(self._name, 0) > 0, True):
            scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = sky
            mujoco.mjr_render(self.rectangle, scene, context)
            mujoco.mjr_readPixels(self._pixels, None, self.rectangle, context)
            # What nothing covers is black, as black things are: then the sky is drawn, and from then on at once.
            if sky or self._pixels.min() > 0 or self._pixels.any(axis=2).all():
                break
            self._skies[self._name] = AGAIN
        self._skies[self._name] = self._skies.get(self._name, 0) - 1
        return self._pixels[::-1]


def _normals(fovy_deg: float, aspect: float) -> Array:
    """Outward normals (3, 5) of the view's sides, and of what is behind, in camera axes (x right, y up, z backwards)."""
    up = math.radians(fovy_deg) / 2.0
    across = math.atan(math.tan(up) * aspect)
    sides = [
        (math.cos(across), 0.0, math.sin(across)),
        (-math.cos(across), 0.0, math.sin(across)),
        (0.0, math.cos(up), math.sin(up)),
        (0.0, -math.cos(up), math.sin(up)),
        (0.0, 0.0, 1.0),
    ]
    return np.array(sides).T
