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
    real: Annotated[Path, typer.Option("--real", help="Dataset of its judged real runs.")],
    twin: Annotated[str, typer.Option("--twin", help="The robot's twin: a name or a folder.")],
    excitation: Annotated[
        list[Path] | None,
        typer.Option(
            help="Other recordings of the same robot: excitation runs, demonstrations. May be repeated."
        ),
    ] = None,
    scenes: Annotated[int, typer.Option(help="Scenes in which every combination is evaluated.")] = 32,
    budget: Annotated[int, typer.Option(help="Maximum number of simulated episodes.")] = 800,
    seed: Annotated[int, typer.Option(help="Random seed for scenes, draws and resampling.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report, JSON and evaluations; an interrupted run resumes there."),
    ] = None,
    json: console.Json = False,
) -> None:
    """Measure how many success points each gap dimension costs a policy on the robot, and how much is unknown."""
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
    _print_costs(found)
    _print_not_measured(found)
    for place, counts in found.failures.items():
        reasons = ", ".join(f"{reason} {count:g}" for reason, count in counts.items()) or "none"
        console.out.print(
            f"failures {place.replace('_', ' ').replace('robot', where)}: {reasons}", markup=False
        )
    for rule in found.rules:
        mark = {True: "yes", False: "no", None: "check"}[rule.applies]
        console.out.print(f"[{mark}] {rule.name}: {rule.because}", markup=False)
        if rule.applies is not False:
            console.out.print(f"  -> {rule.advice}", markup=False)
    console.out.print(f"report {page}", markup=False)


def _print_costs(found: Diagnosis) -> None:
    rows = [
        (
            cost.dimension,
            cost.points,
            f"{max(100 * cost.alone, 0.0):.0f}",
            "yes" if cost.named else "no",
            _why(found, cost.dimension),
        )
        for cost in found.costs
    ]
    rows.append(("unknown", found.unknown.points, "", "", "not explained by anything measured"))
    rows.append(("whole drop", found.drop.points, "", "", "success in the twin minus success on the robot"))
    console.print_table(("dimension", "points lost", "alone", "named", "measured: twin -> robot"), rows)


def _print_not_measured(found: Diagnosis) -> None:
    alike = [part.dimension for part in found.measured if not part.differs and part.quantities]
    if alike:
        console.out.print(f"measured, no difference from the twin: {', '.join(alike)}", markup=False)
    for part in found.measured:
        for missing in part.missing:
            console.out.print(f"not measured: {part.dimension}: {missing}", markup=False)


def _why(found: Diagnosis, dimension: str) -> str:
    part = next(m for m in found.measured if m.dimension == dimension)
    return "; ".join(
        f"{q.name} {q.twin:.3g} -> {q.real:.3g}{'' if q.unit == '1' else ' ' + q.unit}"
        for q in part.quantities
        if q.differs
    )
