"""`twinloop train`, `twinloop evaluate` and `twinloop policy`: learn policies, measure them, look at them, export them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import UnknownName, WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.learn.config import TrainConfig
    from twinloop.learn.evaluate import Evaluation
    from twinloop.learn.policy import Policy
    from twinloop.robot.protocol import Description
    from twinloop.twin import Twin

app = typer.Typer(help="Look at policies and export them.", no_args_is_help=True)

TRACKING = "TWINLOOP_TRACKING"


def train(
    sim: Annotated[Path | None, typer.Option(help="Simulated data set.")] = None,
    real: Annotated[Path | None, typer.Option(help="Real data set, or one of a stand-in.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The policy's new folder; default: in the workspace's policies/.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="sim-only, real-only, pretrain-finetune or co-train.")
    ] = "sim-only",
    mix: Annotated[
        str, typer.Option(metavar="SHARE|auto", help="co-train: share of simulated windows, or find it.")
    ] = "0.9",
    twin: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER", help="--mix auto: try shares in this twin; default: the simulated data's."
        ),
    ] = None,
    finetune: Annotated[
        str, typer.Option(help="pretrain-finetune: weights that move; full, head or adapter.")
    ] = "full",
    start: Annotated[
        Path | None,
        typer.Option("--from", help="pretrain-finetune: a trained policy instead of the simulated half."),
    ] = None,
    head: Annotated[str, typer.Option(help="regression, transformer or flow.")] = "regression",
    cameras: Annotated[
        str | None,
        typer.Option(help="It sees these cameras, as a,b, and no tracked object; default: no pictures."),
    ] = None,
    adapt: Annotated[
        str, typer.Option(help="See simulated and real pictures alike: coral, ot or adversarial.")
    ] = "none",
    restyle: Annotated[
        str, typer.Option(help="Give simulated pictures a real look: fourier or histogram.")
    ] = "none",
    photos: Annotated[
        Path | None,
        typer.Option(help="restyle: a folder of photographs instead of the real data's pictures."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed and data give the same policy.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Weight updates; default: the config's.")] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this time at the latest.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other field of TrainConfig; see docs/learn.md."
        ),
    ] = None,
    tracking: Annotated[
        str | None,
        typer.Option(
            metavar="URI|off", envvar=TRACKING, help="MLflow; default: mlflow.db beside the policy's folder."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Processor threads.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    json: Json = False,
) -> None:
    """Train a policy by imitation: on simulated data, on real data, first one then the other, or on both at once."""
    from twinloop.learn.fit import Point
    from twinloop.learn.tracking import local_tracking
    from twinloop.learn.train import train as run

    words: dict[str, Any] = {
        "recipe": recipe, "mix": _share(mix, recipe), "finetune": finetune, "head": head, "seed": seed, "minutes": minutes,
        "cameras": tuple(cameras.split(",")) if cameras else (), "adapt": adapt, "restyle": restyle,
    }  # fmt: skip
    if steps is not None:
        words["steps"] = steps
        words["finetune_steps"] = max(1, steps // 4)
    config = make_config(words, option or [])
    root, target = _place(out, recipe, resume)
    uri = None if tracking == "off" else tracking or local_tracking(root)
    with console.progress_bar("training") as progress:

        def hear(point: Point, total: int) -> None:
            progress(point.step, total)

        common: dict[str, Any] = {
            "out": target, "config": config, "workspace": root, "tracking": uri, "threads": threads, "resume": resume,
            "hear": hear, "photos": photos,
        }  # fmt: skip
        if mix == "auto":
            policy = _train_auto(sim, real, start, twin, common, quiet=json)
        else:
            policy = run(sim, real, start=policy_path(start) if start else None, **common)
    results = policy.story.results
    if json:
        console.print_json({"out": str(target), "id": policy.id, "recipe": recipe, **results})
        return
    last = results["curve"][-1]
    console.out.print(
        f"wrote {target}: {recipe}, {last['step']} steps in {results['seconds']:.0f} s, "
        f"validation error {results['validation']:.4f} (scaled)"
    )


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
    seed: Annotated[int, typer.Option(help="Scenes follow from it; the same for every policy.")] = 0,
    config: Annotated[
        Path | None,
        typer.Option(help="A generation config: what varies in the twin, besides the usual scenes."),
    ] = None,
    latency_ms: Annotated[
        float,
        typer.Option(help="Delay from observation to command and back that chunks are carried out for."),
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Keep the episodes as a data set, or as one for each of several policies."),
    ] = None,
    videos: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Films of each policy's first failures, as WebM.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure how often policies succeed, in the same scenes for each, with exact 95 % intervals.

    On a robot, several policies take turns in every scene.
    """
    from twinloop.learn.evaluate import compare
    from twinloop.learn.policy import load_policy

    if twin is not None and robot is not None:
        raise WrongUse("where?", expected="--twin or --robot, one of them")
    loaded = [load_policy(policy_path(path)).for_latency(1e-3 * latency_ms) for path in policies]
    with ExitStack() as stack:
        kept = out
        if videos is not None and out is None:
            kept = Path(stack.enter_context(TemporaryDirectory())) / "episodes"
        with console.progress_bar("evaluating") as progress:
            if robot is not None:
                found = _on_robot(loaded, robot, episodes, seed, kept, videos is not None, progress)
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


@app.command()
def show(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    json: Json = False,
) -> None:
    """Say what a policy sees and does, what it was trained on and how training went."""
    from twinloop.learn.policy import WORDS, load_policy

    path = policy_path(policy)
    found = load_policy(path)
    if json:
        import json as text

        console.print_json(text.loads((path / WORDS).read_text()))
        return
    story, shape = found.story, found.network.shape
    count = sum(weights.numel() for weights in found.network.parameters())
    sees = ", ".join(f"{signal.name} ({signal.size})" for signal in found.interface.observations)
    looks = ", ".join(f"{c.name} ({c.width} x {c.height})" for c in found.interface.cameras)
    lines = {
        "policy": f"{found.name} ({found.id}), {story.recipe}, {story.created_at}",
        "sees": f"{sees} at steps {', '.join(map(str, found.execution.history))}",
        **({"looks": f"through {looks}"} if looks else {}),
        "does": f"{found.interface.action.size} targets at {found.interface.rate_hz:g} Hz, {shape.chunk} at once, "
        f"{found.execution.execute} before the next",
        "network": f"{shape.head}, {count:,} weights",
        "twin": f"{story.twin['name']} ({story.twin['version']})",
    }
    for entry in story.datasets:
        lines[f"{entry['role']} data"] = (
            f"{entry['name']}, {entry['used']} episodes, version {entry['version']}"
        )
    for name, line in lines.items():
        console.out.print(f"{name:<10} {line}", markup=False)


@app.command()
def export(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    json: Json = False,
) -> None:
    """Write a policy as ONNX, from raw readings to raw commands, with everything about it in the file's metadata."""
    from twinloop.learn.export import export_onnx
    from twinloop.learn.policy import load_policy

    path = export_onnx(load_policy(policy_path(policy)), out)
    if json:
        console.print_json({"out": str(path), "bytes": path.stat().st_size})
    else:
        console.out.print(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB")


@app.command()
def pace(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    out: Annotated[Path, typer.Option(help="New folder for the policy at the pace that was found.")],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="Try it in this twin; default: the policy's own."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="How many for each pace.")] = 60,
    seed: Annotated[int, typer.Option(help="Scenes follow from it; the same for every pace.")] = 0,
    config: Annotated[
        Path | None,
        typer.Option(help="A generation config: what varies in the twin, besides the usual scenes."),
    ] = None,
    json: Json = False,
) -> None:
    """Find out in a twin how much of each chunk a policy should carry out before the next; matters on late hardware."""
    from twinloop.generate.processes import usable_cores
    from twinloop.learn.pace import find_pace
    from twinloop.learn.policy import load_policy
    from twinloop.randomize import load_randomization

    loaded = load_policy(policy_path(policy))
    if out.exists():
        raise WrongUse(f"{out} exists already", remedy="choose another folder")
    cell = _twin_for(loaded, twin)
    varied = load_randomization(config, cell) if config else None
    with console.progress_bar("trying") as progress:
        found, paces = find_pace(
            loaded, cell, varied, episodes=episodes, seed=seed, threads=usable_cores(), progress=progress
        )
    found.save(out)
    if json:
        tried = found.story.results["paces"]
        words = {"out": str(out), "id": found.id, "execute": found.execution.execute, "paces": tried}
        console.print_json(words)
        return
    for one in paces:
        kept = "  <- kept" if one.execute == found.execution.execute else ""
        console.out.print(f"{one.execute} of {loaded.chunk} actions: {one.successes} of {one.episodes}{kept}")
    console.out.print(f"wrote {out}")


def _share(mix: str, recipe: str) -> float:
    """The share that an option names; the config's default where it is still to be found."""
    from twinloop.learn.config import TrainConfig

    if mix == "auto":
        if recipe != "co-train":
            raise WrongUse("only co-training has a mix to choose", got=recipe, remedy="--recipe co-train")
        return TrainConfig.mix
    try:
        return float(mix)
    except ValueError as error:
        raise WrongUse("the mix is a share of simulated data, or auto", got=mix) from error


def _train_auto(
    sim: Path | None,
    real: Path | None,
    start: Path | None,
    twin: str | None,
    common: dict[str, Any],
    quiet: bool,
) -> Policy:
    from twinloop.learn.mix import train_auto
    from twinloop.twin import load_twin

    if sim is None or real is None or start is not None:
        raise WrongUse("--mix auto co-trains", expected="--sim DATASET and --real DATASET, and no --from")

    def tell(line: str) -> None:
        if not quiet:
            console.out.print(line, markup=False)

    return train_auto(sim, real, twin=load_twin(twin) if twin else None, tell=tell, **common)


def make_config(words: dict[str, Any], options: list[str]) -> TrainConfig:
    """The config that options describe; values are read as YAML."""
    import yaml

    from twinloop.learn.config import TrainConfig

    defaults = {part.name: getattr(TrainConfig(), part.name) for part in fields(TrainConfig)}
    for option in options:
        name, equals, text = option.partition("=")
        if name not in defaults:
            raise UnknownName("training option", name, defaults)
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            equals = ""
        if not equals:
            raise WrongUse("cannot read this option", got=option, expected="NAME=VALUE")
        want = defaults[name]
        if isinstance(want, tuple) and isinstance(value, list):
            value = tuple(value)
        if isinstance(want, float) and isinstance(value, int):
            value = float(value)
        if want is not None and type(value) is not type(want):
            raise WrongUse(f"{name} cannot be this", got=text, expected=f"such as {want}")
        words[name] = value
    return TrainConfig(**words)


def policy_path(path: Path) -> Path:
    """A policy's folder, or the one of that name in the workspace."""
    from twinloop.workspace import find_workspace

    if path.exists() or len(path.parts) != 1:
        return path
    try:
        return find_workspace().root / "policies" / path
    except WorkspaceError:
        return path


def _place(out: Path | None, recipe: str, resume: bool) -> tuple[Path, Path]:
    """The workspace (or where the policy lies), and the policy's folder."""
    from twinloop.workspace import find_workspace

    try:
        root = find_workspace().root
    except WorkspaceError as error:
        if out is None:
            raise WrongUse(
                "where to? this is no workspace", remedy="--out POLICY, or run it inside a workspace"
            ) from error
        return out.parent, out
    if out is not None:
        return root, out
    number = 1
    while (root / "policies" / f"{recipe}-v{number}").exists():
        number += 1
    return root, root / "policies" / f"{recipe}-v{max(1, number - resume)}"


def _twin_for(policy: Policy, twin: str | None) -> Twin:
    """The twin that was named, or the policy's own."""
    from twinloop.twin import load_twin

    name = twin or policy.story.twin["name"]
    if name is None:
        raise WrongUse("the policy does not say which twin it is for", remedy="--twin NAME")
    return load_twin(name)


def _in_twin(
    policies: list[Policy],
    twin: str | None,
    episodes: int,
    seed: int,
    config: Path | None,
    out: Path | None,
    progress: Any,
) -> list[Evaluation]:
    from twinloop.generate.processes import usable_cores
    from twinloop.learn.evaluate import evaluate_in_twin
    from twinloop.randomize import load_randomization

    cell = _twin_for(policies[0], twin)
    randomization = load_randomization(config, cell) if config else None
    several = len(policies) > 1
    return [
        evaluate_in_twin(
            policy,
            cell,
            episodes=episodes,
            seed=seed,
            randomization=randomization,
            threads=usable_cores(),
            out=out / policy.name if out and several else out,
            progress=progress,
        )
        for policy in policies
    ]


def _on_robot(
    policies: list[Policy],
    robot: str,
    episodes: int,
    seed: int,
    out: Path | None,
    filmed: bool,
    progress: Any,
) -> list[Evaluation]:
    from twinloop.cli.robot import Person
    from twinloop.learn.evaluate import evaluate_on_robot
    from twinloop.robot import open_robot
    from twinloop.robot.protocol import Attendant, connected

    opened = open_robot(robot)
    with connected(opened):
        attendant = opened if isinstance(opened, Attendant) else Person()
        return evaluate_on_robot(
            policies,
            opened,
            episodes=episodes,
            first=seed,
            out=out,
            cameras=_cameras(policies, opened.description, filmed) if out is not None else (),
            attendant=attendant,
            progress=progress,
        )


def _cameras(policies: list[Policy], robot: Description, filmed: bool) -> tuple[str, ...]:
    """Whose pictures are kept: of the cameras that the policies see, and one for the films."""
    seen = [camera.name for policy in policies for camera in policy.interface.cameras]
    return tuple(dict.fromkeys((*seen, *(camera.name for camera in robot.cameras[: int(filmed)]))))


def _film(policies: list[Policy], kept: Path, twin: str | None, folder: Path) -> list[Path]:
    """Films of failures: of the robot's camera where it has one, else drawn in the twin."""
    from twinloop.dataset.reader import open_dataset
    from twinloop.generate.film import film_failures
    from twinloop.twin import load_twin

    made = []
    for policy in policies:
        name = twin or policy.story.twin["name"]
        drawn_in = load_twin(name) if name is not None else None
        dataset = open_dataset(kept / policy.name if len(policies) > 1 else kept)
        made += film_failures(dataset, folder, twin=drawn_in, title=policy.name)
    return made


def _print(found: list[Evaluation]) -> None:
    rows = []
    for e in found:
        low, high = e.interval()
        reasons = ", ".join(f"{name} {count}" for name, count in e.failures.items()) or "-"
        phases = ", ".join(f"{name} {count}" for name, count in e.failed_in.items()) or "-"
        where = f"stand-in {e.where.removeprefix('standin-')}" if e.standin else e.where
        share = f"{100 * e.success:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append((e.policy, where, len(e.trials), share, reasons, phases))
    columns = ("policy", "where", "episodes", "success, 95 % interval", "failures", "failed in phase")
    console.print_table(columns, rows)
