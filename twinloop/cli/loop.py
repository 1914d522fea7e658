"""`twinloop loop`: the whole path, stage by stage, going on where it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here
from twinloop.errors import WrongUse
from twinloop.stages import Done, Listener

if TYPE_CHECKING:
    from twinloop.twins import Twin


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
    number: Annotated[
        int,
        typer.Option("--round", min=1, help="A later round begins with the champion and records anew."),
    ] = 1,
    trials: Annotated[int, typer.Option(help="Trials on the robot before and after.")] = 20,
    demonstrations: Annotated[
        int, typer.Option(help="Demonstrations by the robot's operator, where they are needed.")
    ] = 20,
    try_first: Annotated[
        int,
        typer.Option(
            metavar="TRIALS",
            min=0,
            help="Try a policy from the calibrated twin alone so often; if it never fails, nobody demonstrates more. 0: demonstrate in any case.",
        ),
    ] = 10,
    sim_episodes: Annotated[int, typer.Option(help="Simulated episodes of the nominal twin.")] = 400,
    anchored_episodes: Annotated[int, typer.Option(help="Simulated episodes of the calibrated twin.")] = 600,
    steps: Annotated[int, typer.Option(help="Weight updates of the first policy.")] = 2000,
    until: Annotated[
        str | None,
        typer.Option(metavar="STAGE", help="Stop after this stage, for example plan; later the rest."),
    ] = None,
    json: Json = False,
) -> None:
    """Go through the loop on a robot: simulate, train, try, identify, diagnose, plan, record, train again, gate, promote, monitor.

    A stage is made once for the same inputs; killed at any time, the same command goes on where it was.
    """
    from twinloop.loop import STAGES, LoopConfig, run_loop

    workspace = workspace_here()
    cell = twin_of(twin, workspace)
    if out is None and workspace is None:
        raise WrongUse("where to? this is no workspace", remedy="--out FOLDER, or run it inside a workspace")
    config = LoopConfig(
        round=number,
        seed=seed,
        trials=trials,
        tried_first=try_first,
        demonstrations=demonstrations,
        sim_episodes=sim_episodes,
        anchored_episodes=anchored_episodes,
        steps=steps,
    )
    root = out or workspace.root / "loop" if workspace else out
    assert root is not None
    with watching() as listener:
        made = run_loop(cell, robot, root, config, listener, until)
    if (
        until in made and until != list(STAGES)[-1]
    ):  # a gate that refuses ends the loop before its later stages
        tell_so_far(made, json)
        return
    tell(cell, robot, made, root / "report.html", json)


def tell_so_far(made: Mapping[str, Done], as_json: bool) -> None:
    """Where a loop stopped that was not meant to go to its end; what its stages found was said meanwhile."""
    *_, last = made.values()
    if as_json:
        console.print_json({"stages": _as_json(made)})
        return
    console.out.print(
        f"stopped after {last.name}: {last.folder}\nthe same command without --until goes on from there",
        markup=False,
    )


def tell(twin: Twin, robot: str, made: Mapping[str, Done], page: Path, as_json: bool) -> None:
    """The end of a loop: its table, its report."""
    write_report(f"{twin.name} on {robot}", made, page)
    if as_json:
        console.print_json({"stages": _as_json(made), "report": str(page)})
        return
    where = "on the stand-in" if made["try"].found["robot"]["standin"] else "on the robot"
    rows = [("before", share(made["try"].found["simulation"]), share(made["try"].found["robot"]))]
    rows.append(
        ("after, at the gate", share(made["gate"].found["simulation"]), share(made["gate"].found["robot"]))
    )
    if "monitor" in made:
        rows.append(("after, deployed", "", share(made["monitor"].found["robot"])))
    console.print_table(("success", "in simulation", where), rows)
    console.out.print()
    costs = {cost["dimension"]: cost["lost"] for cost in made["diagnose"].found["costs"]}
    gaps = made["measure"].found["dimensions"]
    console.print_table(
        ("gap", "costs, points", "most certain difference, simulation - robot"),
        [(name, _lost(costs.get(name)), _largest(found)) for name, found in gaps.items()],
    )
    console.out.print()
    excited, first, more = (made[name].found["episodes"] for name in ("excite", "show", "demonstrate"))
    between = f"{made['retry'].found['episodes']} between, " if "retry" in made else ""
    console.out.print(
        f"diagnosis: {made['diagnose'].found['verdict']}\n"
        f"robot episodes: {made['try'].found['robot']['episodes']} trials before, {between}{excited} excitation runs, "
        f"{first + more} demonstrations\n"
        f"gate: {summary(made['gate'].found)}\n"
        f"report: {page}",
        markup=False,
    )


def _as_json(made: Mapping[str, Done]) -> dict[str, Any]:
    return {name: {"folder": str(done.folder), **done.found} for name, done in made.items()}


def write_report(title: str, made: Mapping[str, Done], page: Path) -> None:
    """The loop as one page."""
    from twinloop.report.loop_page import write_loop_page

    files = {
        "measure": "report.html",
        "identify": "report.html",
        "diagnose": "diagnosis.html",
        "cover": "report.html",
        "plan": "report.html",
        "gate": "report.html",
    }
    write_loop_page(
        title,
        {name: done.found for name, done in made.items()},
        [(name, summary(done.found), done.seconds) for name, done in made.items()],
        {name: made[name].folder / file for name, file in files.items()},
        [(film["caption"], made["film"].folder / film["file"]) for film in made["film"].found["films"]],
        page,
    )


def _largest(found: Mapping[str, Any]) -> str:
    """The most certain of the differences that are shown; what is missing where nothing was measured."""
    if not found["evaluated"]:
        needs = re.split(r"[,;:(]", found["not_evaluated"][0]["needs"])[0]
        return f"not evaluated: needs {needs}"
    if not found["shows"]:
        return "none shown"
    first = found["first"]
    unit = "" if first["unit"] == "1" else f" {first['unit']}"
    return f"{first['name']} {first['value']:+.3g} [{first['low']:.3g}, {first['high']:.3g}]{unit}"


def _lost(cost: Mapping[str, Any] | None) -> str:
    if cost is None:
        return ""
    from twinloop.stats.interval import Interval

    return Interval(**cost).points


@contextmanager
def watching() -> Iterator[Listener]:
    """One line for each stage that is done, and a bar for the one at work where somebody watches."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console.err,
        transient=True,
        disable=not console.err.is_terminal,
    )
    with bar:
        yield _Lines(bar)


class _Lines(Listener):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="", visible=False)

    def begun(self, name: str) -> None:
        if not console.err.is_terminal:
            console.err.print(f"[dim]{name} ...[/]")
        self._bar.reset(self._task, description=name, total=None, state="", visible=True)

    def moved(self, name: str, done: int, total: int) -> None:
        state = f"{done}/{total}" if total else f"{done}"
        self._bar.update(self._task, completed=done, total=total or None, state=state)

    def ended(self, done: Done) -> None:
        self._bar.update(self._task, visible=False)
        when = "was there already" if done.again else f"{done.seconds:.0f} s"
        said = summary(done.found).replace("[", r"\[")
        self._bar.console.print(f"[bold]{done.name:<11}[/]  {said}  [dim]{when}[/]")


def summary(found: Mapping[str, Any]) -> str:
    """What a stage found, in a few words."""
    if "decision" in found:
        return f"{found['decision']}: {'; '.join(found['reasons'])}"
    if "simulation" in found:
        return f"simulation {share(found['simulation'])}, robot {share(found['robot'])}"
    if "dimensions" in found:
        shown = [name for name, one in found["dimensions"].items() if one["shows"]]
        return f"gap shown in {', '.join(shown) or 'no dimension'}"
    if "regions" in found:
        first = f", first {found['regions'][0]['name']}" if found["regions"] else ""
        return f"{100 * found['outside']:.0f} % outside simulation{first}"
    if "verdict" in found:
        return str(found["verdict"])
    if "items" in found:
        best = found["items"][0] if found["items"] else None
        first = f"; first {best['title']}" if best else ""
        return f"{console.count(len(found['items']), 'item')}, {found['hours']:.1f} h{first}"
    if "champion" in found:
        return f"{found['name']} is champion"
    if "report" in found:
        alerts = [alert["what"] for alert in found["report"]["alerts"]]
        return f"{console.count(found['episodes'], 'episode')}, {found['success']:.0%} succeeded; {'; '.join(alerts) or 'no alert'}"
    if "estimates" in found:
        well = [e for e in found["estimates"] if e["status"] == "identifiable"]
        word = "accepted" if found["accepted"] else "rejected"
        return f"{word}, {len(well)} of {len(found['estimates'])} parameters told well: {found['reason']}"
    if "films" in found:
        return ", ".join(film["caption"] for film in found["films"]) or "nothing to show"
    if found.get("kept"):
        return f"policy {found['policy'][:12]} as it is, because {found['kept']}"
    if "policy" in found:
        error = found["validation"]
        return f"policy {found['policy'][:12]}, {'the champion' if error is None else f'validation error {error:.4g}'}"
    won = "" if found.get("success") is None else f", {found['success']:.0%} succeeded"
    if "used" in found and not found["episodes"]:
        return "no more were needed"
    used = f", {found['used']} used" if "used" in found else ""
    return f"{console.count(found['episodes'], 'episode')}{won}{used}"


def share(evaluation: Mapping[str, Any]) -> str:
    """`93 % [86, 97] of 100`."""
    if not evaluation["episodes"]:
        return "not tried"
    low, high = evaluation["interval_95"]
    return f"{evaluation['success']:.0%} [{100 * low:.0f}, {100 * high:.0f}] of {evaluation['episodes']}"
