"""`twinloop gap`: how far a twin is from real episodes, dimension by dimension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here

if TYPE_CHECKING:
    from twinloop.gap.result import Gap, Measure
    from twinloop.gap.success import Pair, Rate


def gap(
    real: Annotated[
        Path, typer.Option("--real", metavar="DATASET", help="Real episodes, as ingested or recorded.")
    ],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="The twin to compare with; default: the workspace's."),
    ] = None,
    sim: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET",
            help="Simulated episodes to compare with. Default: the twin's replay of the real commands and, for quantities that replay cannot give, a small generated set.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY",
            help="Evaluate this policy in the twin and compare its success with its real episodes.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="DIMENSION,...", help="Measure these dimensions only, such as latency,contact."),
    ] = None,
    conditions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Conditions of real episodes: a column 'episode' (number or id) and one per condition, such as object, light, clutter, participant.",
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option(min=1, help="Maximum number of episodes from each dataset, spread evenly.")
    ] = 100,
    generated: Annotated[int, typer.Option(min=3, help="Episodes to generate without --sim.")] = 8,
    trials: Annotated[int, typer.Option(min=1, help="Trials of --policy in the twin.")] = 100,
    seed: Annotated[int, typer.Option(help="Random seed for resampling and generated episodes.")] = 0,
    threads: Annotated[int, typer.Option(help="Simulation threads; 0: all cores.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="The report; default: gap.html in the workspace's reports/, or here."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Measure how far a twin is from reality: per dimension, each difference with unit, interval and sample size.

    Differences are simulation minus reality. A dimension that cannot be measured says which data it needs; it is never reported as zero.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.gap.conditions import load_conditions
    from twinloop.gap.evidence import Options
    from twinloop.gap.run import measure_gap
    from twinloop.report.gap_page import write_gap_page

    workspace = workspace_here()
    cell = twin_of(twin, workspace)
    options = Options(seed=seed, episodes=episodes, generated=generated, trials=trials, threads=threads)
    with console.progress_bar("measuring the gap") as bar:
        found = measure_gap(
            open_dataset(real),
            cell,
            open_dataset(sim) if sim else None,
            policy=_policy(policy),
            only=[name.strip() for name in only.split(",")] if only else None,
            conditions=load_conditions(conditions) if conditions else None,
            options=options,
            progress=lambda _, done, total: bar(done, total),
        )
    default = workspace.root / "reports" / "gap.html" if workspace else Path("gap.html")
    page = write_gap_page(found, out or default)
    if json:
        console.print_json(found.as_json() | {"report": str(page)})
        return
    _print(found)
    console.out.print(f"report {page}", markup=False)


def rank(
    real: Annotated[
        str,
        typer.Option(
            metavar="FILE[:KEY]",
            help="Real success rates: JSON {task: {policy: rate}} (under KEY), the output of `twinloop evaluate --json`, or CSV with columns policy, success, task, episodes.",
        ),
    ],
    sim: Annotated[
        str, typer.Option(metavar="FILE[:KEY]", help="Simulated success rates, in the same format.")
    ],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials behind each rate, if the files do not say.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for resampling.")] = 0,
    json: Json = False,
) -> None:
    """Compare how simulation and reality rank policies: MMRV and Pearson, task by task, with 95 % intervals."""
    from twinloop.gap.ranking import load_ratings, rank_policies

    found = rank_policies(load_ratings(real, trials), load_ratings(sim, trials), seed=seed)
    if json:
        console.print_json(found.as_json())
        return
    rows = [
        (one.task, str(len(one.policies)), _span(one.mmrv, one.mmrv_interval), _span(one.pearson, one.pearson_interval),
         f"{one.mean_gap:+.3f}")
        for one in found.tasks
    ]  # fmt: skip
    if len(rows) > 1:
        rows.append(
            ("all tasks", str(found.pairs), _span(found.mmrv, found.mmrv_interval),
             _span(found.pearson, found.pearson_interval), "")
        )  # fmt: skip
    console.print_table(("task", "policies", "MMRV, 95 %", "Pearson, 95 %", "sim - real"), rows)


def _span(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" if interval is None else f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _policy(path: Path | None) -> Path | None:
    from twinloop.cli.policy import policy_path

    return None if path is None else policy_path(path)


def _print(found: Gap) -> None:
    rows = []
    for name, one in found.dimensions.items():
        if not one.evaluated:
            rows.append((name, "not evaluated", "", "", f"needs {one.missing[0].needs}"))
            continue
        for index, measure in enumerate(one.headlines):
            mark = "  gap" if measure in one.shown else ""
            rows.append(
                (
                    name if index == 0 else "",
                    measure.name,
                    difference(measure) + mark,
                    sizes(measure),
                    measure.against,
                )
            )
    console.print_table(("dimension", "measure", "sim - real, 95 %", "episodes", "against"), rows)
    _print_success(found)
    what = "stand-in" if found.standin else "real"
    shown = ", ".join(found.shown) or "none of the evaluated dimensions"
    console.out.print(f"{found.twin} against {found.episodes} {what} episodes; gap in: {shown}", markup=False)
    for note in found.notes:
        console.out.print(f"note: {note}", markup=False)


def difference(measure: Measure) -> str:
    """A difference with its interval and unit."""
    unit = "" if measure.unit == "1" else f" {measure.unit}"
    return f"{measure.value:+.3g} [{measure.low:.3g}, {measure.high:.3g}]{unit}"


def sizes(measure: Measure) -> str:
    """Numbers of real and simulated episodes of a measure."""
    return (
        f"{measure.episodes}" if not measure.sim_episodes else f"{measure.episodes} / {measure.sim_episodes}"
    )


def _print_success(found: Gap) -> None:
    success = found.success
    if success.needs:
        console.out.print(f"success: not evaluated, needs {success.needs}", markup=False)
        if success.overall.real is None:
            return
    pairs = [success.overall, *success.slices]
    rows = [
        (f"{one.condition} {one.slice}".strip(), _rate(one.real), _rate(one.sim), _points(one))
        for one in pairs
    ]
    console.print_table(("success", "robot, 95 %", "simulation, 95 %", "sim - real, points"), rows)


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "-"
    return f"{rate.percent} of {rate.episodes}"


def _points(pair: Pair) -> str:
    if pair.difference is None:
        return "-"
    by = pair.difference
    return f"{100 * by.value:+.0f} [{100 * by.low:.0f}, {100 * by.high:.0f}]"
