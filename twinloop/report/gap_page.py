"""A measured gap as one HTML file: which dimensions differ, by how much, how certain, and what was not evaluated."""

from __future__ import annotations

from pathlib import Path

from twinloop.gap.result import ALL, Gap
from twinloop.report.page import write_page


def write_gap_page(gap: Gap, path: str | Path) -> Path:
    """Write the report to one self-contained file.

    Args:
        gap: The measured gap.
        path: The HTML file to write.

    Returns:
        The path of the page.
    """
    return write_page(
        path,
        "gap.html",
        shows=(),
        title=f"Sim-to-real gap: twin {gap.twin} against {Path(gap.real).name}",
        gap=gap,
        missing=[name for name, dimension in gap.dimensions.items() if not dimension.evaluated],
        all_channels=ALL,
        provenance=[
            ("twin", gap.twin),
            ("twin version", gap.twin_version),
            ("real dataset", gap.real),
            ("simulated dataset", gap.sim),
            ("seed", gap.seed),
        ],
    )
