"""`twinloop init`, `doctor` and `status`: make a workspace, check the machine, show the next step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.cli.places import require_workspace
from twinloop.errors import WrongUse


def init(
    folder: Annotated[Path, Argument(help="The folder to create.")],
    twin: Annotated[
        str | None,
        Option(metavar="NAME|FOLDER", help="The cell's twin; `twinloop twin ls` lists built-in ones."),
    ] = None,
    model: Annotated[
        Path | None, Option(metavar="FILE", help="Or your own robot: an MJCF or URDF file.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a workspace: a folder for the twins, datasets, policies and reports of one robot cell."""
    if twin is not None and model is not None:
        raise WrongUse("--twin and --model exclude each other")
    cell = twinloop.load_twin(twin) if twin is not None else None
    if model is not None:
        cell = twinloop.make_twin_from_model(model)
    made = twinloop.init_workspace(folder, cell)
    lines = [f"created workspace {made.name} in {folder}"]
    if cell is not None:
        lines.append(
            f"twin {cell.name}: {len(cell.parameters)} parameters, {len(cell.cameras)} cameras, "
            f"task {cell.task or 'none'}; `twinloop twin show {made.twin}` lists them"
        )
    lines.append(f"next: cd {folder} && twinloop {'generate seed.yaml' if cell else 'status'}")
    value = {"workspace": made.name, "path": made.root.resolve(), "twin": made.twin}
    console.print_result(json, value, "\n".join(lines))


def doctor(
    folder: Annotated[Path, Option(help="Where data will be stored.")] = Path(),
    json: Json = False,
) -> None:
    """Check this machine: what is installed, what is missing and how to get it. Exits with 1 if a requirement is missing."""
    from twinloop.doctor import examine

    findings = examine(folder)
    columns = ("", "component", "found", "remedy")
    console.print_list(json, findings, columns, lambda f: (f.state, f.name, f.found, f.remedy or ""))
    if any(f.needed and f.state != "ok" for f in findings):
        raise typer.Exit(1)


def status(
    folder: Annotated[Path, Argument(help="The workspace, or any folder inside it.")] = Path(),
    json: Json = False,
) -> None:
    """Show the state of the workspace and the next step worth taking."""
    from twinloop.promotion.chain import FOLDER, RECORD, read_aliases
    from twinloop.workspace import read_status

    workspace = require_workspace(folder)
    state, loop = read_status(workspace), None
    if (workspace.root / "loop").exists():
        from twinloop.loop import read_loop_status

        loop = read_loop_status(workspace.root / "loop")
    registry = read_aliases(workspace.root / FOLDER / RECORD)
    if json:
        console.print_json(asdict(state) | {"loop": asdict(loop) if loop else None, "registry": registry})
        return
    console.out.print(f"workspace {state.workspace}")
    if state.datasets:
        console.print_table(
            ("dataset", "episodes", "hours", "source", "success"),
            [
                (d.name, d.episodes, round(d.hours, 3), d.sources, format_rate(d.success))
                for d in state.datasets
            ],
        )
    if registry:
        held = ", ".join(f"{alias} {name}" for alias, name in registry.items())
        console.out.print(f"registry: {held}")
    if loop is not None:
        console.out.print(f"loop: {', '.join(loop.done) or 'nothing'} done")
    step, reason = (loop.next_step, loop.reason) if loop else (state.next_step, state.reason)
    console.out.print(f"next: {step}  ({reason})")


def format_rate(rate: float | None) -> str:
    """Format a success rate in percent; ? if it is unknown."""
    return "?" if rate is None else f"{rate:.0%}"
