"""`twinloop identify` and `twinloop anchor`: from real episodes to a calibrated twin, and from that to a randomization."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.reader import Dataset
    from twinloop.identification.choose import Choice
    from twinloop.identification.config import IdentifyConfig
    from twinloop.identification.result import Identification
    from twinloop.randomization import Randomization
    from twinloop.twins import Twin
    from twinloop.workspace import Workspace

Real = Annotated[
    Path, typer.Option("--real", metavar="DATASET", help="Real episodes, as ingested or recorded.")
]
TwinName = Annotated[
    str | None, typer.Option(metavar="NAME|FOLDER", help="The twin to calibrate; default: the workspace's.")
]
Parameters = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Parameters to fit; * and ? match, as in '*_friction_nm'. Default: friction, damping and rotor inertia of every joint that is read, and the action delay.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL=NAME,...",
        help="A candidate set of parameters; with two or more, the simplest that is not worse is chosen.",
    ),
]
Priors = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=LOW:HIGH", help="Prior range of a parameter; may be repeated."),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=SIGNAL", help="A recorded signal that holds the known value of a parameter in each run."
    ),
]
Signals = Annotated[
    str | None, typer.Option(metavar="SIGNAL,...", help="Fit these signals; default: positions and poses.")
]
Horizon = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="How long the twin runs open loop before its state is reset to the recording."
    ),
]
HeldOutEvery = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Hold out every N-th episode from the second on; default: a quarter, by the hash of their ids.",
    ),
]
Threads = Annotated[int, typer.Option(help="Simulation threads; 0: all cores.")]


def identify(
    real: Real,
    twin: TwinName = None,
    parameters: Parameters = None,
    model: Models = None,
    prior: Priors = None,
    given: Given = None,
    signals: Signals = None,
    horizon: Horizon = None,
    seconds: Annotated[
        float, typer.Option(help="Maximum duration of recordings to fit, spread evenly.")
    ] = 240.0,
    held_out_every: HeldOutEvery = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The calibrated twin's folder; default: the next version in the workspace's twins/."
        ),
    ] = None,
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Fit data that the quality check refuses, for this reason, which is recorded.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed for the search's starts and the posterior's samples.")
    ] = 0,
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Fit a twin's parameters to real episodes, with intervals, and accept the new version only if held-out replay improves.

    Exits with 1 when the data is refused or the new version is rejected; a rejected one is kept with its report.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.identification.config import IdentifyConfig

    workspace = workspace_here()
    base, dataset = twin_of(twin, workspace), open_dataset(real)
    config = IdentifyConfig(
        priors={name: _range(name, text) for name, text in _pairs(prior, "--prior").items()},
        given=_pairs(given, "--given"),
        signals=[name.strip() for name in signals.split(",")] if signals else None,
        horizon_s=horizon,
        held_out_every=held_out_every,
        seconds=seconds,
        seed=seed,
        threads=threads,
        force=force,
    )
    folder = out or _next_folder(base, workspace)
    _require_new(folder)
    models = {label: names.split(",") for label, names in _pairs(model, "--model").items()}
    result, choice = _fit(base, dataset, parameters.split(",") if parameters else None, models, config)
    folder, page = _save(result, choice, base, dataset, config, folder)
    if result.gate.accepted and workspace is not None and out is None:
        from twinloop.workspace import use_twin

        use_twin(workspace, str(folder.relative_to(workspace.root)), result.gate.reason)
    if json:
        files = {"out": str(folder), "report": str(page), "choice": asdict(choice) if choice else None}
        console.print_json(result.as_json() | files)
    else:
        _print(result, choice, folder, page)
    if not result.gate.accepted:
        raise typer.Exit(1)


def anchor(
    identification: Annotated[
        Path, typer.Option("--identification", metavar="FOLDER", help="What `twinloop identify --out` wrote.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.yaml", help="The config that `twinloop generate` takes.")
    ],
    diagnosis: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="What `twinloop diagnose --out` wrote: adds the parameters that it measured.",
        ),
    ] = None,
    scenes: Annotated[
        str | None,
        typer.Option(
            metavar="training|FILE.yaml",
            help="Where objects and targets lie: the default training scenes, or a config; widened to where they were observed.",
        ),
    ] = None,
    other_parameters: Annotated[
        str,
        typer.Option(
            metavar="default|none|FILE.yaml",
            help="How parameters that were not measured vary: as by default, not at all, or as in a config.",
        ),
    ] = "default",
    pilot: Annotated[
        int,
        typer.Option(
            help="Simulate this many expert episodes and narrow the ranges of parameters that were not measured to what the task allows; 0: do not."
        ),
    ] = 64,
    nominal: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET",
            help="Expert episodes in the nominal twin, which set the expected success rate; default: 100 %.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the pilot episodes.")] = 2,
    json: Json = False,
) -> None:
    """Turn an identification and a diagnosis into the randomization that training data is generated with."""
    from twinloop.anchoring import anchor as run
    from twinloop.anchoring import anchored_randomization, write_config
    from twinloop.diagnosis.result import load_diagnosis
    from twinloop.identification.result import load_identification

    result = load_identification(identification)
    measured = load_diagnosis(diagnosis) if diagnosis else None
    twin = result.accepted_twin
    where, others = _scenes(scenes, twin), _others(other_parameters, twin)
    if pilot:
        with console.progress_bar("pilot") as bar:
            anchored = run(
                result, measured, scenes=where, other_parameters=others, expected=_success_rate(nominal), episodes=pilot, seed=seed,
                on_progress=bar,
            )  # fmt: skip
        randomization, warnings = anchored.randomization(twin), anchored.warnings
    else:
        randomization, warnings = (
            anchored_randomization(result, measured, scenes=where, other_parameters=others),
            (),
        )
    write_config(randomization, _twin_place(result, identification, out), out, warnings)
    if json:
        console.print_json({"out": str(out), "parameters": randomization.names, "warnings": list(warnings)})
        return
    for line in warnings:
        console.out.print(f"warning: {line}", markup=False)
    console.out.print(
        f"{len(randomization.names)} parameters vary; next: twinloop generate {out}", markup=False
    )


def _fit(
    base: Twin,
    dataset: Dataset,
    parameters: list[str] | None,
    models: dict[str, list[str]],
    config: IdentifyConfig,
) -> tuple[Identification, Choice | None]:
    from twinloop.identification.choose import choose_model
    from twinloop.identification.config import expand_parameters
    from twinloop.identification.run import identify as fit

    if models and parameters:
        raise WrongUse("--parameters and --model exclude each other")
    with console.progress_bar("fitting") as bar:
        rounds = iter(range(1, 10**9))

        def on_progress(_: int, __: float) -> None:
            bar(next(rounds), 0)

        if models:
            expanded = {label: expand_parameters(base, names) for label, names in models.items()}
            choice, result = choose_model(base, dataset, expanded, config=config, on_progress=on_progress)
            return result, choice
        return fit(base, dataset, parameters, config=config, on_progress=on_progress), None


def _save(
    result: Identification,
    choice: Choice | None,
    base: Twin,
    dataset: Dataset,
    config: IdentifyConfig,
    folder: Path,
) -> tuple[Path, Path]:
    """Write twin and report; a rejected twin goes to a folder that says so."""
    from twinloop.identification.replays import replay_held_out
    from twinloop.report.identification_page import write_identification_page

    if not result.gate.accepted:
        folder = folder.with_name(f"{folder.name}-rejected")
        _require_new(folder)
    result.save(folder)
    replays = replay_held_out(
        base, result, dataset, given=config.given, signals=config.signals, threads=config.threads
    )
    return folder, write_identification_page(result, replays, folder / "report.html", choice)


def _require_new(folder: Path) -> None:
    if folder.exists():
        raise WrongUse(f"{folder} exists already", remedy="remove it or choose another --out")


def _next_folder(base: Twin, workspace: Workspace | None) -> Path:
    if workspace is None:
        raise WrongUse(
            "no --out, and this is not a workspace", remedy="--out FOLDER, or run it inside a workspace"
        )
    number = 2
    while any((workspace.root / "twins").glob(f"{base.name}-{number}*")):
        number += 1
    return workspace.root / "twins" / f"{base.name}-{number}"


def _pairs(entries: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for entry in entries or ():
        name, sign, value = entry.partition("=")
        if not (name and sign and value):
            raise WrongUse(f"cannot read {option}", got=entry, expected="NAME=...")
        pairs[name.strip()] = value.strip()
    return pairs


def _range(name: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError as error:
        raise WrongUse(f"cannot read the prior of {name!r}", got=text, expected="LOW:HIGH") from error


def _scenes(text: str | None, twin: Twin) -> Randomization | None:
    from twinloop.randomization import load_randomization
    from twinloop.randomization.scenes import training_scenes

    if text is None:
        return None
    return (
        training_scenes(twin) if text == "training" else load_randomization(_config(text, "--scenes"), twin)
    )


def _others(text: str, twin: Twin) -> Randomization | None:
    from twinloop.randomization import load_randomization
    from twinloop.randomization.randomization import make_randomization

    if text == "default":
        return None
    if text == "none":
        return make_randomization(twin, {})
    return load_randomization(_config(text, "--other-parameters"), twin)


def _success_rate(dataset: Path | None) -> float:
    from twinloop.datasets.outcomes import success_rate
    from twinloop.datasets.reader import open_dataset

    return 1.0 if dataset is None else success_rate(open_dataset(dataset))


def _config(text: str, option: str) -> Path:
    if not Path(text).is_file():
        raise WrongUse(
            f"{option} {text}: no such file", expected="a config's file, or a word that --help lists"
        )
    return Path(text)


def _twin_place(result: Identification, folder: Path, target: Path) -> str:
    """The twin as the config names it: the calibrated twin's folder, or the built-in twin where calibration was rejected."""
    from twinloop.twins import list_twins, load_twin

    if result.gate.accepted:
        place = os.path.relpath(folder.resolve(), target.resolve().parent)
        return place if "/" in place else f"./{place}"
    name = result.twin.name
    if name in [twin.name for twin in list_twins()] and load_twin(name).content_hash == result.base:
        return name
    raise WrongUse(
        "this calibration was rejected, and its nominal twin is not built in",
        got=str(folder),
        remedy="generate with the nominal twin's own config, or identify again with more data",
    )


def _print(result: Identification, choice: Choice | None, folder: Path, page: Path) -> None:
    if choice is not None:
        console.out.print(choice.reason, markup=False)
    console.print_table(
        ("parameter", "nominal", "value", "95 % interval", "unit", ""),
        [
            (e.name, f"{e.nominal:.4g}", f"{e.value:.4g}", f"{e.low:.4g} to {e.high:.4g}", e.unit, e.status)
            for e in result.estimates
        ],
    )
    for confusion in result.confusions:
        console.out.print(f"not separately identifiable: {confusion}\n  -> {confusion.remedy}", markup=False)
    rows = [
        (name, f"{before:.4g}", f"{after:.4g}", unit, f"{fraction:.0%}")
        for (name, (before, after)), unit, fraction in zip(
            result.errors_by_channel().items(), result.units, result.coverage, strict=True
        )
    ]
    console.print_table(("held-out replay", "nominal", "calibrated", "RMS in", "in 90 % band"), rows)
    for warning in result.warnings:
        console.out.print(f"warning: {warning}", markup=False)
    verdict = "accepted" if result.gate.accepted else "rejected"
    console.out.print(f"{verdict}: {result.gate.reason}", markup=False)
    console.out.print(f"twin {folder}, report {page}", markup=False)
    if result.gate.accepted:
        console.out.print(
            f"next: twinloop anchor --identification {folder} --out anchored.yaml", markup=False
        )
    else:
        console.out.print("the twin stays as it was", markup=False)
