"""`twinloop check`: check the quality of recorded data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.generate import print_errors
from twinloop.cli.options import DatasetFolder, Json, split_names
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.generation.convergence import Convergence
    from twinloop.quality.finding import Measurement, QualityReport
    from twinloop.quality.settings import Settings

Episodes = Annotated[str | None, Option(help="Only these episodes: numbers and ranges, for example 0-9,17.")]
Ask = Annotated[
    str | None, Option(metavar="WHAT,...", help="What is to be identified: joint_dynamics, contact ...")
]
Page = Annotated[
    Path | None, Option("--html", metavar="FILE", help="Also write a page with a plot of each finding.")
]
Override = Annotated[
    str | None, Option(metavar="CODE", help="Use the data despite the blocking finding CODE.")
]
TimeStep = Annotated[
    int, Option(metavar="N", help="Also repeat N simulated episodes at half the physics time step.")
]


def check(
    dataset: DatasetFolder,
    episodes: Episodes = None,
    purpose: Annotated[
        str, Option(help="Intended use: identify, train or any; decides what blocks.")
    ] = "any",
    ask: Ask = None,
    frames: Annotated[bool, Option(help="Also check camera frames, which takes longest.")] = True,
    page: Page = None,
    override: Override = None,
    by: Annotated[str, Option(help="Who is responsible for the override.")] = "",
    reason: Annotated[str, Option(help="Reason for the override.")] = "",
    time_step: TimeStep = 0,
    notes: Annotated[bool, Option("--notes", help="Also list notes, which neither warn nor block.")] = False,
    json: Json = False,
) -> None:
    """Check recorded data: lost samples, dead channels, lag, wrong units ... Exits with 1 if a finding blocks."""
    from twinloop.quality.require import override as override_finding

    if override and not (by.strip() and reason.strip()):
        raise WrongUse("an override needs a name and a reason", remedy="--by NAME --reason TEXT")
    opened = twinloop.open_dataset(dataset)
    numbers = None if episodes is None else parse_numbers(episodes)
    settings = _make_settings(purpose, ask, frames)
    with console.progress_bar("checking") as progress:
        report = twinloop.check_dataset(opened, settings, progress, episodes=numbers)
    if override:
        override_finding(report, opened, override, by, reason)
        report = twinloop.check_dataset(opened, settings, episodes=numbers)
    if page:
        from twinloop.report.quality_page import write_quality_page

        write_quality_page(report, opened, page, settings)
    convergence = _halve_time_step(dataset, time_step)
    halved = asdict(convergence) if convergence else None
    value = report.as_json() | {"html": page, "time_step": halved}
    console.print_result(json, value, lambda: _print(report, page, notes, convergence))
    if report.blocking:
        raise typer.Exit(1)


def _halve_time_step(dataset: Path, count: int) -> Convergence | None:
    """What half the physics time step does to so many simulated episodes; None where that was not asked for."""
    from twinloop.generation.convergence import check_time_step

    return check_time_step(dataset, count=count) if count else None


def _make_settings(purpose: str, ask: str | None, frames: bool) -> Settings:
    from twinloop.quality.settings import RATES_HZ, Purpose, Settings

    if purpose not in get_args(Purpose):
        raise WrongUse("unknown purpose", got=purpose, available=get_args(Purpose))
    asked = tuple(split_names(ask))
    for name in asked:
        if name not in RATES_HZ:
            raise WrongUse(f"no data requirements are known for {name!r}", available=sorted(RATES_HZ))
    return Settings(purpose=cast(Purpose, purpose), asked=asked, frames=frames)


def parse_numbers(text: str) -> list[int]:
    """Parse episode numbers and ranges such as `0-9,17`."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError as error:
            raise WrongUse(
                "cannot read the episodes", got=text, expected="numbers and ranges, like 0-9,17"
            ) from error
    return sorted(set(numbers))


def _print_convergence(convergence: Convergence) -> None:
    count = len(convergence.episodes)
    console.out.print(
        f"{console.count(count, 'episode')} at {convergence.physics_dt_s * 1000:g} ms and at half of it: "
        f"{convergence.outcome_changed} of {count} outcomes differ"
    )
    if convergence.object_end_m:
        median = sorted(convergence.object_end_m)[len(convergence.object_end_m) // 2]
        console.out.print(
            f"final object position differs by {median * 1000:.3g} mm (median), "
            f"{max(convergence.object_end_m) * 1000:.3g} mm (maximum)"
        )
    print_errors(convergence.errors)


def _print(report: QualityReport, page: Path | None, notes: bool, convergence: Convergence | None) -> None:
    groups = report.groups()
    shown = [group for group in groups if notes or group.worst.severity != "note"]
    if shown:
        rows = [
            (g.worst.code, g.worst.severity + (" (overridden)" if g.overridden else ""), g.worst.channel,
             _format_numbers(g.episodes), g.worst.message)
            for g in shown
        ]  # fmt: skip
        console.print_table(("finding", "severity", "channel", "episodes", "message"), rows)
        for code in dict.fromkeys(
            g.worst.code for g in groups if g.worst.severity == "blocking" and not g.overridden
        ):
            remedy = next(g.worst.remedy for g in groups if g.worst.code == code)
            console.out.print(f"{code}: {remedy}")
    console.print_lines(_format_lags(report.pooled("lag")))
    warnings = console.count(report.count("warning"), "warning")
    hidden = " (--notes lists them)" if report.count("note") and not notes else ""
    counts = f"{report.count('blocking')} blocking, {warnings}, {console.count(report.count('note'), 'note')}{hidden}"
    verdict, wrote = "blocked" if report.blocking else "usable", f"; wrote {page}" if page else ""
    console.out.print(f"{console.count(report.episodes, 'episode')}: {verdict}; {counts}{wrote}")
    if convergence is not None:
        _print_convergence(convergence)


def _format_lags(lags: list[Measurement]) -> list[str]:
    """Return a line per pair of signals: which lags behind which, by how much in each element."""
    lines: dict[tuple[str, str], list[str]] = {}
    for lag in lags:
        (response, _, element), (command, *_) = lag.channel.partition("["), lag.command.partition("[")
        value = f"{element.rstrip(']')} {lag.value:.0f} ± {lag.uncertainty:.0f}".strip()
        lines.setdefault((response, command), []).append(value)
    return [
        f"lag of {response} behind {command}, ms: {', '.join(values)}"
        for (response, command), values in lines.items()
    ]


def _format_numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:6])) + (f" ... ({len(numbers)})" if len(numbers) > 6 else "")
