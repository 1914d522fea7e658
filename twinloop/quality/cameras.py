"""Camera checks: frozen and dead images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.episode import Array
from twinloop.measure.trace import find_stretches
from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS, grade
from twinloop.quality.view import View

MOTION_FRACTION = 0.02
"""The robot moves in an interval if some channel covers this fraction of its range."""


@CHECKS.register("frozen_camera")
def frozen_camera(view: View) -> Iterator[Finding]:
    """Find images that stay the same while the robot moves."""
    for name in view.episode.frames if view.settings.frames else ():
        images = view.images(name)
        change = images.change
        usual = float(np.median(change[1:])) if len(change) > 1 else 0.0
        still = change <= max(view.settings.frozen_level, view.settings.frozen_fraction * usual)
        still[0] = False
        still &= ~_dead(view, images.level)  # another check reports these
        frozen = [
            (a - 1, b)
            for a, b in find_stretches(still)
            if view.time_s[b - 1] - view.time_s[a - 1] >= view.settings.frozen_s
            and _robot_moves(view, a - 1, b)
        ]
        if not frozen:
            continue
        total_s = sum(float(view.time_s[b - 1] - view.time_s[a]) for a, b in frozen)
        fraction = total_s / max(view.episode.duration_s, 1e-9)
        a, b = max(frozen, key=lambda interval: interval[1] - interval[0])
        yield view.finding(
            "frozen_camera",
            f"observation.images.{name}",
            grade(fraction, view.settings.frozen_blocking),
            (total_s, "s", view.settings.frozen_s),
            f"repeats the same image for {total_s:.2f} s while the robot moves, longest from row {a} to {b - 1}",
            "check the camera's cable and its driver's buffer; exclude the episode",
            (a, b - 1),
        )


@CHECKS.register("dead_camera")
def dead_camera(view: View) -> Iterator[Finding]:
    """Find images that are entirely black or white."""
    for name in view.episode.frames if view.settings.frames else ():
        level = view.images(name).level
        limit = view.settings.dark_level
        dead = _dead(view, level)
        if dead.any():
            fraction = float(dead.mean())
            a, b = max(find_stretches(dead), key=lambda stretch: stretch[1] - stretch[0])
            yield view.finding(
                "dead_camera",
                f"observation.images.{name}",
                grade(fraction, view.settings.frozen_blocking),
                (float(level[a:b].mean()), "of 255", limit if level[a] < 128 else 255 - limit),
                f"is black or white in {fraction:.0%} of the frames, longest from row {a} to {b - 1}",
                "check exposure, lens cap and cable; exclude the episode",
                (a, b - 1),
            )


def _dead(view: View, level: Array) -> Array:
    limit = view.settings.dark_level
    return np.asarray((level < limit) | (level > 255 - limit))


def _robot_moves(view: View, first: int, stop: int) -> bool:
    """Return whether some channel covers a fraction of its range in these rows."""

    return any(
        float(np.ptp(channel.values[first:stop]))
        > max(MOTION_FRACTION * channel.range, 10 * channel.step, 6 * channel.noise)
        for channel in view.channels
        if channel.moves
    )
