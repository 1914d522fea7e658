"""`twinloop train`: learn a policy from simulated and real data, by a recipe."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.policy import describe_idle, policy_path
from twinloop.errors import UnknownName, WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.learning.config import TrainConfig
    from twinloop.policies.policy import Policy

TRACKING = "TWINLOOP_TRACKING"


def train(
    sim: Annotated[Path | None, typer.Option(help="Simulated dataset.")] = None,
    real: Annotated[Path | None, typer.Option(help="Real dataset, or one of a stand-in.")] = None,
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
        typer.Option(help="It sees these cameras, as a,b, and no tracked object; default: no images."),
    ] = None,
    adapt: Annotated[
        str, typer.Option(help="See simulated and real images alike: coral, ot or adversarial.")
    ] = "none",
    restyle: Annotated[
        str, typer.Option(help="Give simulated images a real look: fourier or histogram.")
    ] = "none",
    photos: Annotated[
        Path | None,
        typer.Option(help="restyle: a folder of photographs instead of the real data's images."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed and data give the same policy.")] = 0,
    steps: Annotated[
        int | None,
        typer.Option(help="Weight updates, and a quarter as many to fine-tune; default: the config's."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this time at the latest.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other field of TrainConfig; docs/reference/commands.md lists them.",
        ),
    ] = None,
    tracking: Annotated[
        str | None,
        typer.Option(
            metavar="URI|off",
            envvar=TRACKING,
            help="MLflow; default: mlflow.db in the workspace, or beside the policy.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Processor threads.")] = 1,
    device: Annotated[
        str, typer.Option(help="Where it computes: cpu, cuda, ...; auto: a graphics card if there is one.")
    ] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    json: Json = False,
) -> None:
    """Train a policy by imitation: on simulated data, on real data, first one then the other, or on both at once."""
    from twinloop.learning.fit import Point
    from twinloop.learning.tracking import local_tracking
    from twinloop.learning.train import train as run

    words: dict[str, Any] = {
        "recipe": recipe, "mix": _share(mix, recipe), "finetune": finetune, "head": head, "seed": seed, "minutes": minutes,
        "cameras": tuple(name for name in cameras.split(",") if name) if cameras else (), "adapt": adapt, "restyle": restyle,
    }  # fmt: skip
    if steps is not None:
        words["steps"] = steps
        words["finetune_steps"] = max(1, steps // 4)
    config = make_config(words, option or [])
    if twin is not None and mix != "auto":
        raise WrongUse("only --mix auto tries shares in a twin", got=f"--twin {twin}")
    root, target = _place(out, recipe, resume)
    uri = None if tracking == "off" else tracking or local_tracking(root)
    with console.progress_bar("training") as progress:

        def hear(point: Point, total: int) -> None:
            progress(point.step, total)

        common: dict[str, Any] = {
            "out": target, "config": config, "workspace": root, "tracking": uri, "threads": threads, "device": device,
            "resume": resume,
            "hear": hear, "photos": photos,
        }  # fmt: skip
        if mix == "auto":
            policy = _train_auto(sim, real, start, twin, common, quiet=json)
        else:
            policy = run(sim, real, start=policy_path(start) if start else None, tell=_tell, **common)
    results = policy.training_record.results
    if json:
        console.print_json({"out": str(target), "id": policy.id, "recipe": recipe, **results})
        return
    last = results["curve"][-1]
    console.out.print(
        f"wrote {target}: {recipe}, {last['step']} steps in {results['seconds']:.0f} s, "
        f"validation error {results['validation']:.4f} (scaled)",
        markup=False,
    )
    for entry in policy.training_record.datasets:
        if idle := describe_idle(entry):
            console.out.print(f"{entry['role']} data {entry['name']}{idle}", markup=False)


def _tell(line: str) -> None:
    console.err.print(line, markup=False)


def _share(mix: str, recipe: str) -> float:
    """The share that an option names; the config's default where it is still to be found."""
    from twinloop.learning.config import TrainConfig

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
    from twinloop.learning.mix import train_auto
    from twinloop.twins import load_twin

    if sim is None or real is None or start is not None:
        raise WrongUse("--mix auto co-trains", expected="--sim DATASET and --real DATASET, and no --from")

    def tell(line: str) -> None:
        if not quiet:
            console.out.print(line, markup=False)

    return train_auto(sim, real, twin=load_twin(twin) if twin else None, tell=tell, **common)


def make_config(words: dict[str, Any], options: list[str]) -> TrainConfig:
    """The config that options describe; values are read as YAML."""
    import yaml

    from twinloop.learning.config import TrainConfig

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
        if isinstance(want, float) and isinstance(value, int | str):
            with suppress(ValueError):  # YAML takes 1e-3 for a word
                value = float(value)
        if want is not None and type(value) is not type(want):
            raise WrongUse(f"{name} cannot be this", got=text, expected=f"such as {want}")
        words[name] = value
    return TrainConfig(**words)


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
