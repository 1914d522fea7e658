"""The look of a rendered model: lights, camera poses, textures and colours.

`apply_appearance` writes one draw into a model used for rendering, always relative to the twin as compiled. What a lens
and a sensor then do to the image belongs to the imperfect-hardware stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.twins.declare import to_identifier
from twinloop.twins.parameter import Parameter
from twinloop.twins.texture import paint_texture
from twinloop.twins.twin import Twin

COLOURS = {
    "as_drawn": None,
    "red": (0.78, 0.16, 0.14),
    "orange": (0.9, 0.45, 0.12),
    "yellow": (0.93, 0.8, 0.2),
    "green": (0.2, 0.6, 0.28),
    "blue": (0.16, 0.36, 0.74),
    "violet": (0.5, 0.3, 0.62),
    "white": (0.92, 0.92, 0.9),
    "black": (0.12, 0.12, 0.13),
}
DAYLIGHT_K = 6500.0


def appearance_parameters(
    lights: int, *, textured: bool = True, object_colour: bool = True
) -> tuple[Parameter, ...]:
    """Appearance parameters of a cell with `lights` lights."""

    def image(
        name: str, nominal: float, low: float, high: float, unit: str, text: str, whole: bool = False
    ) -> Parameter:
        return Parameter(name, nominal, (low, high), unit, "visual", "appearance", text, whole=whole)

    made = [
        image("light_intensity", 1.0, 0.1, 3.0, "1", "brightness of all lights"),
        image("light_azimuth_rad", 0.0, -math.pi, math.pi, "rad", "turn of the lights about the vertical"),
        image("light_tilt_rad", 0.0, -0.6, 0.6, "rad", "tilt of the lights about the x axis"),
        image("light_temperature_k", DAYLIGHT_K, 2500.0, 12000.0, "K", "colour of the lights"),
        image("camera_yaw_rad", 0.0, -0.5, 0.5, "rad", "turn of each camera, left and right"),
        image("camera_pitch_rad", 0.0, -0.5, 0.5, "rad", "turn of each camera, up and down"),
        image("camera_roll_rad", 0.0, -0.5, 0.5, "rad", "turn of each camera about its axis"),
        image("camera_x_m", 0.0, -0.2, 0.2, "m", "shift of each camera to its right"),
        image("camera_y_m", 0.0, -0.2, 0.2, "m", "shift of each camera upwards"),
        image("camera_z_m", 0.0, -0.2, 0.2, "m", "shift of each camera backwards"),
        image("camera_field_of_view_rad", 0.0, -0.3, 0.3, "rad", "widening of each camera's field of view"),
    ]
    if lights > 1:
        made.append(image("light_count", lights, 1, lights, "1", "lights that are on", whole=True))
    if textured:
        text = "which texture of the pool covers table and floor; 0 is as drawn"
        made.append(image("texture_index", 0, 0, 9999, "1", text, whole=True))
    if object_colour:
        made.append(
            Parameter(
                "object_colour",
                "as_drawn",
                dimension="visual",
                stage="appearance",
                description="colour of the object",
                choices=tuple(COLOURS),
            )
        )
    return tuple(made)


CAMERA_QUANTITIES = (
    ("x_m", "m", 2.0, "shift of camera {} to its right"),
    ("y_m", "m", 2.0, "shift of camera {} upwards"),
    ("z_m", "m", 2.0, "shift of camera {} backwards"),
    ("pitch_rad", "rad", math.pi, "turn of camera {}, up and down"),
    ("yaw_rad", "rad", math.pi, "turn of camera {}, left and right"),
    ("roll_rad", "rad", math.pi, "turn of camera {} about its axis"),
    ("field_of_view_rad", "rad", 1.0, "widening of the field of view of camera {}"),
    ("principal_x", "1", 0.5, "principal point of camera {} right of the middle, in image heights"),
    ("principal_y", "1", 0.5, "principal point of camera {} below the middle, in image heights"),
    ("distortion", "1", 0.5, "radial term k1 of camera {} (k2 is its square), beyond the lens's"),
)
"""What may be known of one camera alone: suffix of the parameter, unit, bound and description."""


def camera_parameter(camera: str, quantity: str) -> str:
    """The name of the parameter for one quantity of one camera."""
    return f"camera_{to_identifier(camera)}_{quantity}"


SHARED_POSE = tuple(f"camera_{quantity}" for quantity, *_ in CAMERA_QUANTITIES[:7])
"""Parameters that move every camera of a twin alike, and widen its view."""


def has_aligned_camera(twin: Twin) -> bool:
    """Whether some camera of the twin has been aligned with a real one."""
    own = {parameter.name for camera in twin.cameras for parameter in camera_parameters(camera.name)}
    return any(parameter.name in own and parameter.nominal != 0.0 for parameter in twin.parameters)


def camera_parameters(camera: str) -> tuple[Parameter, ...]:
    """Where one camera stands and how its lens draws, relative to the model; measured by alignment."""
    return tuple(
        Parameter(
            camera_parameter(camera, quantity),
            0.0,
            (-bound, bound),
            unit,
            "visual",
            "appearance",
            text.format(camera),
        )
        for quantity, unit, bound, text in CAMERA_QUANTITIES
    )


def apply_appearance(
    twin: Twin, model: mujoco.MjModel, values: Mapping[str, Any], drawn: mujoco.MjModel | None = None
) -> list[int]:
    """Write one draw's lights, cameras, textures and colours; returns the textures a renderer must upload again.

    `drawn` is the model as it looks without a draw; default: as compiled.

    With a `mujoco.Renderer`, call `mujoco.mjr_uploadTexture(model, renderer._mjr_context, texture)` for each.
    """
    drawn = twin.patch.model if drawn is None else drawn

    def value(name: str) -> float:
        return float(values.get(name, twin.parameter(name).nominal)) if twin.has(name) else 0.0

    if twin.has("light_intensity"):
        _light(
            drawn, model, value, count=int(value("light_count")) if twin.has("light_count") else drawn.nlight
        )
    for camera in twin.cameras:
        own = camera_parameter(camera.name, "yaw_rad")
        if twin.has("camera_yaw_rad") or twin.has(own):
            _aim(drawn, model, camera.name, value)
    if twin.has("object_colour"):
        colour = COLOURS[str(values.get("object_colour", twin.parameter("object_colour").nominal))]
        material = model.material("object").id
        model.mat_rgba[material] = drawn.mat_rgba[material] if colour is None else (*colour, 1.0)
    return _cover(drawn, model, int(value("texture_index"))) if twin.has("texture_index") else []


def _light(drawn: mujoco.MjModel, model: mujoco.MjModel, value: Any, count: int) -> None:
    strength = value("light_intensity") * light_colour(value("light_temperature_k"))
    # The remaining lights take over the light of those that are off: number and brightness vary independently.
    share = drawn.light_diffuse.sum() / max(float(drawn.light_diffuse[:count].sum()), 1e-6)
    azimuth, tilt = value("light_azimuth_rad"), value("light_tilt_rad")
    about_z = np.array(
        [[math.cos(azimuth), -math.sin(azimuth), 0], [math.sin(azimuth), math.cos(azimuth), 0], [0, 0, 1]]
    )
    about_x = np.array([[1, 0, 0], [0, math.cos(tilt), -math.sin(tilt)], [0, math.sin(tilt), math.cos(tilt)]])
    for light in range(drawn.nlight):
        model.light_active[light] = light < count
        model.light_diffuse[light] = drawn.light_diffuse[light] * strength * share
        model.light_specular[light] = drawn.light_specular[light] * strength
        model.light_dir[light] = about_z @ about_x @ drawn.light_dir[light]
    for part in ("ambient", "diffuse"):
        getattr(model.vis.headlight, part)[:] = getattr(drawn.vis.headlight, part) * strength


def light_colour(temperature_k: float) -> Array:
    """Red, green and blue of a black body relative to daylight, mean one.

    Wien's law at 610, 550 and 465 nm: ln(channel) is linear in 1 / temperature.
    """
    wavelengths_m = np.array([610e-9, 550e-9, 465e-9])
    exponent = 0.0143878 / wavelengths_m * (1.0 / DAYLIGHT_K - 1.0 / temperature_k)
    colour = np.exp(exponent)
    return np.asarray(colour / colour.mean())


def _aim(drawn: mujoco.MjModel, model: mujoco.MjModel, name: str, value: Any) -> None:
    """Move one camera by its own values, and from there by those that all cameras share."""
    camera = drawn.camera(name).id
    pos, quat = drawn.cam_pos[camera], drawn.cam_quat[camera]
    for prefix in (camera_parameter(name, ""), "camera_"):
        shift = np.array([value(f"{prefix}{axis}_m") for axis in "xyz"])
        turn = np.array([value(f"{prefix}{angle}_rad") for angle in ("pitch", "yaw", "roll")])
        pos, quat = move_camera(pos, quat, shift, turn)
    model.cam_pos[camera], model.cam_quat[camera] = pos, quat
    widened = value(camera_parameter(name, "field_of_view_rad")) + value("camera_field_of_view_rad")
    model.cam_fovy[camera] = min(max(drawn.cam_fovy[camera] + math.degrees(widened), 5.0), 170.0)


def move_camera(pos: Array, quat: Array, shift: Array, turn: Array) -> tuple[Array, Array]:
    """A camera's pose after a shift to its right, upwards and backwards, and turns in pitch, yaw and roll."""
    turned, step = np.array(quat, np.float64), np.empty(4)
    # MuJoCo cameras look along -z with y up: pitch is about x, yaw about y, roll about z.
    for axis, angle in zip(np.eye(3), turn, strict=True):
        mujoco.mju_axisAngle2Quat(step, axis, angle)
        mujoco.mju_mulQuat(turned, turned.copy(), step)
    moved = np.empty(3)
    mujoco.mju_rotVecQuat(moved, np.asarray(shift, np.float64), np.asarray(quat, np.float64))
    return np.asarray(pos) + moved, turned


def _cover(drawn: mujoco.MjModel, model: mujoco.MjModel, index: int) -> list[int]:
    changed = []
    for name, offset in (("table", 0), ("floor", 1)):
        texture = mujoco.mj_name2id(drawn, mujoco.mjtObj.mjOBJ_TEXTURE, name)
        if texture < 0:
            continue
        start = int(drawn.tex_adr[texture])
        shape = (
            int(drawn.tex_height[texture]),
            int(drawn.tex_width[texture]),
            int(drawn.tex_nchannel[texture]),
        )
        end = start + math.prod(shape)
        if index == 0:
            model.tex_data[start:end] = drawn.tex_data[start:end]
        else:
            model.tex_data[start:end] = paint_texture(2 * index + offset, shape[0], shape[1])[
                ..., : shape[2]
            ].reshape(-1)
        changed.append(texture)
    return changed
