"""A recording plan as a sheet for the operator: printable, one section per item, one line to tick per episode."""

from __future__ import annotations

from pathlib import Path

from twinloop.planning.items import Plan
from twinloop.report.page import write_page


def write_plan_sheet(plan: Plan, path: str | Path) -> Path:
    """Write the sheet to one file that needs no other.

    Args:
        plan: What to record.
        path: The HTML file to write.

    Returns:
        The path of the sheet.
    """
    return write_page(
        path,
        "plan.html",
        title="What to record next",
        plan=plan,
        provenance=[("made", plan.made_at), *plan.sources.items()],
    )
