"""`twinloop excite` and `twinloop drift`: design excitation motions, and detect drifting parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, ParameterNames, Plot, Threads, TwinName, split_names
from twinloop.cli.places import find_twin
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.identification.design import Design
    from twinloop.identification.drift import Drift

Out = Annotated[Path | None, Option("--out", metavar="FILE", help="Write the motion: .npz or .csv.")]
Nuisance = Annotated[
    str, Option(metavar="NAME,...", help="Nuisance parameters: unknown as well, but of no interest.")
]
Reach = Annotated[
    float, Option(help="Fraction of the way from home to the nearest joint limit, at most that many rad.")
]
Noise = Annotated[
    float | None, Option(help="Standard deviation of a position reading, rad; default: the twin's.")
]


def excite(
    twin: TwinName,
    parameters: ParameterNames,
    seconds: Annotated[float, Option(help="Duration of the motion.")] = 30.0,
    out: Out = None,
    plot: Plot = None,
    nuisance: Nuisance = "",
    reach: Reach = 0.4,
    speed: Annotated[float, Option(help="Maximum speed of commands and joints, rad/s.")] = 1.5,
    acceleration: Annotated[float, Option(help="Maximum acceleration of commands, rad/s².")] = 12.0,
    torque: Annotated[float, Option(help="Fraction of each actuator's torque limit that may be used.")] = 0.9,
    fastest: Annotated[float, Option(help="Highest frequency, Hz.")] = 5.0,
    noise: Noise = None,
    generations: Annotated[int, Option(help="Generations of the search; more is slower and better.")] = 10,
    seed: Annotated[int, Option(help="Random seed of the search.")] = 0,
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Design the motion that identifies parameters best, and predict their confidence intervals.

    It respects joint, speed and torque limits, is free of collisions in the twin, and starts and ends at rest at home. Run it on the robot with
    `twinloop record --motion FILE`, or in the twin with `twinloop generate --expert motion:FILE`.
    """
    from twinloop.experts import save_motion
    from twinloop.identification.limits import make_limits
    from twinloop.tasks import make_cell

    if out is not None and out.suffix not in (".npz", ".csv"):
        raise WrongUse("a motion is a .npz or a .csv file", got=str(out))
    cell = find_twin(twin)
    limits = make_limits(
        make_cell(cell), reach=reach, speed_rad_s=speed, acceleration_rad_s2=acceleration, torque_fraction=torque,
        fastest_hz=fastest,
    )  # fmt: skip
    with console.progress_bar("designing") as progress:
        design = twinloop.design_excitation(
            cell, split_names(parameters), seconds, nuisance=split_names(nuisance), limits=limits, noise=noise,
            generations=generations, seed=seed, threads=threads, on_progress=progress,
        )  # fmt: skip
    if out is not None:
        save_motion(design.motion, out)
    if plot is not None:
        from twinloop.report.identification_plots import draw_motion

        draw_motion(design, plot)
    files = {"out": out, "plot": plot}
    console.print_result(json, design.as_json() | files, lambda: _print_design(design, out))


def drift(
    dataset: Annotated[Path, Argument(metavar="DATASET", help="Episodes of one robot over time.")],
    twin: TwinName,
    parameters: ParameterNames,
    baseline: Annotated[int, Option(help="Number of first episodes that define the baseline.")] = 20,
    chance: Annotated[float, Option(help="Probability of a false alarm in 100 episodes.")] = 0.01,
    plot: Plot = None,
    seed: Annotated[int, Option(help="Random seed of the reference fit.")] = 0,
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Detect which parameters of a robot have drifted since its first episodes, and when. Exits with 1 if any has.

    List parameters of the robot and of the scene together, so that each change is attributed to its own parameter.
    """
    cell, episodes, names = find_twin(twin), twinloop.open_dataset(dataset), split_names(parameters)
    with console.progress_bar("simulated seconds") as bar:
        result = twinloop.watch_drift(
            cell,
            episodes,
            names,
            baseline=baseline,
            chance=chance,
            seed=seed,
            threads=threads,
            on_progress=bar,
        )
    if plot is not None:
        from twinloop.report.identification_plots import draw_drift

        draw_drift(result, plot)
    plotted = {"plot": plot}
    console.print_result(json, result.as_json() | plotted, lambda: _print_drift(result))
    if result.moved:
        raise typer.Exit(1)


def _print_design(design: Design, out: Path | None) -> None:
    console.print_table(
        ("parameter", "nominal", "expected 95 % interval", "±", "± with a chirp", "unit", "identified"),
        [
            (e.name, e.nominal, f"{e.low:.5g} to {e.high:.5g}", e.half_width, e.chirp, e.unit, e.status)
            for e in design.expected
        ],
    )
    for confusion in design.confusions:
        console.out.print(f"not separately identifiable: {confusion}; {confusion.remedy}")
    peaks = design.peaks
    wrote = f"; wrote {out}" if out else ""
    console.out.print(
        f"{design.motion.duration_s:g} s, confidence volume {design.gain:.3g} times smaller than with a chirp; "
        f"{peaks.reach_rad:.2f} rad from home, {peaks.speed_rad_s:.2f} rad/s, "
        f"{peaks.torque_fraction:.0%} of the allowed torque at most{wrote}"
    )


def _print_drift(result: Drift) -> None:
    columns = (
        "changed",
        "dimension",
        "since episode",
        "detected at",
        "before",
        "after",
        "95 % interval",
        "verdict",
    )
    if result.changes:
        console.print_table(
            columns,
            [
                (
                    c.name,
                    c.dimension,
                    c.began,
                    c.alarmed,
                    c.before,
                    c.after,
                    f"{c.low:.4g} to {c.high:.4g}",
                    c.role,
                )
                for c in result.changes
            ],
        )
    if result.unwatched:
        console.out.print(
            f"not identifiable from these episodes, so not monitored: {', '.join(result.unwatched)}"
        )
    count = len(result.episodes) - result.baseline
    verdict = f"drift in {', '.join(result.dimensions)}" if result.moved else "no drift"
    console.out.print(f"{count} episodes after a baseline of {result.baseline}: {verdict}")
