"""Small images that show a finding: what the channel did, where, and beyond which limit."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.quality.finding import Finding, Measurement
from twinloop.quality.view import View

INK, RESPONSE, COMMAND, MARK, LIMIT = "#33414e", "#1f6fb2", "#e08a1e", "#f3c6c2", "#b3261e"
MOST_POINTS = 4000


def draw_finding(view: View, finding: Finding) -> bytes | None:
    """A PNG, or None where an image says nothing."""
    draw = _DRAW.get(finding.code, _draw_channel)
    figure, axis = _figure()
    if not draw(axis, view, finding):
        return None
    return _png(figure)


def draw_lags(measurements: list[Measurement]) -> bytes | None:
    """Lag by channel: one point per episode, as wide as it is uncertain."""
    lags = [m for m in measurements if m.quantity == "lag" and np.isfinite(m.uncertainty)]
    names = sorted({m.channel for m in lags})
    if not names:
        return None
    figure, axis = _figure(height=0.7 + 0.28 * len(names))
    for row, name in enumerate(names):
        mine = [m for m in lags if m.channel == name]
        spread = np.linspace(-0.22, 0.22, len(mine)) if len(mine) > 1 else [0.0]
        for shift, m in zip(spread, mine, strict=True):
            faint = 0.9 if m.uncertainty <= 30 else 0.2
            axis.errorbar(
                m.value, row + shift, xerr=m.uncertainty, fmt="o", ms=2.5, lw=0.8, color=RESPONSE, alpha=faint
            )
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.set_ylim(len(names) - 0.5, -0.5)
    values = [m.value for m in lags]
    axis.set_xlim(min(0.0, *values) - 20, max(values) * 1.1 + 20)
    axis.set_xlabel("lag behind the command, ms (faint: known no better than 30 ms)", fontsize=7)
    return _png(figure)


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
    axis.set_ylabel(channel.unit, fontsize=7)
    axis.legend(fontsize=6.5, loc="upper right", framealpha=0.85)
    return True


def _draw_waits(axis: Any, view: View, finding: Finding) -> bool:
    """The distance between time stamps over the whole episode."""
    waits_ms = 1000 * np.diff(view.time_s)
    rows = np.arange(len(waits_ms))
    if len(rows) > MOST_POINTS:
        # The longest of each stretch, so that no gap is lost.
        starts = np.linspace(0, len(rows), MOST_POINTS // 4, endpoint=False).astype(int)
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
    axis.set_ylabel("ms to the row before", fontsize=7)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=6.5, loc="upper right", framealpha=0.85)
    _mark(axis, view, finding)
    return True


def _draw_clock(axis: Any, view: View, finding: Finding) -> bool:
    """How far a stream's clock has run from the rows' time."""
    clock = view.episode.signals[finding.channel].reshape(len(view.time_s), -1)[:, 0].astype(np.float64)
    apart = clock - view.time_s
    axis.plot(view.time_s, 1000 * (apart - apart[0]), ".", color=RESPONSE, ms=2)
    axis.set_ylabel("ms apart", fontsize=7)
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
    axis.set_ylabel(channel.unit, fontsize=7)
    axis.legend(fontsize=6.5, loc="upper right", framealpha=0.85)
    return True


def _draw_frames(axis: Any, view: View, finding: Finding) -> bool:
    """The frame before the stretch, three of it, and the one after."""
    frames = view.episode.frames[finding.channel.removeprefix("observation.images.")]
    first, last = (int(np.searchsorted(view.time_s, t)) for t in (finding.start_s, finding.end_s))
    last = min(last, len(view.time_s) - 1)
    rows = sorted({max(first - 1, 0), first, (first + last) // 2, last, min(last + 1, len(view.time_s) - 1)})
    images: list[Array] = [np.asarray(frames[row]) for row in rows]
    gap = np.full((images[0].shape[0], max(2, images[0].shape[1] // 40), 3), 255, np.uint8)
    axis.imshow(np.concatenate([part for image in images for part in (image, gap)][:-1], axis=1))
    axis.set_title("   ".join(f"row {row}, {view.time_s[row]:.2f} s" for row in rows), fontsize=7)
    axis.axis("off")
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
    return np.arange(low, high, max(1, (high - low) // MOST_POINTS))


def _mark(axis: Any, view: View, finding: Finding) -> None:
    if finding.end_s - finding.start_s < 0.95 * view.episode.duration_s:
        axis.axvspan(
            finding.start_s, max(finding.end_s, finding.start_s + view.period_s), color=MARK, alpha=0.6, lw=0
        )


def _figure(height: float = 1.75) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, height), layout="constrained")
    axis = figure.subplots()
    axis.tick_params(labelsize=7, colors=INK)
    axis.grid(alpha=0.25, lw=0.6)
    axis.margins(x=0.01)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.set_xlabel("time, s", fontsize=7)
    return figure, axis


def _png(figure: Any) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()
