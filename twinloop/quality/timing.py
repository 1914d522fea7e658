"""Checks of time: order, lost and repeated samples, gaps, jitter, rates, clocks that drift apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS, finding, graded
from twinloop.quality.view import CLOCK_PREFIX, View

FEWEST_ROWS = 8
WINDOW = 5
"""Rows on either side over which the speed is taken."""
MOVING_STEPS = 3.0
"""A row is in motion when some channel travels this many steps of its resolution per row, before and after it."""
FEWEST_MOVING = 20


@CHECKS.register("time_order")
def time_order(view: View) -> Iterator[Finding]:
    """Time stamps that are not numbers, repeat or run backwards."""
    wrong = ~np.isfinite(view.time_s)
    wrong[1:] |= ~(np.diff(view.time_s) > 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        yield finding(
            view,
            "time_order",
            "time_s",
            "blocking",
            int(wrong.sum()),
            "rows",
            0,
            f"time does not move forward in {int(wrong.sum())} rows, first at row {row}",
            "sort the rows, drop repeated samples, or split the episode where the clock was reset",
            (max(row - 1, 0), row),
        )


@CHECKS.register("dropped")
def dropped(view: View) -> Iterator[Finding]:
    """Samples lost between two time stamps, but for gaps, which are another check's."""
    if not _timed(view):
        return
    waits = np.diff(view.time_s)
    periods = waits / view.period_s
    late = (periods > view.settings.dropped_periods) & (waits <= _gap_limit_s(view))
    lost = np.where(late, np.rint(periods) - 1, 0).clip(min=0)
    lost[late & (lost == 0)] = 1
    share = float(lost.sum() / (lost.sum() + len(view.time_s)))
    if lost.any():
        row = int(np.argmax(lost))
        yield finding(
            view,
            "dropped",
            "time_s",
            graded(share, view.settings.dropped_blocking),
            100 * share,
            "%",
            0,
            f"samples missing: {int(lost.sum())}, in places: {int(late.sum())} ({share:.2%}), most after row {row}",
            "record on a machine with less load, or resample and say so; never treat rows as evenly spaced",
            (row, row + 1),
        )


@CHECKS.register("gap")
def gap(view: View) -> Iterator[Finding]:
    """A pause long enough that what happened in it cannot be guessed."""
    if not _timed(view):
        return
    settings = view.settings
    limit_s = _gap_limit_s(view)
    waits = np.diff(view.time_s)
    row = int(np.argmax(waits))
    if waits[row] > limit_s:
        many = int((waits > limit_s).sum())
        yield finding(
            view,
            "gap",
            "time_s",
            graded(float(waits[row]), max(settings.gap_blocking_s, limit_s)),
            float(waits[row]),
            "s",
            limit_s,
            f"{many} gap{'s' * (many > 1)}, the longest {waits[row]:.3g} s after row {row}",
            "split the episode at the gap, or record it again",
            (row, row + 1),
        )


@CHECKS.register("jitter")
def jitter(view: View) -> Iterator[Finding]:
    """Time stamps that scatter around the period."""
    if not _timed(view):
        return
    waits = np.diff(view.time_s) / view.period_s
    regular = waits[waits <= view.settings.dropped_periods]
    if len(regular) < FEWEST_ROWS:
        return
    scatter = float(np.percentile(np.abs(regular - 1), 95))
    if scatter > view.settings.jitter_periods:
        yield finding(
            view,
            "jitter",
            "time_s",
            "warning",
            1000 * scatter * view.period_s,
            "ms",
            1000 * view.settings.jitter_periods * view.period_s,
            f"one time stamp in twenty is off by {scatter:.0%} of the period or more",
            "use the true time stamps, never the row number; stamp samples in the driver, not after the queue",
        )


@CHECKS.register("rate_mismatch")
def rate_mismatch(view: View) -> Iterator[Finding]:
    """A declared rate that the time stamps contradict."""
    if not _timed(view):
        return
    declared, true = view.episode.schema.rate_hz, 1 / view.period_s
    difference = abs(true / declared - 1)
    if difference > view.settings.rate_tolerance:
        yield finding(
            view,
            "rate_mismatch",
            "time_s",
            "warning",
            true,
            "Hz",
            declared,
            f"declared as {declared:g} Hz but recorded at {true:.4g} Hz",
            "declare the true rate; video and everything that counts rows runs at the wrong speed otherwise",
        )


@CHECKS.register("low_rate")
def low_rate(view: View) -> Iterator[Finding]:
    """A rate too low to identify what is asked."""
    needed, true = view.settings.needed_rate_hz, 1 / view.period_s
    if view.in_order and len(view.time_s) > 2 and true < 0.97 * needed:
        yield finding(
            view,
            "low_rate",
            "time_s",
            "blocking",
            true,
            "Hz",
            needed,
            f"recorded at {true:.4g} Hz; {', '.join(view.settings.asked) or 'joint_dynamics'} needs {needed:g} Hz",
            "record faster, or ask for less",
        )


@CHECKS.register("duplicated")
def duplicated(view: View) -> Iterator[Finding]:
    """Rows that repeat the row before although the robot moves: the sensor was not read again."""
    repeated, moving = repeated_rows(view)
    if moving.sum() < FEWEST_MOVING:
        return
    share = float(repeated.sum() / moving.sum())
    if share >= view.settings.duplicated:
        row = int(np.argmax(repeated))
        yield finding(
            view,
            "duplicated",
            "observation",
            graded(share, view.settings.duplicated_blocking),
            100 * share,
            "%",
            100 * view.settings.duplicated,
            f"{int(repeated.sum())} of {int(moving.sum())} moving rows repeat the row before, first at row {row}",
            "log when the sensor delivers, not on a timer; or drop the repeats and keep the true time stamps",
            (max(row - 2, 0), row + 2),
        )


def repeated_rows(view: View) -> tuple[Array, Array]:
    """Which rows repeat the one before while the robot moves, and which rows are in motion at all: two masks (T,)."""
    rows = len(view.time_s)
    equal, moving = np.ones(rows, bool), np.zeros(rows, bool)
    channels = [c for c in view.measured if c.range > 0]
    for channel in channels:
        change = np.abs(np.diff(channel.values, prepend=channel.values[0]))
        equal &= change == 0
        step = channel.step or max(channel.noise, 1e-6 * channel.range)
        travelled = np.concatenate([[0.0], np.cumsum(change)])
        row = np.arange(rows)
        before = travelled[row] - travelled[np.maximum(row - WINDOW, 0)]
        after = travelled[np.minimum(row + WINDOW + 1, rows)] - travelled[row + 1]
        moving |= np.minimum(before, after) >= MOVING_STEPS * WINDOW * step
    equal[0] = False
    moving &= bool(channels)
    return equal & moving, moving


@CHECKS.register("clock_drift")
def clock_drift(view: View) -> Iterator[Finding]:
    """A stream whose own clock runs faster or slower than the rows' time."""
    if not view.in_order or len(view.time_s) < FEWEST_ROWS:
        return
    for signal in view.episode.schema.signals:
        if not signal.name.startswith(CLOCK_PREFIX):
            continue
        clock = view.episode.signals[signal.name].reshape(len(view.time_s), -1)[:, 0].astype(np.float64)
        usable = np.isfinite(clock)
        if usable.sum() < FEWEST_ROWS:
            continue
        rate, uncertainty = _robust_slope(view.time_s[usable], clock[usable] - view.time_s[usable])
        drift_s = abs(rate) * view.episode.duration_s
        limit_s = view.settings.drift_periods * view.period_s
        if drift_s > limit_s and abs(rate) > 3 * uncertainty:
            yield finding(
                view,
                "clock_drift",
                signal.name,
                graded(drift_s, view.settings.drift_blocking_periods * view.period_s),
                1000 * drift_s,
                "ms",
                1000 * limit_s,
                f"runs {1e6 * rate:+.0f} ppm against the rows' time: {1000 * drift_s:.3g} ms over the episode",
                "synchronise the clocks (PTP, NTP), or align this stream by its own time stamps",
            )


def _robust_slope(x: Array, y: Array) -> tuple[float, float]:
    """Median slope between rows half an episode apart, and its standard error: a few wild stamps do not move it."""
    half = len(x) // 2
    slopes = (y[half : 2 * half] - y[:half]) / (x[half : 2 * half] - x[:half])
    slope = float(np.median(slopes))
    scatter = 1.4826 * float(np.median(np.abs(slopes - slope)))
    return slope, scatter / np.sqrt(max(half, 1))


def _gap_limit_s(view: View) -> float:
    return max(view.settings.gap_s, view.settings.gap_periods * view.period_s)


def _timed(view: View) -> bool:
    return view.in_order and len(view.time_s) >= FEWEST_ROWS
