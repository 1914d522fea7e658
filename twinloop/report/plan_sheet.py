"""A recording plan as a printable sheet for the operator: one section per item, one checkbox per episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinloop.errors import UnknownName
from twinloop.planning.items import Plan
from twinloop.report.page import render, write_page

TEMPLATE = "plan.html"


def write_plan_sheet(plan: Plan, path: str | Path, items: Sequence[str] = ()) -> Path:
    """Write the sheet to one self-contained file.

    Args:
        plan: What to record.
        path: The HTML file to write.
        items: Ids of the items to print; default: all.

    Returns:
        The path of the sheet.

    Raises:
        UnknownName: The plan has no such item.
    """
    return write_page(path, TEMPLATE, shows=(), **_context(plan, items))


def render_plan_sheet(plan: Plan, items: Sequence[str] = ()) -> str:
    """The sheet as text, to be shown in a browser.

    Args:
        plan: What to record.
        items: Ids of the items to print; default: all.

    Returns:
        The page.

    Raises:
        UnknownName: The plan has no such item.
    """
    return render(TEMPLATE, **_context(plan, items))


def _context(plan: Plan, items: Sequence[str]) -> dict[str, Any]:
    for name in items:
        if plan.item(name) is None:
            raise UnknownName("item of the plan", name, [item.id for item in plan.items])
    kept = tuple(item for item in plan.items if not items or item.id in items)
    return {
        "title": "What to record next",
        "plan": replace(plan, items=kept) if items else plan,
        "provenance": [("created", plan.made_at), *plan.sources.items()],
    }
