"""One episode on one page: its signals over time, its events, and a contact sheet of its frames."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array, Episode, Event
from twinloop.errors import WrongUse

SHEET_FRAMES = 8
LEGEND_LIMIT = 10
LABEL_SHARE = 0.08
"""Events closer than this share of the episode get one label, a line for each."""


def draw_episode(episode: Episode, path: str | Path, *, title: str = "") -> Path:
    """Write a PNG, or a self-contained HTML page with the image and the provenance, by the ending of `path`."""
    target = Path(path)
    if target.suffix not in (".png", ".html"):
        raise WrongUse(
            "an image is a PNG or an HTML page", got=str(target), remedy="end the name in .png or .html"
        )
    image = _png(episode, title)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = image if target.suffix == ".png" else _page(episode, title, image)
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(target)
    return target


def _png(episode: Episode, title: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cameras = list(episode.frames)
    signals = list(episode.signals)
    heights = [1.15] * len(cameras) + [1.6] * len(signals)
    figure = Figure(figsize=(11, 0.9 + sum(heights) * 1.25), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    figure.suptitle(_headline(episode, title), fontsize=11, x=0.01, ha="left")
    for axis, camera in zip(axes, cameras, strict=False):
        _contact_sheet(axis, episode, camera)
    plots = axes[len(cameras) :]
    for axis, name in zip(plots, signals, strict=True):
        _plot_signal(axis, episode, name)
        axis.sharex(plots[0])
    _mark_events(plots, episode)
    plots[-1].set_xlabel("time, s")
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()


def _headline(episode: Episode, title: str) -> str:
    outcome = {
        True: "success",
        False: f"failure: {episode.outcome.failure or 'no label'}",
        None: "outcome unknown",
    }
    parts = [
        title,
        episode.task,
        outcome[episode.success],
        f"{len(episode)} rows, {episode.duration_s:.2f} s",
    ]
    parts.append(
        " ".join(
            filter(None, [episode.provenance.source, episode.provenance.engine, episode.provenance.twin])
        )
    )
    return "   |   ".join(part for part in parts if part)


def _plot_signal(axis: Any, episode: Episode, name: str) -> None:
    signal = episode.schema.signal(name)
    values = episode[name].reshape(len(episode), -1)
    for element in range(values.shape[1]):
        label = signal.elements[element] if signal.elements else str(element)
        axis.plot(episode.time_s, values[:, element], linewidth=1, label=label)
    units = sorted(set(signal.units))
    axis.set_ylabel(f"{name}\n[{', '.join(units)}]", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    axis.margins(x=0.01)
    if 1 < values.shape[1] <= LEGEND_LIMIT:
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _mark_events(plots: Any, episode: Episode) -> None:
    kinds = list(dict.fromkeys(event.kind for event in episode.events))
    together: list[list[Event]] = []
    for event in sorted(episode.events, key=lambda event: event.time_s):
        for axis in plots:
            colour = f"C{(kinds.index(event.kind) + 3) % 10}"
            axis.axvline(event.time_s, color=colour, linewidth=0.8, linestyle="--")
        if together and event.time_s - together[-1][0].time_s < LABEL_SHARE * episode.duration_s:
            together[-1].append(event)
        else:
            together.append([event])
    for near in together:
        words = dict.fromkeys(f"{event.kind} {event.detail}".strip() for event in near)
        plots[0].annotate(
            "\n".join(words),
            (near[0].time_s, 1.02),
            xycoords=("data", "axes fraction"),
            fontsize=7,
            color="0.3",
            ha="left",
            va="bottom",
        )


def _contact_sheet(axis: Any, episode: Episode, camera: str) -> None:
    rows = np.unique(np.linspace(0, len(episode) - 1, SHEET_FRAMES).round().astype(int))
    images: list[Array] = [np.asarray(episode.frames[camera][int(row)]) for row in rows]
    gap = np.full((images[0].shape[0], max(2, images[0].shape[1] // 40), 3), 255, np.uint8)
    strip = np.concatenate([piece for image in images for piece in (image, gap)][:-1], axis=1)
    axis.imshow(strip)
    axis.set_title(
        f"{camera}: " + ", ".join(f"{episode.time_s[row] - episode.time_s[0]:.2f}" for row in rows) + " s",
        fontsize=8,
        loc="left",
    )
    axis.axis("off")


def _page(episode: Episode, title: str, image: bytes) -> bytes:
    facts = {"id": episode.id} | episode.provenance.as_json()
    lines = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, {}, [], ())
    )
    encoded = base64.b64encode(image).decode()
    return (
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title or episode.id)}</title>"
        "<style>body{font:14px system-ui,sans-serif;max-width:1100px;margin:1rem auto;padding:0 1rem}img{max-width:100%}"
        "th{text-align:left;padding-right:1rem;font-weight:500;color:#555;vertical-align:top}td{word-break:break-all}</style>"
        f"<h1>{html.escape(title or 'Episode')}</h1><img alt='signals and frames' src='data:image/png;base64,{encoded}'>"
        f"<table>{lines}</table>"
    ).encode()
