"""`twinloop check`: check the quality of recorded data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.generation.convergence import Convergence
    from twinloop.quality.finding import QualityReport
    from twinloop.quality.settings import Settings


def check(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset's folder.")],
    episodes: Annotated[
        str | None, typer.Option(help="Only these episodes: numbers and ranges, for example 0-9,17.")
    ] = None,
    purpose: Annotated[
        str, typer.Option(help="Intended use: identify, train or any; decides what blocks.")
    ] = "any",
    ask: Annotated[
        str | None,
        typer.Option(metavar="WHAT,...", help="What is to be identified: joint_dynamics, contact ..."),
    ] = None,
    frames: Annotated[bool, typer.Option(help="Also check camera frames, which takes longest.")] = True,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page with a plot of each finding."),
    ] = None,
    override: Annotated[
        str | None, typer.Option(metavar="CODE", help="Use the data despite the blocking finding CODE.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who is responsible for the override.")] = "",
    reason: Annotated[str, typer.Option(help="Reason for the override.")] = "",
    time_step: Annotated[
        int,
        typer.Option(metavar="N", help="Also repeat N simulated episodes at half the physics time step."),
    ] = 0,
    notes: Annotated[
        bool, typer.Option("--notes", help="Also list notes, which neither warn nor block.")
    ] = False,
    json: Json = False,
) -> None:
    """Check recorded data: lost samples, dead channels, lag, wrong units ... Exits with 1 if a finding blocks."""
    from twinloop.datasets.reader import open_dataset
    from twinloop.quality.check import check_dataset
    from twinloop.quality.require import override as override_finding

    if override and not (by.strip() and reason.strip()):
        raise WrongUse("an override needs a name and a reason", remedy="--by NAME --reason TEXT")
    opened = open_dataset(dataset)
    numbers = None if episodes is None else parse_numbers(episodes)
    settings = _make_settings(purpose, ask, frames)
    with console.progress_bar("checking") as progress:
        report = check_dataset(opened, settings, progress, episodes=numbers)
    if override:
        override_finding(report, opened, override, by, reason)
        report = check_dataset(opened, settings, episodes=numbers)
    if page:
        from twinloop.report.quality_page import write_quality_page

        write_quality_page(report, opened, page, settings)
    convergence = None
    if time_step:
        from twinloop.generation.convergence import check_time_step

        convergence = check_time_step(dataset, count=time_step)
    if json:
        halved = asdict(convergence) if convergence else None
        console.print_json(report.as_json() | {"html": str(page) if page else None, "time_step": halved})
    else:
        _print(report, page, notes)
        if convergence:
            _print_convergence(convergence)
    if report.blocking:
        raise typer.Exit(1)


def _make_settings(purpose: str, ask: str | None, frames: bool) -> Settings:
    from twinloop.quality.settings import RATES_HZ, Purpose, Settings

    if purpose not in get_args(Purpose):
        raise WrongUse("unknown purpose", got=purpose, available=get_args(Purpose))
    asked = tuple(part.strip() for part in (ask or "").split(",") if part.strip())
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
    console.print_table(
        ("signal", "unit", "max error", "RMS error"),
        [(e.signal, e.unit, e.largest, e.root_mean_square) for e in convergence.errors],
    )


def _print(report: QualityReport, page: Path | None, notes: bool) -> None:
    groups = report.groups()
    shown = [group for group in groups if notes or group.worst.severity != "note"]
    if shown:
        console.print_table(
            ("finding", "severity", "channel", "episodes", "message"),
            [
                (
                    group.worst.code,
                    group.worst.severity + (" (overridden)" if group.overridden else ""),
                    group.worst.channel,
                    _format_numbers(group.episodes),
                    group.worst.message,
                )
                for group in shown
            ],
        )
        for code in dict.fromkeys(
            g.worst.code for g in groups if g.worst.severity == "blocking" and not g.overridden
        ):
            remedy = next(g.worst.remedy for g in groups if g.worst.code == code)
            console.out.print(f"{code}: {remedy}", markup=False)
    lags = report.pooled("lag")
    if lags:
        text = ", ".join(
            f"{m.channel.split('[')[-1].rstrip(']')} {m.value:.0f} ± {m.uncertainty:.0f}" for m in lags
        )
        console.out.print(f"lag behind the command, ms: {text}", markup=False)
    counts = ", ".join(
        (
            f"{report.count('blocking')} blocking",
            console.count(report.count("warning"), "warning"),
            console.count(report.count("note"), "note")
            + (" (--notes lists them)" if report.count("note") and not notes else ""),
        )
    )
    verdict = "blocked" if report.blocking else "usable"
    console.out.print(
        f"{console.count(report.episodes, 'episode')}: {verdict}; {counts}"
        + (f"; wrote {page}" if page else "")
    )


def _format_numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:6])) + (f" ... ({len(numbers)})" if len(numbers) > 6 else "")
