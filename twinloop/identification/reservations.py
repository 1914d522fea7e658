"""What a reader must know before trusting an identification: each function returns sentences, none if all is well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.episode import Array
from twinloop.identification.accept import replay_errors
from twinloop.identification.predict import Window
from twinloop.identification.problem import Solution
from twinloop.identification.recording import Channel, Recording
from twinloop.identification.result import Estimate
from twinloop.identification.scale import values_at

UNEXPLAINED = 0.5
"""A channel whose replay error exceeds this part of its motion is not described by the model."""
OUTLYING, FEWEST_TO_COMPARE, MOST_NAMED = 5.0, 6, 3
"""An episode whose replay error is this many times the median episode's stands out, if there are enough to compare."""


def find_doubts(solution: Solution, estimates: Sequence[Estimate]) -> list[str]:
    """A search that did not converge, another solution that fits as well, values at the limit of their range."""
    made = []
    if not solution.converged:
        made.append("the search stopped before it converged; values may still change")
    scales = solution.problem.scales
    for rival in solution.rivals:
        values = values_at(scales, np.stack([solution.place, rival]))
        moved = np.abs(rival - solution.place)
        listed = [
            f"{scales[i].name} {values[scales[i].name][0]:.3g} or {values[scales[i].name][1]:.3g} {scales[i].parameter.unit}"
            for i in np.argsort(-moved)[:4]
            if moved[i] > 0.05
        ]
        made.append(f"two searches end at different values that fit about as well: {', '.join(listed)}")
    for estimate, scale in zip(estimates, scales, strict=True):
        if estimate.at_edge and estimate.value != 0.0:
            searched = (scale.low, scale.high) != tuple(scale.parameter.bounds)
            remedy = (
                f"widen --prior {scale.name}"
                if searched
                else "doubt the model, or widen its bounds in the twin"
            )
            made.append(
                f"{scale.name} ends at the limit of its range, {estimate.value:.3g} {estimate.unit}: {remedy}"
            )
    return made


def find_unexplained(
    recordings: Sequence[Recording],
    channels: Sequence[Channel],
    noise: Array,
    windows: Sequence[Window],
    residual: Array,
) -> list[str]:
    """Channels whose held-out motion the calibrated twin does not follow.

    Args:
        recordings: All recordings.
        channels: What was read of them.
        noise: Noise of the readings (channels,).
        windows: Held-out windows.
        residual: What the calibrated twin's replay of them leaves (rows, channels).

    Returns:
        A sentence for each such channel.
    """
    made = []
    readings = np.concatenate([recordings[w.recording].readings[w.start : w.stop] for w in windows])
    for channel, column, error, sensor in zip(channels, readings.T, residual.T, noise, strict=True):
        left, motion = float(np.sqrt(np.mean(error**2))), float(np.std(column))
        if channel.kind != "turn" and motion > 10.0 * sensor and left > UNEXPLAINED * motion:
            made.append(
                f"{channel.name}: the calibrated twin misses the recording by {left:.3g} {channel.unit} where it moves by "
                f"{motion:.3g}: the model does not describe this joint, and its parameters absorb that"
            )
    return made


def find_outlying(
    recordings: Sequence[Recording],
    channels: Sequence[Channel],
    noise: Array,
    windows: Sequence[Window],
    residual: Array,
) -> list[str]:
    """Episodes that the calibrated twin replays far worse than the others.

    Args:
        recordings: All recordings.
        channels: What was read of them.
        noise: Noise of the readings (channels,).
        windows: Windows of all replayed episodes.
        residual: What the calibrated twin's replay of them leaves (rows, channels).

    Returns:
        A sentence for each channel with such episodes, which names the worst.
    """
    errors = replay_errors([recording.id for recording in recordings], windows, residual, residual)
    if len(errors) < FEWEST_TO_COMPARE:
        return []
    made = []
    by_channel = np.array([error.after for error in errors]).T
    for channel, sensor, column in zip(channels, noise, by_channel, strict=True):
        usual = max(float(np.median(column)), float(sensor))
        worst = [index for index in np.argsort(-column)[:MOST_NAMED] if column[index] > OUTLYING * usual]
        if worst:
            listed = ", ".join(f"{errors[index].episode} ({column[index]:.3g})" for index in worst)
            made.append(
                f"{channel.name}: replay misses by {usual:.2g} {channel.unit} in most episodes and by far more in {listed}: something "
                "there is not in the model, such as a stop, a contact or a limit of the servo, and it widens the bands"
            )
    return made
