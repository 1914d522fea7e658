"""The real table and floor as textures: every pixel of a real frame belongs to a known place of a surface, and most frames agree on its colour."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy import ndimage

from twinloop.engines.survey import survey
from twinloop.episode import Array
from twinloop.looks.evidence import LookEvidence
from twinloop.tasks import make_cell
from twinloop.twins import Twin
from twinloop.twins.images import texture_names, with_photographs

SIDE = 256
"""Height and width of a texture; coded in a colour, 8 bits say no more."""
LEVELS = 64
UNSHADED = 0.7
"""The colour below which this fraction of a place's pixels are: shadows only darken."""
DARK = 0.55
"""Less than this of the usual brightness is a shadow."""
FEWEST_TEXELS = 400
FEWEST_PIXELS = 3
GREY = 128
MOST = 255.0


@dataclass(frozen=True, eq=False)
class SurfaceMap:
    """Where pixels (n, height, width) lie on one surface: `texel` (-1 is elsewhere), and how bright light makes a white one there, `shade`.

    `texel_m` is how long a texel is.
    """

    texture: str
    texel: Array
    shade: Array
    texel_m: float


def map_surfaces(
    twin: Twin, evidence: LookEvidence, values: dict[str, float], lens: tuple[Array, Array], clear: Array
) -> list[SurfaceMap]:
    """The surfaces with a texture that a camera sees.

    `lens` says which ideal pixel each pixel shows, `clear` (height, width) where nothing covers the lens.
    """
    model = twin.patch.model
    steps = np.linspace(0, 255, SIDE)
    # A texture's first row is at the bottom.
    code = np.stack(np.broadcast_arrays(steps[None, :], steps[:, None], 255.0), axis=-1).astype(np.uint8)
    names = texture_names(model)
    coded = with_photographs(twin, "surface", dict.fromkeys(names, code))
    grey = with_photographs(twin, "surface", dict.fromkeys(names, np.full((8, 8, 3), GREY, np.uint8)))
    where = survey(make_cell(coded), evidence.camera, evidence.qpos, evidence.mocap, values, unlit=True)
    light = survey(make_cell(grey), evidence.camera, evidence.qpos, evidence.mocap, values)
    rows, columns = lens
    frames, geoms, depth, lit = (
        part[:, rows, columns] for part in (where.frames, where.geoms, where.depth, light.frames)
    )
    made = []
    for name in names:
        on = np.isin(geoms, _geoms_with(model, name)) & clear
        # Colours mix at a border.
        on = ndimage.minimum_filter(on, (1, 7, 7))
        if on.sum() < FEWEST_TEXELS:
            continue
        place = np.round(frames[..., :2].astype(np.float64) / 255.0 * (SIDE - 1)).astype(np.int64)
        texel = np.where(on, place[..., 1] * SIDE + place[..., 0], -1)
        made.append(
            SurfaceMap(
                name,
                texel,
                np.maximum(lit.astype(np.float64), 4.0) / GREY,
                _texel_length(place, depth, on, where.focal_px),
            )
        )
    return made


def _texel_length(place: Array, depth: Array, on: Array, focal_px: float) -> float:
    step = np.hypot(*(np.diff(place[..., axis], n=1, axis=2)[:, :, ::1] for axis in (0, 1)))
    good = on[:, :, 1:] & on[:, :, :-1]
    pixels_m = float(np.mean(depth[:, :, 1:][good])) / focal_px
    return pixels_m / max(float(np.mean(step[good])), 1e-6)


def distance_swept(surface: SurfaceMap) -> float:
    """How far, in m, the places of a surface that one pixel shows lie apart: the standard deviation over the frames, at the median pixel."""
    rows, columns = np.divmod(surface.texel.astype(np.float64), SIDE)
    on = surface.texel >= 0
    often = on.sum(axis=0) >= max(FEWEST_PIXELS, 0.3 * len(on))
    if not often.any():
        return 0.0
    spread = [np.nanstd(np.where(on, side, np.nan)[:, often], axis=0) for side in (rows, columns)]
    return float(np.median(np.hypot(*spread))) * surface.texel_m


def _geoms_with(model: mujoco.MjModel, texture: str) -> Array:
    index = model.tex(texture).id
    materials = np.flatnonzero((model.mat_texid == index).any(axis=1))
    return np.flatnonzero(np.isin(model.geom_matid, materials))


def paint_surface(colours: Array, texel: Array) -> tuple[Array, Array]:
    """The colour (SIDE * SIDE, 3) of each texel from pixels' colours (..., 3) in levels, and how many pixels (SIDE * SIDE,) show it."""
    on = texel >= 0
    place = texel[on]
    count = np.bincount(place, minlength=SIDE * SIDE)
    painted = np.zeros((SIDE * SIDE, 3))
    for channel in range(3):
        level = np.clip(colours[..., channel][on] * (LEVELS / 256.0), 0, LEVELS - 1)
        whole = level.astype(np.int64)
        table = np.bincount(place * LEVELS + whole, minlength=SIDE * SIDE * LEVELS).reshape(-1, LEVELS)
        reached = np.cumsum(table, axis=1) >= UNSHADED * np.maximum(count, 1)[:, None]
        painted[:, channel] = (np.argmax(reached, axis=1) + 0.5) * (256.0 / LEVELS)
    return painted, count


def fill_surface(painted: Array, count: Array) -> Array:
    """A whole texture (SIDE, SIDE, 3) uint8: places that no frame shows are like the nearest that one does."""
    seen = (count >= FEWEST_PIXELS).reshape(SIDE, SIDE)
    # Where every frame had the robot's shadow, the surface is as unknown as where no frame looked.
    light = painted.mean(axis=1).reshape(SIDE, SIDE)
    seen &= light > DARK * float(np.median(light[seen]))
    nearest = ndimage.distance_transform_edt(~seen, return_distances=False, return_indices=True)
    image = painted.reshape(SIDE, SIDE, 3)[tuple(nearest)]
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)
