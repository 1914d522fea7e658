"""Where the robot is in frames: by what moves, by colour, by clicked points, or from files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.alignment.edges import import_cv2
from twinloop.alignment.frames import Frame
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.yaml_files import read_yaml

MOST_MASK_BYTES = 64_000_000
BACKGROUND_FRAMES = 40
SHARP_NOISE = 6.0
"""A pixel has changed when it differs by this many deviations of its noise, and visibly."""
LEAST_CHANGE = 12.0
SMALLEST_PART = 0.0015
"""Changed regions smaller than this fraction of the image are no robot."""
FRAME_NAME = re.compile(r"(\d+)-(\d+)")


def mask_moving(frames: Sequence[Frame], others: Sequence[Array]) -> list[Frame]:
    """Masks of what differs from the background: the median over many frames of a camera that stands still.

    Args:
        frames: The frames.
        others: Further images of the same camera, for the background.

    Returns:
        The frames with masks; what never moves is background.
    """
    cv2 = import_cv2()
    stack = np.stack([*(frame.image for frame in frames), *others]).astype(np.float32)
    background = np.median(stack, axis=0)
    noise = 1.4826 * np.median(np.abs(stack - background), axis=0)
    limit = np.maximum(LEAST_CHANGE, SHARP_NOISE * cv2.GaussianBlur(noise, (0, 0), 3.0))
    made = []
    for frame in frames:
        change = np.abs(cv2.GaussianBlur(frame.image.astype(np.float32) - background, (0, 0), 0.7))
        made.append(frame.with_mask(_clean((change > limit).any(axis=2))))
    return made


def mask_colour(frames: Sequence[Frame], colours: Sequence[Sequence[int]], tolerance: float) -> list[Frame]:
    """Masks of what has one of some colours (red, green, blue), within a distance in CIELAB."""
    cv2 = import_cv2()
    wanted = cv2.cvtColor(np.array(colours, np.float32)[None] / 255.0, cv2.COLOR_RGB2LAB)[0]
    made = []
    for frame in frames:
        lab = cv2.cvtColor(frame.image.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB)
        away = np.linalg.norm(lab[:, :, None] - wanted, axis=3).min(axis=2)
        made.append(frame.with_mask(_clean(away < tolerance)))
    return made


def mask_clicked(frames: Mapping[str, Frame], file: Path) -> list[Frame]:
    """Masks grown from clicked points by GrabCut (Rother et al., 2004), for the frames that the file names.

    The file is YAML: for each frame, by EPISODE-ROW, `robot` and `background`, lists of [x, y] in pixels.
    """
    content = read_yaml(file)
    clicks = _read_clicks(content, file)
    made = []
    for name, points in clicks.items():
        if name not in frames:
            raise WrongUse(f"{file}: the recording has no frame {name!r}", expected="EPISODE-ROW of a frame")
        made.append(_grow(frames[name], points, file))
    return made


def clicked_names(file: Path) -> list[tuple[int, int]]:
    """Episode and row of each frame that a file of clicks names."""
    return [parse_name(name, str(file)) for name in _read_clicks(read_yaml(file), file)]


def _read_clicks(content: Any, file: Path) -> dict[str, dict[str, Array]]:
    expected = "frames by EPISODE-ROW, each with robot: [[x, y], ...] and background: [[x, y], ...]"
    if not isinstance(content, dict) or not content:
        raise WrongUse(f"{file} holds no clicks", expected=expected)
    made: dict[str, dict[str, Array]] = {}
    for name, points in content.items():
        if not isinstance(points, dict) or not points.get("robot"):
            raise WrongUse(f"{file}: no points on the robot in frame {name}", expected=expected)
        try:
            made[str(name)] = {
                kind: np.array(points.get(kind) or [], np.float64).reshape(-1, 2)
                for kind in ("robot", "background")
            }
        except (TypeError, ValueError) as error:
            raise WrongUse(f"{file}: frame {name}: these are no points", expected=expected) from error
    return made


def _grow(frame: Frame, points: Mapping[str, Array], file: Path) -> Frame:
    cv2 = import_cv2()
    height, width = frame.image.shape[:2]
    labels = np.full((height, width), cv2.GC_PR_BGD, np.uint8)
    radius = max(2, height // 60)
    for kind, near, label in (
        ("robot", 4 * radius, cv2.GC_PR_FGD),
        ("robot", radius, cv2.GC_FGD),
        ("background", radius, cv2.GC_BGD),
    ):
        for x, y in points[kind]:
            if not (0 <= x < width and 0 <= y < height):
                raise WrongUse(
                    f"{file}: frame {frame.name}: a point lies outside the image",
                    got=(float(x), float(y)),
                    expected=f"within {width} x {height}",
                )
            cv2.circle(labels, (round(float(x)), round(float(y))), near, int(label), -1)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    image = np.ascontiguousarray(frame.image[..., ::-1])
    cv2.grabCut(image, labels, None, *models, 6, cv2.GC_INIT_WITH_MASK)
    return frame.with_mask(_clean((labels == cv2.GC_FGD) | (labels == cv2.GC_PR_FGD)))


def mask_files(folder: Path) -> dict[tuple[int, int], Path]:
    """Mask files of a folder by episode and row: EPISODE-ROW.png, white where the robot is."""
    if not folder.is_dir():
        raise WrongUse(f"{folder} is no folder", expected="a folder of masks, EPISODE-ROW.png")
    found = {parse_name(path.stem, str(path)): path for path in sorted(folder.glob("*.png"))}
    if not found:
        raise WrongUse(f"{folder} holds no masks", expected="EPISODE-ROW.png, such as 0-120.png")
    return found


def read_mask(frame: Frame, file: Path) -> Frame:
    """The frame with the mask of a file, which must have its size."""
    from PIL import Image, UnidentifiedImageError

    if file.stat().st_size > MOST_MASK_BYTES:
        raise WrongUse(f"{file} is too large for a mask", got=f"{file.stat().st_size} bytes")
    try:
        with Image.open(file) as opened:
            size = opened.size
            wanted = (frame.image.shape[1], frame.image.shape[0])
            if size != wanted:
                raise WrongUse(f"{file}: the mask's size is not the frame's", got=size, expected=wanted)
            mask = np.asarray(opened.convert("L")) > 127
    except (UnidentifiedImageError, OSError) as error:
        raise WrongUse(f"{file} is no image", got=str(error)) from error
    return frame.with_mask(mask)


def parse_name(name: str, where: str) -> tuple[int, int]:
    """Episode and row of a frame's name."""
    match = FRAME_NAME.fullmatch(name)
    if match is None:
        raise WrongUse(f"{where}: not a frame's name", got=name, expected="EPISODE-ROW, such as 0-120")
    return int(match[1]), int(match[2])


def _clean(mask: Array) -> Array:
    """Without specks and pinholes."""
    cv2 = import_cv2()
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
    large = stats[:, cv2.CC_STAT_AREA] >= SMALLEST_PART * mask.size
    large[0] = False
    return np.asarray(large[labels]) if count > 1 else np.zeros_like(mask, bool)
