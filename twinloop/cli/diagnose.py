"""The command `diagnose`: what a policy loses on the robot, and to what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console

if TYPE_CHECKING:
    from twinloop.diagnosis.result import Diagnosis


def diagnose(
    policy: Annotated[Path, typer.Option("--policy", help="Folder of the policy that was run.")],
    real: Annotated[Path, typer.Option("--real", help="Dataset of its real runs, judged.")],
    twin: Annotated[str, typer.Option("--twin", help="The robot's twin: a name or a folder.")],
    excitation: Annotated[
        list[Path] | None,
        typer.Option(
            help="Other recordings of the same robot: excitation runs, demonstrations. May be repeated."
        ),
    ] = None,
    scenes: Annotated[int, typer.Option(help="Scenes in which every combination is evaluated.")] = 32,
    budget: Annotated[int, typer.Option(help="Simulated episodes at most.")] = 800,
    seed: Annotated[int, typer.Option(help="Of scenes, draws and resampling.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report, JSON and evaluations; a stopped run goes on there."),
    ] = None,
    json: console.Json = False,
) -> None:
    """Say how many success points each gap dimension costs a policy on the robot, and how much is unknown."""
    from twinloop.datasets.reader import open_dataset
    from twinloop.diagnosis.run import diagnose as explain
    from twinloop.policies.policy import load_policy
    from twinloop.report.diagnosis_page import write_diagnosis_page

    folder = out or Path(f"diagnosis-{real.name}")
    others = [episode for path in excitation or () for episode in open_dataset(path)]
    with console.progress_bar("diagnosing") as bar:
        found = explain(
            load_policy(policy),
            open_dataset(real),
            twin,
            excitation=others,
            scenes=scenes,
            budget=budget,
            seed=seed,
            keep=folder / "evaluations",
            progress=lambda stage, done, total: bar(done, total),
        )
    found.save(folder)
    page = write_diagnosis_page(found, folder / "diagnosis.html")
    if json:
        console.print_json(found.as_json() | {"report": str(page)})
    else:
        _print(found, page)


def _print(found: Diagnosis, page: Path) -> None:
    where = "stand-in" if found.standin else "robot"
    console.out.print(
        f"{found.policy}: twin {found.in_twin.percent}, {where} {found.on_robot.percent} ({found.successes} of "
        f"{found.trials}), twin with everything measured {found.predicted.percent}",
        markup=False,
    )
    console.out.print(found.verdict, style="bold", markup=False)
    for note in found.notes:
        console.out.print(f"note: {note}", markup=False)
    rows = [
        (
            cost.dimension,
            cost.lost.points,
            f"{100 * cost.alone:.0f}",
            "yes" if cost.named else "not shown",
            _why(found, cost.dimension),
        )
        for cost in found.costs
    ]
    rows.append(("unknown", found.unknown.points, "", "", "what nothing measured explains"))
    console.print_table(("dimension", "points lost", "alone", "named", "measured"), rows)
    quiet = [m.dimension for m in found.measured if not m.differs and m.quantities]
    if quiet:
        console.out.print(f"measured and as in the twin: {', '.join(quiet)}", markup=False)
    for part in found.measured:
        for missing in part.missing:
            console.out.print(f"not measured: {part.dimension}: {missing}", markup=False)
    for where_failed, counts in found.failures.items():
        said = ", ".join(f"{reason} {count:g}" for reason, count in counts.items()) or "none"
        place = where_failed.replace("_", " ").replace("robot", where)
        console.out.print(f"failures {place}: {said}", markup=False)
    for rule in found.rules:
        mark = {True: "yes", False: "no", None: "ask"}[rule.applies]
        console.out.print(f"[{mark}] {rule.name}: {rule.because}", markup=False)
        if rule.applies is not False:
            console.out.print(f"  -> {rule.advice}", markup=False)
    console.out.print(f"report {page}", markup=False)


def _why(found: Diagnosis, dimension: str) -> str:
    part = next(m for m in found.measured if m.dimension == dimension)
    return "; ".join(
        f"{q.name} {q.twin:.3g} -> {q.real:.3g}{'' if q.unit == '1' else ' ' + q.unit}"
        for q in part.quantities
        if q.differs
    )
