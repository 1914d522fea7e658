"""`twinloop loop`: the whole path, stage by stage; an interrupted run resumes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here
from twinloop.errors import UnknownName, WrongUse
from twinloop.stages import Stage, StageListener

if TYPE_CHECKING:
    from twinloop.gap.result import DimensionGap
    from twinloop.loop import LoopConfig
    from twinloop.loop_result import LoopResult

RobotAddress = Annotated[
    str, typer.Option(help="standin:NAME|FILE.yaml, unix:PATH, tcp:HOST:PORT, or a plug-in's scheme.")
]
TwinName = Annotated[
    str | None, typer.Option(metavar="NAME|FOLDER", help="The robot's twin; default: the workspace's.")
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="STAGE", help="Stop after this stage, for example plan; the same command without it resumes."
    ),
]


def loop(
    robot: RobotAddress,
    twin: TwinName = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the stages; default: the workspace's loop/.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed; the same seed gives the same result on the same robot.")
    ] = 0,
    round_number: Annotated[
        int, typer.Option("--round", min=1, help="A later round begins with the champion and records anew.")
    ] = 1,
    trials: Annotated[int, typer.Option(help="Trials of the first policy on the robot.")] = 20,
    demonstrations: Annotated[
        int, typer.Option(help="Demonstrations by the robot's operator, where needed.")
    ] = 20,
    retrials: Annotated[
        int,
        typer.Option(
            min=0,
            help="Trials of a policy from the calibrated twin alone; if none fails, no more demonstrations are recorded. 0: record them in any case.",
        ),
    ] = 10,
    sim_episodes: Annotated[int, typer.Option(help="Simulated episodes of the nominal twin.")] = 400,
    anchored_episodes: Annotated[int, typer.Option(help="Simulated episodes of the calibrated twin.")] = 600,
    steps: Annotated[int, typer.Option(help="Weight updates of the first policy.")] = 2000,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other size of the loop, such as gate_trials=40; may be repeated.",
        ),
    ] = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """Run the loop on a robot: generate, train, evaluate, identify, diagnose, plan, anchor, record, train again, gate, promote, monitor.

    Each stage runs once for the same inputs; after an interruption, the same command resumes.
    """
    from twinloop.loop import LoopConfig, run_loop

    workspace = workspace_here()
    cell = twin_of(twin, workspace)
    if out is None and workspace is None:
        raise WrongUse(
            "no --out, and this is not a workspace", remedy="--out FOLDER, or run it inside a workspace"
        )
    config = LoopConfig(
        round=round_number,
        seed=seed,
        n_trials=trials,
        n_retrials=retrials,
        max_demonstrations=demonstrations,
        sim_episodes=sim_episodes,
        anchored_episodes=anchored_episodes,
        train_steps=steps,
    )
    config = _with_settings(config, settings or [])
    root = out or workspace.root / "loop" if workspace else out
    assert root is not None
    with stage_progress() as listener:
        result = run_loop(cell, robot, root, config, listener, until)
    if until is not None and result.stages[-1].name == until and until != "monitor":
        print_stop(result, json)
    else:
        print_loop(f"{cell.name} on {robot}", result, root / "report.html", json)


def _with_settings(config: LoopConfig, settings: list[str]) -> LoopConfig:
    """The config with NAME=VALUE settings, each of its field's type."""
    known = {field.name: type(getattr(config, field.name)) for field in fields(config)}
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            raise UnknownName("size of the loop", name, known)
        try:
            values[name] = known[name](text)
        except ValueError as error:
            raise WrongUse(
                f"cannot read --set {setting}", expected=f"{name}={known[name].__name__}"
            ) from error
    return replace(config, **values)


def print_stop(result: LoopResult, as_json: bool) -> None:
    """Where a loop stopped that was asked to; its stages have been printed already."""
    last = result.stages[-1]
    if as_json:
        console.print_json({"stages": _as_json(result)})
        return
    console.out.print(
        f"stopped after {last.name}: {last.folder}\nthe same command without --until resumes there",
        markup=False,
    )


def print_loop(title: str, result: LoopResult, page: Path, as_json: bool) -> None:
    """The end of a loop: success before and after, the gap and its cost, the verdict, the report."""
    from twinloop.report.loop_page import write_loop_page
    from twinloop.report.summary import summarize

    write_loop_page(title, result, page)
    if as_json:
        console.print_json({"stages": _as_json(result), "report": str(page)})
        return
    _print_success(result)
    if result.gap is not None and result.diagnose is not None:
        costs = {cost.dimension: cost for cost in result.diagnose.costs}
        rows = [
            (name, costs[name].lost.points if name in costs and costs[name].named else "", _largest(found))
            for name, found in result.gap.dimensions.items()
        ]
        console.out.print()
        console.print_table(("gap", "costs, points", "most certain difference, simulation - robot"), rows)
        console.out.print(f"\ndiagnosis: {result.diagnose.verdict}", markup=False)
    if result.identify is not None:
        _print_identified(result)
    recorded = (
        ("excitation runs", result.excite),
        ("demonstrations", result.demonstrate),
        ("more", result.demonstrate_more),
    )
    counts = [f"{len(dataset)} {name}" for name, dataset in recorded if dataset is not None]
    trials = [
        f"{len(e.trials)} trials {when}"
        for when, e in (("before", result.evaluate), ("between", result.reevaluate))
        if e
    ]
    console.out.print(f"robot episodes before the gate: {', '.join((*trials, *counts))}", markup=False)
    if result.verdict is not None:
        console.out.print(f"gate: {summarize(result.verdict)}", markup=False)
    console.out.print(f"report: {page}", markup=False)


def _print_success(result: LoopResult) -> None:
    from twinloop.report.summary import success_rate, summarize

    standin = result.evaluate is not None and result.evaluate.standin
    rows = [("before", *(summarize(one) if one else "" for one in (result.evaluate_sim, result.evaluate)))]
    evidence = result.evidence
    if evidence is not None:
        trials = (evidence.simulated, evidence.real)
        rates = (success_rate(sum(t.candidate for t in one), len(one)) for one in trials)
        rows.append(("after, at the gate" if result.gate else "at the gate", *rates))
    if result.monitor is not None:
        watched = result.monitor.success
        rows.append(("deployed", "", success_rate(watched.successes, watched.episodes)))
    console.print_table(
        ("success rate", "in simulation", f"on the {'stand-in' if standin else 'robot'}"), rows
    )


def _print_identified(result: LoopResult) -> None:
    assert result.identify is not None
    rows = [
        (
            e.name,
            f"{e.nominal:.3g}",
            f"{e.value:.3g} [{e.low:.3g}, {e.high:.3g}]",
            "" if e.unit == "1" else e.unit,
            e.status,
        )
        for e in result.identify.estimates
        if e.status != "not identifiable"
    ]
    hidden = len(result.identify.estimates) - len(rows)
    console.out.print()
    console.print_table(("identified", "nominal", "value, 95 % interval", "unit", ""), rows)
    if hidden:
        console.out.print(f"{hidden} more parameters are not identifiable from these runs", markup=False)


def _as_json(result: LoopResult) -> dict[str, Any]:
    from twinloop.report.summary import summarize

    return {
        stage.name: {
            "folder": str(stage.folder),
            "content_hash": stage.content_hash,
            "seconds": stage.seconds,
            "summary": summarize(stage.result),
        }
        for stage in result.stages
    }


def _largest(found: DimensionGap) -> str:
    """The most certain of the differences; what is missing where nothing was measured."""
    if not found.evaluated:
        needs = re.split(r"[,;:(]", found.missing[0].needs)[0]
        return f"not evaluated: needs {needs}"
    if not found.shown:
        return "no gap found"
    first = found.shown[0]
    unit = "" if first.unit == "1" else f" {first.unit}"
    return f"{first.name} {first.value:+.3g} [{first.low:.3g}, {first.high:.3g}]{unit}"


@contextmanager
def stage_progress() -> Iterator[StageListener]:
    """A bar for the running stage, and a line for every finished one."""
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
        yield _ProgressListener(bar)


class _ProgressListener(StageListener):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="", visible=False)

    def on_start(self, name: str) -> None:
        if not console.err.is_terminal:
            self._bar.console.print(f"[dim]{name} ...[/]")
        self._bar.reset(self._task, description=name, total=None, state="", visible=True)

    def on_progress(self, name: str, done: int, total: int) -> None:
        state = f"{done}/{total}" if total else f"{done}"
        self._bar.update(self._task, completed=done, total=total or None, state=state)

    def on_end(self, stage: Stage[Any]) -> None:
        from twinloop.report.summary import summarize

        self._bar.update(self._task, visible=False)
        duration = "from an earlier run" if stage.cached else f"{stage.seconds:.0f} s"
        line = summarize(stage.result).replace("[", r"\[")
        self._bar.console.print(f"[bold]{stage.name:<16}[/]  {line}  [dim]{duration}[/]")
