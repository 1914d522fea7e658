"""`twinloop train`: train a policy on simulated and real data, by a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import TRACKING, Json, make_config, split_names
from twinloop.cli.places import default_out, find_policy, find_workspace, next_version
from twinloop.cli.policy import describe_idle
from twinloop.errors import WrongUse

SimData = Annotated[Path | None, Option(help="Simulated dataset.")]
RealData = Annotated[Path | None, Option(help="Real dataset, or one of a stand-in.")]
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
Head = Annotated[str, Option(help="Network head: regression, transformer or flow.")]
Cameras = Annotated[
    str | None,
    Option(help="The policy sees these cameras, as a,b, and no tracked object; default: no images."),
]
Adapt = Annotated[str, Option(help="Align features of simulated and real images: coral, ot or adversarial.")]
Restyle = Annotated[str, Option(help="Give simulated images a real look: fourier or histogram.")]
Photos = Annotated[
    Path | None, Option(help="restyle: a folder of photographs instead of the real data's images.")
]
Seed = Annotated[int, Option(help="Random seed; the same seed and data give the same policy.")]
Steps = Annotated[
    int | None, Option(help="Weight updates, and a quarter as many to fine-tune; default: the config's.")
]
Minutes = Annotated[float | None, Option(help="Time limit of training.")]
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
Threads = Annotated[int, Option(help="Processor threads.")]
Device = Annotated[
    str, Option(help="Where to compute: cpu, cuda ...; auto: a graphics card if there is one.")
]
Resume = Annotated[bool, Option("--resume", help="Continue from the last checkpoint.")]


def train(
    sim: SimData = None,
    real: RealData = None,
    out: Out = None,
    recipe: Recipe = "sim-only",
    mix: Mix = "0.9",
    twin: MixTwin = None,
    finetune: Finetune = "full",
    start: From = None,
    head: Head = "regression",
    cameras: Cameras = None,
    adapt: Adapt = "none",
    restyle: Restyle = "none",
    photos: Photos = None,
    seed: Seed = 0,
    steps: Steps = None,
    minutes: Minutes = None,
    settings: Settings = None,
    tracking: Tracking = None,
    threads: Threads = 1,
    device: Device = "auto",
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train a policy by imitation: on simulated data, on real data, first one then the other, or on both at once."""
    values: dict[str, Any] = {
        "recipe": recipe, "mix": _read_mix(mix, recipe), "finetune": finetune, "head": head, "seed": seed, "minutes": minutes,
        "cameras": tuple(split_names(cameras)), "adapt": adapt, "restyle": restyle,
    }  # fmt: skip
    if steps is not None:
        values |= {"steps": steps, "finetune_steps": max(1, steps // 4)}
    config = make_config(twinloop.TrainConfig, values, settings)
    if twin is not None and mix != "auto":
        raise WrongUse("only --mix auto evaluates in a twin", got=f"--twin {twin}")
    workspace = find_workspace()
    target = out or next_version(default_out(workspace, f"policies/{recipe}", "POLICY"), resume)
    root = workspace.root if workspace else target.parent
    arguments: dict[str, Any] = {
        "out": target, "config": config, "photos": photos, "workspace": root, "tracking": _find_tracking(tracking, root),
        "threads": threads, "device": device, "resume": resume,
    }  # fmt: skip
    if mix == "auto":
        policy = _train_auto(sim, real, start, twin, json, arguments)
    else:
        origin = find_policy(start) if start else None
        with _progress() as hear:
            policy = twinloop.train(sim, real, start=origin, hear=hear, tell=console.log, **arguments)
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
    cell = twinloop.load_twin(twin) if twin else None
    with _progress() as hear:
        return train_auto(sim, real, twin=cell, hear=hear, tell=log, **arguments)


@contextmanager
def _progress() -> Iterator[Callable[[Any, int], None]]:
    """A progress bar that follows the validations."""
    with console.progress_bar("training") as bar:
        yield lambda point, total: bar(point.step, total)


def _find_tracking(tracking: str | None, root: Path) -> str | None:
    from twinloop.learning.tracking import local_tracking

    return None if tracking == "off" else tracking or local_tracking(root)


def _read_mix(mix: str, recipe: str) -> float:
    """The fraction of simulated data; the default where it is to be searched for."""
    if mix == "auto":
        if recipe != "co-train":
            raise WrongUse("only co-training has a mix to choose", got=recipe, remedy="--recipe co-train")
        return twinloop.TrainConfig.mix
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
