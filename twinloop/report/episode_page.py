"""One episode as an image or an HTML file: its signals over time, its events, and a contact sheet of its frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode, Event
from twinloop.errors import WrongUse
from twinloop.report.charts import SERIES, SOFT, add_legend, draw_frames, encode_png, encode_svg, make_figure
from twinloop.report.page import write_page

MAX_FRAMES = 8
MAX_LEGEND = 10
MERGED_LABELS = 0.08
"""Events closer than this fraction of the episode get one label, a line for each."""


def draw_episode(
    episode: Episode, path: str | Path, *, title: str = "", dataset: Dataset | None = None
) -> Path:
    """Write a PNG, or an HTML page with the chart and the provenance, by the ending of `path`.

    Args:
        episode: The episode.
        path: A .png or .html file.
        title: Its title; default: the episode's id.
        dataset: Where it was read from: the dataset's workspace remembers what shows it.

    Returns:
        The path of the file.

    Raises:
        WrongUse: The path ends in anything else.
    """
    target = Path(path)
    if target.suffix not in (".png", ".html"):
        raise WrongUse(
            "an episode is drawn as a PNG or an HTML page",
            got=str(target),
            remedy="end the name in .png or .html",
        )
    near = [dataset.root] if dataset else []
    register_artefact(target, "page" if target.suffix == ".html" else "image", [episode], near=near)
    figure = _draw(episode)
    if target.suffix == ".html":
        facts = {"id": episode.id} | episode.provenance.as_json()
        return write_page(
            target,
            "episode.html",
            shows=(),  # registered above
            title=title or episode.id,
            episode=episode,
            chart=encode_svg(figure),
            facts={name: value for name, value in facts.items() if value not in (None, {}, [], ())},
            provenance=[("episode", episode.id)],
        )
    figure.suptitle(_headline(episode, title), fontsize=10, x=0.01, ha="left")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, encode_png(figure))
    return target


def _draw(episode: Episode) -> Any:
    cameras, signals = list(episode.frames), list(episode.signals)
    heights = [1.45] * len(cameras) + [2.0] * len(signals)
    figure, axes = make_figure(
        len(heights), row_height=sum(heights) / len(heights), width=9.5, height_ratios=heights
    )
    for axis, camera in zip(axes, cameras, strict=False):
        _draw_contact_sheet(axis, episode, camera)
    plots = axes[len(cameras) :]
    for axis, name in zip(plots, signals, strict=True):
        _plot_signal(axis, episode, name)
        axis.sharex(plots[0])
    _mark_events(plots, episode)
    plots[-1].set_xlabel("time, s")
    return figure


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
    axis.set_ylabel(f"{name}\n[{', '.join(units)}]")
    axis.margins(x=0.01)
    if 1 < values.shape[1] <= MAX_LEGEND:
        add_legend(axis, right=True)


def _mark_events(plots: Any, episode: Episode) -> None:
    kinds = list(dict.fromkeys(event.kind for event in episode.events))
    together: list[list[Event]] = []
    for event in sorted(episode.events, key=lambda event: event.time_s):
        for axis in plots:
            colour = SERIES[(kinds.index(event.kind) + 3) % len(SERIES)]
            axis.axvline(event.time_s, color=colour, linewidth=0.8, linestyle="--")
        if together and event.time_s - together[-1][0].time_s < MERGED_LABELS * episode.duration_s:
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
            color=SOFT,
            ha="left",
            va="bottom",
        )


def _draw_contact_sheet(axis: Any, episode: Episode, camera: str) -> None:
    rows = np.unique(np.linspace(0, len(episode) - 1, MAX_FRAMES).round().astype(int))
    times = ", ".join(f"{episode.time_s[row] - episode.time_s[0]:.2f}" for row in rows)
    frames = [np.asarray(episode.frames[camera][int(row)]) for row in rows]
    draw_frames(axis, frames, f"{camera}: {times} s")
