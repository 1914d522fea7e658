"""Joints whose zero is off: which of them the frames name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.alignment.fit import REACHES_PX, REFERENCE_WIDTH, Aligner, Fit
from twinloop.alignment.view import JOINT, Unknown
from twinloop.episode import Array

SURE = 4.0
"""An offset is named when it is this many standard deviations from zero."""
SMALLEST_RAD = 0.01
LEAST_MOTION_RAD = 0.05
"""A joint that moves less between frames is part of what is rigid."""
LEAST_GAIN = 0.03
"""The misfit must fall by at least this fraction, or no joint is blamed."""
REACH_PX = 8.0
POOR_PX = 0.7
"""Median distance from edges, at 320 pixels of width, from which on a fit without offsets is not believed, and joints that are far
off are searched for as the camera was."""
DETERMINED = 0.5


@dataclass(frozen=True)
class Offsets:
    """The fit with the joints that are off, and what cannot be told from the camera's pose."""

    unknowns: tuple[Unknown, ...]
    fit: Fit
    joints: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def find_offsets(
    aligner: Aligner,
    make: Callable[[Sequence[str]], tuple[Unknown, ...]],
    unknowns: tuple[Unknown, ...],
    fit: Fit,
    search_far: Callable[[Sequence[Unknown]], Array],
) -> Offsets:
    """Fit zero offsets of all joints of the arm, keep those that are certainly off, and fit again with these alone.

    Args:
        aligner: The camera and its frames.
        make: The unknowns with offsets of the named joints.
        unknowns: The unknowns without offsets.
        fit: The fit without offsets.
        search_far: Searches for unknowns with joints that are far off.
    """
    cell = aligner.view.cell
    merged = _merged(aligner)
    angles = cell.positions(np.array([frame.qpos for frame in aligner.frames]))
    moved = np.ptp(angles, axis=0) > LEAST_MOTION_RAD
    joints = tuple(cell.actuators[k] for k in cell.arm if moved[k] and cell.actuators[k] not in merged)
    note = tuple(
        f"{name}: an offset of its zero cannot be told from another place of the camera" for name in merged
    )
    if not joints:
        return Offsets(unknowns, fit, (), note)
    scale = aligner.view.width / REFERENCE_WIDTH
    reach = REACH_PX * scale
    lowest, middle = aligner.misfit(unknowns, fit.theta, reach)
    all_unknowns = make(joints)
    more = aligner.refine(all_unknowns, _extend(all_unknowns, unknowns, fit.theta), REACHES_PX)
    if aligner.misfit(all_unknowns, more.theta, reach)[1] > POOR_PX * scale and middle > POOR_PX * scale:
        more = aligner.refine(all_unknowns, search_far(all_unknowns), REACHES_PX)
    named = _named(all_unknowns, more)
    warnings = (*note, *_confused(all_unknowns, more))
    misfit, _ = aligner.misfit(all_unknowns, more.theta, reach)
    if not named or misfit > (1.0 - LEAST_GAIN) * lowest:
        return Offsets(unknowns, fit, (), warnings)
    while named:
        fewer = make(named)
        refit = aligner.refine(fewer, _extend(fewer, all_unknowns, more.theta), REACHES_PX)
        still = _named(fewer, refit)
        if still == named:
            better, _ = aligner.misfit(fewer, refit.theta, reach)
            if better <= (1.0 - LEAST_GAIN) * lowest:
                return Offsets(fewer, refit, named, warnings)
            break
        named = still
    return Offsets(unknowns, fit, (), warnings)


def _merged(aligner: Aligner) -> tuple[str, ...]:
    """Joints between which and the camera nothing moves: turning one looks like moving the camera about its axis.

    For a camera on a stand it is the robot's first joint, for one on the robot the last joint before it.
    """
    view = aligner.view
    model, cell = view.model, view.cell
    own = int(model.body_weldid[view.body])
    found = []
    for k in cell.arm:
        joint = int(np.flatnonzero(np.asarray(model.jnt_qposadr) == cell.qpos_addresses[k, 0])[0])
        body = int(model.jnt_bodyid[joint])
        parent = int(model.body_weldid[int(model.body_parentid[body])])
        if own in (int(model.body_weldid[body]), parent):
            found.append(cell.actuators[k])
    return tuple(found)


def _named(unknowns: Sequence[Unknown], fit: Fit) -> tuple[str, ...]:
    deviation = np.sqrt(np.diag(fit.covariance))
    return tuple(
        one.name.removeprefix(JOINT)
        for one, value, error in zip(unknowns, fit.theta, deviation, strict=True)
        if one.name.startswith(JOINT)
        and abs(value - one.start) > max(SURE * error, SMALLEST_RAD)
        and error < DETERMINED * one.prior
    )


def _confused(unknowns: Sequence[Unknown], fit: Fit) -> tuple[str, ...]:
    deviation = np.sqrt(np.diag(fit.covariance))
    loose = [
        one.name.removeprefix(JOINT)
        for one, error in zip(unknowns, deviation, strict=True)
        if one.name.startswith(JOINT) and error >= DETERMINED * one.prior
    ]
    return (f"zero not determined by these frames: {', '.join(loose)}",) if loose else ()


def _extend(unknowns: Sequence[Unknown], known: Sequence[Unknown], theta: Array) -> Array:
    values = {one.name: float(value) for one, value in zip(known, theta, strict=True)}
    return np.array([values.get(one.name, one.start) for one in unknowns])
