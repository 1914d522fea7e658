"""A small image of an episode, to tell episodes apart in a list: a camera's frame, or its motion drawn as lines."""

from __future__ import annotations

import math

import numpy as np

from twinloop.datasets.sheets import shrink, to_jpeg
from twinloop.episode import Array, Episode

HEIGHT = 56
"""Pixels; twice the height of a row of a list, for fine screens."""
MOST_LINES = 8
_POINTS = 60
_COLOURS = ("#3a6fd8", "#d9732c", "#2b9368", "#8a55cf", "#c9405f", "#1892a6", "#93840f", "#6b7482")


def draw_sketch(episode: Episode) -> tuple[bytes, str]:
    """Draw an episode.

    Args:
        episode: The episode.

    Returns:
        The image and its media type: the middle frame of the first camera as JPEG, or its first position signal as SVG.
    """
    if episode.schema.cameras:
        camera = episode.schema.cameras[0]
        frame = np.asarray(episode.frames[camera.name][len(episode) // 2])
        width = max(1, round(camera.width * HEIGHT / camera.height))
        return to_jpeg(shrink(frame, HEIGHT, width)), "image/jpeg"
    names = [signal.name for signal in episode.schema.signals]
    name = "observation.state" if "observation.state" in names else names[0]
    return draw_lines(episode.signals[name].reshape(len(episode), -1)).encode(), "image/svg+xml"


def draw_lines(values: Array, width: int = 2 * HEIGHT, height: int = HEIGHT) -> str:
    """Lines over time as SVG, each column scaled to its own range.

    Args:
        values: One column for each line, shape (rows, lines); at most `MOST_LINES` are drawn.
        width: Of the image.
        height: Of the image.

    Returns:
        The SVG.
    """
    rows = np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(int)
    columns = np.asarray(values[rows], np.float64)[:, :MOST_LINES]
    across = np.linspace(2, width - 2, len(rows))
    lines = []
    for column, colour in zip(columns.T, _COLOURS, strict=False):
        low, high = float(np.nanmin(column)), float(np.nanmax(column))
        if not math.isfinite(high - low):
            continue
        down = height - 4 - (column - low) / ((high - low) or 1.0) * (height - 8)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6" opacity="0.85"/>'
        )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">{"".join(lines)}</svg>'
