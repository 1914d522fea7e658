"""Charts of the reports: one palette, one figure factory, one encoder.

A page gets a chart as inline SVG whose colours are CSS variables, so that it follows the page's light or dark scheme.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from twinloop.datasets.commit import write_atomically
from twinloop.episode import Array
from twinloop.errors import WrongUse

INK, SOFT, GRID = "#22303c", "#5d6b78", "#d5dce2"
BLUE, ORANGE, GREEN, RED, PURPLE, PINK = "#1f6fb2", "#d17a12", "#2d7a46", "#b3261e", "#7a4fa0", "#a03a5a"
TEAL, OLIVE = "#0e8a8a", "#7d7a12"
SERIES = (ORANGE, GREEN, BLUE, PURPLE, PINK, SOFT, TEAL, OLIVE, RED)
"""Default line colours, in order."""

_VARIABLES = {
    INK: "ink", SOFT: "soft", GRID: "line", BLUE: "blue", ORANGE: "orange", GREEN: "green", RED: "red",
    PURPLE: "purple", PINK: "pink", TEAL: "teal", OLIVE: "olive",
}  # fmt: skip
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "twinloop",
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": SOFT,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelsize": 7,
    "axes.titlesize": 8,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


def make_figure(
    rows: int = 1, *, row_height: float = 1.35, width: float = 7.6, share_x: bool = False, **subplots: Any
) -> tuple[Any, list[Any]]:
    """A figure in the reports' style.

    Args:
        rows: Panels, one below the other.
        row_height: Height of a panel, inches.
        width: Width of the figure, inches.
        share_x: Whether all panels have the same horizontal axis.
        subplots: Passed to matplotlib's `Figure.subplots`.

    Returns:
        The figure and its axes, from top to bottom.
    """
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(width, 0.5 + row_height * rows), layout="constrained")
        axes = figure.subplots(rows, 1, squeeze=False, sharex=share_x, **subplots)[:, 0]
    return figure, list(axes)


def make_corner(count: int) -> tuple[Any, dict[tuple[int, int], Any]]:
    """A figure of the panels on and below a diagonal, by (row, column)."""
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(1.3 * count + 0.6, 1.3 * count + 0.4), layout="constrained")
        places = [(row, column) for row in range(count) for column in range(row + 1)]
        axes = {
            (row, column): figure.add_subplot(count, count, row * count + column + 1)
            for row, column in places
        }
    return figure, axes


def add_legend(axis: Any, columns: int = 3, *, right: bool = False) -> None:
    """Add a legend above the panel, or to its right."""
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": columns}
    if right:
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axis.legend(fontsize=7, frameon=False, labelcolor=INK, borderaxespad=0.3, **place)


def encode_svg(figure: Any) -> Markup:
    """The figure as SVG for a page, with the page's colours."""
    buffer = io.StringIO()
    _save(figure, buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<g id=\"[^\"]*\"(?=>)", _drop, text, flags=re.DOTALL
    )
    root, rest = text.split(">", 1)
    root = re.sub(r' (?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", root)
    rest = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]).replace("\n", ""), rest)
    # Only in attributes: a label whose text is a colour code stays as it is.
    rest = re.sub(r'(?:style|fill|stroke)="[^"]*"', _name_colours, rest)
    width = f'style="--inches:{figure.get_figwidth():.1f}"'
    return Markup(f'{root} role="img" {width}>{rest}')


def encode_png(figure: Any, dpi: int = 130) -> bytes:
    """The figure as PNG on white."""
    buffer = io.BytesIO()
    _save(figure, buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def require_png(path: str | Path, what: str) -> Path:
    """The path of a PNG; refuses any other ending before drawing."""
    target = Path(path)
    if target.suffix != ".png":
        raise WrongUse(f"{what} is a PNG", got=str(target), remedy="end the name in .png")
    return target


def write_png(figure: Any, path: Path) -> Path:
    """Write the figure; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, encode_png(figure))
    return path


def encode_frame(frame: Array, longest: int = 128) -> str:
    """A camera frame (height, width, 3) as a small JPEG data URI."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    step = max(1, max(frame.shape[:2]) // longest)
    imsave(buffer, frame[::step, ::step], format="jpeg", pil_kwargs={"quality": 78})
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def draw_frames(axis: Any, frames: Sequence[Array], title: str) -> None:
    """Camera frames side by side."""
    gap = np.full((frames[0].shape[0], max(2, frames[0].shape[1] // 40), 3), 255, np.uint8)
    axis.imshow(np.concatenate([part for frame in frames for part in (frame, gap)][:-1], axis=1))
    axis.set_title(title, loc="left", fontsize=7)
    axis.axis("off")


def label_unit(name: str, unit: str) -> str:
    """An axis label: the name, and the unit on a line of its own."""
    return name if unit == "1" else f"{name}\n{unit}"


def shorten(name: str, longest: int = 48) -> str:
    """A name beside an axis, with its middle left out where it would leave no room for the chart."""
    half = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"


def _save(figure: Any, buffer: Any, **how: Any) -> None:
    from matplotlib.text import Text

    for text in figure.findobj(Text):  # names contain "$" and "_" but no formulas
        text.set_parse_math(False)
    with _style():
        figure.savefig(buffer, **how)


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context(_SETTINGS | {"axes.prop_cycle": cycler(color=SERIES)}):
        yield


def _drop(match: re.Match[str]) -> str:
    return "<g" if match[0].startswith("<g") else ""


def _name_colours(match: re.Match[str]) -> str:
    text = match[0]
    for colour, name in _VARIABLES.items():
        text = text.replace(colour, f"var(--{name})")
    return text
