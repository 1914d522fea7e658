"""Checks of single channels: NaN, dead and stuck channels, limits, spikes, resolution."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.measure.saturation import FEWEST_ROWS, find_plateaus
from twinloop.measure.trace import Trace, find_stretches
from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS, grade
from twinloop.quality.view import Channel, Pair, View

FEWEST_PLATEAUS = 2
"""A single plateau may be a coincidence."""
FEWEST_LEVELS = 8
"""Channels with fewer distinct values are not checked for spikes and clipping."""
FORCES = ("N", "N·m", "A")
"""Units in which a single large sample may be a contact."""
OTHER_RUNS = 10.0
"""A channel without a command is stuck if one pause is this many times its second longest."""


@CHECKS.register("not_a_number")
def not_a_number(view: View) -> Iterator[Finding]:
    """Find NaN and infinity, which only foreign data can contain."""
    for channel in view.channels:
        if not channel.finite.all():
            holes = ~channel.finite
            first = int(np.argmax(holes))
            last = int(len(holes) - 1 - np.argmax(holes[::-1]))
            yield view.finding(
                "not_a_number",
                channel.name,
                "blocking",
                (int(holes.sum()), "rows", 0),
                f"{int(holes.sum())} rows are not finite, rows {first} to {last}",
                "drop the rows, or fill the gaps and record that in an event",
                (first, last),
            )


@CHECKS.register("constant")
def constant(view: View) -> Iterator[Finding]:
    """Find channels that never change although they are not declared as constants: unused joints, or dead sensors."""
    if len(view.time_s) < FEWEST_ROWS:
        return
    for signal in view.episode.schema.signals:
        channels = [c for c in view.channels if c.signal is signal]
        still = [c for c in channels if np.ptp(c.values) == 0]
        if not still or signal.name in view.settings.constants:
            continue
        whole = len(still) == len(channels)
        names = (
            signal.name if whole else ", ".join(c.name.removeprefix(signal.name).strip("[]") for c in still)
        )
        yield view.finding(
            "constant",
            signal.name,
            "warning" if whole else "note",
            (len(still), "channels", 0),
            f"{names}: the same value in every row",
            "check the sensor or its driver"
            if whole
            else "nothing to do if it was not used; else check its driver",
        )


@CHECKS.register("stuck")
def stuck(view: View) -> Iterator[Finding]:
    """Find measured channels that stop while their command moves, or that normally never stop."""
    if len(view.time_s) < FEWEST_ROWS or not view.in_order:
        return
    for channel in view.measured:
        pauses = [(a, b) for a, b in _pauses(channel.values) if _span_s(view, a, b) >= view.settings.stuck_s]
        pair = view.pair_of(channel)
        if pair is None:
            pauses = [pause for pause in pauses if _unusual(view, channel, pause)]
        elif pauses:
            pauses = _select_tracking_losses(view, pair, pauses)
        if not pauses:
            continue
        total_s = sum(_span_s(view, a, b) for a, b in pauses)
        a, b = max(pauses, key=lambda pause: pause[1] - pause[0])
        fraction = total_s / max(view.episode.duration_s, 1e-9)
        why = "while its command moves" if pair else "although it normally never stops"
        yield view.finding(
            "stuck",
            channel.name,
            "blocking" if pair and fraction >= view.settings.stuck_blocking else "warning",
            (total_s, "s", view.settings.stuck_s),
            f"does not change for {total_s:.2f} s {why}, longest from row {a} to {b - 1}",
            "check the sensor, its cable and its driver; exclude the episode",
            (a, b - 1),
        )


@CHECKS.register("clipped")
def clipped(view: View) -> Iterator[Finding]:
    """Find measured channels clipped at a limit during a motion.

    Channels with only a few values, such as a motor temperature in whole degrees, are not checked.
    """
    for channel in view.measured:
        if len(np.unique(channel.values)) < FEWEST_LEVELS:
            continue
        pair = view.pair_of(channel)
        plateaus = _plateaus(view, channel)
        if pair is not None and pair.command.moves:
            following = view.following.get(channel.name)
            lag_s = following.delay.value if following else 0.0
            plateaus = [
                (a, b)
                for a, b in plateaus
                if _travel(view, pair.command.values, a, b, lag_s) > 5 * (channel.step or channel.noise)
            ]
        yield from _report_plateaus(
            view,
            channel,
            plateaus,
            "clipped",
            view.settings.clipped,
            view.settings.clipped_blocking,
            "{count} times constant at {limit} during a motion",
            "widen the sensor's range, or mark these rows as unusable",
        )


@CHECKS.register("saturated")
def saturated(view: View) -> Iterator[Finding]:
    """Find commands that stay at their limit during a motion."""
    for channel in view.commands:
        yield from _report_plateaus(
            view,
            channel,
            _plateaus(view, channel),
            "saturated",
            view.settings.saturated,
            np.inf,
            "{count} times constant at its limit {limit}",
            "lower the gains or the speed; at the limit, actuator parameters are not separately identifiable",
        )


def _report_plateaus(
    view: View,
    channel: Channel,
    plateaus: list[tuple[int, int]],
    code: str,
    threshold: float,
    blocking_from: float,
    message: str,
    remedy: str,
) -> Iterator[Finding]:
    """Yield a finding if plateaus make up at least the fraction `threshold` of the episode."""
    fraction = sum(b - a for a, b in plateaus) / len(view.time_s)
    if len(plateaus) >= FEWEST_PLATEAUS and fraction >= threshold:
        a, b = max(plateaus, key=lambda plateau: plateau[1] - plateau[0])
        yield view.finding(
            code,
            channel.name,
            grade(fraction, blocking_from),
            (100 * fraction, "%", 100 * threshold),
            message.format(count=len(plateaus), limit=channel.with_unit(channel.values[a])),
            remedy,
            (a, b - 1),
        )


@CHECKS.register("spike")
def spike(view: View) -> Iterator[Finding]:
    """Find single samples far from both neighbours, which agree with each other."""
    for channel in view.measured:
        rows, threshold = spikes(channel, view.settings.spike_scales)
        if len(rows):
            fraction = len(rows) / len(view.time_s)
            values = channel.continuous
            sizes = np.abs(values[rows] - (values[rows - 1] + values[rows + 1]) / 2)
            row = int(rows[np.argmax(sizes)])
            yield view.finding(
                "spike",
                channel.name,
                "note" if channel.unit in FORCES else grade(fraction, view.settings.spike_blocking),
                (float(sizes.max()), channel.unit, threshold),
                f"{len(rows)} single-sample outliers, the largest by {channel.with_unit(sizes.max())} at row {row}",
                "look for electrical noise or bus errors; interpolate them and record that",
                (max(row - 3, 0), row + 3),
            )


@CHECKS.register("quantization")
def quantization(view: View) -> Iterator[Finding]:
    """Find channels whose resolution is coarse for their motion."""
    for channel in view.measured:
        if channel.step == 0 or channel.range < 4 * channel.step:
            continue
        levels = channel.range / channel.step
        if levels < view.settings.quantization_levels:
            yield view.finding(
                "quantization",
                channel.name,
                "note",
                (channel.step, channel.unit, channel.range / view.settings.quantization_levels),
                f"covers only {levels:.0f} steps of {channel.with_unit(channel.step, 3)}",
                "excite it more, or use a finer sensor; velocities from differences are meaningless here",
            )


def spikes(channel: Channel, scales: float) -> tuple[Array, float]:
    """Return the rows of single outliers, and the threshold."""
    values = channel.continuous
    if len(values) < FEWEST_ROWS or channel.range == 0 or len(np.unique(values)) < FEWEST_LEVELS:
        return np.zeros(0, np.int64), np.inf
    away = np.abs(values[1:-1] - (values[:-2] + values[2:]) / 2)
    alone = np.abs(values[2:] - values[:-2]) < 0.3 * away
    # The usual size is taken from rows that are neither suspected nor next to one that is.
    suspected = np.convolve(alone & (away > 4 * np.percentile(away, 75)), np.ones(3), "same") > 0
    usual, roughest = np.percentile(away[~suspected], [90, 97]) if not suspected.all() else (0.0, 0.0)
    threshold = max(scales * usual, 0.5 * scales * roughest, 5 * channel.step, 0.01 * channel.range)
    return np.flatnonzero(alone & (away > threshold)) + 1, float(threshold)


def _pauses(values: Array) -> list[tuple[int, int]]:
    """Return intervals of identical values as (first row, one past the last)."""
    return [(a, b + 1) for a, b in find_stretches(np.diff(values) == 0)]


def _unusual(view: View, channel: Channel, pause: tuple[int, int]) -> bool:
    """Return whether a pause is far longer than the channel's others while another channel moves."""
    if np.ptp(channel.values) == 0 or not channel.moves:
        return False
    a, b = pause
    others = sorted(stop - first for first, stop in _pauses(channel.values) if (first, stop) != pause)
    rest = others[-1] if others else 1
    if b - a <= OTHER_RUNS * max(rest, 2):
        return False
    return any(
        np.ptp(other.values[a:b]) > max(0.2 * other.range, 20 * other.step)
        for other in view.measured
        if other is not channel and other.moves
    )


def _select_tracking_losses(view: View, pair: Pair, pauses: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Select pauses in which the tracking error exceeds that of friction and weak actuators elsewhere."""
    command, response = pair.command, pair.response
    if not command.moves:
        return []
    following = view.following.get(response.name)
    sent = np.interp(view.time_s - (following.delay.value if following else 0.0), view.time_s, command.values)
    away = np.abs(response.values - sent - (following.offset if following else 0.0))
    if np.ptp(response.values) == 0:
        return pauses
    travel = max(view.settings.stuck_travel * command.range, 20 * response.step)

    def loses_track(a: int, b: int) -> bool:
        others = np.concatenate([away[:a], away[b:]])
        usual = float(np.percentile(others, 95)) if len(others) else 0.0
        return bool(np.ptp(sent[a:b]) > travel and away[a:b].max() > view.settings.stuck_errors * usual)

    return [(a, b) for a, b in pauses if loses_track(a, b)]


def _plateaus(view: View, channel: Channel) -> list[tuple[int, int]]:
    return (
        find_plateaus(Trace(channel.name, channel.unit, view.time_s, channel.values)) if channel.moves else []
    )


def _travel(view: View, command: Array, first: int, stop: int, lag_s: float) -> float:
    """Return how far the command moved in these rows of the response."""
    times = view.time_s[first:stop] - lag_s
    return float(np.ptp(np.interp(times, view.time_s, command)))


def _span_s(view: View, first: int, stop: int) -> float:
    return float(view.time_s[stop - 1] - view.time_s[first])
