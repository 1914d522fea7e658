"""Dry friction and steady loads: what effort it takes to move a joint, and to keep it where it is.

    effort = friction * direction + viscosity * speed + inertia * acceleration + load + load_slope * position

by least squares. Sums of the normal equations of several recordings give one fit of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twinloop.episode import Array
from twinloop.measure.trace import Trace, slopes
from twinloop.stats.interval import Interval, normal_interval

TURN_PER_S = 0.02
"""Direction is tanh(speed / this), in rad/s or m/s: slower, a joint's direction is not distinguished from rest."""
MOVING_FRACTION = 0.1
"""A joint moves where it is faster than this fraction of its own root mean square speed."""
FEWEST_MOVING = 40
EDGE_ROWS = 4
"""Accelerations of the first rows are not known."""
RIDGE = 1e-4


class EffortEquations(NamedTuple):
    """Normal equations of the fit: `square` (..., 5, 5), `right` (..., 5)."""

    square: Array
    right: Array


class EffortFit(NamedTuple):
    """What effort it takes: each (...,), in the effort's unit, per unit of speed, acceleration or position."""

    friction: Array
    viscosity: Array
    inertia: Array
    load: Array
    load_slope: Array


def measure_friction(trace: Trace) -> Interval | None:
    """Dry friction of a joint.

    Args:
        trace: with `effort`; what the rigid bodies need to move so may be taken off it.

    Returns:
        The friction in the effort's unit; None without effort or where the joint hardly moves.
    """
    speed = trace.speed
    typical = float(np.sqrt(np.mean(speed**2)))
    if trace.effort is None or typical < 1e-4:
        return None
    if (np.abs(speed) > max(MOVING_FRACTION * typical, TURN_PER_S)).sum() < FEWEST_MOVING:
        return None
    rows = np.arange(len(trace)) >= EDGE_ROWS
    design, effort = _design(trace)[rows], trace.effort[rows]
    fit = solve_effort(EffortEquations(design.T @ design, design.T @ effort))
    left = effort - design @ np.array(fit)
    follows = float(np.clip(left[1:] @ left[:-1] / max(float(left @ left), 1e-300), 0.0, 0.99))
    variance = float(left @ left) / max(len(left) - 5, 1) * (1.0 + follows) / (1.0 - follows)
    spread = np.linalg.pinv(design.T @ design, hermitian=True)[0, 0]
    return normal_interval(float(fit.friction), float(np.sqrt(variance * max(spread, 0.0))), "N·m")


def effort_equations(trace: Trace, rows: Array) -> EffortEquations:
    """The normal equations of a joint's effort over the `rows` (T,) that count."""
    assert trace.effort is not None
    design = _design(trace)[rows]
    return EffortEquations(design.T @ design, design.T @ trace.effort[rows])


def solve_effort(equations: EffortEquations) -> EffortFit:
    """The least-squares solution, slightly damped: a joint that hardly moved gives small numbers, not wild ones."""
    square, right = equations
    scale = np.sqrt(np.maximum(np.einsum("...ii->...i", square), 1e-12))
    normal = square / (scale[..., :, None] * scale[..., None, :]) + RIDGE * np.eye(5)
    solved = np.linalg.solve(normal, (right / scale)[..., None])[..., 0] / scale
    return EffortFit(*np.moveaxis(solved, -1, 0))


def _design(trace: Trace) -> Array:
    """Regressors (T, 5): direction, speed, acceleration, a constant and the position."""
    speed = trace.speed
    gains = slopes(trace.time_s, speed)
    return np.stack([np.tanh(speed / TURN_PER_S), speed, gains, np.ones(len(trace)), trace.values], axis=1)
