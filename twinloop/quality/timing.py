"""Timing checks: order, lost and repeated samples, gaps, jitter, rates, clock drift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS, grade
from twinloop.quality.view import CLOCK_PREFIX, View

FEWEST_ROWS = 8
WINDOW = 5
"""Rows on either side used to estimate the speed."""
MOVING_STEPS = 3.0
"""A row is moving if some channel covers this many steps of its resolution per row, before and after it."""
FEWEST_MOVING = 20


@CHECKS.register("time_order")
def time_order(view: View) -> Iterator[Finding]:
    """Find time stamps that are not finite, repeat or run backwards."""
    wrong = ~np.isfinite(view.time_s)
    wrong[1:] |= ~(np.diff(view.time_s) > 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        yield view.finding(
            "time_order",
            "time_s",
            "blocking",
            (int(wrong.sum()), "rows", 0),
            f"time does not increase in {int(wrong.sum())} rows, first at row {row}",
            "sort the rows, drop repeated samples, or split the episode where the clock was reset",
            (max(row - 1, 0), row),
        )


@CHECKS.register("dropped")
def dropped(view: View) -> Iterator[Finding]:
    """Find samples lost between time stamps; long gaps are reported by another check."""
    if not _is_timed(view):
        return
    intervals = np.diff(view.time_s)
    periods = intervals / view.period_s
    late = (periods > view.settings.dropped_periods) & (intervals <= _gap_limit_s(view))
    lost = np.where(late, np.rint(periods) - 1, 0).clip(min=0)
    lost[late & (lost == 0)] = 1
    fraction = float(lost.sum() / (lost.sum() + len(view.time_s)))
    if lost.any():
        row = int(np.argmax(lost))
        yield view.finding(
            "dropped",
            "time_s",
            grade(fraction, view.settings.dropped_blocking),
            (100 * fraction, "%", 0),
            f"{int(lost.sum())} samples missing in {int(late.sum())} places ({fraction:.2%}), most after row {row}",
            "record on a machine with less load, or resample and record that; do not treat rows as evenly spaced",
            (row, row + 1),
        )


@CHECKS.register("gap")
def gap(view: View) -> Iterator[Finding]:
    """Find pauses too long to interpolate."""
    if not _is_timed(view):
        return
    settings = view.settings
    limit_s = _gap_limit_s(view)
    intervals = np.diff(view.time_s)
    row = int(np.argmax(intervals))
    if intervals[row] > limit_s:
        many = int((intervals > limit_s).sum())
        yield view.finding(
            "gap",
            "time_s",
            grade(float(intervals[row]), max(settings.gap_blocking_s, limit_s)),
            (float(intervals[row]), "s", limit_s),
            f"{many} gap{'s' * (many > 1)}, the longest {intervals[row]:.3g} s after row {row}",
            "split the episode at the gap, or record it again",
            (row, row + 1),
        )


@CHECKS.register("jitter")
def jitter(view: View) -> Iterator[Finding]:
    """Find irregular time stamps."""
    if not _is_timed(view):
        return
    intervals = np.diff(view.time_s) / view.period_s
    regular = intervals[intervals <= view.settings.dropped_periods]
    if len(regular) < FEWEST_ROWS:
        return
    scatter = float(np.percentile(np.abs(regular - 1), 95))
    if scatter > view.settings.jitter_periods:
        yield view.finding(
            "jitter",
            "time_s",
            "warning",
            (1000 * scatter * view.period_s, "ms", 1000 * view.settings.jitter_periods * view.period_s),
            f"5 % of the time stamps deviate by {scatter:.0%} of the period or more",
            "use the true time stamps, not the row number; stamp samples in the driver, not after the queue",
        )


@CHECKS.register("rate_mismatch")
def rate_mismatch(view: View) -> Iterator[Finding]:
    """Find a declared rate that the time stamps contradict."""
    if not _is_timed(view):
        return
    declared, true = view.episode.schema.rate_hz, 1 / view.period_s
    difference = abs(true / declared - 1)
    if difference > view.settings.rate_tolerance:
        yield view.finding(
            "rate_mismatch",
            "time_s",
            "warning",
            (true, "Hz", declared),
            f"declared as {declared:g} Hz but recorded at {true:.4g} Hz",
            "declare the true rate; otherwise video and row counts run at the wrong speed",
        )


@CHECKS.register("low_rate")
def low_rate(view: View) -> Iterator[Finding]:
    """Find a rate too low for what is to be identified."""
    needed, true = view.settings.needed_rate_hz, 1 / view.period_s
    if view.in_order and len(view.time_s) > 2 and true < 0.97 * needed:
        yield view.finding(
            "low_rate",
            "time_s",
            "blocking",
            (true, "Hz", needed),
            f"recorded at {true:.4g} Hz; {', '.join(view.settings.asked) or 'joint_dynamics'} needs {needed:g} Hz",
            "record at a higher rate, or identify less",
        )


@CHECKS.register("duplicated")
def duplicated(view: View) -> Iterator[Finding]:
    """Find rows that repeat the row before while the robot moves: the sensor was not read again."""
    repeated, moving = repeated_rows(view)
    if moving.sum() < FEWEST_MOVING:
        return
    fraction = float(repeated.sum() / moving.sum())
    if fraction >= view.settings.duplicated:
        row = int(np.argmax(repeated))
        yield view.finding(
            "duplicated",
            "observation",
            grade(fraction, view.settings.duplicated_blocking),
            (100 * fraction, "%", 100 * view.settings.duplicated),
            f"{int(repeated.sum())} of {int(moving.sum())} moving rows repeat the row before, first at row {row}",
            "log each new sensor sample, not on a timer; or drop the repeats and keep the true time stamps",
            (max(row - 2, 0), row + 2),
        )


def repeated_rows(view: View) -> tuple[Array, Array]:
    """Return two masks (T,): rows that repeat the one before while the robot moves, and moving rows."""
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
    """Find streams whose own clock drifts from the row time."""
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
            yield view.finding(
                "clock_drift",
                signal.name,
                grade(drift_s, view.settings.drift_blocking_periods * view.period_s),
                (1000 * drift_s, "ms", 1000 * limit_s),
                f"drifts {1e6 * rate:+.0f} ppm from the row time: {1000 * drift_s:.3g} ms over the episode",
                "synchronise the clocks (PTP, NTP), or align this stream by its own time stamps",
            )


def _robust_slope(x: Array, y: Array) -> tuple[float, float]:
    """Return the median slope between rows half an episode apart, and its standard error; robust to outliers."""
    half = len(x) // 2
    slopes = (y[half : 2 * half] - y[:half]) / (x[half : 2 * half] - x[:half])
    slope = float(np.median(slopes))
    scatter = 1.4826 * float(np.median(np.abs(slopes - slope)))
    return slope, scatter / np.sqrt(max(half, 1))


def _gap_limit_s(view: View) -> float:
    return max(view.settings.gap_s, view.settings.gap_periods * view.period_s)


def _is_timed(view: View) -> bool:
    return view.in_order and len(view.time_s) >= FEWEST_ROWS
