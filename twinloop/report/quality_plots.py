"""Charts of quality findings: the channel around the finding, and the limit it passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from twinloop.episode import Array
from twinloop.quality.finding import Finding, Measurement
from twinloop.quality.view import View
from twinloop.report.charts import (
    BLUE,
    ORANGE,
    RED,
    add_legend,
    draw_frames,
    encode_svg,
    make_figure,
    shorten,
)

RESPONSE, COMMAND, LIMIT = BLUE, ORANGE, RED
MAX_POINTS = 1200


def draw_finding(view: View, finding: Finding) -> Markup | None:
    """The chart of a finding; None where a chart adds nothing."""
    draw = _DRAW.get(finding.code, _draw_channel)
    figure, (axis,) = make_figure(row_height=1.5, width=6.4)
    axis.margins(x=0.01)
    axis.set_xlabel("time, s")
    return encode_svg(figure) if draw(axis, view, finding) else None


def draw_lags(measurements: list[Measurement]) -> Markup | None:
    """Delay by channel: one point per episode with its uncertainty."""
    lags = [m for m in measurements if m.quantity == "lag" and np.isfinite(m.uncertainty)]
    names = sorted({m.channel for m in lags})
    if not names:
        return None
    figure, (axis,) = make_figure(row_height=0.2 + 0.28 * len(names))
    for row, name in enumerate(names):
        mine = [m for m in lags if m.channel == name]
        spread = np.linspace(-0.22, 0.22, len(mine)) if len(mine) > 1 else [0.0]
        for shift, m in zip(spread, mine, strict=True):
            faint = 0.9 if m.uncertainty <= 30 else 0.2
            axis.errorbar(
                m.value, row + shift, xerr=m.uncertainty, fmt="o", ms=2.5, lw=0.8, color=RESPONSE, alpha=faint
            )
    axis.set_yticks(range(len(names)), [shorten(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    values = [m.value for m in lags]
    axis.set_xlim(min(0.0, *values) - 20, max(values) * 1.1 + 20)
    axis.set_xlabel("delay from command to response, ms")
    return encode_svg(figure)


def _draw_channel(axis: Any, view: View, finding: Finding) -> bool:
    """The channel around the finding, with its command."""
    channel = next((c for c in view.channels if c.name == finding.channel), None)
    if channel is None:
        return False
    rows = _around(view, finding)
    pair = view.pair_of(channel)
    if pair is not None:
        axis.plot(
            view.time_s[rows], pair.command.raw[rows], color=COMMAND, lw=1, ls="--", label=pair.command.name
        )
    few = len(rows) <= 120
    axis.plot(
        view.time_s[rows],
        channel.raw[rows],
        color=RESPONSE,
        lw=1.1,
        marker="." if few else "",
        ms=3,
        label=channel.name,
    )
    _mark(axis, view, finding)
    axis.set_ylabel(channel.unit)
    add_legend(axis)
    return True


def _draw_waits(axis: Any, view: View, finding: Finding) -> bool:
    """The distance between time stamps over the whole episode."""
    waits_ms = 1000 * np.diff(view.time_s)
    rows = np.arange(len(waits_ms))
    if len(rows) > MAX_POINTS:
        # The longest of each stretch, so that no gap is lost.
        starts = np.linspace(0, len(rows), MAX_POINTS // 4, endpoint=False).astype(int)
        rows = np.array(
            [
                a + int(np.argmax(waits_ms[a:b]))
                for a, b in zip(starts, [*starts[1:], len(waits_ms)], strict=True)
            ]
        )
    axis.plot(view.time_s[rows + 1], waits_ms[rows], ".", color=RESPONSE, ms=2.5)
    nominal = 1000 / view.episode.schema.rate_hz
    axis.axhline(nominal, color=COMMAND, lw=1, ls="--", label=f"declared {nominal:.3g} ms")
    if finding.code == "gap":
        axis.axhline(
            1000 * finding.threshold, color=LIMIT, lw=0.8, label=f"limit {1000 * finding.threshold:.3g} ms"
        )
    axis.set_ylabel("interval between rows, ms")
    axis.set_ylim(bottom=0)
    add_legend(axis)
    _mark(axis, view, finding)
    return True


def _draw_clock(axis: Any, view: View, finding: Finding) -> bool:
    """How far a stream's clock has run from the rows' time."""
    clock = view.episode.signals[finding.channel].reshape(len(view.time_s), -1)[:, 0].astype(np.float64)
    apart = clock - view.time_s
    axis.plot(view.time_s, 1000 * (apart - apart[0]), ".", color=RESPONSE, ms=2)
    axis.set_ylabel("ms apart")
    return True


def _draw_repeats(axis: Any, view: View, finding: Finding) -> bool:
    """The liveliest channel around the first repeats."""
    moving = [channel for channel in view.measured if channel.moves]
    if not moving:
        return False
    rows = _around(view, finding, least=40)
    channel = max(moving, key=lambda c: float(np.ptp(c.values[rows])) / (c.range or 1.0))
    times, values = view.time_s[rows], channel.values[rows]
    same = np.concatenate([[False], np.diff(values) == 0])
    axis.plot(times, values, color=RESPONSE, lw=0.9, marker=".", ms=4, label=channel.name)
    axis.plot(times[same], values[same], "o", mfc="none", color=LIMIT, ms=6, label="same as the row before")
    axis.set_ylabel(channel.unit)
    add_legend(axis)
    return True


def _draw_frames(axis: Any, view: View, finding: Finding) -> bool:
    """The frame before the stretch, three of it, and the one after."""
    frames = view.episode.frames[finding.channel.removeprefix("observation.images.")]
    first, last = (int(np.searchsorted(view.time_s, t)) for t in (finding.start_s, finding.end_s))
    last = min(last, len(view.time_s) - 1)
    rows = sorted({max(first - 1, 0), first, (first + last) // 2, last, min(last + 1, len(view.time_s) - 1)})
    draw_frames(
        axis,
        [np.asarray(frames[row]) for row in rows],
        "   ".join(f"row {row}, {view.time_s[row]:.2f} s" for row in rows),
    )
    return True


def _draw_nothing(axis: Any, view: View, finding: Finding) -> bool:
    return False


_DRAW: dict[str, Callable[[Any, View, Finding], bool]] = {
    **dict.fromkeys(("time_order", "dropped", "gap", "jitter", "rate_mismatch", "low_rate"), _draw_waits),
    **dict.fromkeys(("frozen_camera", "dead_camera"), _draw_frames),
    **dict.fromkeys(("constant", "artefact", "success_contradiction", "unreadable"), _draw_nothing),
    "clock_drift": _draw_clock,
    "duplicated": _draw_repeats,
}


def _around(view: View, finding: Finding, least: int = 100) -> Array:
    """Rows of the finding with as much before and after it, thinned where there are too many to see."""
    first, last = np.searchsorted(view.time_s, [finding.start_s, finding.end_s])
    margin = max(int(last - first) // 2, (least - int(last - first)) // 2, 4)
    low, high = max(int(first) - margin, 0), min(int(last) + margin + 1, len(view.time_s))
    return np.arange(low, high, max(1, (high - low) // MAX_POINTS))


def _mark(axis: Any, view: View, finding: Finding) -> None:
    if finding.end_s - finding.start_s < 0.95 * view.episode.duration_s:
        axis.axvspan(
            finding.start_s, max(finding.end_s, finding.start_s + view.period_s), color=RED, alpha=0.15, lw=0
        )
