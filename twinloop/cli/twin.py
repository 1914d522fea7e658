"""`twinloop twin ...`: list, show and compare twins."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json

app = typer.Typer(
    help="List, show and compare twins: robot cells with named parameters.", no_args_is_help=True
)


@app.command("ls")
def list_(json: Json = False) -> None:
    """List the built-in twins and those of plug-ins."""
    from twinloop.twins import list_twins

    twins = list_twins()
    if json:
        console.print_json(
            [
                {
                    "name": twin.name,
                    "version": twin.version,
                    "robot": twin.robot,
                    "task": twin.task,
                    "parameters": len(twin.parameters),
                    "cameras": [camera.name for camera in twin.cameras],
                    "content_hash": twin.content_hash,
                    "description": twin.description,
                }
                for twin in twins
            ]
        )
        return
    console.print_table(
        ("twin", "parameters", "cameras", "description"),
        [
            (
                twin.name,
                len(twin.parameters),
                ", ".join(camera.name for camera in twin.cameras) or "none",
                twin.description,
            )
            for twin in twins
        ],
    )


@app.command()
def show(
    twin: Annotated[str, typer.Argument(metavar="NAME|FOLDER", help="A built-in twin, or a twin's folder.")],
    dimension: Annotated[str | None, typer.Option(help="Only parameters of this gap dimension.")] = None,
    json: Json = False,
) -> None:
    """Show a twin: its rates and cameras, and every parameter with nominal value, bounds, unit and dimension."""
    from twinloop.errors import UnknownName
    from twinloop.twins import DIMENSIONS, load_twin

    if dimension is not None and dimension not in DIMENSIONS:
        raise UnknownName("gap dimension", dimension, DIMENSIONS)
    found = load_twin(twin)
    parameters = [p for p in found.parameters if dimension in (None, p.dimension)]
    if json:
        console.print_json(
            {
                "name": found.name,
                "version": found.version,
                "content_hash": found.content_hash,
                "parent": found.parent,
                "control_hz": found.control_hz,
                "physics_dt_s": found.physics_dt_s,
                "cameras": [asdict(camera) for camera in found.cameras],
                "roles": dict(found.roles),
                "parameters": [
                    {
                        "name": p.name,
                        "nominal": p.nominal,
                        "bounds": None if p.choices else p.bounds,
                        "choices": p.choices,
                        "unit": p.unit,
                        "dimension": p.dimension,
                        "stage": p.stage,
                        "description": p.description,
                    }
                    for p in parameters
                ],
            }
        )
        return
    console.out.print(
        f"{found.name}, version {found.version}, hash {found.content_hash}\n{found.description}", markup=False
    )
    console.out.print(
        f"robot {found.robot or 'unnamed'}, task {found.task or 'none'}, control {found.control_hz:g} Hz, "
        f"physics {found.physics_dt_s * 1000:g} ms"
    )
    for camera in found.cameras:
        console.out.print(f"camera {camera.name}: {camera.height}x{camera.width}")
    ordered = sorted(parameters, key=lambda p: (DIMENSIONS.index(p.dimension), p.name))
    for name in dict.fromkeys(p.dimension for p in ordered):
        console.out.print(f"\n{name}", style="bold", markup=False)
        console.print_table(
            ("parameter", "nominal", "bounds", "description"),
            [(p.name, _value(p.nominal), _bounds(p), _described(p)) for p in ordered if p.dimension == name],
        )


@app.command()
def versions(
    workspace: Annotated[Path, typer.Option(help="The workspace, or any folder inside it.")] = Path(),
    json: Json = False,
) -> None:
    """List the twin versions of a workspace: when each became current, and the rejected candidates."""
    from twinloop.workspace import find_workspace, rejected_twins, twin_history

    found = find_workspace(workspace)
    uses, rejected = twin_history(found), rejected_twins(found)
    if json:
        console.print_json({"history": [asdict(use) for use in uses], "rejected": rejected})
        return
    console.print_table(
        ("since", "twin", "version", "reason"),
        [(use.at, use.twin, use.version, use.reason) for use in uses],
    )
    for name in rejected:
        console.out.print(f"rejected: {name}, see {name}/report.html", markup=False)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="NAME|FOLDER", help="A twin.")],
    second: Annotated[str, typer.Argument(metavar="NAME|FOLDER", help="Another version of it.")],
    json: Json = False,
) -> None:
    """Show the parameters whose nominal values differ between two versions of a twin."""
    from twinloop.twins import compare_twins, load_twin

    rows = compare_twins(load_twin(first), load_twin(second))
    if json:
        console.print_json([asdict(row) for row in rows])
        return
    if not rows:
        console.out.print("the twins have the same nominal values")
        return
    console.print_table(
        ("parameter", "first", "second", "unit", "dimension"),
        [(r.name, _format(r.first), _format(r.second), r.unit, r.dimension) for r in rows],
    )


@app.command()
def rollback(
    reason: Annotated[str, typer.Option(help="Reason; stored in the history.")],
    workspace: Annotated[Path, typer.Option(help="The workspace, or any folder inside it.")] = Path(),
    json: Json = False,
) -> None:
    """Make the previous twin current again."""
    from twinloop.workspace import find_workspace, roll_back_twin

    use = roll_back_twin(find_workspace(workspace), reason)
    if json:
        console.print_json(asdict(use))
        return
    console.out.print(f"current again: {use.twin}, version {use.version}", markup=False)


def _format(value: float | str | None) -> str:
    return "absent" if value is None else _value(value)


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _described(parameter: Any) -> str:
    """Description and unit."""
    unit = "" if parameter.unit in ("", "1") else f", {parameter.unit}"
    return f"{parameter.description}{unit}"


def _bounds(parameter: Any) -> str:
    if parameter.choices:
        return " | ".join(parameter.choices)
    low, high = parameter.bounds
    return f"{low:g} to {high:g}"
