"""`twinloop robot`: the safety limits of a robot, its stops, and what to check before it moves fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.cli.places import find_twin, find_workspace
from twinloop.errors import UnknownName, WrongUse

if TYPE_CHECKING:
    from twinloop.robots.protocol import Description
    from twinloop.robots.safety.latch import Latch
    from twinloop.tasks import Cell

app = typer.Typer(
    help="Check a robot before it moves fast; its safety limits and its stops.", no_args_is_help=True
)

Address = Annotated[
    str, Argument(metavar="ADDRESS", help="standin:NAME, python:FILE.py, unix:PATH, tcp:HOST:PORT ...")
]
By = Annotated[str, Option(help="Name of the person who answers for this.")]
TwinName = Annotated[
    str | None, Option(metavar="NAME|FOLDER", help="The robot's twin; default: as the robot declares.")
]


@app.command()
def limits(
    address: Address,
    by: By,
    twin: TwinName = None,
    out: Annotated[
        Path | None, Option(help="The new file; default: safety.yaml beside the twin in the workspace.")
    ] = None,
    json: Json = False,
) -> None:
    """Propose safety limits for a robot, from its description and its twin. Look at every number before the robot moves."""
    from twinloop.robots.safety.file import write_safety_file

    with twinloop.connected(twinloop.open_robot(address)) as robot:
        description = robot.description
    named = twin or description.twin
    cell = _load_cell(named)
    file = out or _default_file(named, description)
    written = write_safety_file(file, description, cell, by)
    missing = [name for name in ("workspace", "contact", "payload_kg") if getattr(written, name) is None]
    text = f"proposed limits for {description.serial}: {file}; look at every number before the robot moves"
    if missing:
        text += f"\nadd {', '.join(missing)}, or override them: without, the file is refused"
    console.print_result(json, {"file": file, "missing": missing}, text)


@app.command()
def stops(address: Address, json: Json = False) -> None:
    """List when a robot was stopped, why, and who let it move again."""
    entries = _find_latch(address).entries()
    rows = [(entry.at, entry.kind, entry.by, entry.reason) for entry in entries]
    value = [vars(entry) for entry in entries]
    if not rows and not json:
        console.out.print("never stopped")
        return
    console.print_result(
        json, value, lambda: console.print_table(("at", "", "by", "reason or finding"), rows)
    )


@app.command()
def reset(
    address: Address,
    by: By,
    reason: Annotated[str, Option(help="What you found when you looked at the robot.")],
    json: Json = False,
) -> None:
    """Let a stopped robot move again, after looking at it."""
    stop = _find_latch(address).reset(by, reason)
    text = f"{stop.robot} may move again; it was stopped at {stop.at}: {stop.reason}"
    console.print_result(json, {"robot": stop.robot, "stopped_at": stop.at, "reason": stop.reason}, text)


def _load_cell(named: str | None) -> Cell | None:
    from twinloop.tasks import make_cell

    try:
        return make_cell(find_twin(named)) if named is not None else None
    except UnknownName:
        return None


def _default_file(named: str | None, description: Description) -> Path:
    """`safety.yaml` in the folder of the twin."""
    from twinloop.robots.safety.file import FILE

    workspace = find_workspace()
    if named is not None and Path(named).is_dir():
        return Path(named) / FILE
    if workspace is None:
        raise WrongUse(
            f"robot {description.serial} has no folder for its limits",
            remedy="run the command in a workspace, or --out FILE",
        )
    folder = workspace.root / "twins" / str(named)
    return (folder if folder.is_dir() else workspace.root) / FILE


def _find_latch(address: str) -> Latch:
    from twinloop.robots.safety.latch import Latch
    from twinloop.robots.safety.limits import find_safety_file

    with twinloop.connected(twinloop.open_robot(address)) as robot:
        description = robot.description
    file = find_safety_file(description)
    if file is None:
        raise WrongUse(
            f"robot {description.serial} has no safety limits, beside which its stops would be",
            remedy="twinloop robot limits ADDRESS --by NAME",
        )
    return Latch(file.parent, description.serial)
