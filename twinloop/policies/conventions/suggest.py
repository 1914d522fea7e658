"""Corrections of a policy's actions that comparing them with recorded ones suggests: an order, a mirrored gripper, a scale and offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from twinloop.episode import Array
from twinloop.logs.units import conversion
from twinloop.policies.conventions.corrections import (
    Correction,
    Edit,
    Place,
    correct,
    element_units,
    joint_actions,
    vector_parts,
)
from twinloop.policies.conventions.recorded import SMALLEST_SPREAD
from twinloop.policies.mapping.interface_map import InterfaceMap, JointAction

MIN_CORRELATION = 0.7
"""A scale and offset are only fitted to actions that follow the recorded ones: shrinking any noise to its mean lowers the error."""
GRIPPER_WORDS = ("gripper", "finger", "jaw")


def suggest_corrections(
    given: InterfaceMap, mine: Array, theirs: Array, elements: Sequence[str], units: Mapping[str, str]
) -> list[Correction]:
    """Suggest corrections of the actions.

    Args:
        given: The map as written.
        mine: The policy's actions (n, A) under this map.
        theirs: The recorded ones (n, A).
        elements: Names of the A elements.
        units: By element, its unit in our signals.

    Returns:
        Another order of the elements, a gripper the other way round, and the scale and offset that fit best.
    """
    place = {element: index for index, element in enumerate(elements)}
    found = []
    for where, part in joint_actions(given):
        own = [place[element] for element in part.elements if element in place]
        if len(own) == len(part.elements) and len(mine) > len(own):
            found += _suggest_order(given, where, part.elements, mine[:, own], theirs[:, own])
            found += _suggest_scale(given, where, part, mine[:, own], theirs[:, own], units)
    return found


def _correlation(mine: Array, theirs: Array) -> Array:
    """Correlation of each of our columns with each of theirs; 0 where one does not vary."""
    spread = mine.std(axis=0)[:, None] * theirs.std(axis=0)
    covariance = (mine - mine.mean(axis=0)).T @ (theirs - theirs.mean(axis=0)) / len(mine)
    return np.asarray(np.divide(covariance, spread, out=np.zeros_like(covariance), where=spread > 1e-12))


def _suggest_order(
    given: InterfaceMap, where: Place, elements: Sequence[str], mine: Array, theirs: Array
) -> list[Correction]:
    """The order in which each number follows the recorded command that it resembles most, if it is another one."""
    _, order = linear_sum_assignment(-np.abs(_correlation(mine, theirs)))
    if np.array_equal(order, np.arange(len(elements))):
        return []
    own = Edit(where, "elements", tuple(elements[k] for k in order))
    alike = [
        Edit(place, "elements", tuple(part.elements[k] for k in order))
        for place, part in vector_parts(given)
        if len(part.elements) == len(elements)
    ]
    wanted = [[own], [own, *alike]] if alike else [[own]]
    return [correct(given, "order of joints", edits) for edits in wanted]


def _suggest_scale(
    given: InterfaceMap,
    where: Place,
    part: JointAction,
    mine: Array,
    theirs: Array,
    units: Mapping[str, str],
) -> list[Correction]:
    """A gripper whose range is mirrored, and the scale and offset that bring every command closest to the recorded one."""
    if part.relative_to != "nothing":
        return []
    size = len(part.elements)
    sign, scale, offset = (_each(values, size) for values in (part.sign, part.scale, part.offset))
    theirs_unit = element_units(part, units)
    factor = [conversion(units[e], unit)[0] for e, unit in zip(part.elements, theirs_unit, strict=True)]
    per_unit = sign * scale * np.array(factor)  # the policy's numbers per unit of ours
    found = []
    for index, element in enumerate(part.elements):
        if any(word in element for word in GRIPPER_WORDS):
            mirrored, moved = sign.copy(), offset.copy()
            ends = theirs[:, index].min() + theirs[:, index].max()
            mirrored[index] *= -1.0
            moved[index] += per_unit[index] * ends
            edits = [
                Edit(where, "sign", tuple(mirrored.tolist())),
                Edit(where, "offset", _rounded(moved)),
            ]
            found.append(correct(given, "gripper polarity", edits))
    slope, start = _fit_lines(mine, theirs)
    if slope is not None:
        edits = [
            Edit(where, "scale", _rounded(scale / slope)),
            Edit(where, "offset", _rounded(offset - per_unit * start / slope)),
        ]
        found.append(correct(given, "normalisation", edits))
    return found


def _fit_lines(mine: Array, theirs: Array) -> tuple[Array | None, Array]:
    """Slope and intercept of each recorded command against the policy's; None unless all follow them and grow with them."""
    moving = theirs.std(axis=0) > SMALLEST_SPREAD
    slope, start = np.ones(mine.shape[1]), np.zeros(mine.shape[1])
    follows = np.diag(_correlation(mine, theirs))
    if not moving.any() or (follows[moving] < MIN_CORRELATION).any():
        return None, start
    slope[moving] = follows[moving] * theirs.std(axis=0)[moving] / mine.std(axis=0)[moving]
    start = theirs.mean(axis=0) - slope * mine.mean(axis=0)
    return slope, start


def _each(values: Sequence[float], size: int) -> Array:
    """One value for each element."""
    return np.resize(np.asarray(values, np.float64), size)


def _rounded(values: Array) -> tuple[float, ...]:
    """Fitted numbers with as many digits as they are worth in a file."""
    return tuple(float(f"{value:.4g}") for value in values)
