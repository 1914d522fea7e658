"""`twinloop coverage`: where real data lies outside what simulation covers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json

if TYPE_CHECKING:
    from twinloop.coverage.result import Coverage, Region


def coverage(
    real: Annotated[Path, typer.Option("--real", metavar="DATASET", help="Real episodes.")],
    sim: Annotated[Path, typer.Option("--sim", metavar="DATASET", help="Simulated episodes.")],
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the interactive map.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Write the result to coverage.json there, for `twinloop plan`.",
        ),
    ] = None,
    signals: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help="Signals to compare; default: state, environment state and action."
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(help="Approximate number of moments sampled from each dataset.")
    ] = 20_000,
    images: Annotated[bool, typer.Option(help="Compare camera images too.")] = True,
    seed: Annotated[int, typer.Option(help="Random seed for the calibration.")] = 0,
    json: Json = False,
) -> None:
    """Find the regions of the real data that simulation does not cover, and whether episodes fail there.

    Regions are ranges of named signals, draws and image statistics that contain real episodes and hardly any simulated ones,
    beyond what cross-validation on simulated episodes gives by chance.
    """
    from twinloop.coverage.run import measure_coverage as run
    from twinloop.datasets.reader import open_dataset

    opened = open_dataset(real), open_dataset(sim)
    wanted = [name.strip() for name in signals.split(",")] if signals else None
    with console.progress_bar("reading") as progress:
        result = run(*opened, signals=wanted, points=points, images=images, seed=seed, progress=progress)
    files = {"html": str(page) if page else None, "out": str(result.save(out)) if out else None}
    if page is not None:
        from twinloop.report.coverage_page import write_coverage_page

        write_coverage_page(result, page, opened)
    if json:
        console.print_json(result.as_json() | files)
    else:
        _print(result, files)


def _row(region: Region, lead: str = "") -> tuple[object, ...]:
    ended = region.outcomes
    failed = f"{ended.failed_inside} of {ended.known_inside}" if ended.known_inside else "unknown"
    if ended.worse:
        failed += f" (elsewhere {ended.failed_elsewhere} of {ended.known_elsewhere})"
    fraction, episodes = f"{100 * region.fraction:.1f} %", len(region.episodes)
    return f"{lead}{region.name}", region.level, fraction, episodes, region.sim_episodes, failed


def _print(result: Coverage, files: dict[str, str | None]) -> None:
    if result.regions:
        rows = []
        for region in result.regions:
            rows.append(_row(region))
            if region.worst is not None:
                rows.append(_row(region.worst, "mostly where "))
        console.print_table(("region", "level", "real data", "real episodes", "simulated", "failed"), rows)
        for region in result.regions:
            console.out.print(f"  {(region.worst or region).query}", markup=False)
    for line in result.missing:
        console.out.print(f"not compared: {line}", markup=False)
    verdict = _verdict(result)
    wrote = ", ".join(path for path in files.values() if path)
    console.out.print(
        f"{result.real.episodes} real against {result.sim.episodes} simulated episodes: {verdict}"
        + (f"; wrote {wrote}" if wrote else ""),
        markup=False,
    )


def _verdict(result: Coverage) -> str:
    parts = []
    if any(not region.offset for region in result.regions):
        parts.append(f"{100 * result.outside:.1f} % of the real data lies outside simulation")
    if offsets := [region.name for region in result.regions if region.offset]:
        parts.append(f"offset in nearly every episode: {'; '.join(offsets)}")
    return ", ".join(parts) or "covered"
