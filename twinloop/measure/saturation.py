"""Limits that a signal reaches: stretches flat on its highest or lowest value, and the largest effort of a joint that presses."""

from __future__ import annotations

import numpy as np

from twinloop.measure.quantization import resolution_of
from twinloop.measure.trace import Trace, find_stretches

FEWEST_ROWS = 16
CORNER_STEPS = 3.0
"""The last step of a motion into a limit is at least this many steps of the resolution; a smooth stop ends below."""
CORNER_FRACTION = 0.1
"""... and at least this fraction of the signal's fast steps (90th percentile)."""
PLATEAU_ROWS = 3
PRESSING_ROWS = 10


def find_plateaus(trace: Trace) -> list[tuple[int, int]]:
    """Stretches (first, one past the last) exactly on the highest or lowest value that the signal enters and leaves at speed."""
    values, step = trace.values, resolution_of(trace.values)
    change = np.abs(np.diff(values))
    if len(values) < FEWEST_ROWS or not change.any():
        return []
    corner = max(CORNER_STEPS * step, CORNER_FRACTION * float(np.percentile(change[change > 0], 90)))
    found = []
    # Zero is where signals rest, not where they end.
    for limit in {float(values.max()), float(values.min())} - {0.0}:
        at_limit = find_stretches(values == limit)
        # Without a resolution no value comes twice by chance, so next to one plateau a mere touch of the limit counts too.
        touches = step == 0 and any(b - a >= PLATEAU_ROWS for a, b in at_limit)
        for a, b in at_limit:
            if b - a < PLATEAU_ROWS and not touches:
                continue
            # The step onto the limit may be a jump that was meant, so the two before it count; likewise on the way out.
            inside = a >= 3 and b <= len(values) - 4
            enters = a >= 3 and max(change[a - 3], change[a - 2]) >= corner
            leaves = b <= len(values) - 4 and max(change[b], change[b + 1]) >= corner
            if (enters and leaves) if inside else touches and (enters or leaves):
                found.append((a, b))
    return found


def measure_effort_limit(trace: Trace, stiffness: float, limit: float) -> float | None:
    """The effort that a position servo gives where its command asks for more than `limit`; None where it never does.

    Args:
        trace: with `command` and `effort`.
        stiffness: effort per unit of distance from the command.
        limit: the nominal limit, in the effort's unit.
    """
    if trace.command is None or trace.effort is None or limit <= 0.0:
        return None
    pressing = stiffness * np.abs(trace.command - trace.values) > limit
    if pressing.sum() < PRESSING_ROWS:
        return None
    return float(np.quantile(np.abs(trace.effort[pressing]), 0.9))
