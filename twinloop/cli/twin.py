"""`twinloop twin ...`: list, show and compare twins."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, WorkspaceFolder
from twinloop.cli.places import find_twin, require_workspace
from twinloop.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    help="List, show and compare twins: robot cells with named parameters.", no_args_is_help=True
)


@app.command("ls")
def list_(json: Json = False) -> None:
    """List the built-in twins and those of plug-ins."""
    from twinloop.twins import list_twins

    twins = list_twins()
    if json:
        shown = ("name", "version", "robot", "task", "content_hash", "description")
        counts = [{"parameters": len(t.parameters), "cameras": [c.name for c in t.cameras]} for t in twins]
        console.print_json([_select(t, shown) | count for t, count in zip(twins, counts, strict=True)])
        return
    console.print_table(
        ("twin", "parameters", "cameras", "description"),
        [
            (t.name, len(t.parameters), ", ".join(c.name for c in t.cameras) or "none", t.description)
            for t in twins
        ],
    )


@app.command()
def show(
    twin: Annotated[str, Argument(metavar="NAME|FOLDER", help="A built-in twin, or a twin's folder.")],
    dimension: Annotated[str | None, Option(help="Only parameters of this gap dimension.")] = None,
    json: Json = False,
) -> None:
    """Show a twin: its rates and cameras, and every parameter with nominal value, bounds, unit and dimension."""
    from twinloop.twins import DIMENSIONS

    if dimension is not None and dimension not in DIMENSIONS:
        raise UnknownName("gap dimension", dimension, DIMENSIONS)
    found = find_twin(twin)
    parameters = [p for p in found.parameters if dimension in (None, p.dimension)]
    if json:
        console.print_json(_as_json(found, parameters))
        return
    console.out.print(
        f"{found.name}, version {found.version}, hash {found.content_hash}\n{found.description}\n"
        f"robot {found.robot or 'unnamed'}, task {found.task or 'none'}, control {found.control_hz:g} Hz, "
        f"physics {found.physics_dt_s * 1000:g} ms"
    )
    console.print_lines(f"camera {camera.name}: {camera.height}x{camera.width}" for camera in found.cameras)
    ordered = sorted(parameters, key=lambda p: (DIMENSIONS.index(p.dimension), p.name))
    for name in dict.fromkeys(p.dimension for p in ordered):
        console.out.print(f"\n{name}", style="bold")
        console.print_table(
            ("parameter", "nominal", "bounds", "description"),
            [(p.name, _value(p.nominal), _bounds(p), _described(p)) for p in ordered if p.dimension == name],
        )


def _as_json(twin: twinloop.Twin, parameters: Sequence[twinloop.Parameter]) -> dict[str, Any]:
    rows = [
        _select(p, ("name", "nominal", "choices", "unit", "dimension", "stage", "description"))
        | {"bounds": None if p.choices else p.bounds}
        for p in parameters
    ]
    shown = _select(twin, ("name", "version", "content_hash", "parent", "control_hz", "physics_dt_s"))
    cameras = [asdict(camera) for camera in twin.cameras]
    return shown | {"cameras": cameras, "roles": dict(twin.roles), "parameters": rows}


def _select(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


@app.command()
def versions(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the twin versions of a workspace: when each became current, and the rejected candidates."""
    from twinloop.workspace import rejected_twins, twin_history

    found = require_workspace(workspace)
    uses, rejected = twin_history(found), rejected_twins(found)
    if json:
        console.print_json({"history": [asdict(use) for use in uses], "rejected": rejected})
        return
    console.print_table(
        ("since", "twin", "version", "reason"),
        [(use.at, use.twin, use.version, use.reason) for use in uses],
    )
    console.print_lines(f"rejected: {name}, see {name}/report.html" for name in rejected)


@app.command()
def compare(
    first: Annotated[str, Argument(metavar="NAME|FOLDER", help="A twin.")],
    second: Annotated[str, Argument(metavar="NAME|FOLDER", help="Another version of it.")],
    json: Json = False,
) -> None:
    """Show the parameters whose nominal values differ between two versions of a twin."""
    from twinloop.twins import compare_twins

    rows = compare_twins(find_twin(first), find_twin(second))
    columns, none = (
        ("parameter", "first", "second", "unit", "dimension"),
        "the twins have the same nominal values",
    )
    console.print_list(
        json, rows, columns, lambda r: (r.name, _value(r.first), _value(r.second), r.unit, r.dimension), none
    )


@app.command()
def rollback(
    reason: Annotated[str, Option(help="Reason; stored in the history.")],
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Make the previous twin current again."""
    from twinloop.workspace import roll_back_twin

    use = roll_back_twin(require_workspace(workspace), reason)
    console.print_result(json, asdict(use), f"current again: {use.twin}, version {use.version}")


def _value(value: float | str | None) -> str:
    if value is None:
        return "absent"
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
