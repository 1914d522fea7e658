"""A diagnosis as one HTML file: percentage points of success lost per gap dimension, measurements, failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twinloop.diagnosis.result import Diagnosis
from twinloop.report.page import write_page
from twinloop.stats.interval import Interval


@dataclass(frozen=True)
class CostRow:
    """One row of the table of costs, in percentage points of success; `points` is rounded so that rows add up."""

    name: str
    points: int
    value: float
    low: float
    high: float
    tone: str
    status: str
    total: bool = False


def write_diagnosis_page(diagnosis: Diagnosis, path: str | Path) -> Path:
    """Write the report to one self-contained file.

    Args:
        diagnosis: What each gap dimension costs a policy.
        path: The HTML file to write.

    Returns:
        The path of the page.
    """
    return write_page(
        path,
        "diagnosis.html",
        shows=(),
        title=f"Why {diagnosis.policy} fails on the {'stand-in' if diagnosis.standin else 'robot'}",
        diagnosis=diagnosis,
        rows=make_cost_rows(
            ((cost.dimension, cost.lost, cost.named) for cost in diagnosis.costs),
            diagnosis.unknown,
            diagnosis.drop,
        ),
        trials={"on_robot": diagnosis.trials, "in_twin_with_everything": diagnosis.scenes},
        provenance=[
            ("policy", f"{diagnosis.policy} {diagnosis.policy_id[:12]}"),
            ("twin", f"{diagnosis.twin} {diagnosis.twin_hash[:12]}"),
            ("simulated episodes", diagnosis.evaluations),
            ("seed", diagnosis.seed),
        ],
    )


def make_cost_rows(
    costs: Iterable[tuple[str, Interval, bool]], unknown: Interval, drop: Interval
) -> list[CostRow]:
    """Make the rows for the dimensions, for the unexplained remainder, and for the whole drop.

    The remainder absorbs rounding to whole points, so that the rows add up.

    Args:
        costs: Name, fraction of success lost, and whether it is significant, per dimension.
        unknown: The part of the drop that no measured dimension explains.
        drop: Success rate in the twin minus success rate on the robot.

    Returns:
        The rows in the order of `costs`, then the remainder, then the total.
    """
    rows = [
        _row(name, lost, "blocking" if named else "quiet", "costs success" if named else "not certain")
        for name, lost, named in costs
    ]
    rest = round(100 * drop.value) - sum(row.points for row in rows)
    rows.append(_row("not explained by what was measured", unknown, "quiet", "", rest))
    total = _row("drop from twin to robot", drop, "", "")
    return [*rows, CostRow(**{**vars(total), "total": True})]


def _row(name: str, lost: Interval, tone: str, status: str, points: int | None = None) -> CostRow:
    shown = round(100 * lost.value) if points is None else points
    return CostRow(name, shown, 100 * lost.value, 100 * lost.low, 100 * lost.high, tone, status)
