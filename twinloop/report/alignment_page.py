"""An alignment as one HTML file: the verdict, each quantity with its interval, and the overlay."""

from __future__ import annotations

import base64
from pathlib import Path

from twinloop.alignment.masks import parse_name
from twinloop.alignment.result import Alignment
from twinloop.datasets.reader import Dataset
from twinloop.report.page import write_page

TONES = {"aligned": "fine", "partly determined": "warning", "not determined": "blocking"}


def write_alignment_page(
    alignment: Alignment, overlay: str | Path, path: str | Path, dataset: Dataset
) -> Path:
    """Write the report to one self-contained file.

    Args:
        alignment: What was found.
        overlay: The image that `write_overlay` wrote.
        path: The HTML file to write.
        dataset: The recording: its workspace remembers what shows it.

    Returns:
        The path of the page.
    """
    shown = alignment.held_out or alignment.frames
    image = base64.b64encode(Path(overlay).read_bytes()).decode()
    return write_page(
        path,
        "alignment.html",
        shows=[(dataset, sorted({parse_name(name, "the alignment")[0] for name in shown}))],
        title=f"Camera {alignment.camera} of {alignment.twin.name}",
        result=alignment,
        tone=TONES[alignment.verdict],
        overlay=f"data:image/png;base64,{image}",
        provenance=[
            ("twin", f"{alignment.twin.name} version {alignment.twin.version}"),
            ("from", alignment.base[:12]),
            ("frames fitted", len(alignment.frames)),
            ("frames held out", len(alignment.held_out)),
            ("seconds", alignment.details.get("seconds", "")),
            ("seed", alignment.details.get("seed", "")),
        ],
    )
