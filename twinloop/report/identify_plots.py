"""Images of an identification: replay overlays, spectra of what is left, and the posterior."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from scipy import signal

from twinloop.identification.replays import Replay
from twinloop.identification.result import Identification

INK, REAL, BEFORE, AFTER = "#33414e", "#33414e", "#e08a1e", "#1f6fb2"
MOST_ROWS = 1500
MOST_CHANNELS = 8
MOST_CORNERS = 6


def draw_replay(replay: Replay, result: Identification) -> bytes:
    """Reality, the nominal twin and the calibrated one with its band, one panel per channel."""
    shown = [i for i, name in enumerate(result.channels) if not name.startswith("object.turn")][
        :MOST_CHANNELS
    ]
    figure, axes = _figure(len(shown), 1.35)
    rows = np.unique(np.linspace(0, len(replay.time_s) - 1, MOST_ROWS).astype(int))
    time_s = replay.time_s[rows] - replay.time_s[0]
    for axis, channel in zip(axes, shown, strict=True):
        after, half = replay.after[rows, channel], replay.half_width[rows, channel]
        real = replay.real[rows, channel]
        axis.fill_between(time_s, after - half, after + half, color=AFTER, alpha=0.18, lw=0)
        axis.plot(time_s, replay.before[rows, channel], color=BEFORE, lw=0.9, label="nominal twin")
        axis.plot(time_s, after, color=AFTER, lw=1.0, label=f"calibrated twin, {result.bands.level:.0%} band")
        axis.plot(time_s, real, color=REAL, lw=0.9, ls="--", label="recorded")
        low, high = float(np.min(real)), float(np.max(real))
        room = 0.35 * max(high - low, 1e-6) + float(np.median(half))
        axis.set_ylim(low - room, high + room)
        axis.set_ylabel(f"{result.channels[channel]}\n{_unit(result.units[channel])}", fontsize=7)
    axes[-1].set_xlabel("time, s", fontsize=7)
    axes[0].legend(fontsize=6, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
    return _png(figure)


def draw_spectra(replays: list[Replay], result: Identification) -> bytes | None:
    """Power of the replay error over frequency, before and after, and the sensor's floor."""
    shown = [i for i, name in enumerate(result.channels) if not name.startswith("object.turn")][
        :MOST_CHANNELS
    ]
    longest = max(replays, key=lambda replay: len(replay.time_s))
    if len(longest.time_s) < 32:
        return None
    rate_hz = 1.0 / float(np.median(np.diff(longest.time_s)))
    figure, axes = _figure(len(shown), 1.2)
    for axis, channel in zip(axes, shown, strict=True):
        for rows, color, label in (
            (longest.before, BEFORE, "nominal twin"),
            (longest.after, AFTER, "calibrated twin"),
        ):
            hz, power = signal.welch(
                rows[:, channel] - longest.real[:, channel], rate_hz, nperseg=min(512, len(rows))
            )
            axis.loglog(hz[1:], np.maximum(power[1:], 1e-18), color=color, lw=1.0, label=label)
        floor = 2.0 * result.sensor_noise[channel] ** 2 / rate_hz
        axis.axhline(floor, color=INK, lw=0.8, ls=":", label="sensor noise")
        axis.set_ylabel(result.channels[channel], fontsize=7)
    axes[-1].set_xlabel("frequency, Hz; power of the replay error", fontsize=7)
    axes[0].legend(fontsize=6, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
    return _png(figure)


def draw_corner(result: Identification) -> bytes | None:
    """Posterior samples, every parameter against every other; the least certain ones when there are many."""
    from matplotlib.figure import Figure

    known = [i for i, e in enumerate(result.estimates) if e.status != "not identifiable"]
    relative = [
        result.estimates[i].standard_deviation / max(abs(result.estimates[i].value), 1e-12) for i in known
    ]
    shown = [known[i] for i in np.argsort(relative)[::-1][:MOST_CORNERS]]
    if len(shown) < 2:
        return None
    count = len(shown)
    figure = Figure(figsize=(1.3 * count + 0.6, 1.3 * count + 0.4), dpi=110, layout="constrained")
    for row in range(count):
        for column in range(row + 1):
            axis = figure.add_subplot(count, count, row * count + column + 1)
            across = result.samples[:, shown[column]]
            if row == column:
                axis.hist(across, bins=30, color=AFTER, alpha=0.7)
                axis.axvline(result.estimates[shown[row]].nominal, color=BEFORE, lw=1) if (
                    across.min() <= result.estimates[shown[row]].nominal <= across.max()
                ) else None
                axis.set_yticks([])
            else:
                axis.plot(across, result.samples[:, shown[row]], ".", ms=1.2, color=AFTER, alpha=0.35)
                if column:
                    axis.set_yticks([])
            axis.tick_params(labelsize=5)
            axis.locator_params(nbins=3)
            axis.ticklabel_format(style="sci", scilimits=(-2, 3))
            axis.xaxis.get_offset_text().set_fontsize(5)
            axis.yaxis.get_offset_text().set_fontsize(5)
            if row == count - 1:
                axis.set_xlabel(_short(result.estimates[shown[column]].name), fontsize=5.5)
            else:
                axis.set_xticklabels([])
            if column == 0 and row:
                axis.set_ylabel(_short(result.estimates[shown[row]].name), fontsize=5.5)
    return _png(figure)


def _figure(count: int, height: float) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 0.5 + height * count), dpi=110, layout="constrained")
    axes = [figure.add_subplot(count, 1, index + 1) for index in range(count)]
    for axis in axes:
        axis.tick_params(labelsize=6)
        axis.grid(alpha=0.25, lw=0.5)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, axes


def _png(figure: Any) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _short(name: str) -> str:
    """A long name on two lines."""
    words = name.split("_")
    middle = (len(words) + 1) // 2
    return "_".join(words[:middle]) + ("_\n" + "_".join(words[middle:]) if len(words) > 2 else "")
