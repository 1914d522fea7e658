"""A data-quality report as one HTML file: the verdict, remedies, and a chart of each kind of finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from twinloop.datasets.reader import Dataset
from twinloop.quality.finding import FindingGroup, QualityReport
from twinloop.quality.settings import Settings
from twinloop.quality.view import View
from twinloop.report.page import count, write_page
from twinloop.report.quality_plots import draw_finding, draw_lags

MAX_CHARTS = 60
MAX_LISTED_EPISODES = 12


def write_quality_page(
    report: QualityReport, dataset: Dataset, path: str | Path, settings: Settings | None = None
) -> Path:
    """Write the report to one self-contained file.

    Args:
        report: The findings.
        dataset: The dataset they are about; it is read again for the charts.
        path: The HTML file to write.
        settings: The settings of the check.

    Returns:
        The path of the page.
    """
    groups = [group for group in report.groups() if group.worst.severity != "note"]
    return write_page(
        path,
        "quality.html",
        shows=[dataset],
        title=f"Data quality: {Path(report.dataset).resolve().name}",
        verdict=make_verdict(report),
        report=report,
        affected=len({finding.episode for finding in report.findings if finding.severity != "note"}),
        cards=[
            Card(group, chart, _list_episodes(group.episodes))
            for group, chart in zip(
                groups, _draw_charts(groups, dataset, settings or Settings()), strict=True
            )
        ],
        notes=[group for group in report.groups() if group.worst.severity == "note"],
        lags=draw_lags(list(report.measurements)),
        provenance=[("dataset", report.dataset_id), ("version", report.version)],
    )


@dataclass(frozen=True)
class Card:
    """One kind of finding, its chart, and its episodes as text."""

    group: FindingGroup
    chart: Markup | None
    episodes: str


def make_verdict(report: QualityReport) -> tuple[str, str, str]:
    """Tone, headline and sentence."""
    blocked = {finding.episode for finding in report.blocking}
    if blocked:
        codes = ", ".join(sorted({finding.code for finding in report.blocking}))
        return (
            "blocking",
            "Blocked.",
            f"{len(blocked)} of {count(report.episodes, 'episode')} cannot be used as they are: {codes}.",
        )
    if report.count("blocking"):
        return (
            "warning",
            "Usable, by override.",
            "Every blocking finding was overridden; see the overrides below.",
        )
    if report.count("warning"):
        return "fine", "Usable.", "No blocking finding; read the warnings before you trust results."
    return "fine", "Clean.", "No finding that would change a result."


def _draw_charts(groups: Sequence[FindingGroup], dataset: Dataset, settings: Settings) -> list[Markup | None]:
    """A chart per group; those of one episode are drawn together, so that it is read once."""
    charts: list[Markup | None] = [None] * len(groups)
    drawn = sorted(range(min(len(groups), MAX_CHARTS)), key=lambda place: groups[place].worst.episode)
    view: tuple[int, View] | None = None
    for place in drawn:
        worst = groups[place].worst
        if worst.code == "unreadable":
            continue
        if view is None or view[0] != worst.episode:
            view = (worst.episode, View(dataset.episode(worst.episode), settings))
        charts[place] = draw_finding(view[1], worst)
    return charts


def _list_episodes(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:MAX_LISTED_EPISODES]))
    more = len(numbers) - MAX_LISTED_EPISODES
    return f"episode{'s' if len(numbers) > 1 else ''} {listed}{f' and {more} more' if more > 0 else ''}"
