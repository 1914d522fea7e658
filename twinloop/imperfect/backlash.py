"""Backlash (the play operator): the output moves only when the input has crossed the gap.

y(t) = clip(y(t - dt), x(t) - width / 2, x(t) + width / 2). It depends on the path and not on its speed; a full cycle
encloses a loop whose horizontal width is `width`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.imperfect.parameters import Array, Value, broadcast, check_field


@dataclass(frozen=True)
class Backlash:
    """`width` is the whole gap, in the unit of the signal: rad for a joint, m for a slider."""

    width: Value = 0.0

    def __post_init__(self) -> None:
        check_field(self, "width", at_least=0.0)


@dataclass(frozen=True)
class BacklashState:
    """Where the driven side is: (N, ...)."""

    output: Array


def make_state(initial: Array) -> BacklashState:
    """The driven side at `initial` (N, ...), in the middle of its gap if the driving side is there too."""
    return BacklashState(np.array(initial, dtype=np.float64))


def step(params: Backlash, state: BacklashState, position: Array) -> tuple[BacklashState, Array]:
    """Move the driving side to `position` (N, ...); where the driven side is then."""
    position = np.asarray(position)
    half = broadcast(params.width, position.shape) * 0.5
    output = np.maximum(state.output, position - half)
    np.minimum(output, position + half, out=output)
    output.flags.writeable = False
    return BacklashState(output), output


def drive(params: Backlash, positions: Array) -> Array:
    """Move the driving side through `positions` (T, N, ...), beginning in the middle of the gap; the driven side at every row."""
    positions = np.asarray(positions, dtype=np.float64)
    half = broadcast(params.width, positions.shape[1:]) * 0.5
    low, high = positions - half, positions + half
    # A row limits what came before, and limits one after the other are limits again: row t takes in 1, 2, 4 ... rows before it.
    reach = 1
    low[0] = high[0] = positions[0]
    while reach < len(positions):
        before_low, before_high = low[:-reach].copy(), high[:-reach].copy()
        for before in (before_low, before_high):
            np.maximum(before, low[reach:], out=before)
            np.minimum(before, high[reach:], out=before)
        low[reach:], high[reach:] = before_low, before_high
        reach *= 2
    return low
