"""Photographs on a twin: of a surface, of what covers part of a lens, and of light in it.

They are assets of the twin under names of their own, so that they are saved, hashed and sent with it. Physics does not see them.

- `surface-TEXTURE.png` replaces a texture of the model, such as the table's; it is stretched over the whole surface.
- `cover-CAMERA.png`, with transparency, is in front of a camera: tape, a cable, dirt.
- `veil-CAMERA.png` is light that a lens adds to every frame: flare, glare, a dirty lens beside a lamp.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import mujoco
import numpy as np
from PIL import Image, UnidentifiedImageError

from twinloop.episode import Array
from twinloop.errors import InvalidTwin, UnknownName
from twinloop.twins.twin import Twin

Kind = Literal["surface", "cover", "veil"]
MOST_PIXELS = 4096 * 4096


def asset_name(kind: Kind, name: str) -> str:
    """The name of the asset that holds such a photograph."""
    return f"{kind}-{name}.png"


def photographs(twin: Twin, kind: Kind) -> dict[str, Array]:
    """The photographs of one kind, by the texture or camera that they belong to: (height, width, 3), covers (height, width, 4)."""
    start, end = f"{kind}-", ".png"
    return {
        name[len(start) : -len(end)]: read_photograph(content, name, alpha=kind == "cover")
        for name, content in twin.assets.items()
        if name.startswith(start) and name.endswith(end)
    }


def encode_photograph(pixels: Array) -> bytes:
    """Pixels (height, width, 3 or 4) uint8 as PNG."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels, np.uint8)).save(file, "PNG")
    return file.getvalue()


def read_photograph(content: bytes, name: str, *, alpha: bool = False) -> Array:
    """An image file as pixels (height, width, 3), or 4 with `alpha`; raises `InvalidTwin` for what is no image or far too large."""
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise InvalidTwin(
                    f"{name} is too large",
                    got=f"{image.width} x {image.height}",
                    expected="at most 4096 x 4096",
                )
            return np.asarray(image.convert("RGBA" if alpha else "RGB"))
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError) as error:
        raise InvalidTwin(f"{name} is no image that can be read", expected="PNG or JPEG") from error


def with_photographs(twin: Twin, kind: Kind, pixels: Mapping[str, Array]) -> Twin:
    """A new version of a twin with photographs.

    Args:
        twin: The twin.
        kind: What they show: a `surface` of the model, a `cover` in front of one, or a `veil` of light in its lens.
        pixels: The texture or camera of each, and its pixels (height, width, 3) uint8, with transparency (…, 4) for a cover.

    Returns:
        The new twin; its `parent` is this twin's content hash.

    Raises:
        UnknownName: The twin has no such texture or camera.
    """
    model = twin.patch.model
    known = texture_names(model) if kind == "surface" else [camera.name for camera in twin.cameras]
    for name in pixels:
        if name not in known:
            raise UnknownName(
                f"{'texture' if kind == 'surface' else 'camera'} of twin {twin.name}", name, known
            )
    added = {asset_name(kind, name): encode_photograph(image) for name, image in pixels.items()}
    return with_assets(twin, added)


def with_assets(twin: Twin, added: Mapping[str, bytes]) -> Twin:
    """A new version of a twin with more assets."""
    if not added:
        return twin
    changed = replace(twin, assets={**twin.assets, **added}, parent=twin.content_hash)
    return replace(changed, version=f"{twin.version.split('+')[0]}+{changed.content_hash[:8]}")


def texture_names(model: mujoco.MjModel) -> list[str]:
    """The model's flat textures."""
    return [
        str(model.tex(index).name)
        for index in range(model.ntex)
        if model.tex_type[index] == mujoco.mjtTexture.mjTEXTURE_2D
    ]


def make_drawn_model(twin: Twin) -> mujoco.MjModel:
    """The twin's model as it is drawn: like the one that is simulated, with photographs on its surfaces."""
    surfaces = photographs(twin, "surface")
    if not surfaces:
        return twin.make_model()
    xml = {name: content for name, content in twin.assets.items() if name.endswith((".xml", ".mjcf"))}
    others = {name: content for name, content in twin.assets.items() if name not in xml}
    spec = mujoco.MjSpec.from_string(twin.mjcf, include=xml, assets=others)
    for texture in spec.textures:
        if texture.name in surfaces:
            height, width = surfaces[texture.name].shape[:2]
            texture.file, texture.builtin = "", mujoco.mjtBuiltin.mjBUILTIN_FLAT
            texture.width, texture.height, texture.nchannel = width, height, 3
    model = spec.compile()
    twin.patch.apply_to_model(model, twin.nominal)
    for name, pixels in surfaces.items():
        set_surface(model, name, pixels)
    return model


def set_surface(model: mujoco.MjModel, texture: str, pixels: Array) -> None:
    """Put pixels (height, width, 3) into a texture of their size, stretched once over each surface that has it."""
    index = model.tex(texture).id
    start, size = int(model.tex_adr[index]), pixels.size
    model.tex_data[start : start + size] = pixels.reshape(-1)
    for material in range(model.nmat):
        if index in model.mat_texid[material]:
            model.mat_texuniform[material] = False
            model.mat_texrepeat[material] = 1.0
            model.mat_rgba[material, :3] = 1.0
