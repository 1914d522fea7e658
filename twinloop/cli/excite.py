"""`twinloop excite` and `twinloop drift`: design excitation motions, and detect drifting parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.identification.design import Design
    from twinloop.identification.drift import Drift

Parameters = Annotated[
    str, typer.Option(metavar="NAME,...", help="Parameters of the twin; `twinloop twin show` lists them.")
]
TwinName = Annotated[str, typer.Option("--twin", metavar="NAME|FOLDER", help="The twin.")]


def excite(
    twin: TwinName,
    parameters: Parameters,
    seconds: Annotated[float, typer.Option(help="Duration of the motion.")] = 30.0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the motion: .npz or .csv.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Also plot it.")] = None,
    nuisance: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Nuisance parameters: unknown as well, but of no interest."),
    ] = "",
    reach: Annotated[
        float,
        typer.Option(help="Fraction of the way from home to the nearest joint limit, at most that many rad."),
    ] = 0.4,
    speed: Annotated[float, typer.Option(help="Maximum speed of commands and joints, rad/s.")] = 1.5,
    acceleration: Annotated[float, typer.Option(help="Maximum acceleration of commands, rad/s².")] = 12.0,
    torque: Annotated[
        float, typer.Option(help="Fraction of each actuator's torque limit that may be used.")
    ] = 0.9,
    fastest: Annotated[float, typer.Option(help="Highest frequency, Hz.")] = 5.0,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of a position reading, rad; default: the twin's.")
    ] = None,
    generations: Annotated[
        int, typer.Option(help="Generations of the search; more is slower and better.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Random seed of the search.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads; 0 is one per core.")] = 0,
    json: Json = False,
) -> None:
    """Design the motion that identifies parameters best, and predict their confidence intervals.

    It respects joint, speed and torque limits, is free of collisions in the twin, and starts and ends at rest at home. Run it on the robot with
    `twinloop record --motion FILE`, or in the twin with `twinloop generate --expert motion:FILE`.
    """
    from twinloop.experts import save_motion
    from twinloop.identification.design import design_excitation
    from twinloop.identification.limits import make_limits
    from twinloop.tasks import make_cell
    from twinloop.twins import load_twin

    if out is not None and out.suffix not in (".npz", ".csv"):
        raise WrongUse("a motion is a .npz or a .csv file", got=str(out))
    if generations < 1:
        raise WrongUse("the search needs at least one generation", got=generations)
    if noise is not None and not noise > 0.0:
        raise WrongUse("a standard deviation must be positive", got=noise)
    found = load_twin(twin)
    limits = make_limits(
        make_cell(found),
        reach=reach,
        speed_rad_s=speed,
        acceleration_rad_s2=acceleration,
        torque_fraction=torque,
        fastest_hz=fastest,
    )
    with console.progress_bar("designing") as progress:
        design = design_excitation(
            found,
            _split_names(parameters),
            seconds,
            nuisance=_split_names(nuisance),
            limits=limits,
            noise=noise,
            generations=generations,
            seed=seed,
            threads=threads,
            progress=progress,
        )
    if out is not None:
        save_motion(design.motion, out)
    if plot is not None:
        from twinloop.report.identification_plots import draw_motion

        draw_motion(design, plot)
    if json:
        files = {"out": str(out) if out else None, "plot": str(plot) if plot else None}
        console.print_json(design.as_json() | files)
    else:
        _print_design(design, out)


def drift(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="Episodes of one robot over time.")],
    twin: TwinName,
    parameters: Parameters,
    baseline: Annotated[int, typer.Option(help="Number of first episodes that define the baseline.")] = 20,
    chance: Annotated[float, typer.Option(help="Probability of a false alarm in 100 episodes.")] = 0.01,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Plot estimates and alarms.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the reference fit.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads; 0 is one per core.")] = 0,
    json: Json = False,
) -> None:
    """Detect which parameters of a robot have drifted since its first episodes, and when. Exits with 1 if any has.

    List parameters of the robot and of the scene together, so that each change is attributed to its own parameter.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.identification.drift import watch_drift
    from twinloop.twins import load_twin

    opened = open_dataset(dataset)
    episodes = [opened.episode(number) for number in opened.numbers]
    result = watch_drift(
        load_twin(twin),
        episodes,
        _split_names(parameters),
        baseline=baseline,
        chance=chance,
        seed=seed,
        threads=threads,
    )
    if plot is not None:
        from twinloop.report.identification_plots import draw_drift

        draw_drift(result, plot)
    if json:
        console.print_json(result.as_json() | {"plot": str(plot) if plot else None})
    else:
        _print_drift(result)
    if result.moved:
        raise typer.Exit(1)


def _split_names(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _print_design(design: Design, out: Path | None) -> None:
    console.print_table(
        ("parameter", "nominal", "expected 95 % interval", "±", "± with a chirp", "unit", "identified"),
        [
            (e.name, e.nominal, f"{e.low:.5g} to {e.high:.5g}", e.half_width, e.chirp, e.unit, e.status)
            for e in design.expected
        ],
    )
    for confusion in design.confusions:
        console.out.print(f"not separately identifiable: {confusion}; {confusion.remedy}", markup=False)
    peaks = design.peaks
    wrote = f"; wrote {out}" if out else ""
    console.out.print(
        f"{design.motion.duration_s:g} s, confidence volume {design.gain:.3g} times smaller than with a chirp; "
        f"{peaks.reach_rad:.2f} rad from home, {peaks.speed_rad_s:.2f} rad/s, "
        f"{peaks.torque_fraction:.0%} of the allowed torque at most{wrote}"
    )


def _print_drift(result: Drift) -> None:
    if result.changes:
        console.print_table(
            (
                "changed",
                "dimension",
                "since episode",
                "detected at",
                "before",
                "after",
                "95 % interval",
                "verdict",
            ),
            [
                (
                    change.name,
                    change.dimension,
                    change.began,
                    change.alarmed,
                    change.before,
                    change.after,
                    f"{change.low:.4g} to {change.high:.4g}",
                    change.role,
                )
                for change in result.changes
            ],
        )
    if result.unwatched:
        console.out.print(
            f"not identifiable from these episodes, so not monitored: {', '.join(result.unwatched)}"
        )
    count = len(result.episodes) - result.baseline
    verdict = f"drift in {', '.join(result.dimensions)}" if result.moved else "no drift"
    console.out.print(f"{count} episodes after a baseline of {result.baseline}: {verdict}")
