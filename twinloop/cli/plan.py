"""`twinloop plan`: what to record next, how far it has come, and whether it brought what it promised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json

if TYPE_CHECKING:
    from twinloop.planning.items import Plan

app = typer.Typer(invoke_without_command=True)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="What `twinloop plan --out` wrote.")]
Data = Annotated[
    list[Path] | None, typer.Option("--data", metavar="DATASET", help="Where was recorded; may be repeated.")
]


@app.callback()
def plan(
    context: typer.Context,
    diagnosis: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE.json", help="What `twinloop diagnose` wrote: points lost by dimension."
        ),
    ] = None,
    coverage: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE.json", help="What `twinloop coverage --out` wrote: regions not covered."
        ),
    ] = None,
    identification: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="What `twinloop identify --out` wrote: parameters not known."),
    ] = None,
    item: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.json", help="An item downloaded from the coverage map; may be repeated."),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="What recording costs here; default: see --default-costs."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.json", help="Keep the plan.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write a sheet for the operator, to print.")
    ] = None,
    default_costs: Annotated[
        bool, typer.Option("--default-costs", help="Only print a cost file with the defaults.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the settings' spread.")] = 0,
    json: Json = False,
) -> None:
    """Say what to record next: conditions, how many episodes and why so many, hours, expected gain; best gain per hour first.

    `twinloop plan status` counts what has been recorded since, `twinloop plan review` compares promised with what came.
    """
    if context.invoked_subcommand is not None:
        return
    from twinloop.planning.costs import costs_text, load_costs
    from twinloop.planning.run import plan as run

    if default_costs:
        if json:
            from twinloop.planning.costs import Costs

            console.print_json(Costs().model_dump(mode="json"))
        else:
            console.out.print(costs_text(), end="", markup=False)
        return
    made = run(
        diagnosis=diagnosis,
        coverage=coverage,
        identification=identification,
        items=item or (),
        costs=load_costs(costs),
        seed=seed,
    )
    if out is not None:
        import json as text

        from twinloop.datasets.commit import write_atomically

        write_atomically(out, text.dumps(made.as_json(), indent=1).encode())
    if sheet is not None:
        from twinloop.report.plan_sheet import write_plan_sheet

        write_plan_sheet(made, sheet)
    files = {"out": str(out) if out else None, "sheet": str(sheet) if sheet else None}
    if json:
        console.print_json(made.as_json() | files)
    else:
        _print(made, files)


@app.command()
def status(plan: PlanFile, data: Data = None, json: Json = False) -> None:
    """Count what has been recorded since the plan was made, item by item."""
    from twinloop.planning.items import load_plan
    from twinloop.planning.progress import plan_status

    done = plan_status(load_plan(plan), data or [])
    if json:
        console.print_json([vars(one) | {"left": one.left} for one in done])
        return
    console.print_table(
        ("item", "recorded", "of", "left", "succeeded", "what"),
        [(d.id, d.recorded, d.wanted, d.left, d.succeeded, d.problem or d.title) for d in done],
    )
    left = sum(one.left for one in done)
    console.out.print(f"{console.count(left, 'episode')} left" if left else "all recorded")


@app.command()
def review(
    plan: PlanFile,
    before: Annotated[
        Path, typer.Option(metavar="FILE.json", help="`twinloop evaluate --json` before recording.")
    ],
    after: Annotated[Path, typer.Option(metavar="FILE.json", help="The same after training on it.")],
    data: Data = None,
    item: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="This item was carried out; default: those that --data shows."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare what the plan promised with what came, and say what that means for the next one."""
    from twinloop.planning.items import load_plan
    from twinloop.planning.progress import plan_review

    found = plan_review(load_plan(plan), before, after, data or [], done_items=item or ())
    if json:
        console.print_json(found.as_json())
        return
    console.out.print(
        f"success {100 * found.before:.0f} % before, {100 * found.after:.0f} % after: "
        f"{found.gained:+.0f} points [{found.low:.0f}, {found.high:.0f}]",
        markup=False,
    )
    console.out.print(
        f"promised +{found.promised:.0f} [{found.promised_low:.0f}, {found.promised_high:.0f}] points in {found.hours_planned:.1f} h"
        + (f"; recorded in {found.hours_recorded:.1f} h" if found.hours_recorded is not None else ""),
        markup=False,
    )
    console.out.print(found.verdict, markup=False)


def _print(made: Plan, files: dict[str, str | None]) -> None:
    for number, item in enumerate(made.items, 1):
        console.out.print(f"{number}. {item.title} ({item.id})", style="bold", markup=False)
        lines = [
            f"{item.episodes} {item.unit}, {item.hours:.1f} h; expected gain {item.gain}"
            + (f", {item.gain_per_hour:.1f} per hour" if item.gain_per_hour is not None else ""),
            item.why,
            f"how many: {item.power}",
            f"simulation: {item.simulation}",
            *([f"real data required: {item.required}"] if item.required else []),
            item.command,
        ]
        for line in lines:
            console.out.print(f"   {line}", markup=False)
    if made.trials:
        console.out.print(
            f"then {made.trials} trials before and after show the largest of these gains, {made.trial_minutes / 60:.1f} h",
            markup=False,
        )
    for line in made.assumptions:
        console.out.print(f"assumed: {line}", markup=False)
    wrote = ", ".join(path for path in files.values() if path)
    what = (
        f"{console.count(len(made.items), 'item')}, {made.hours:.1f} h in all"
        if made.items
        else "nothing to record"
    )
    console.out.print(what + (f"; wrote {wrote}" if wrote else ""), markup=False)
