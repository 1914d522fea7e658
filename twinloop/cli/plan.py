"""`twinloop plan`: what to record next, how much of it is recorded, and whether the gain is what was promised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console, plan_board
from twinloop.cli.options import Json

app = typer.Typer(invoke_without_command=True)

app.command()(plan_board.select)
app.command()(plan_board.add)
app.command()(plan_board.move)
app.command()(plan_board.board)
app.command()(plan_board.sheet)

PlanFile = Annotated[Path, Argument(metavar="PLAN.json", help="What `twinloop plan --out` wrote.")]
Data = Annotated[
    list[Path] | None, Option("--data", metavar="DATASET", help="Dataset recorded since; may be repeated.")
]
DiagnosisPath = Annotated[
    Path | None,
    Option(metavar="FOLDER|FILE.json", help="What `twinloop diagnose` wrote: points lost by dimension."),
]
CoveragePath = Annotated[
    Path | None,
    Option(metavar="FOLDER|FILE.json", help="What `twinloop coverage --out` wrote: regions not covered."),
]
IdentificationPath = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="What `twinloop identify --out` wrote: parameters not identified."),
]
Items = Annotated[
    list[Path] | None,
    Option(metavar="FILE.json", help="An item downloaded from the coverage map; may be repeated."),
]
CostsFile = Annotated[
    Path | None, Option(metavar="FILE.yaml", help="What recording costs here; default: see --default-costs.")
]
Sheet = Annotated[
    Path | None, Option(metavar="FILE.html", help="Also write a sheet for the operator, to print.")
]
DefaultCosts = Annotated[bool, Option("--default-costs", help="Only print a cost file with the defaults.")]


@app.callback()
def plan(
    context: typer.Context,
    diagnosis: DiagnosisPath = None,
    coverage: CoveragePath = None,
    identification: IdentificationPath = None,
    item: Items = None,
    costs: CostsFile = None,
    out: Annotated[Path | None, Option("--out", metavar="FILE.json", help="Store the plan.")] = None,
    sheet: Sheet = None,
    default_costs: DefaultCosts = False,
    seed: Annotated[int, Option(help="Random seed for the intervals of expected gains.")] = 0,
    json: Json = False,
) -> None:
    """Plan what to record next: conditions, how many episodes and why so many, hours, expected gain; best gain per hour first.

    `twinloop plan status` counts what has been recorded since, `twinloop plan review` compares promised with actual gains. The plan of a
    workspace, its plan.json, is worked with by `board`, `add`, `move` and `sheet`.
    """
    if context.invoked_subcommand is not None:
        return
    from twinloop.planning.costs import Costs, costs_text, load_costs

    if default_costs:
        console.print_result(json, Costs().model_dump(mode="json"), costs_text().rstrip())
        return
    evidence = {"diagnosis": diagnosis, "coverage": coverage, "identification": identification}
    made = twinloop.plan(**evidence, items=item or (), costs=load_costs(costs), seed=seed)
    if out is not None:
        from twinloop.records import save_record

        save_record(made, out)
    if sheet is not None:
        from twinloop.report.plan_sheet import write_plan_sheet

        write_plan_sheet(made, sheet)
    files = {"out": out, "sheet": sheet}
    console.print_result(json, made.as_json() | files, lambda: _print(made, files))


@app.command()
def status(plan: PlanFile, data: Data = None, json: Json = False) -> None:
    """Count what has been recorded since the plan was made, item by item."""
    from twinloop.planning.progress import plan_status

    done = plan_status(twinloop.load_plan(plan), data or [])
    if json:
        console.print_json([one.as_json() for one in done])
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
    before: Annotated[Path, Option(metavar="FILE.json", help="`twinloop evaluate --json` before recording.")],
    after: Annotated[Path, Option(metavar="FILE.json", help="The same after training on it.")],
    data: Data = None,
    item: Annotated[
        list[str] | None, Option(metavar="ID", help="An item that was carried out; default: those in --data.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare the gain that a plan promised with the actual one, and what that means for the next plan."""
    from twinloop.planning.progress import plan_review

    found = plan_review(twinloop.load_plan(plan), before, after, data or [], done_items=item or ())
    recorded = "" if found.hours_recorded is None else f"; recorded in {found.hours_recorded:.1f} h"
    text = (
        f"success {100 * found.before:.0f} % before, {100 * found.after:.0f} % after: "
        f"{found.gained:+.0f} points [{found.low:.0f}, {found.high:.0f}]\n"
        f"promised +{found.promised:.0f} [{found.promised_low:.0f}, {found.promised_high:.0f}] points "
        f"in {found.hours_planned:.1f} h{recorded}\n{found.verdict}"
    )
    console.print_result(json, found.as_json(), text)


def _print(made: twinloop.Plan, files: dict[str, Path | None]) -> None:
    for number, item in enumerate(made.items, 1):
        console.out.print(f"{number}. {item.title} ({item.id})", style="bold")
        per_hour = "" if item.gain_per_hour is None else f", {item.gain_per_hour:.1f} per hour"
        lines = [
            f"{item.episodes} {item.unit}, {item.hours:.1f} h; expected gain {item.gain}{per_hour}",
            item.why,
            f"how many: {item.power}",
            f"simulation: {item.simulation}",
            *([f"real data required: {item.required}"] if item.required else []),
            item.command,
        ]
        console.out.print("\n".join(f"   {line}" for line in lines))
    if made.trials:
        console.out.print(
            f"then {made.trials} trials before and after show the largest of these gains, {made.trial_minutes / 60:.1f} h"
        )
    console.print_lines(f"assumed: {line}" for line in made.assumptions)
    items = f"{console.count(len(made.items), 'item')}, {made.hours:.1f} h in all"
    wrote = ", ".join(str(path) for path in files.values() if path)
    console.out.print((items if made.items else "nothing to record") + (f"; wrote {wrote}" if wrote else ""))
