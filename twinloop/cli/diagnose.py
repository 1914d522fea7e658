"""`twinloop diagnose`: how many success points a policy loses on the robot, and to what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, PolicyMap, WorkspaceTwin
from twinloop.cli.places import find_workspace, load_policy, load_twin

Excitation = Annotated[
    list[Path] | None,
    Option(help="Other recordings of the same robot: excitation runs, demonstrations. May be repeated."),
]
Out = Annotated[
    Path | None, Option(help="Folder for report, JSON and evaluations; an interrupted run resumes there.")
]


def diagnose(
    policy: Annotated[
        str, Option("--policy", help="Folder, name, address or map of the policy that was run.")
    ],
    real: Annotated[Path, Option("--real", help="Dataset of its judged real runs.")],
    twin: WorkspaceTwin = None,
    map_file: PolicyMap = None,
    excitation: Excitation = None,
    scenes: Annotated[int, Option(help="Scenes in which every combination is evaluated.")] = 32,
    budget: Annotated[int, Option(help="Maximum number of simulated episodes.")] = 800,
    seed: Annotated[int, Option(help="Random seed for scenes, draws and resampling.")] = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Measure how many success points each gap dimension costs a policy on the robot, and how much is unknown."""
    from twinloop.report.diagnosis_page import write_diagnosis_page

    folder = out or Path(f"diagnosis-{real.name}")
    cell = load_twin(twin, find_workspace())
    others = [episode for path in excitation or () for episode in twinloop.open_dataset(path)]
    with console.progress_bar("diagnosing") as bar:
        found = twinloop.diagnose(
            load_policy(policy, interface_map=map_file, twin=twin),
            twinloop.open_dataset(real),
            cell,
            excitation=others,
            scenes=scenes,
            budget=budget,
            seed=seed,
            keep=folder / "evaluations",
            on_progress=lambda stage, done, total: bar(done, total),
        )
    found.save(folder)
    page = write_diagnosis_page(found, folder / "diagnosis.html")
    console.print_result(json, found.as_json() | {"report": page}, lambda: _print(found, page))


def _print(found: twinloop.Diagnosis, page: Path) -> None:
    where = "stand-in" if found.standin else "robot"
    console.out.print(
        f"{found.policy}: twin {found.in_twin.percent}, {where} {found.on_robot.percent} ({found.successes} of "
        f"{found.trials}), twin with everything measured {found.predicted.percent}"
    )
    console.out.print(found.verdict, style="bold")
    console.print_lines(f"note: {note}" for note in found.notes)
    _print_costs(found)
    _print_not_measured(found)
    for place, counts in found.failures.items():
        reasons = ", ".join(f"{reason} {count:g}" for reason, count in counts.items()) or "none"
        console.out.print(f"failures {place.replace('_', ' ').replace('robot', where)}: {reasons}")
    for rule in found.rules:
        mark = {True: "yes", False: "no", None: "check"}[rule.applies]
        console.out.print(f"[{mark}] {rule.name}: {rule.because}")
        if rule.applies is not False:
            console.out.print(f"  -> {rule.advice}")
    console.out.print(f"report {page}")


def _print_costs(found: twinloop.Diagnosis) -> None:
    rows = [
        (
            c.dimension,
            c.points,
            f"{max(100 * c.alone, 0.0):.0f}",
            "yes" if c.named else "no",
            _why(found, c.dimension),
        )
        for c in found.costs
    ]
    rows.append(("unknown", found.unknown.points, "", "", "not explained by anything measured"))
    rows.append(("whole drop", found.drop.points, "", "", "success in the twin minus success on the robot"))
    console.print_table(("dimension", "points lost", "alone", "named", "measured: twin -> robot"), rows)


def _print_not_measured(found: twinloop.Diagnosis) -> None:
    alike = [part.dimension for part in found.measured if not part.differs and part.quantities]
    if alike:
        console.out.print(f"measured, no difference from the twin: {', '.join(alike)}")
    for part in found.measured:
        console.print_lines(f"not measured: {part.dimension}: {missing}" for missing in part.missing)


def _why(found: twinloop.Diagnosis, dimension: str) -> str:
    part = next(m for m in found.measured if m.dimension == dimension)
    return "; ".join(
        f"{q.name} {q.twin:.3g} -> {q.real:.3g}{'' if q.unit == '1' else ' ' + q.unit}"
        for q in part.quantities
        if q.differs
    )
