"""Late images: how far the camera's clock is from the joints', and how long a frame takes from its first row to its last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.alignment.fit import REACHES_PX, REFERENCE_WIDTH, Aligner, Fit
from twinloop.alignment.view import CLOCK, Unknown, make_unknowns

SURE = 4.0
"""A time counts when it is this many standard deviations from zero,"""
LEAST_GAIN = 0.01
"""and the misfit falls by this fraction,"""
DETERMINED = 0.5
"""and its standard deviation is at most this fraction of what was known before."""
SLOWEST_RAD_S = 0.05
REACH_PX = 8.0
STARTS_S = {"time_offset_s": np.linspace(-0.24, 0.24, 17), "line_time_s": np.zeros(1)}
"""Where fits begin: what stands still in the image holds a fit that begins far from the true time."""


def find_clock(aligner: Aligner, unknowns: tuple[Unknown, ...], fit: Fit) -> tuple[tuple[Unknown, ...], Fit]:
    """Add the time offset, and then the line time, where the motion in the frames shows them.

    Args:
        aligner: The camera and its frames.
        unknowns: The unknowns so far.
        fit: The fit of these.

    Returns:
        The unknowns, with the times that count, and their fit.
    """
    if max(float(np.abs(frame.rate).max(initial=0.0)) for frame in aligner.frames) < SLOWEST_RAD_S:
        return unknowns, fit
    reach = REACH_PX * aligner.view.width / REFERENCE_WIDTH
    for name in CLOCK:
        more = (*unknowns, *make_unknowns((name,), aligner.view.base))
        tried = [np.append(fit.theta, later_s) for later_s in STARTS_S[name]]
        best = min(tried, key=lambda theta: aligner.misfit(more, theta, reach)[0])
        found = aligner.refine(more, best, REACHES_PX)
        error = float(np.sqrt(found.covariance[-1, -1]))
        sure = abs(found.theta[-1]) > SURE * error and error <= DETERMINED * more[-1].prior
        before, after = (_misfit(aligner, *one, reach) for one in ((unknowns, fit), (more, found)))
        if not sure or after > (1.0 - LEAST_GAIN) * before:
            break
        unknowns, fit = more, found
    return unknowns, fit


def _misfit(aligner: Aligner, unknowns: Sequence[Unknown], fit: Fit, reach: float) -> float:
    return aligner.misfit(unknowns, fit.theta, reach)[0]
