"""Captions for images of randomized episodes: number, outcome, and the most unusual draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.twins import Parameter, Twin

LINES = 3
LINE_PX = 11
GROUND, INK = 24, "0.85"

VISIBLE = ("visual", "environment", "object", "contact", "human")
"""Dimensions whose draws are visible in an image; delays and sensor errors are not."""


def describe_draws(twin: Twin, episodes: Sequence[Episode]) -> list[list[str]]:
    """For each episode a few lines: its number and outcome, then the draws that are furthest from nominal."""
    shown = [p for p in twin.parameters if p.dimension in VISIBLE and _varies(p, episodes)]
    unusual = {p.name: _distances(p, episodes) for p in shown}
    lines = []
    for position, episode in enumerate(episodes):
        outcome = "success" if episode.success else episode.outcome.failure or "not judged"
        first = sorted(shown, key=lambda p: -unusual[p.name][position])[:LINES]
        draw = episode.provenance.draw
        lines.append([f"#{position} {outcome}", *(_format_draw(p, draw[p.name]) for p in first)])
    return lines


def paint_caption(lines: Sequence[str], width: int) -> Array:
    """The lines as an image `width` pixels wide, (height, width, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = LINE_PX * (LINES + 1) + 4
    figure = Figure((width / 100, height / 100), dpi=100, facecolor=(GROUND / 255,) * 3)
    for row, line in enumerate(lines):
        top = 1.0 - (2 + row * LINE_PX) / height
        figure.text(3 / width, top, line, size=5.8, color=INK, va="top", family="DejaVu Sans")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:height, :width, :3]


def _varies(parameter: Parameter, episodes: Sequence[Episode]) -> bool:
    drawn = [episode.provenance.draw.get(parameter.name) for episode in episodes]
    return None not in drawn and len(set(drawn)) > 1


def _distances(parameter: Parameter, episodes: Sequence[Episode]) -> Array:
    """Distance of each episode's value from nominal, relative to the largest; zero for choices and indices."""
    values = [episode.provenance.draw[parameter.name] for episode in episodes]
    if parameter.choices or parameter.name.endswith(("_index", "_layout")):
        return np.zeros(len(values))
    away = np.abs(np.array(values, dtype=np.float64) - float(parameter.nominal))
    return np.asarray(away / away.max())


def _format_draw(parameter: Parameter, value: float | str) -> str:
    """`object mass 0.31 kg`: the name without its unit, then the value with it."""
    unit = "" if parameter.unit == "1" else parameter.unit
    words = parameter.name
    for suffix in (
        f"_{word}" for word in ("kgm2", "nms_rad", "m_s2", "rad", "kg", "hz", "px", "nm", "m", "s", "n", "k")
    ):
        if unit and words.endswith(suffix):
            words = words.removesuffix(suffix)
            break
    text = value if isinstance(value, str) else f"{value:.3g}"
    return f"{words.replace('_', ' ')} {text} {unit}".rstrip()
