"""Charts of identification: replays, spectra of the replay error, the posterior, designed motions, drift."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from twinloop.identification.design import Design
from twinloop.identification.drift import Drift
from twinloop.identification.replays import ReplayOverlay
from twinloop.identification.result import Identification
from twinloop.report.charts import (
    BLUE,
    GRID,
    INK,
    ORANGE,
    RED,
    SOFT,
    add_legend,
    encode_svg,
    label_unit,
    make_corner,
    make_figure,
    require_png,
    write_png,
)

NOMINAL, CALIBRATED = ORANGE, BLUE
MAX_ROWS = 700
MAX_CHANNELS = 8
MAX_CORNERS = 6
MAX_SAMPLES = 500
SHORTEST_SPECTRUM = 32
"""Minimum rows for a spectrum with enough frequencies."""


def draw_replay(replay: ReplayOverlay, result: Identification) -> Markup:
    """The recording, the nominal twin, and the calibrated twin with its band; one panel per channel."""
    channels = _shown_channels(result)
    figure, axes = make_figure(len(channels))
    rows = np.unique(np.linspace(0, len(replay.time_s) - 1, MAX_ROWS).astype(int))
    time_s = replay.time_s[rows] - replay.time_s[0]
    for axis, channel in zip(axes, channels, strict=True):
        after, half = replay.after[rows, channel], replay.half_width[rows, channel]
        real = replay.real[rows, channel]
        axis.fill_between(time_s, after - half, after + half, color=CALIBRATED, alpha=0.18, lw=0)
        axis.plot(time_s, replay.before[rows, channel], color=NOMINAL, lw=0.9, label="nominal twin")
        band = f"calibrated twin, {result.bands.level:.0%} band"
        axis.plot(time_s, after, color=CALIBRATED, lw=1.0, label=band)
        axis.plot(time_s, real, color=INK, lw=0.9, ls="--", label="recorded")
        low, high = float(np.min(real)), float(np.max(real))
        room = 0.35 * max(high - low, 1e-6) + float(np.median(half))
        axis.set_ylim(low - room, high + room)
        axis.set_ylabel(label_unit(result.channels[channel], result.units[channel]))
    axes[-1].set_xlabel("time, s")
    add_legend(axes[0])
    return encode_svg(figure)


def draw_spectra(replays: Sequence[ReplayOverlay], result: Identification) -> Markup | None:
    """Power of the longest replay's error over frequency, before and after, and the sensor noise."""
    longest = max(replays, key=lambda replay: len(replay.time_s))
    if len(longest.time_s) < SHORTEST_SPECTRUM:
        return None
    spectra = longest.error_spectra()
    channels = _shown_channels(result)
    figure, axes = make_figure(len(channels), row_height=1.2)
    for axis, channel in zip(axes, channels, strict=True):
        for power, color, label in (
            (spectra.before, NOMINAL, "nominal twin"),
            (spectra.after, CALIBRATED, "calibrated twin"),
        ):
            axis.loglog(
                spectra.hz[1:], np.maximum(power[1:, channel], 1e-18), color=color, lw=1.0, label=label
            )
        floor = 2.0 * result.sensor_noise[channel] ** 2 / spectra.rate_hz
        axis.axhline(floor, color=INK, lw=0.8, ls=":", label="sensor noise")
        unit = result.units[channel]
        axis.set_ylabel(label_unit(result.channels[channel], unit if unit == "1" else f"({unit})²/Hz"))
    axes[-1].set_xlabel("frequency, Hz")
    add_legend(axes[0])
    return encode_svg(figure)


def draw_corner(result: Identification) -> Markup | None:
    """Posterior samples, every parameter against every other; the least certain ones when there are many."""
    known = [i for i, e in enumerate(result.estimates) if e.status != "not identifiable"]
    relative = [
        result.estimates[i].standard_deviation / max(abs(result.estimates[i].value), 1e-12) for i in known
    ]
    shown = [known[i] for i in np.argsort(relative)[::-1][:MAX_CORNERS]]
    if len(shown) < 2:
        return None
    last = len(shown) - 1
    figure, axes = make_corner(len(shown))
    for (row, column), axis in axes.items():
        estimate, across = result.estimates[shown[row]], result.samples[:, shown[column]]
        if row == column:
            axis.hist(across, bins=30, color=CALIBRATED, alpha=0.7)
            if across.min() <= estimate.nominal <= across.max():
                axis.axvline(estimate.nominal, color=NOMINAL, lw=1)
        else:
            upward = result.samples[:MAX_SAMPLES, shown[row]]
            axis.plot(across[:MAX_SAMPLES], upward, ".", ms=1.2, color=CALIBRATED, alpha=0.35)
        if row == column or column:
            axis.set_yticks([])
        axis.tick_params(labelsize=5)
        axis.locator_params(nbins=3, axis="x" if row == column or column else "both")
        axis.ticklabel_format(style="sci", scilimits=(-2, 3), axis="x" if row == column or column else "both")
        for side in (axis.xaxis, axis.yaxis):
            side.get_offset_text().set_fontsize(5)
        if row == last:
            axis.set_xlabel(_on_two_lines(result.estimates[shown[column]].name), fontsize=5.5)
        else:
            axis.set_xticklabels([])
        if column == 0 and row:
            axis.set_ylabel(_on_two_lines(estimate.name), fontsize=5.5)
    return encode_svg(figure)


def draw_motion(design: Design, path: str | Path) -> Path:
    """Write a PNG of a designed motion: the command of each actuator, and a chirp for comparison.

    Args:
        design: The designed excitation.
        path: The PNG file to write.

    Returns:
        The path of the image.

    Raises:
        WrongUse: The path does not end in .png.
    """
    target = require_png(path, "an image of a motion")
    motion, plain = design.motion, design.chirp
    figure, axes = make_figure(len(motion.actuators), row_height=1.5, width=10, share_x=True)
    expected = ", ".join(f"{e.name} ± {e.half_width:.3g}" for e in design.expected[:4])
    figure.suptitle(
        f"{design.twin}: {motion.duration_s:g} s, confidence volume {design.gain:.3g} times smaller than a chirp's\n{expected}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    for column, (axis, name) in enumerate(zip(axes, motion.actuators, strict=True)):
        axis.plot(plain.time_s, plain.commands[:, column], color=GRID, lw=0.8, label="chirp")
        axis.plot(motion.time_s, motion.commands[:, column], color=BLUE, lw=1.1, label="designed")
        axis.set_ylabel(name)
    add_legend(axes[0])
    axes[-1].set_xlabel("time, s")
    return write_png(figure, target)


def draw_drift(drift: Drift, path: str | Path) -> Path:
    """Write a PNG of drift: each watched quantity by episode, its baseline band, and when a change began.

    Args:
        drift: The watched series and their changes.
        path: The PNG file to write.

    Returns:
        The path of the image.

    Raises:
        WrongUse: The path does not end in .png.
    """
    target = require_png(path, "an image of drift")
    figure, axes = make_figure(len(drift.series), row_height=1.7, width=10, share_x=True)
    number = np.arange(len(drift.episodes))
    changes = {change.name: change for change in drift.changes}
    for axis, series in zip(axes, drift.series, strict=True):
        low, high = series.level - 2.0 * series.scatter, series.level + 2.0 * series.scatter
        axis.axhspan(low, high, color=BLUE, alpha=0.15, lw=0, label="baseline, ± 2 standard deviations")
        axis.axvline(drift.baseline - 0.5, color=SOFT, lw=0.8, ls=":", label="end of the baseline")
        spread = 2.0 * np.array(series.deviations)
        axis.errorbar(number, series.estimates, yerr=spread, fmt="o", ms=3, lw=0.8, color=BLUE)
        if (change := changes.get(series.name)) is not None:
            axis.axvline(change.began - 0.5, color=ORANGE, lw=1.2, ls="--", label=f"began at {change.began}")
            alarm = f"detected at {change.alarmed} ({change.role})"
            axis.axvline(change.alarmed, color=RED, lw=1.2, label=alarm)
        axis.set_ylabel(label_unit(series.name, series.unit))
        add_legend(axis, columns=4)
    axes[-1].set_xlabel("episode, in the order of recording")
    return write_png(figure, target)


def _shown_channels(result: Identification) -> list[int]:
    """The first channels, without rotations of the object."""
    return [i for i, name in enumerate(result.channels) if not name.startswith("object.turn")][:MAX_CHANNELS]


def _on_two_lines(name: str) -> str:
    words = name.split("_")
    middle = (len(words) + 1) // 2
    return "_".join(words[:middle]) + ("_\n" + "_".join(words[middle:]) if len(words) > 2 else "")
