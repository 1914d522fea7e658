"""Guess units and quaternion order by comparing a log's tool pose with the twin's forward kinematics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.logs.guess import Guess, multiply_quaternions
from twinloop.logs.joints import Joints

MAX_ROWS = 300
"""Rows for which the tool pose is computed."""

SAME_MOTION = 0.9
"""Correlation from which two motions count as the same."""

_ANGLES = {"rad": 1.0, "deg": np.pi / 180}
_LENGTHS = {"m": 1.0, "cm": 100.0, "mm": 1000.0}


@dataclass(frozen=True)
class ToolMotion:
    """Tool poses of the twin at some `rows` of a log: positions (n, 3) in m, quaternions (n, 4), w first."""

    rows: Array
    positions: Array
    rotations: Array


def tool_motion(values: Array, unit: str, joints: Joints) -> ToolMotion | None:
    """Compute the tool motion for the joint positions of a log; None if the twin has no tool."""
    if joints.poses is None or unit not in _ANGLES or len(values) < 20:
        return None
    rows = np.unique(np.linspace(0, len(values) - 1, MAX_ROWS).astype(int))
    hinges = np.array([kind == "rad" for kind in joints.units])
    factor = np.where(hinges, _ANGLES[unit], 1.0)
    positions, rotations = joints.poses(joints.names, values[rows].astype(np.float64) * factor)
    return ToolMotion(rows, positions, rotations)


def guess_length_by_tool(measured: Array, tool: ToolMotion) -> Guess | None:
    """Guess m, cm or mm from the ratio between the motions of the measured point and of the twin's tool."""
    correlation, ratio = _compare_motion(measured[tool.rows], tool.positions)
    for unit, factor in _LENGTHS.items():
        if correlation >= SAME_MOTION and 0.7 < ratio / factor < 1.4:
            return Guess(
                unit,
                0.95,
                f"it moves {ratio:.4g} times as far as the twin's tool (correlation {correlation:.2f})",
            )
    return None


def guess_angle_by_tool(values: Array, measured: Array, joints: Joints) -> Guess | None:
    """Guess the unit, rad or deg, for which the twin's tool moves like the measured point."""
    scores = {}
    for unit in _ANGLES:
        tool = tool_motion(values, unit, joints)
        if tool is None:
            return None
        correlation, ratio = _compare_motion(measured[tool.rows], tool.positions)
        fits = any(0.7 < ratio / factor < 1.4 for factor in _LENGTHS.values())
        scores[unit] = correlation if fits else 0.0
    best, other = sorted(scores, key=lambda unit: -scores[unit])
    if scores[best] < SAME_MOTION or scores[best] - scores[other] < 0.1:
        return None
    return Guess(
        best,
        0.95,
        f"the twin's tool then moves like the log's (correlation {scores[best]:.2f}, in {other} {scores[other]:.2f})",
    )


def guess_order_by_tool(values: Array, tool: ToolMotion) -> Guess | None:
    """Guess the quaternion order for which the measured rotation differs from the twin's tool by a constant."""
    inverse = tool.rotations * np.array([1.0, -1.0, -1.0, -1.0])
    spread_deg = {}
    for order, columns in (("wxyz", [0, 1, 2, 3]), ("xyzw", [3, 0, 1, 2])):
        rotations = values[tool.rows][:, columns].astype(np.float64)
        spread_deg[order] = min(
            _spread_deg(multiply_quaternions(inverse, rotations)),
            _spread_deg(multiply_quaternions(rotations, inverse)),
        )
    best, other = sorted(spread_deg, key=lambda order: spread_deg[order])
    if spread_deg[best] > 10 or spread_deg[best] > 0.5 * spread_deg[other]:
        return None
    return Guess(
        best,
        0.95,
        f"it then turns with the twin's tool to {spread_deg[best]:.2g} deg, otherwise {spread_deg[other]:.3g}",
    )


def _compare_motion(measured: Array, tool: Array) -> tuple[float, float]:
    """Return (correlation, ratio) of the displacements of two points, independent of their frames."""
    apart = max(1, len(tool) // 50)
    a, b = (np.linalg.norm(p[apart:] - p[:-apart], axis=1) for p in (measured.astype(np.float64), tool))
    if a.std() == 0 or b.std() == 0:
        return 0.0, 0.0
    return float(np.corrcoef(a, b)[0, 1]), float((a @ b) / (b @ b))


def _spread_deg(rotations: Array) -> float:
    """Return the mean angle of rotations from their mean, in degrees."""
    _, vectors = np.linalg.eigh(rotations.T @ rotations)
    cosine = np.clip(np.abs(rotations @ vectors[:, -1]), 0, 1)
    return float(np.degrees(2 * np.arccos(cosine)).mean())
