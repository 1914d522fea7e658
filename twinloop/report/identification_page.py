"""An identification as one HTML file: the verdict, each parameter with its interval, and charts of real against twin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinloop.consent.removal import find_numbers
from twinloop.datasets.reader import Dataset
from twinloop.identification.replays import ReplayOverlay
from twinloop.identification.result import Identification
from twinloop.report.identification_plots import draw_corner, draw_replay, draw_spectra
from twinloop.report.page import write_page

MAX_REPLAYS = 4


def write_identification_page(
    identification: Identification,
    replays: Sequence[ReplayOverlay],
    path: str | Path,
    dataset: Dataset | None = None,
) -> Path:
    """Write the report to one self-contained file.

    Args:
        identification: The estimates and the held-out replay errors.
        replays: Held-out episodes with the twin's replay of each.
        path: The HTML file to write.
        dataset: Where the held-out episodes are from: its workspace remembers what shows them.

    Returns:
        The path of the page.
    """
    twin = identification.twin
    horizon = identification.horizon_s
    return write_page(
        path,
        "identification.html",
        shows=[(dataset, sorted(find_numbers(dataset, [replay.episode for replay in replays])))]
        if dataset
        else (),
        title=f"Identification of {twin.name}",
        result=identification,
        replays=[
            (draw_replay(replay, identification), f"{replay.task or 'episode'} ({replay.episode[:12]})")
            for replay in replays[:MAX_REPLAYS]
        ],
        spectra=draw_spectra(replays, identification) if replays else None,
        corner=draw_corner(identification),
        provenance=[
            ("twin", f"{twin.name} version {twin.version}"),
            ("from", identification.base[:12]),
            ("fitted episodes", len(identification.fitted)),
            ("held-out episodes", len(identification.held_out)),
            ("replay windows", "whole episodes" if horizon is None else f"{horizon:.2g} s"),
            ("seed", identification.seed),
        ],
    )
