"""What a twin's kinematics say about a log: does the tool go where the joints would put it, and in which unit?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.logs.guess import Guess, product
from twinloop.logs.joints import Joints

MOST_ROWS = 300
"""Rows for which the twin's tool is computed."""

ALIKE = 0.9
"""Correlation from which on two motions are taken for one."""

_ANGLES = {"rad": 1.0, "deg": np.pi / 180}
_LENGTHS = {"m": 1.0, "cm": 100.0, "mm": 1000.0}


@dataclass(frozen=True)
class ToolMotion:
    """Where the twin's tool is at some `rows` of a log: positions (n, 3) in m, quaternions (n, 4), w first."""

    rows: Array
    positions: Array
    turns: Array


def tool_motion(values: Array, unit: str, joints: Joints) -> ToolMotion | None:
    """The motion of the twin's tool when its joints follow a log; None where the twin has no tool."""
    if joints.tool_poses is None or unit not in _ANGLES or len(values) < 20:
        return None
    rows = np.unique(np.linspace(0, len(values) - 1, MOST_ROWS).astype(int))
    hinges = np.array([kind == "rad" for kind in joints.units])
    factor = np.where(hinges, _ANGLES[unit], 1.0)
    positions, turns = joints.tool_poses(values[rows].astype(np.float64) * factor)
    return ToolMotion(rows, positions, turns)


def guess_length_by_tool(measured: Array, tool: ToolMotion) -> Guess | None:
    """Metres, centimetres or millimetres: how much faster the measured point moves than the twin's tool."""
    alike, ratio = _compared(measured[tool.rows], tool.positions)
    for unit, factor in _LENGTHS.items():
        if alike >= ALIKE and 0.7 < ratio / factor < 1.4:
            return Guess(
                unit, 0.95, f"it moves {ratio:.4g} times as far as the twin's tool (correlation {alike:.2f})"
            )
    return None


def guess_angle_by_tool(values: Array, measured: Array, joints: Joints) -> Guess | None:
    """Radians or degrees: under which of them the twin's tool moves as, and as far as, the measured point does."""
    scores = {}
    for unit in _ANGLES:
        tool = tool_motion(values, unit, joints)
        if tool is None:
            return None
        alike, ratio = _compared(measured[tool.rows], tool.positions)
        fits = any(0.7 < ratio / factor < 1.4 for factor in _LENGTHS.values())
        scores[unit] = alike if fits else 0.0
    best, other = sorted(scores, key=lambda unit: -scores[unit])
    if scores[best] < ALIKE or scores[best] - scores[other] < 0.1:
        return None
    return Guess(
        best,
        0.95,
        f"the twin's tool then moves as the log's does (correlation {scores[best]:.2f}, in {other} {scores[other]:.2f})",
    )


def guess_order_by_tool(values: Array, tool: ToolMotion) -> Guess | None:
    """w first or last: the order in which the measured rotation keeps a constant turn from the twin's tool."""
    inverse = tool.turns * np.array([1.0, -1.0, -1.0, -1.0])
    spread_deg = {}
    for order, columns in (("wxyz", [0, 1, 2, 3]), ("xyzw", [3, 0, 1, 2])):
        turns = values[tool.rows][:, columns].astype(np.float64)
        spread_deg[order] = min(_spread_deg(product(inverse, turns)), _spread_deg(product(turns, inverse)))
    best, other = sorted(spread_deg, key=lambda order: spread_deg[order])
    if spread_deg[best] > 10 or spread_deg[best] > 0.5 * spread_deg[other]:
        return None
    return Guess(
        best,
        0.95,
        f"it then turns with the twin's tool to {spread_deg[best]:.2g} deg, otherwise {spread_deg[other]:.3g}",
    )


def _compared(measured: Array, tool: Array) -> tuple[float, float]:
    """(correlation, ratio) of how far two points go in the same time; where their frames are does not matter."""
    apart = max(1, len(tool) // 50)
    a, b = (np.linalg.norm(p[apart:] - p[:-apart], axis=1) for p in (measured.astype(np.float64), tool))
    if a.std() == 0 or b.std() == 0:
        return 0.0, 0.0
    return float(np.corrcoef(a, b)[0, 1]), float((a @ b) / (b @ b))


def _spread_deg(turns: Array) -> float:
    """How far rotations scatter around their mean."""
    _, vectors = np.linalg.eigh(turns.T @ turns)
    cosine = np.clip(np.abs(turns @ vectors[:, -1]), 0, 1)
    return float(np.degrees(2 * np.arccos(cosine)).mean())
