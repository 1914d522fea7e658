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
    from twinloop.robots.safety.joint_check import JointFinding
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
def check(
    address: Address,
    move: Annotated[
        bool,
        Option("--move", help="Also move each joint by about 3 degrees, to measure how late it answers."),
    ] = False,
    seconds: Annotated[float, Option(min=0.2, help="How long rates and clocks are watched.")] = 3.0,
    json: Json = False,
) -> None:
    """Look at a robot before anything moves fast: limits, rates, jitter, clock, cameras, echo. Exits with 1 if something is wrong."""
    from twinloop.robots.check import check_connected

    robot = twinloop.open_robot(address)
    with twinloop.connected(robot):
        found = check_connected(twinloop.SafetyEnvelope(robot), seconds=seconds, move=move)
    columns = ("", "what", "found", "remedy")
    console.print_list(
        json, found, columns, lambda line: (line.state, line.what, line.found, line.remedy or "")
    )
    if any(line.state == "wrong" for line in found):
        raise typer.Exit(1)


@app.command()
def joints(
    address: Address,
    twin: TwinName = None,
    home: Annotated[
        bool,
        Option("--home", help="The arm stands in the twin's home pose: compare the zeros of its joints."),
    ] = False,
    watch: Annotated[
        bool, Option("--watch", help="Ask after each move whether the tool went where the twin says.")
    ] = False,
    json: Json = False,
) -> None:
    """Move each joint by about 5 degrees and compare with the twin: swapped joints, wrong signs, scales and offsets.

    Exits with 1 if a joint is not as the twin says.
    """
    from twinloop.robots.safety.joint_check import check_joints, home_pose

    robot = twinloop.open_robot(address)
    with twinloop.connected(robot):
        description = robot.description
        cell = _load_cell(twin or description.twin)
        if cell is None and (home or watch):
            raise WrongUse("comparing with a pose needs the robot's twin", remedy="--twin NAME|FOLDER")
        pose = home_pose(description, cell) if home and cell is not None else None
        found = check_joints(
            twinloop.SafetyEnvelope(robot),
            cell,
            known_pose=pose,
            ask=(lambda question: typer.confirm(question, err=True)) if watch else None,
            log=console.log,
        )
    columns = ("joint", "moved", "answered", "offset", "")

    def row(one: JointFinding) -> tuple[object, ...]:
        answered = "-" if one.scale is None else f"{100 * one.scale:.0f} %"
        offset = "" if one.offset is None else f"{one.offset:+.3f}"
        return one.joint, f"{one.moved:+.3f}", answered, offset, one.problem or "ok"

    console.print_list(json, found, columns, row)
    if any(one.problem for one in found):
        raise typer.Exit(1)


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
