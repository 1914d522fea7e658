"""The stand-in's cameras: the scene as Bullet has it, rendered with its own appearance by an imperfect camera.

The appearance differs from the twin's by design: other textures on table and floor, a room instead of a sky, another
robot colour, warmer light from another direction, and sensor noise. The visual block changes it further.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.imperfect import camera as cameras
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.noise import frame_noise
from twinloop.robots.standin.effects import Visual
from twinloop.tasks import Cell
from twinloop.twins.appearance import light_colour
from twinloop.twins.texture import paint_texture

_PAINT = np.array([0.86, 0.83, 0.76])
_COVER = np.array([52, 54, 60], np.uint8)
_ROOM = np.array([0.30, 0.31, 0.27])


class CameraModel:
    """Renders one episode of `model`, whose appearance it changes."""

    def __init__(self, cell: Cell, model: mujoco.MjModel, visual: Visual, seed: int) -> None:
        self._cell, self._visual, self._seed = cell, visual, seed
        self._model = model
        self._data = mujoco.MjData(model)
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        self._tables: dict[str, cameras.CameraTables] = {}
        self._frames = 0
        _set_appearance(model, visual)
        for declared in cell.twin.cameras:
            _aim(model, model.camera(declared.name).id, visual)

    def capture(self, name: str, qpos: Array, mocap_pos: Array) -> Array:
        """The camera's image of a pose: (height, width, 3) uint8."""
        declared = next(c for c in self._cell.twin.cameras if c.name == name)
        self._data.qpos[:], self._data.mocap_pos[:] = qpos, mocap_pos
        mujoco.mj_forward(self._model, self._data)
        renderer = self._renderer(declared.height, declared.width)
        renderer.update_scene(self._data, name)
        image = renderer.render()
        if self._visual.covered_fraction:
            image = image.copy()
            image[:, : round(self._visual.covered_fraction * declared.width)] = _COVER
        if self._visual.blur_px:
            from scipy.ndimage import gaussian_filter

            sigma = (self._visual.blur_px, self._visual.blur_px, 0.0)
            image = gaussian_filter(image.astype(np.float32), sigma).astype(np.uint8)
        self._frames += 1
        normal = frame_noise(np.array([self._seed]), name, self._frames, (declared.height, declared.width, 3))
        return np.asarray(
            cameras.capture(self._table(name, declared.height, declared.width), image[None], None, normal)[0]
        )

    def close(self) -> None:
        """Free the graphics memory."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def _renderer(self, height: int, width: int) -> mujoco.Renderer:
        if (height, width) not in self._renderers:
            try:
                self._renderers[height, width] = mujoco.Renderer(self._model, height, width)
            except Exception as error:
                raise RobotError(
                    "the stand-in cannot render on this machine",
                    got=type(error).__name__,
                    remedy="run `twinloop doctor` to see what is missing, or record without cameras",
                ) from error
        return self._renderers[height, width]

    def _table(self, name: str, height: int, width: int) -> cameras.CameraTables:
        if name not in self._tables:
            visual = self._visual
            field = math.radians(float(self._model.camera(name).fovy[0]))
            effects = cameras.CameraEffects(
                lens=Lens(k1=visual.distortion, field_of_view_rad=field, vignetting=visual.vignetting),
                flare=Flare(visual.flare, x=0.85, y=0.05),
                sensor=cameras.Sensor(
                    exposure=2.0**visual.exposure_stops,
                    white_balance=light_colour(visual.light_temperature_k)[None],
                    colour_saturation=visual.saturation,
                    full_well_electrons=visual.full_well_electrons,
                    read_noise_electrons=visual.read_noise_electrons,
                ),
            )
            self._tables[name] = cameras.make_tables(effects, 1, height, width)
        return self._tables[name]


def _set_appearance(model: mujoco.MjModel, visual: Visual) -> None:
    """Give the model the stand-in's appearance: lights, textures, a room, robot colour."""
    azimuth = visual.light_azimuth_rad + 1.1
    turn = np.array([[math.cos(azimuth), -math.sin(azimuth)], [math.sin(azimuth), math.cos(azimuth)]])
    for light in range(model.nlight):
        model.light_dir[light, :2] = turn @ model.light_dir[light, :2]
        model.light_diffuse[light] *= visual.light_intensity * (1.15 if light == 0 else 0.5)
    model.vis.headlight.ambient[:] *= 0.8 * visual.light_intensity
    model.vis.headlight.diffuse[:] *= visual.light_intensity
    for texture in range(model.ntex):
        start, channels = int(model.tex_adr[texture]), int(model.tex_nchannel[texture])
        height, width = int(model.tex_height[texture]), int(model.tex_width[texture])
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            pixels = np.broadcast_to(255.0 * _ROOM, (height, width, 3)).astype(np.uint8)
        else:
            pixels = paint_texture(2 * visual.texture_index + texture, height, width)
        model.tex_data[start : start + height * width * channels] = pixels[..., :channels].reshape(-1)
    for material in range(model.nmat):
        colour = model.mat_rgba[material, :3]
        pale = colour.min() > 0.8
        model.mat_rgba[material, :3] = (
            _PAINT * colour if pale else np.clip(colour * (0.85, 0.9, 1.05), 0.0, 1.0)
        )


def _aim(model: mujoco.MjModel, camera: int, visual: Visual) -> None:
    quat, turned, turn, shift = np.array(model.cam_quat[camera]), np.empty(4), np.empty(4), np.empty(3)
    mujoco.mju_rotVecQuat(shift, np.array([visual.camera_x_m, visual.camera_y_m, visual.camera_z_m]), quat)
    angles = (visual.camera_pitch_rad, visual.camera_yaw_rad, visual.camera_roll_rad)
    for axis, angle in enumerate(angles):
        mujoco.mju_axisAngle2Quat(turn, np.eye(3)[axis], angle)
        mujoco.mju_mulQuat(turned, quat, turn)
        quat = turned.copy()
    model.cam_quat[camera] = quat
    model.cam_pos[camera] += shift
