"""Find wrong units: degrees declared as radians, millimetres declared as metres, and vice versa."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from twinloop.episode import Signal
from twinloop.quality.finding import Finding, Severity
from twinloop.quality.registry import CHECKS
from twinloop.quality.view import WRAP_EXCESS, Channel, View

DEGREES = 180 / math.pi
CERTAIN = 4.0
"""Multiple of the limit beyond which there is no doubt."""
RATIOS = {
    "rad": (DEGREES, "degrees"),
    "rad/s": (DEGREES, "degrees"),
    "deg": (DEGREES, "degrees and radians"),
    "m": (1000.0, "millimetres"),
    "mm": (1000.0, "millimetres and metres"),
}


@CHECKS.register("wrong_unit")
def wrong_unit(view: View) -> Iterator[Finding]:
    """Find magnitudes implausible for the declared unit, or a response 57 or 1000 times its command."""
    reported = set()
    for pair in view.pairs:
        found = _by_ratio(view, pair.command, pair.response)
        if found and pair.response.signal.name not in reported:
            reported.add(pair.response.signal.name)
            yield found
    for signal in view.episode.schema.signals:
        if signal.name not in reported and (found := _by_size(view, signal)):
            yield found


def _by_ratio(view: View, command: Channel, response: Channel) -> Finding | None:
    following = view.following.get(response.name)
    if following is None or following.gain == 0 or (command.unit not in RATIOS and command.unit != "unknown"):
        return None
    options = [RATIOS[command.unit]] if command.unit in RATIOS else [(DEGREES, "degrees"), (1000.0, "mm")]
    for ratio, what in options:
        for factor in (ratio, 1 / ratio):
            if abs(math.log(abs(following.gain) / factor)) < view.settings.unit_ratio_tolerance * 2:
                return view.finding(
                    "wrong_unit",
                    response.name,
                    "blocking",
                    (following.gain, "1", 1.0),
                    f"is {following.gain:.3g} times its command {command.name}, as if {what} were mixed",
                    "declare the true units, or convert on ingest",
                )
    return None


def _by_size(view: View, signal: Signal) -> Finding | None:
    """Find the channel of a signal that is furthest beyond what is plausible for its unit."""
    settings = view.settings
    worst: tuple[float, Channel, float, float, str, str] | None = None
    beyond = set()
    for channel in (c for c in view.channels if c.signal is signal):
        size = float(np.percentile(np.abs(channel.values), 99))
        speed = _speed(view, channel)
        candidates: list[tuple[float, float, str, str]] = []
        if channel.unit == "rad":
            candidates.append((size, settings.angle_rad, "rad", "degrees"))
            candidates.append((speed, settings.speed_rad_s, "rad/s", "degrees"))
        elif channel.unit == "rad/s":
            candidates.append((size, settings.speed_rad_s, "rad/s", "degrees"))
        elif channel.unit == "m":
            candidates.append((size, settings.length_m, "m", "millimetres"))
        for value, limit, unit, what in candidates:
            if value <= limit:
                continue
            beyond.add(channel.element)
            if worst is None or value / limit > worst[0]:
                worst = (value / limit, channel, value, limit, unit, what)
    if worst is None:
        return _too_small(view, signal)
    excess, channel, value, limit, unit, what = worst
    # One wheel or pendulum may turn a few times; two joints, or eight turns, are implausible.
    severity: Severity = "blocking" if excess >= CERTAIN or len(beyond) > 1 else "warning"
    return view.finding(
        "wrong_unit",
        channel.name,
        severity,
        (value, unit, limit),
        f"reaches {value:.4g} {unit}, which looks like {what}",
        "declare the true unit, or convert on ingest; override if it is correct",
    )


def _too_small(view: View, signal: Signal) -> Finding | None:
    """Find degrees that stay below pi, or millimetres below 2, in all channels of a signal."""
    for unit, limit, what in (("deg", math.pi, "radians"), ("mm", 2.0, "metres")):
        channels = [c for c in view.channels if c.signal is signal and c.unit == unit]
        if len(channels) < 2 or not any(channel.moves for channel in channels):
            continue
        size = max(float(np.abs(channel.values).max()) for channel in channels)
        if size < limit:
            return view.finding(
                "wrong_unit",
                signal.name,
                "warning",
                (size, unit, limit),
                f"never exceeds {size:.3g} {unit}, which looks like {what}",
                "declare the true unit, or convert on ingest; override if it is correct",
            )
    return None


def _speed(view: View, channel: Channel) -> float:
    if len(channel.values) < 8 or not view.in_order or not channel.moves:
        return 0.0
    # Euler angles near their singularity are fast within one turn; degrees would hardly move there.
    if np.ptp(channel.values) <= (1 + WRAP_EXCESS) * channel.turn:
        return 0.0
    change = np.abs(np.diff(channel.continuous))
    travelled = np.concatenate([[0.0], np.cumsum(change)])
    # Over five rows, so that encoder resolution is not mistaken for speed.
    return float(np.percentile((travelled[5:] - travelled[:-5]) / (view.time_s[5:] - view.time_s[:-5]), 99))
