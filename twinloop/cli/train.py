"""`twinloop train`: train a policy on simulated and real data, by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import TRACKING, Json, make_config, split_names
from twinloop.cli.places import default_out, find_policy, find_twin, find_workspace, next_version
from twinloop.cli.policy import describe_idle
from twinloop.errors import WrongUse

Out = Annotated[Path | None, Option(help="The policy's new folder; default: in the workspace's policies/.")]
Recipe = Annotated[str, Option(help="Training recipe: sim-only, real-only, pretrain-finetune or co-train.")]
Mix = Annotated[
    str,
    Option(
        metavar="FRACTION|auto", help="co-train: fraction of simulated windows; auto: search for the best."
    ),
]
MixTwin = Annotated[
    str | None,
    Option(
        metavar="NAME|FOLDER",
        help="--mix auto: evaluate fractions in this twin; default: the simulated data's.",
    ),
]
Finetune = Annotated[str, Option(help="pretrain-finetune: weights to update; full, head or adapter.")]
From = Annotated[
    Path | None, Option("--from", help="pretrain-finetune: start from this policy instead of simulated data.")
]
Cameras = Annotated[
    str | None,
    Option(help="The policy sees these cameras, as a,b, and no tracked object; default: no images."),
]
Adapt = Annotated[str, Option(help="Align features of simulated and real images: coral or ot.")]
Photos = Annotated[
    Path | None, Option(help="restyle: a folder of photographs instead of the real data's images.")
]
Steps = Annotated[
    int | None, Option(help="Weight updates, and a quarter as many to fine-tune; default: the config's.")
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other field of TrainConfig; docs/reference/commands.md lists them.",
    ),
]
Tracking = Annotated[
    str | None,
    Option(
        metavar="URI|off",
        envvar=TRACKING,
        help="MLflow; default: mlflow.db in the workspace, or next to the policy.",
    ),
]
Device = Annotated[
    str, Option(help="Where to compute: cpu, cuda ...; auto: a graphics card if there is one.")
]


def train(
    sim: Annotated[Path | None, Option(help="Simulated dataset.")] = None,
    real: Annotated[Path | None, Option(help="Real dataset, or one of a stand-in.")] = None,
    out: Out = None,
    recipe: Recipe = "sim-only",
    mix: Mix = "0.9",
    twin: MixTwin = None,
    finetune: Finetune = "full",
    start: From = None,
    head: Annotated[str, Option(help="Network head: regression, transformer or flow.")] = "regression",
    cameras: Cameras = None,
    adapt: Adapt = "none",
    restyle: Annotated[str, Option(help="Give simulated images a real look: fourier.")] = "none",
    photos: Photos = None,
    seed: Annotated[int, Option(help="Random seed; the same seed and data give the same policy.")] = 0,
    steps: Steps = None,
    minutes: Annotated[float | None, Option(help="Time limit of training.")] = None,
    settings: Settings = None,
    tracking: Tracking = None,
    threads: Annotated[int, Option(help="Processor threads.")] = 1,
    device: Device = "auto",
    resume: Annotated[bool, Option("--resume", help="Continue from the last checkpoint.")] = False,
    json: Json = False,
) -> None:
    """Train a policy by imitation: on simulated data, on real data, first one then the other, or on both at once."""
    values: dict[str, Any] = {
        "recipe": recipe, "mix": _read_mix(mix, recipe, twin), "finetune": finetune, "head": head, "seed": seed, "minutes": minutes,
        "cameras": tuple(split_names(cameras)), "adapt": adapt, "restyle": restyle,
    }  # fmt: skip
    if steps is not None:
        values |= {"steps": steps, "finetune_steps": max(1, steps // 4)}
    config = make_config(twinloop.TrainConfig, values, settings)
    workspace = find_workspace()
    target = out or next_version(default_out(workspace, f"policies/{recipe}", "POLICY"), resume)
    root = workspace.root if workspace else target.parent
    arguments: dict[str, Any] = {
        "out": target, "config": config, "photos": photos, "workspace": root, "tracking": _find_tracking(tracking, root),
        "threads": threads, "device": device, "resume": resume,
    }  # fmt: skip
    origin = find_policy(start) if start else None
    with console.progress_bar("training") as bar:
        arguments["on_validation"] = lambda point, total: bar(point.step, total)
        if mix == "auto":
            policy = _train_auto(sim, real, origin, twin, json, arguments)
        else:
            policy = twinloop.train(sim, real, start=origin, log=console.log, **arguments)
    results = {"out": target, "id": policy.id, "recipe": recipe, **policy.training_record.results}
    console.print_result(json, results, lambda: _print(policy, target))


def _train_auto(
    sim: Path | None,
    real: Path | None,
    start: Path | None,
    twin: str | None,
    quiet: bool,
    arguments: dict[str, Any],
) -> twinloop.Policy:
    """Search for the fraction of simulated data, and train with it."""
    from twinloop.learning.mix import train_auto

    if sim is None or real is None or start is not None:
        raise WrongUse("--mix auto co-trains", expected="--sim DATASET and --real DATASET, and no --from")
    log = (lambda line: None) if quiet else console.out.print
    cell = find_twin(twin) if twin else None
    return train_auto(sim, real, twin=cell, log=log, **arguments)


def _find_tracking(tracking: str | None, root: Path) -> str | None:
    from twinloop.learning.tracking import local_tracking

    return None if tracking == "off" else tracking or local_tracking(root)


def _read_mix(mix: str, recipe: str, twin: str | None) -> float:
    """The fraction of simulated data; the default where it is to be searched for."""
    if mix == "auto":
        if recipe != "co-train":
            raise WrongUse("only co-training has a mix to choose", got=recipe, remedy="--recipe co-train")
        return twinloop.TrainConfig.mix
    if twin is not None:
        raise WrongUse("only --mix auto evaluates in a twin", got=f"--twin {twin}")
    try:
        return float(mix)
    except ValueError as error:
        raise WrongUse("the mix is a fraction of simulated data, or auto", got=mix) from error


def _print(policy: twinloop.Policy, target: Path) -> None:
    record = policy.training_record
    console.out.print(
        f"wrote {target}: {record.recipe}, {record.results['curve'][-1]['step']} steps in {record.results['seconds']:.0f} s, "
        f"validation error {record.results['validation']:.4f} (scaled)"
    )
    for entry in record.datasets:
        if idle := describe_idle(entry):
            console.out.print(f"{entry['role']} data {entry['name']}{idle}")
