"""The twin's outlines over recorded frames, before and after alignment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinloop.alignment.edges import import_cv2
from twinloop.alignment.frames import Frame, find_moments, read_frames, read_moments
from twinloop.alignment.masks import parse_name
from twinloop.alignment.outline import Outliner
from twinloop.alignment.result import Alignment
from twinloop.alignment.run import with_camera_parameters
from twinloop.alignment.scene import find_parts
from twinloop.alignment.view import CameraView
from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.tasks import make_cell
from twinloop.twins import Twin

BEFORE, AFTER = (235, 60, 40), (40, 200, 90)
SHOWN = 3
POINTS = 6000
LEAST_WIDTH = 480


def write_overlay(alignment: Alignment, before: Twin, dataset: Dataset, file: str | Path) -> Path:
    """Write held-out frames with the outlines of the twin before (left) and after alignment (right) as one PNG.

    Args:
        alignment: What `align` found.
        before: The twin that was aligned.
        dataset: The recording.
        file: The image to write.

    Returns:
        The file.
    """
    from PIL import Image

    names = [parse_name(name, "the alignment") for name in alignment.held_out or alignment.frames]
    path = Path(file)
    episodes = sorted({episode for episode, _ in names})
    register_artefact(path, "image", [(dataset, episodes)])
    frames, after = _draw(alignment.twin, alignment, dataset, names)
    _, earlier = _draw(before, alignment, dataset, names)
    # Those that show most of the robot.
    order = sorted(range(len(frames)), key=lambda i: -_count_inside(after[i], frames[i].image))[:SHOWN]
    rows = [
        np.concatenate(
            [_paint(frames[i].image, earlier[i], BEFORE), _paint(frames[i].image, after[i], AFTER)], axis=1
        )
        for i in order
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(rows)).save(path)
    return path


def _draw(
    twin: Twin, alignment: Alignment, dataset: Dataset, names: Sequence[tuple[int, int]]
) -> tuple[list[Frame], list[Array]]:
    """Frames, and where the twin's outlines lie in them."""
    camera = alignment.camera
    cell = make_cell(with_camera_parameters(twin, camera, dataset))
    shown = dataset.schema.camera(camera)
    view = CameraView(cell, camera, shown.height, shown.width)
    moments = read_moments(dataset, cell, camera)
    frames = read_frames(dataset, camera, find_moments(moments, names))
    bodies = find_parts(view, moments, alignment.details.get("bodies", ())).fine
    outliner = Outliner(cell.twin.make_model(), view.id, view.height, view.width)
    pos, quat, fovy_rad = view.pose(view.base)
    wide = 2.0 * np.arctan(1.15 * np.tan(fovy_rad / 2.0))
    rng = np.random.default_rng(0)
    lines = []
    try:
        for frame in frames:
            qpos = view.place(frame, view.base)
            outline = outliner.outline(qpos, frame.mocap, pos, quat, wide, bodies, most=POINTS, rng=rng)
            lines.append(view.project(view.base, frame, outline)[0])
    finally:
        outliner.close()
    return frames, lines


def _count_inside(line: Array, image: Array) -> int:
    height, width = image.shape[:2]
    return int(((line >= 0) & (line < np.array([width, height]))).all(axis=1).sum())


def _paint(image: Array, line: Array, colour: tuple[int, int, int]) -> Array:
    cv2 = import_cv2()
    height, width = image.shape[:2]
    larger = max(1, -(-LEAST_WIDTH // width))
    made = cv2.resize(image, (larger * width, larger * height), interpolation=cv2.INTER_CUBIC)
    for x, y in line[np.isfinite(line).all(axis=1)]:
        cv2.circle(made, (round(larger * (x + 0.5)), round(larger * (y + 0.5))), 1, colour, -1, cv2.LINE_AA)
    return np.asarray(made)
