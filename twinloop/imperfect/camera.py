"""A camera: from a rendered image to the frame that a real camera would record.

In the order of the light: lens distortion, defocus, motion blur, rolling shutter, exposure and vignetting, flare, shot and read
noise, gain, colour, clipping, 8 bits. Everything between decoding and encoding happens in linear light; the display
curve is taken as gamma 2 because a square and a root cost a twentieth of sRGB's power.

`make_tables` does once per episode what does not change from frame to frame; `capture` is the step. Frames are handled
one after the other because a frame fits the cache and a batch does not: that is faster than one large array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect import compiled
from twinloop.imperfect.flare import Flare, make_flare
from twinloop.imperfect.lens import Lens, defocus, make_defocus, make_remap, make_vignette
from twinloop.imperfect.parameters import Array, Value, broadcast, check_field
from twinloop.imperfect.shutter import Shutter, blur, roll

_FULL_SCALE = 255.0**2
"""Linear light is kept as the square of 0 .. 255, which spares every frame two divisions."""


@dataclass(frozen=True)
class Sensor:
    """`exposure` scales the light before the noise, `gain` the signal after it; a dark scene amplified is a noisy one.

    `full_well_electrons` is how many electrons full scale stands for: the variance of shot noise is signal / full_well.
    Infinite, the default, is a sensor without noise. `white_balance` is (N, 3) or (1, 3), `colour_saturation` 0 is grey.
    """

    exposure: Value = 1.0
    gain: Value = 1.0
    white_balance: Value = 1.0
    colour_saturation: Value = 1.0
    full_well_electrons: Value = np.inf
    read_noise_electrons: Value = 0.0

    def __post_init__(self) -> None:
        for name in ("exposure", "gain", "white_balance", "colour_saturation", "read_noise_electrons"):
            check_field(self, name, at_least=0.0)
        check_field(self, "full_well_electrons", above=0.0, infinite=True)


@dataclass(frozen=True)
class CameraEffects:
    """Everything a camera does to an image; the defaults do nothing."""

    lens: Lens = field(default_factory=Lens)
    shutter: Shutter = field(default_factory=Shutter)
    flare: Flare = field(default_factory=Flare)
    sensor: Sensor = field(default_factory=Sensor)


@dataclass(frozen=True)
class _Table:
    """What one environment's camera needs for every frame."""

    remap: Any
    defocus: tuple[Any, Any] | None
    light: Array | None
    flare: Array | None
    shot_variance: float
    read_variance: float
    colour: Array | None
    exposure_s: float
    line_time_s: float


@dataclass(frozen=True)
class CameraTables:
    """What cameras of one size need for every frame: one table per environment, or one for all."""

    height: int
    width: int
    tables: tuple[_Table, ...]


def make_tables(effects: CameraEffects, environments: int, height: int, width: int) -> CameraTables:
    """Work out what does not change from frame to frame; environments with the same camera share one table."""
    if height < 2 or width < 2:
        raise WrongUse("an image is too small", got=(height, width), expected="at least 2 x 2 pixels")
    parts = (effects.lens, effects.shutter, effects.flare, effects.sensor)
    shared = all(np.shape(getattr(part, f.name))[:1] in ((), (1,)) for part in parts for f in fields(part))
    tables = [
        _make_table(_of_environment(effects, i, environments), height, width)
        for i in range(1 if shared else environments)
    ]
    return CameraTables(height, width, tuple(tables))


def _of_environment(effects: CameraEffects, i: int, environments: int) -> CameraEffects:
    """The effects of environment i alone, as plain numbers (white balance: three)."""
    parts: dict[str, Any] = {}
    for part in fields(effects):
        of_all = getattr(effects, part.name)
        values: dict[str, Any] = {}
        for f in fields(of_all):
            shape = (environments, 3) if f.name == "white_balance" else (environments,)
            values[f.name] = np.broadcast_to(broadcast(getattr(of_all, f.name), shape), shape)[i]
        parts[part.name] = replace(of_all, **values)
    return CameraEffects(**parts)


def _make_table(effects: CameraEffects, height: int, width: int) -> _Table:
    lens, sensor = effects.lens, effects.sensor
    light = make_vignette(lens, height, width) * sensor.exposure
    full_well = float(sensor.full_well_electrons)
    grey = np.full((3, 3), 1.0 / 3.0)
    saturation = sensor.colour_saturation
    colour = (saturation * np.eye(3) + (1.0 - saturation) * grey) * sensor.white_balance * sensor.gain
    return _Table(
        remap=make_remap(lens, height, width),
        defocus=make_defocus(lens, height, width),
        light=None if (light == 1.0).all() else np.repeat(light.astype(np.float32)[..., None], 3, axis=2),
        flare=_scaled(make_flare(effects.flare, height, width)),
        shot_variance=_FULL_SCALE / full_well,
        read_variance=(_FULL_SCALE * float(sensor.read_noise_electrons) / full_well) ** 2,
        colour=None if np.array_equal(colour, np.eye(3)) else colour.astype(np.float32),
        exposure_s=float(effects.shutter.exposure_s),
        line_time_s=float(effects.shutter.line_time_s),
    )


def _scaled(light: Array | None) -> Array | None:
    return None if light is None else light * np.float32(_FULL_SCALE)


def capture(
    tables: CameraTables,
    frames: Array,
    velocity_px_s: Array | None = None,
    normal: Sequence[Array] | Array | None = None,
) -> Array:
    """What the cameras record of `frames` (N, height, width, 3), uint8 or float32 in 0 .. 1, in the same type.

    `velocity_px_s` (N, 2) is how fast each image moves, to the right and down; None is not at all. `normal` is
    standard normal, (N, height, width, 3) or one (height, width, 3) per environment: see `noise.frame_noise`.
    """
    _check_frames(tables, frames, normal)
    recorded = np.empty_like(frames)
    for i, frame in enumerate(frames):
        table = tables.tables[i if len(tables.tables) > 1 else 0]
        image = _decoded(frame)
        if table.remap is not None:
            image = table.remap(image)
        if table.defocus is not None:
            image = defocus(table.defocus, image)
        if velocity_px_s is not None:
            across, down = (float(v) for v in velocity_px_s[i])
            image = blur(image, across * table.exposure_s, down * table.exposure_s)
            image = roll(image, across * table.line_time_s, down * table.line_time_s)
        image = _exposed(table, image, None if normal is None else normal[i])
        _encode(image, recorded[i])
    return recorded


def _decoded(frame: Array) -> Array:
    """A frame as linear light."""
    image = frame.astype(np.float32)
    if frame.dtype != np.uint8:
        image *= np.float32(255.0)
    image *= image
    return image


def _exposed(table: _Table, image: Array, normal: Array | None) -> Array:
    """Light on the sensor turned into its signal."""
    if table.light is not None:
        image *= table.light
    if table.flare is not None:
        image += table.flare
    if normal is not None and table.shot_variance > 0.0:
        deviation = image * np.float32(table.shot_variance)
        deviation += np.float32(table.read_variance)
        np.sqrt(deviation, out=deviation)
        deviation *= normal
        image += deviation
    if table.colour is None:
        return image
    return compiled.transform(image, table.colour) if compiled.available() else image @ table.colour.T


def _encode(image: Array, frame: Array) -> None:
    """Linear light as the display curve, written into `frame`."""
    if frame.dtype == np.uint8 and compiled.available():
        compiled.encode(image, frame)
        return
    np.clip(image, 0.0, _FULL_SCALE, out=image)
    np.sqrt(image, out=image)
    if frame.dtype == np.uint8:
        image += np.float32(0.5)
    else:
        image *= np.float32(1.0 / 255.0)
    np.copyto(frame, image, casting="unsafe")


def _check_frames(tables: CameraTables, frames: Array, normal: Sequence[Array] | Array | None) -> None:
    expected = (tables.height, tables.width, 3)
    if frames.ndim != 4 or frames.shape[1:] != expected or frames.dtype not in (np.uint8, np.float32):
        raise WrongUse(
            "these frames do not fit the camera",
            got=f"{frames.dtype} of shape {frames.shape}",
            expected=f"uint8 or float32 of shape (N, {expected[0]}, {expected[1]}, 3)",
        )
    if len(tables.tables) not in (1, len(frames)):
        raise WrongUse("one frame per environment", got=len(frames), expected=len(tables.tables))
    if normal is None and any(table.shot_variance > 0.0 for table in tables.tables):
        raise WrongUse(
            "the sensor is noisy but no noise was given",
            expected="standard normals, (height, width, 3) per environment",
            remedy="draw them with twinloop.imperfect.noise.frame_noise, keyed by the episode's seed",
        )
