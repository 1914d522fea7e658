"""Images of episodes: each episode's look is set up once, then its frames are rendered in a row.

Rendering after the fact, episode by episode, spares uploading textures and lights for every frame of a mixed batch. The
geometry is the twin's drawn one, without shadows, which without a graphics card cost fifteen times everything else.
What lens and sensor do follows in `twinloop.imperfect.camera`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from twinloop.engines.culling import View
from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.imperfect.camera import CameraEffects, Sensor, capture, make_tables
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens, focal_px
from twinloop.imperfect.noise import frame_noise
from twinloop.imperfect.shutter import Shutter, image_velocity_px_s
from twinloop.tasks import Cell
from twinloop.twins import Twin, apply_appearance, camera_parameter
from twinloop.twins.images import make_drawn_model, photographs

Values = Mapping[str, float | str]

_NOISELESS_ELECTRONS = 1e9
_VIEW_DISTANCE_M = 0.6
"""How far away the scene is taken to be when a moving camera blurs it."""


class Renderer:
    """Renders the cameras of one cell; holds one graphics context, so keep one per process and close it."""

    def __init__(self, cell: Cell, cameras: Sequence[str]) -> None:
        self._twin = cell.twin
        self._cameras = [next(c for c in cell.twin.cameras if c.name == name) for name in cameras]
        self._drawn = make_drawn_model(cell.twin)
        self._model = make_drawn_model(cell.twin)
        self._covers = photographs(cell.twin, "cover")
        self._veils = photographs(cell.twin, "veil")
        self._data = mujoco.MjData(self._model)
        width = max(camera.width for camera in self._cameras)
        height = max(camera.height for camera in self._cameras)
        self._context = open_context(width, height)
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        self._renderer = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
        self._scene = mujoco.MjvScene(self._model, maxgeom=1000)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = False
        self._option = mujoco.MjvOption()
        self._look: Values | None = None
        self._skies: dict[str, int] = {}

    def paint(self, values: Values, seed: int, qpos: Array, mocap: Array) -> dict[str, Array]:
        """Frames of one episode by camera, (T, height, width, 3) uint8, for states qpos (T, nq).

        `values` is the episode's draw; `mocap` (nmocap, 3) stays the same throughout. The observation delay shows older
        states.
        """
        self._context.make_current()
        self._prepare(values)
        late = round(_number(self._twin, values, "observation_delay_s") * self._twin.control_hz)
        shown = np.maximum(np.arange(len(qpos)) - late, 0)
        frames, poses = self._render(qpos, mocap)
        made = {}
        for camera in self._cameras:
            place, turn = poses[camera.name]
            ideal = frames[camera.name]
            rows = np.arange(len(qpos))
            seen = _through_camera(self._twin, values, seed, camera.name, ideal, rows, place, turn)
            seen = self._veiled(camera.name, seen)
            made[camera.name] = seen[shown] if late else seen
        return made

    def paint_newest(self, values: Values, seed: int, qpos: Array, mocap: Array) -> dict[str, Array]:
        """The last of the frames that `paint` gives for these states, (height, width, 3), without drawing the others.

        An episode's very first frame has no motion blur here, because nothing has moved yet.
        """
        self._context.make_current()
        self._prepare(values)
        late = round(_number(self._twin, values, "observation_delay_s") * self._twin.control_hz)
        row = max(len(qpos) - 1 - late, 0)
        states = qpos[max(row - 1, 0) : row + 1]
        frames, poses = self._render(states, mocap, drawn=1)
        made = {}
        for camera in self._cameras:
            ideal, newest = frames[camera.name], np.array([row])
            seen = _through_camera(self._twin, values, seed, camera.name, ideal, newest, *poses[camera.name])
            made[camera.name] = self._veiled(camera.name, seen)[0]
        return made

    def _veiled(self, camera: str, frames: Array) -> Array:
        """Frames (n, height, width, 3) with the light that the camera's lens adds to each, where the twin has such a photograph."""
        if camera not in self._veils:
            return frames
        light = np.square(frames.astype(np.float32)) + np.square(self._veils[camera].astype(np.float32))
        return np.asarray(np.minimum(np.rint(np.sqrt(light)), 255.0), np.uint8)

    def close(self) -> None:
        """Give the graphics context back."""
        self._renderer.free()
        self._context.free()

    def _prepare(self, values: Values) -> None:
        if values == self._look:
            return
        self._look = dict(values)
        self._twin.patch.apply_to_model(self._model, self._twin.values(values))
        for texture in apply_appearance(self._twin, self._model, values, self._drawn):
            mujoco.mjr_uploadTexture(self._model, self._renderer, texture)

    def _render(
        self, qpos: Array, mocap: Array, drawn: int | None = None
    ) -> tuple[dict[str, Array], dict[str, tuple[Array, Array]]]:
        """Frames of the last `drawn` states, all by default, and camera poses of all of them."""
        first = 0 if drawn is None else len(qpos) - drawn
        model, data, scene = self._model, self._data, self._scene
        data.mocap_pos[:] = mocap
        views = []
        frames, poses = {}, {}
        for camera in self._cameras:
            frame = np.empty((len(qpos) - first, camera.height, camera.width, 3), dtype=np.uint8)
            pose = np.empty((len(qpos), 3)), np.empty((len(qpos), 9))
            frames[camera.name], poses[camera.name] = frame, pose
            views.append((View(model, camera.name, camera.height, camera.width, self._skies), frame, pose))
        for row, state in enumerate(qpos):
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_camlight(model, data)
            for view, frame, (place, turn) in views:
                number = view.camera.fixedcamid
                place[row], turn[row] = data.cam_xpos[number], data.cam_xmat[number]
                if row >= first:
                    frame[row - first] = view.draw(data, scene, self._option, self._renderer)
        for camera in self._cameras:
            if camera.name in self._covers:
                frames[camera.name] = _covered(frames[camera.name], self._covers[camera.name])
        return frames, poses


def open_context(width: int, height: int) -> Any:
    """A graphics context without a window: EGL, or OSMesa where there is no EGL."""
    reasons = []
    for name in ("egl", "osmesa"):
        try:
            module = __import__(f"mujoco.{name}", fromlist=["GLContext"])
            context = module.GLContext(width, height)
            context.make_current()
        except (ImportError, RuntimeError, AttributeError, OSError) as error:
            reasons.append(f"{name}: {error}")
        else:
            return context
    raise TwinloopError(
        "this machine cannot render without a window",
        got="; ".join(reasons),
        remedy="apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri; `twinloop doctor` tells what is missing",
    )


def _through_camera(
    twin: Twin, values: Values, seed: int, name: str, frames: Array, rows: Array, place: Array, turn: Array
) -> Array:
    """What a real camera would have recorded of rendered frames, `rows` (F,) of one episode.

    `place` and `turn` are the camera's poses then and, where there are more of them, in the rows before.
    """

    def number(parameter: str) -> float:
        return _number(twin, values, parameter)

    height, width = frames.shape[1:3]
    field_of_view = math.radians(float(twin.patch.model.camera(name).fovy[0]))
    shot, read = number("shot_noise"), number("read_noise")
    electrons = shot**-2 if shot > 0.0 else (_NOISELESS_ELECTRONS if read > 0.0 else np.inf)
    distortion = number("lens_distortion") + number(camera_parameter(name, "distortion"))
    widened = number("camera_field_of_view_rad") + number(camera_parameter(name, "field_of_view_rad"))
    lens = Lens(
        k1=distortion,
        # With k2 = k1^2 the image folds over itself for no k1 and no field of view.
        k2=distortion * distortion,
        field_of_view_rad=field_of_view + widened,
        principal_x=number(camera_parameter(name, "principal_x")),
        principal_y=number(camera_parameter(name, "principal_y")),
        vignetting=number("lens_vignetting"),
        blur_px=number("lens_blur_px"),
    )
    white_balance = _balance(number("white_balance_red_stops"), number("white_balance_blue_stops"))
    effects = CameraEffects(
        lens=lens,
        shutter=Shutter(number("motion_blur_s"), number("rolling_shutter_s") / height),
        flare=Flare(number("lens_flare")),
        sensor=Sensor(
            exposure=2.0 ** number("exposure_stops"),
            white_balance=white_balance,
            colour_saturation=number("colour_saturation") if twin.has("colour_saturation") else 1.0,
            full_well_electrons=electrons,
            read_noise_electrons=read * electrons if read > 0.0 else 0.0,
        ),
    )
    if np.ndim(white_balance) == 0 and effects == CameraEffects(
        lens=Lens(field_of_view_rad=lens.field_of_view_rad)
    ):
        return frames
    moves = effects.shutter != Shutter()
    velocity = None
    if moves:
        velocity = _image_velocity(twin, focal_px(lens, height), place, turn)[-len(frames) :]
    noise = None
    if np.isfinite(electrons):
        seeds = np.full(len(frames), seed, dtype=np.int64)
        noise = frame_noise(seeds, f"camera.{name}", rows, (height, width, 3))
    return capture(make_tables(effects, 1, height, width), frames, velocity, noise)


def _balance(red_stops: float, blue_stops: float) -> Any:
    """White balance as the sensor takes it: (1, 3), or 1 for none."""
    return np.array([[2.0**red_stops, 1.0, 2.0**blue_stops]]) if red_stops or blue_stops else 1.0


def _covered(frames: Array, cover: Array) -> Array:
    """Frames (n, height, width, 3) behind a cover (height, width, 4) whose fourth channel is how much it hides."""
    part = cover[..., 3:].astype(np.float32) / np.float32(255.0)
    return np.asarray(np.rint(frames * (1.0 - part) + cover[..., :3] * part), np.uint8)


def _image_velocity(twin: Twin, focal: float, place: Array, turn: Array) -> Array:
    """How fast the image of a moving camera moves, (T, 2), from its poses: place (T, 3), matrix (T, 9)."""
    if len(place) < 2:
        return np.zeros((len(place), 2))
    matrices = turn.reshape(-1, 3, 3)
    # MuJoCo's cameras have y up and look along -z; images have y down and z forward.
    axes = matrices * np.array([1.0, -1.0, -1.0])
    relative = axes[:-1].transpose(0, 2, 1) @ axes[1:]
    turning = (
        0.5
        * twin.control_hz
        * np.stack(
            [
                relative[:, 2, 1] - relative[:, 1, 2],
                relative[:, 0, 2] - relative[:, 2, 0],
                relative[:, 1, 0] - relative[:, 0, 1],
            ],
            axis=-1,
        )
    )
    moving = twin.control_hz * (axes[:-1].transpose(0, 2, 1) @ np.diff(place, axis=0)[:, :, None])[:, :, 0]
    velocity = image_velocity_px_s(focal, turning, moving, _VIEW_DISTANCE_M)
    return np.concatenate([velocity[:1], velocity])


def _number(twin: Twin, values: Values, name: str) -> float:
    return float(values.get(name, twin.parameter(name).nominal)) if twin.has(name) else 0.0
