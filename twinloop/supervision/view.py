"""A scene to look at: from above with dimensions, and as a camera of the twin would see it, to be blended over the live image."""

from __future__ import annotations

import io
import math

import numpy as np

from twinloop.engines.render import Renderer
from twinloop.episode import Array
from twinloop.errors import UnknownName
from twinloop.supervision.scenes import Scene, SceneList
from twinloop.tasks import make_cell, make_task
from twinloop.twins import Twin

MARGIN_M = 0.08
"""Around what is drawn."""
SCALE = 1000.0
"""Drawing units per metre."""
OBJECT_M, TARGET_M = 0.02, 0.04
"""Half a side of the object's square and radius of the target's circle, as drawn."""


def draw_top_view(scenes: SceneList, scene: Scene) -> str:
    """A scene from above as SVG: the robot's base at the bottom, x ahead, y to the left, dimensions in cm.

    Args:
        scenes: Knows the twin.
        scene: What to draw.

    Returns:
        The SVG document, of classes without colours of its own: `base`, `object`, `target`, `dimension`.
    """
    places = scenes.places(scene)
    xs = [0.0, *(x for x, _ in places.values())]
    ys = [0.0, *(y for _, y in places.values())]
    left, right = max(ys) + 2 * MARGIN_M, min(ys) - 2 * MARGIN_M
    top, bottom = max(xs) + MARGIN_M, min(xs) - MARGIN_M

    def at(x: float, y: float) -> tuple[str, str]:
        return f"{SCALE * (left - y):.1f}", f"{SCALE * (top - x):.1f}"

    parts = [_base(*at(0.0, 0.0))]
    for what, (x, y) in places.items():
        parts += _dimension(at(0.0, 0.0), at(x, 0.0), f"{100 * x:.1f} cm", left=False)
        parts += _dimension(at(x, 0.0), at(x, y), f"{100 * abs(y):.1f} cm", left=True)
        cx, cy = at(x, y)
        if what == "object":
            turn = -math.degrees(scene.values.get("object_yaw_rad", 0.0))
            half = SCALE * OBJECT_M
            parts.append(
                f'<rect class="object" x="{float(cx) - half:.1f}" y="{float(cy) - half:.1f}" width="{2 * half:.1f}" '
                f'height="{2 * half:.1f}" transform="rotate({turn:.1f} {cx} {cy})"/>'
            )
        else:
            parts.append(f'<circle class="target" cx="{cx}" cy="{cy}" r="{SCALE * TARGET_M:.1f}"/>')
        parts.append(f'<text class="name" x="{cx}" y="{float(cy) - SCALE * 0.05:.1f}">{what}</text>')
    width, height = SCALE * (left - right), SCALE * (top - bottom)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{scenes.instruct(scene)}">{"".join(parts)}</svg>'
    )


def _base(x: str, y: str) -> str:
    return f'<circle class="base" cx="{x}" cy="{y}" r="{SCALE * 0.04:.1f}"/><text class="name" x="{x}" y="{float(y) + 70:.1f}">robot</text>'


def _dimension(start: tuple[str, str], end: tuple[str, str], text: str, *, left: bool) -> list[str]:
    middle = [0.5 * (float(a) + float(b)) for a, b in zip(start, end, strict=True)]
    shift = (0.0, -8.0) if left else (8.0, 0.0)
    return [
        f'<line class="dimension" x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}"/>',
        f'<text class="dimension" x="{middle[0] + shift[0]:.1f}" y="{middle[1] + shift[1]:.1f}">{text}</text>',
    ]


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
