"""`twinloop loop`: the whole path, stage by stage, going on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.stages import Done


def loop(
    robot: Annotated[
        str, typer.Option(help="standin:NAME|FILE.yaml, unix:PATH, tcp:HOST:PORT, or a plug-in's scheme.")
    ],
    twin: Annotated[
        str | None, typer.Option(metavar="NAME|FOLDER", help="The robot's twin; default: the workspace's.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the stages; default: the workspace's loop/.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result on the same robot.")] = 0,
    trials: Annotated[int, typer.Option(help="Trials on the robot before and after.")] = 20,
    demonstrations: Annotated[int, typer.Option(help="Demonstrations by the robot's operator.")] = 20,
    sim_episodes: Annotated[int, typer.Option(help="Simulated episodes of the nominal twin.")] = 400,
    anchored_episodes: Annotated[int, typer.Option(help="Simulated episodes of the calibrated twin.")] = 600,
    steps: Annotated[int, typer.Option(help="Weight updates of the first policy.")] = 2000,
    json: Json = False,
) -> None:
    """Go through the loop on a robot: simulate, train, try, identify, diagnose, plan, record, train again, gate, promote, monitor.

    A stage is made once for the same inputs; killed at any time, the same command goes on where it was.
    """
    from twinloop.loop import LoopConfig, run_loop

    workspace = workspace_here()
    cell = twin_of(twin, workspace)
    if out is None and workspace is None:
        raise WrongUse("where to? this is no workspace", remedy="--out FOLDER, or run it inside a workspace")
    config = LoopConfig(
        seed=seed,
        trials=trials,
        demonstrations=demonstrations,
        sim_episodes=sim_episodes,
        anchored_episodes=anchored_episodes,
        steps=steps,
    )
    root = out or workspace.root / "loop" if workspace else out
    assert root is not None
    made = run_loop(cell, robot, root, config, hear)
    page = write_report(cell.name, robot, made, root / "report.html")
    if json:
        found = {name: {"folder": str(d.folder), **d.found} for name, d in made.items()}
        console.print_json({"stages": found, "report": str(page)})
        return
    rows = [
        (when, share(done.found["simulation"]), share(done.found["robot"]))
        for when, done in (("before", made["try"]), ("after", made["judge"]))
    ]
    where = "on the stand-in" if made["try"].found["robot"]["standin"] else "on the robot"
    console.print_table(("success", "in simulation", where), rows)
    console.out.print(f"gate: {summary(made['gate'].found)}", markup=False)
    console.out.print(f"report: {page}", markup=False)


def write_report(twin: str, robot: str, made: Mapping[str, Done], path: Path) -> Path:
    """The loop as one page."""
    from twinloop.report.loop_page import write_loop_page

    before, after = made["try"].found, made["judge"].found
    where = "on the stand-in" if before["robot"]["standin"] else "on the robot"
    real = sum(made[name].found["episodes"] for name in ("excite", "demonstrate"))
    return write_loop_page(
        f"{twin} on {robot}",
        [(name, summary(done.found), done.seconds) for name, done in made.items()],
        [(when, f["simulation"], f["robot"]) for when, f in (("before", before), ("after", after))],
        [
            (f"{where} before", f"{before['robot']['success']:.0%}"),
            (f"{where} after", f"{after['robot']['success']:.0%}"),
            ("episodes recorded to learn from", str(real)),
            ("gate", made["gate"].found["decision"]),
            ("twin", "recalibrated" if made["identify"].found["accepted"] else "as it was"),
        ],
        made["identify"].found["estimates"],
        {name: made[name].found["curve"] for name in ("pretrain", "finetune")},
        [
            (title, made[name].folder / file)
            for title, name, file in (
                ("Identification", "identify", "report.html"),
                ("Diagnosis", "diagnose", "diagnosis.html"),
                ("Collection plan", "plan", "report.html"),
                ("Gate", "gate", "report.html"),
            )
        ],
        path,
    )


def hear(name: str, done: Done | None) -> None:
    """One line when a stage begins and one when it is done."""
    if done is None:
        console.err.print(f"[dim]{name} ...[/]")
    else:
        when = "was there already" if done.again else f"{done.seconds:.0f} s"
        console.err.print(f"[bold]{name}[/]  {summary(done.found)}  [dim]{when}[/]")


def summary(found: Mapping[str, Any]) -> str:
    """What a stage found, in a few words."""
    if "simulation" in found:
        return f"simulation {share(found['simulation'])}, robot {share(found['robot'])}"
    if "verdict" in found:
        return str(found["verdict"])
    if "items" in found:
        best = found["items"][0] if found["items"] else None
        first = f"; first {best['title']}" if best else ""
        return f"{console.count(len(found['items']), 'item')}, {found['hours']:.1f} h{first}"
    if "decision" in found:
        return f"{found['decision']}: {'; '.join(found['reasons'])}"
    if "champion" in found:
        return f"{found['name']} is champion"
    if "report" in found:
        alerts = [alert["what"] for alert in found["report"]["alerts"]]
        return f"{console.count(found['episodes'], 'episode')}, {found['success']:.0%} succeeded; {'; '.join(alerts) or 'no alert'}"
    if "estimates" in found:
        told = [e for e in found["estimates"] if e["status"] != "not identifiable"]
        word = "accepted" if found["accepted"] else "rejected"
        return f"{word}, {len(told)} of {len(found['estimates'])} parameters told: {found['reason']}"
    if "policy" in found:
        return f"policy {found['policy'][:12]}, validation error {found['validation']:.4g}"
    won = "" if found.get("success") is None else f", {found['success']:.0%} succeeded"
    used = f", {found['used']} used" if "used" in found else ""
    return f"{console.count(found['episodes'], 'episode')}{won}{used}"


def share(evaluation: Mapping[str, Any]) -> str:
    """`93 % [86, 97] of 100`."""
    low, high = evaluation["interval_95"]
    return f"{evaluation['success']:.0%} [{100 * low:.0f}, {100 * high:.0f}] of {evaluation['episodes']}"
