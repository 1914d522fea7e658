"""A scene as a camera of the twin would see it, to be blended over the live image; images as files."""

from __future__ import annotations

import io

import numpy as np

from twinloop.engines.render import Renderer
from twinloop.episode import Array
from twinloop.errors import UnknownName
from twinloop.supervision.scenes import Scene
from twinloop.tasks import make_cell, make_task
from twinloop.twins import Twin


def draw_ghost(twin: Twin, camera: str, scene: Scene) -> Array:
    """What a camera of the twin sees of a scene before the robot moves.

    Args:
        twin: The cell.
        camera: One of its cameras.
        scene: The scene.

    Returns:
        The image, (height, width, 3) uint8.

    Raises:
        UnknownName: The twin has no such camera.
    """
    names = [one.name for one in twin.cameras]
    if camera not in names:
        raise UnknownName("camera", camera, names)
    values = {name: value for name, value in scene.values.items() if twin.has(name)}
    start = make_task(twin.task, twin).start(
        {name: np.array([value]) for name, value in values.items()}, np.array([scene.number])
    )
    renderer = Renderer(make_cell(twin), [camera])
    try:
        return renderer.paint_newest(values, 0, start.qpos, start.mocap_pos[0])[camera]
    finally:
        renderer.close()


def as_png(image: Array) -> bytes:
    """An image (height, width, 3) uint8 as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.asarray(image)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def as_jpeg(image: Array, quality: int = 80) -> bytes:
    """An image (height, width, 3) uint8 as a JPEG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.asarray(image)).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
