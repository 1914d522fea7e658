"""`twinloop evaluate`: how often policies succeed, in a twin or on a robot."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.policy import load_late, twin_for
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.evaluation.result import Evaluation
    from twinloop.policies.policy import Policy
    from twinloop.robots.protocol import Description


def evaluate(
    policies: Annotated[list[Path], typer.Argument(metavar="POLICY...", help="One or more policies.")],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="Evaluate in this twin; default: the policy's own."),
    ] = None,
    robot: Annotated[
        str | None, typer.Option(help="Evaluate on this robot: standin:NAME, tcp:HOST:PORT ...")
    ] = None,
    episodes: Annotated[int, typer.Option(help="How many for each policy.")] = 200,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Random seed for the scenes in a twin; number of the first scene on a robot. The same for every policy.",
        ),
    ] = 0,
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="On a robot: stop after the first trial that fails.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="A generation config: what varies in the twin, besides the training scenes."),
    ] = None,
    latency_ms: Annotated[
        float | None,
        typer.Option(
            help="Delay from observation to command and back that chunks are carried out for; default: each policy's own."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Keep the episodes as a dataset, or as one for each of several policies."),
    ] = None,
    videos: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Films of each policy's first failures, as WebM.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure how often policies succeed, in the same scenes for each, with exact 95 % intervals.

    On a robot, several policies take turns in every scene.
    """
    from twinloop.evaluation.result import compare

    if twin is not None and robot is not None:
        raise WrongUse("where?", expected="--twin or --robot, one of them")
    if robot is not None and config is not None:
        raise WrongUse(
            "what varies on a robot is not ours to say", got=f"--config {config}", remedy="leave it out"
        )
    if videos is not None and videos.exists() and not videos.is_dir():
        raise WrongUse("films are written to a folder", got=f"the file {videos}")
    loaded = _told_apart([load_late(path, latency_ms) for path in policies])
    with ExitStack() as stack:
        kept = out
        if videos is not None and out is None:
            kept = Path(stack.enter_context(TemporaryDirectory())) / "episodes"
        with console.progress_bar("evaluating") as progress:
            if robot is not None:
                found = _on_robot(
                    loaded, robot, episodes, seed, kept, videos is not None, until_failure, progress
                )
            else:
                found = _in_twin(loaded, twin, episodes, seed, config, kept, progress)
        films = _film(loaded, kept, twin, videos) if videos is not None and kept is not None else []
    pairs = [(found[0].policy, other.policy, compare(found[0], other)) for other in found[1:]]
    if json:
        console.print_json(
            {
                "evaluations": [e.as_json() for e in found],
                "pairs": [{"first": a, "second": b} | vars(c) for a, b, c in pairs],
                "videos": [str(path) for path in films],
            }
        )
        return
    _print(found)
    for first, second, pair in pairs:
        console.out.print(
            f"{first} minus {second}: {100 * pair.difference:+.1f} points in the same scenes "
            f"({pair.only_first} only the first, {pair.only_second} only the second; p = {pair.p_value:.2g})"
        )
    if out is not None:
        console.out.print(f"kept {sum(len(one.trials) for one in found)} episodes in {out}", markup=False)
    if videos is not None:
        console.out.print(f"wrote {len(films)} films of failures to {videos}", markup=False)


def _told_apart(policies: list[Policy]) -> list[Policy]:
    """Policies of one name get their ids into their names: results, folders and films go by it."""
    names, ids = [policy.name for policy in policies], [policy.id for policy in policies]
    if len(set(ids)) < len(ids):
        raise WrongUse("a policy is named twice", got=", ".join(names))
    return [
        policy.with_name(f"{policy.name}-{policy.id[:6]}") if names.count(policy.name) > 1 else policy
        for policy in policies
    ]


def _in_twin(
    policies: list[Policy],
    twin: str | None,
    episodes: int,
    seed: int,
    config: Path | None,
    out: Path | None,
    progress: Any,
) -> list[Evaluation]:
    from twinloop.evaluation.run import evaluate_in_turns
    from twinloop.evaluation.twin import TwinEnvironment
    from twinloop.generation.processes import usable_cores
    from twinloop.randomization import load_randomization

    cell = twin_for(policies[0], twin)
    randomization = load_randomization(config, cell) if config else None
    environment = TwinEnvironment(cell, randomization, threads=usable_cores())
    return evaluate_in_turns(policies, environment, episodes=episodes, seed=seed, out=out, progress=progress)


def _on_robot(
    policies: list[Policy],
    robot: str,
    episodes: int,
    seed: int,
    out: Path | None,
    filmed: bool,
    until_failure: bool,
    progress: Any,
) -> list[Evaluation]:
    from twinloop.cli.robot import open_supervised
    from twinloop.evaluation.robot import RobotEnvironment
    from twinloop.evaluation.run import evaluate_in_turns

    with open_supervised(robot) as (opened, supervisor):
        cameras = _cameras(policies, opened.description, filmed) if out is not None else ()
        environment = RobotEnvironment(opened, supervisor, cameras=cameras, until_failure=until_failure)
        return evaluate_in_turns(
            policies, environment, episodes=episodes, seed=seed, out=out, progress=progress
        )


def _cameras(policies: list[Policy], robot: Description, filmed: bool) -> tuple[str, ...]:
    """Whose images are kept: of the cameras that the policies see, and one for the films."""
    seen = [camera.name for policy in policies for camera in policy.interface.cameras]
    return tuple(dict.fromkeys((*seen, *(camera.name for camera in robot.cameras[: int(filmed)]))))


def _film(policies: list[Policy], kept: Path, twin: str | None, folder: Path) -> list[Path]:
    """Films of failures: of the robot's camera where it has one, else drawn in the twin."""
    from twinloop.datasets.reader import open_dataset
    from twinloop.generation.videos import record_failure_videos
    from twinloop.twins import load_twin

    made = []
    for policy in policies:
        name = twin or policy.training_record.twin["name"]
        drawn_in = load_twin(name) if name is not None else None
        dataset = open_dataset(kept / policy.name if len(policies) > 1 else kept)
        made += record_failure_videos(dataset, folder, twin=drawn_in, title=policy.name)
    return made


def _print(found: list[Evaluation]) -> None:
    rows = []
    for e in found:
        rate = e.interval()
        reasons = ", ".join(f"{name} {count}" for name, count in e.failures.items()) or "-"
        phases = ", ".join(f"{name} {count}" for name, count in e.failed_in.items()) or "-"
        where = f"stand-in {e.where.removeprefix('standin-')}" if e.standin else e.where
        share = f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
        rows.append((e.policy, where, len(e.trials), share, reasons, phases))
    columns = ("policy", "where", "episodes", "success, 95 % interval", "failures", "failed in phase")
    console.print_table(columns, rows)
