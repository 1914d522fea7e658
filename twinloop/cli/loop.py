"""`twinloop loop`: the whole path, stage by stage; an interrupted run resumes."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.attend import RATER, Attend, Rater, page_is_open, person_beside
from twinloop.cli.gap import difference
from twinloop.cli.options import Json, PolicyMap, RobotUrl, WorkspaceTwin, make_config, split_names
from twinloop.cli.places import default_out, find_workspace, load_policy, load_twin

if TYPE_CHECKING:
    from twinloop.gap.result import DimensionGap

Seed = Annotated[int, Option(help="Random seed; the same seed gives the same result on the same robot.")]
Round = Annotated[
    int, Option("--round", min=1, help="A later round begins with the champion and records new data.")
]
FirstPolicy = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        help="Begin with this policy, ours or a foreign one; default: train one in the nominal twin.",
    ),
]
Trials = Annotated[int, Option(help="Trials of the first policy on the robot.")]
Demonstrations = Annotated[int, Option(help="Demonstrations by the robot's operator, where needed.")]
Retrials = Annotated[
    int,
    Option(
        min=0,
        help="Trials of a policy from the calibrated twin alone; if none fails, no more demonstrations are recorded. 0: record them in any case.",
    ),
]
Cameras = Annotated[
    str | None,
    Option(metavar="NAME,NAME", help="Policies see through these cameras instead of tracking the object."),
]
Scenes = Annotated[
    Path | None,
    Option(
        metavar="CONFIG",
        help="A generation config: where objects and targets lie; default: the training scenes.",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Any other field of LoopConfig, such as gate_trials=40; may be repeated."),
]  # fmt: skip
Until = Annotated[
    str | None,
    Option(
        metavar="STAGE", help="Stop after this stage, for example plan; the same command without it resumes."
    ),
]


def loop(
    robot: RobotUrl,
    twin: WorkspaceTwin = None,
    policy: FirstPolicy = None,
    map_file: PolicyMap = None,
    cameras: Cameras = None,
    scenes: Scenes = None,
    out: Annotated[Path | None, Option(help="Folder of the stages; default: the workspace's loop/.")] = None,
    seed: Seed = 0,
    round_number: Round = 1,
    trials: Trials = 20,
    demonstrations: Demonstrations = 20,
    retrials: Retrials = 10,
    sim_episodes: Annotated[int, Option(help="Simulated episodes of the nominal twin.")] = 400,
    anchored_episodes: Annotated[int, Option(help="Simulated episodes of the calibrated twin.")] = 600,
    steps: Annotated[int, Option(help="Weight updates of the first policy.")] = 2000,
    settings: Settings = None,
    until: Until = None,
    attend: Attend = False,
    rater: Rater = RATER,
    json: Json = False,
) -> None:
    """Run the loop on a robot: generate, train, evaluate, identify, diagnose, plan, anchor, record, train again, gate, promote, monitor.

    Each stage runs once for the same inputs; after an interruption, the same command resumes. A robot that does not judge its own trials
    needs a person: the loop runs to the first such stage, says so, and goes on when somebody runs it with --attend.
    """
    from twinloop.cli.progress import stage_progress

    workspace = find_workspace()
    cell = load_twin(twin, workspace)
    root = out or default_out(workspace, "loop")
    sizes = {
        "round": round_number, "seed": seed, "n_trials": trials, "n_retrials": retrials, "max_demonstrations": demonstrations,
        "sim_episodes": sim_episodes, "anchored_episodes": anchored_episodes, "train_steps": steps,
        "cameras": tuple(split_names(cameras)),
    }  # fmt: skip
    config = make_config(twinloop.LoopConfig, sizes, settings)
    given = load_policy(policy, interface_map=map_file, twin=twin) if policy else None
    drawn = twinloop.load_randomization(scenes, cell) if scenes else None
    beside = partial(person_beside, rater=rater) if attend or page_is_open() else None
    with stage_progress() as listener:
        result = twinloop.run_loop(
            cell, robot, root, config, listener, until, policy=given, scenes=drawn, attend=beside
        )
    last = result.stages[-1]
    if until is not None and last.name == until and until != "monitor":
        text = f"stopped after {last.name}: {last.folder}\nthe same command without --until resumes there"
        console.print_result(json, {"stages": _as_json(result)}, text)
    else:
        print_loop(f"{cell.name} on {robot}", result, root / "report.html", json)


def print_loop(title: str, result: twinloop.LoopResult, page: Path, json: bool) -> None:
    """The end of a loop: success before and after, the gap and its cost, the verdict, the report."""
    from twinloop.report.loop_page import write_loop_page
    from twinloop.report.summary import summarize

    write_loop_page(title, result, page)
    if json:
        console.print_json({"stages": _as_json(result), "report": page})
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
        console.out.print(f"\ndiagnosis: {result.diagnose.verdict}")
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
    console.out.print(f"robot episodes before the gate: {', '.join((*trials, *counts))}")
    if result.verdict is not None:
        console.out.print(f"gate: {summarize(result.verdict)}")
    console.out.print(f"report: {page}")


def _print_success(result: twinloop.LoopResult) -> None:
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


def _print_identified(result: twinloop.LoopResult) -> None:
    assert result.identify is not None
    rows = [
        (e.name, f"{e.nominal:.3g}", f"{e.value:.3g} [{e.low:.3g}, {e.high:.3g}]", "" if e.unit == "1" else e.unit, e.status)
        for e in result.identify.estimates
        if e.status != "not identifiable"
    ]  # fmt: skip
    hidden = len(result.identify.estimates) - len(rows)
    console.out.print()
    console.print_table(("identified", "nominal", "value, 95 % interval", "unit", "status"), rows)
    if hidden:
        console.out.print(f"{hidden} more parameters are not identifiable from these runs")


def _as_json(result: twinloop.LoopResult) -> dict[str, Any]:
    from twinloop.report.summary import summarize

    return {
        stage.name: {
            "folder": stage.folder,
            "content_hash": stage.content_hash,
            "seconds": stage.seconds,
            "summary": summarize(stage.result),
        }
        for stage in result.stages
    }


def _largest(found: DimensionGap) -> str:
    """The most certain of the differences; what is missing where nothing was measured."""
    if not found.evaluated:
        needs = re.split(r"[,;:(]", found.not_evaluated[0].needs)[0]
        return f"not evaluated: needs {needs}"
    if not found.shown:
        return "no gap found"
    return f"{found.shown[0].name} {difference(found.shown[0])}"
