"""A recording plan as a printable sheet for the operator: one section per item, one checkbox per episode."""

from __future__ import annotations

from pathlib import Path

from twinloop.planning.items import Plan
from twinloop.report.page import write_page


def write_plan_sheet(plan: Plan, path: str | Path) -> Path:
    """Write the sheet to one self-contained file.

    Args:
        plan: What to record.
        path: The HTML file to write.

    Returns:
        The path of the sheet.
    """
    return write_page(
        path,
        "plan.html",
        shows=(),
        title="What to record next",
        plan=plan,
        provenance=[("created", plan.made_at), *plan.sources.items()],
    )
