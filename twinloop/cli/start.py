"""`twinloop init`, `doctor` and `status`: make a workspace, check the machine, show the next step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import TamperedRecord, WrongUse


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="The cell's twin; `twinloop twin ls` lists built-in ones."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or your own robot: an MJCF or URDF file.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a workspace: a folder for the twins, datasets, policies and reports of one robot cell."""
    from twinloop.twins import load_twin, make_twin_from_model
    from twinloop.workspace import init_workspace

    if twin is not None and model is not None:
        raise WrongUse("--twin and --model exclude each other")
    chosen = load_twin(twin) if twin is not None else make_twin_from_model(model) if model else None
    workspace = init_workspace(folder, chosen)
    if json:
        console.print_json(
            {"workspace": workspace.name, "path": str(workspace.root.resolve()), "twin": workspace.twin}
        )
        return
    console.out.print(f"created workspace {workspace.name} in {folder}")
    if chosen:
        console.out.print(
            f"twin {chosen.name}: {len(chosen.parameters)} parameters, {len(chosen.cameras)} cameras, "
            f"task {chosen.task or 'none'}; `twinloop twin show {workspace.twin}` lists them"
        )
    console.out.print(f"next: cd {folder} && twinloop {'generate seed.yaml' if chosen else 'status'}")


def doctor(
    folder: Annotated[Path, typer.Option(help="Where data will be stored.")] = Path(),
    json: Json = False,
) -> None:
    """Check this machine: what is installed, what is missing and how to get it. Exits with 1 if a requirement is missing."""
    from twinloop.doctor import examine

    findings = examine(folder)
    if json:
        console.print_json([asdict(finding) for finding in findings])
    else:
        rows = [(f.state, f.name, f.found, f.remedy or "") for f in findings]
        console.print_table(("", "component", "found", "remedy"), rows)
    if any(f.needed and f.state != "ok" for f in findings):
        raise typer.Exit(1)


def status(
    folder: Annotated[Path, typer.Argument(help="The workspace, or any folder inside it.")] = Path(),
    json: Json = False,
) -> None:
    """Show the state of the workspace and the next step worth taking."""
    from twinloop.workspace import find_workspace, read_status

    workspace = find_workspace(folder)
    state, loop = read_status(workspace), None
    if (workspace.root / "loop").exists():
        from twinloop.loop import read_loop_status

        loop = read_loop_status(workspace.root / "loop")
    registry = _read_aliases(workspace.root)
    if json:
        console.print_json(asdict(state) | {"loop": asdict(loop) if loop else None, "registry": registry})
        return
    console.out.print(f"workspace {state.workspace}")
    if state.datasets:
        console.print_table(
            ("dataset", "episodes", "hours", "source", "success"),
            [
                (
                    d.name,
                    d.episodes,
                    round(d.hours, 3),
                    d.sources,
                    "?" if d.success is None else f"{d.success:.0%}",
                )
                for d in state.datasets
            ],
        )
    if registry:
        held = ", ".join(f"{alias} {name}" for alias, name in registry.items())
        console.out.print(f"registry: {held}", markup=False)
    if loop is not None:
        console.out.print(f"loop: {', '.join(loop.done) or 'nothing'} done", markup=False)
    step, reason = (loop.next_step, loop.reason) if loop else (state.next_step, state.reason)
    console.out.print(f"next: {step}  ({reason})", markup=False)


def _read_aliases(root: Path) -> dict[str, str]:
    """Which policy is champion, challenger and shadow by the registry's record, or what is wrong with it."""
    from twinloop.promotion.chain import FOLDER, RECORD, read_chain

    try:
        entries = read_chain(root / FOLDER / RECORD)
    except TamperedRecord as error:
        return {"problem": error.what}
    names = {e.details["version"]: e.details["policy"] for e in entries if e.action == "register"}
    held = entries[-1].details["aliases"] if entries else {}
    return {alias: f"{names[version]} (version {version})" for alias, version in held.items() if version}
