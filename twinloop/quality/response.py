"""Checks of the response to commands: lag and offset."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.quality.finding import Finding, Measurement
from twinloop.quality.registry import CHECKS, grade
from twinloop.quality.view import Channel, View


@CHECKS.register("lag")
def lag(view: View) -> Iterator[Finding]:
    """Find responses later than common tools assume, or earlier than their command."""
    settings = view.settings
    commands = {pair.response.name: pair.command.name for pair in view.pairs}
    for name, found in view.following.items():
        delay_s, error_s = found.delay.value, found.delay.standard_deviation
        if error_s > settings.lag_uncertainty_s:
            continue
        if delay_s >= settings.lag_s:
            yield view.finding(
                "lag",
                name,
                grade(delay_s, settings.lag_blocking_s),
                (1000 * delay_s, "ms", 1000 * settings.lag_s),
                f"lags its command {commands[name]} by {1000 * delay_s:.0f} ± {1000 * error_s:.0f} ms",
                "add the delay to the twin (identify does), or find its cause",
            )
        elif delay_s < -(view.period_s + 3 * error_s):
            yield view.finding(
                "lag",
                name,
                "warning",
                (1000 * delay_s, "ms", -1000 * view.period_s),
                f"leads its command {commands[name]} by {-1000 * delay_s:.0f} ms",
                "the streams are not aligned, or the action was computed from the state: align the clocks",
            )


@CHECKS.register("offset")
def offset(view: View) -> Iterator[Finding]:
    """Find responses with a constant offset from their command, which indicates wrong calibration."""
    for pair in view.pairs:
        found = view.following.get(pair.response.name)
        if found is None or not 0.7 < found.gain < 1.4:
            continue
        warn, block = _limits(view, pair.command)
        # A wrong zero is constant; the error of a weak actuator under load is not.
        if abs(found.offset) >= max(warn, 2 * found.scatter):
            yield view.finding(
                "offset",
                pair.response.name,
                grade(abs(found.offset), block),
                (found.offset, pair.response.unit, warn),
                f"has a constant offset of {pair.response.with_unit(found.offset, 3, '+')} from its command {pair.command.name}",
                "calibrate the zero of the joint, or of the leader arm; gravity alone does not cause this",
            )


def measurements(view: View) -> Iterator[Measurement]:
    """Yield lag and offset of every pair whose response follows its command."""
    for pair in view.pairs:
        response, command = pair.response, pair.command.name
        found = view.following.get(response.name)
        if found is not None:
            lag_ms, error_ms = 1000 * found.delay.value, 1000 * found.delay.standard_deviation
            yield Measurement("lag", response.name, lag_ms, error_ms, "ms", command=command)
            yield Measurement("offset", response.name, found.offset, 0.0, response.unit, command=command)


def _limits(view: View, command: Channel) -> tuple[float, float]:
    settings = view.settings
    if command.unit == "rad":
        return settings.offset_rad, settings.offset_blocking_rad
    if command.unit == "m":
        return settings.offset_m, settings.offset_blocking_m
    return settings.offset_fraction * command.range, 2 * settings.offset_fraction * command.range
