"""`twinloop coverage`: where real data lies outside what simulation covers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, split_names

if TYPE_CHECKING:
    from twinloop.coverage.result import Region

Page = Annotated[Path | None, Option("--html", metavar="FILE", help="Also write the interactive map.")]
Out = Annotated[
    Path | None,
    Option(
        metavar="FOLDER", help="Write the result to coverage.json there, for `twinloop plan`, and its map."
    ),
]
Signals = Annotated[
    str | None,
    Option(metavar="NAME,...", help="Signals to compare; default: state, environment state and action."),
]


def coverage(
    real: Annotated[Path, Option("--real", metavar="DATASET", help="Real episodes.")],
    sim: Annotated[Path, Option("--sim", metavar="DATASET", help="Simulated episodes.")],
    page: Page = None,
    out: Out = None,
    signals: Signals = None,
    points: Annotated[int, Option(help="Approximate number of moments sampled from each dataset.")] = 20_000,
    images: Annotated[bool, Option(help="Compare camera images too.")] = True,
    seed: Annotated[int, Option(help="Random seed for the calibration.")] = 0,
    json: Json = False,
) -> None:
    """Find the regions of the real data that simulation does not cover, and whether episodes fail there.

    Regions are ranges of named signals, draws and image statistics that contain real episodes and hardly any simulated ones,
    beyond what cross-validation on simulated episodes gives by chance.
    """
    opened = twinloop.open_dataset(real), twinloop.open_dataset(sim)
    wanted = split_names(signals) or None
    with console.progress_bar("reading") as progress:
        result = twinloop.measure_coverage(
            *opened, signals=wanted, points=points, images=images, seed=seed, on_progress=progress
        )
    files = {"html": page, "out": None}
    if out is not None:
        from twinloop.coverage.map_file import save_coverage

        files["out"] = save_coverage(result, out, opened) / result.FILE
    if page is not None:
        from twinloop.report.coverage_page import write_coverage_page

        write_coverage_page(result, page, opened)
    console.print_result(json, result.as_json() | files, lambda: _print(result, files))


def _row(region: Region, lead: str = "") -> tuple[object, ...]:
    ended = region.outcomes
    failed = f"{ended.failed_inside} of {ended.known_inside}" if ended.known_inside else "unknown"
    if ended.worse:
        failed += f" (elsewhere {ended.failed_elsewhere} of {ended.known_elsewhere})"
    fraction, episodes = f"{100 * region.fraction:.1f} %", len(region.episodes)
    return f"{lead}{region.name}", region.level, fraction, episodes, region.sim_episodes, failed


def _print(result: twinloop.Coverage, files: dict[str, Path | None]) -> None:
    if result.regions:
        rows = []
        for region in result.regions:
            rows.append(_row(region))
            if region.worst is not None:
                rows.append(_row(region.worst, "mostly where "))
        console.print_table(("region", "level", "real data", "real episodes", "simulated", "failed"), rows)
        console.print_lines(f"  {(region.worst or region).query}" for region in result.regions)
    console.print_lines(f"not compared: {line}" for line in result.missing)
    verdict = _verdict(result)
    wrote = ", ".join(str(path) for path in files.values() if path)
    console.out.print(
        f"{result.real.episodes} real against {result.sim.episodes} simulated episodes: {verdict}"
        + (f"; wrote {wrote}" if wrote else "")
    )


def _verdict(result: twinloop.Coverage) -> str:
    parts = []
    if any(not region.offset for region in result.regions):
        parts.append(f"{100 * result.outside:.1f} % of the real data lies outside simulation")
    if offsets := [region.name for region in result.regions if region.offset]:
        parts.append(f"offset in nearly every episode: {'; '.join(offsets)}")
    return ", ".join(parts) or "covered"
