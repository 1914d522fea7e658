"""`twinloop identify`: from real episodes to a calibrated twin and an anchored randomization."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import twin_of, workspace_here
from twinloop.errors import UnknownName, WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.reader import Dataset
    from twinloop.identification.choose import Choice
    from twinloop.identification.result import Identification
    from twinloop.randomization import Randomization
    from twinloop.twins import Twin
    from twinloop.workspace import Workspace


def identify(
    real: Annotated[
        Path, typer.Option("--real", metavar="DATASET", help="Real episodes, as ingested or recorded.")
    ],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="The twin to calibrate; default: the workspace's."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="What to fit; * and ? match, as in '*_friction_nm'. Default: friction, damping and rotor inertia of every joint that is read, and the action delay.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=NAME,...",
            help="A competing set of parameters; give two or more and the simplest that is not worse is chosen.",
        ),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOW:HIGH", help="Search this range only; may be repeated."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SIGNAL", help="A parameter that a recorded signal tells, run by run."),
    ] = None,
    signals: Annotated[
        str | None,
        typer.Option(metavar="SIGNAL,...", help="Fit these signals; default: positions and poses."),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long the twin runs before it is put back on the recording."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="At most this much recording is fitted, spread evenly.")
    ] = 240.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The calibrated twin's folder; default: the next version in the workspace's twins/."
        ),
    ] = None,
    randomization_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml", help="Also write the uncertainty as a config that `generate` takes."
        ),
    ] = None,
    other_parameters: Annotated[
        str,
        typer.Option(
            metavar="default|scenes|none|FILE.yaml",
            help="How everything that was not asked about varies in --randomization-out: as usual, only where things lie, not at all, or as in a config.",
        ),
    ] = "default",
    force: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Fit data that the check refuses; the reason is kept."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the search's starts and the posterior's samples.")] = 0,
    threads: Annotated[int, typer.Option(help="Simulation threads; 0: all cores.")] = 0,
    json: Json = False,
) -> None:
    """Fit a twin's parameters to real episodes, say how sure, and accept the new version only if held-out replay gets better.

    Exits with 1 when the data are refused or the new version is rejected; a rejected one is kept with its report.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.identification.replays import replay_held_out
    from twinloop.identification.result import save_identification
    from twinloop.quality.require import require_usable
    from twinloop.report.identification_page import write_identification_page

    workspace = workspace_here()
    base = twin_of(twin, workspace)
    dataset = open_dataset(real)
    if force is None:
        require_usable(dataset, "identify")
    models = {k: _expanded(base, v) for k, v in _pairs(model, "--model").items()}
    how: dict[str, Any] = {
        "priors": {k: _range(k, v) for k, v in _pairs(prior, "--prior").items()},
        "given": _pairs(given, "--given"),
        "signals": [s.strip() for s in signals.split(",")] if signals else None,
        "horizon_s": horizon,
        "seconds": seconds,
        "seed": seed,
        "threads": threads,
        "force": force,
    }
    others = _other_parameters(other_parameters, base)
    folder = out or _next_folder(base, workspace)
    if folder.exists():
        raise WrongUse(f"{folder} exists already", remedy="choose another --out")
    result, choice = _fit(base, dataset, parameters, models, how)
    if not result.gate.accepted:
        folder = folder.with_name(f"{folder.name}-rejected")
        if folder.exists():
            raise WrongUse(f"{folder} exists already", remedy="remove it or choose another --out")
    save_identification(result, folder)
    replays = replay_held_out(
        base, result, dataset, given=how["given"], signals=how["signals"], threads=threads
    )
    page = write_identification_page(result, replays, folder / "report.html", choice)
    if not result.gate.accepted:
        randomization_out = None
    if randomization_out is not None:
        _write_randomization(result, folder, randomization_out, others(result.twin))
    if result.gate.accepted and workspace is not None and out is None:
        from twinloop.workspace import use_twin

        use_twin(workspace, str(folder.relative_to(workspace.root)), result.gate.reason)
    if json:
        console.print_json(
            result.as_json()
            | {
                "out": str(folder),
                "report": str(page),
                "randomization": str(randomization_out) if randomization_out else None,
                "choice": asdict(choice) if choice else None,
            }
        )
    else:
        _print(result, choice, folder, page, randomization_out)
    if not result.gate.accepted:
        raise typer.Exit(1)


def _fit(
    base: Twin, dataset: Dataset, parameters: str | None, models: dict[str, list[str]], how: dict[str, Any]
) -> tuple[Identification, Choice | None]:
    from twinloop.identification.choose import choose_model
    from twinloop.identification.run import default_parameters
    from twinloop.identification.run import identify as fit

    if models and parameters:
        raise WrongUse("--parameters and --model exclude each other")
    with console.progress_bar("fitting") as bar:
        steps = [0]

        def progress(_: int, __: float) -> None:
            steps[0] += 1
            bar(steps[0], 0)

        if models:
            choice, result = choose_model(base, dataset, models, progress=progress, **how)
            return result, choice
        names = _expanded(base, parameters.split(",")) if parameters else default_parameters(base, dataset)
        return fit(base, dataset, names, progress=progress, **how), None


def _next_folder(base: Twin, workspace: Workspace | None) -> Path:
    if workspace is None:
        raise WrongUse("where to? this is no workspace", remedy="--out FOLDER, or run it inside a workspace")
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


def _expanded(twin: Twin, patterns: str | Sequence[str]) -> list[str]:
    """Parameter names that match, in the twin's order within each pattern."""
    asked = patterns.split(",") if isinstance(patterns, str) else patterns
    known = [parameter.name for parameter in twin.parameters]
    names: list[str] = []
    for pattern in (text.strip() for text in asked):
        found = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise UnknownName(f"parameter of twin {twin.name}", pattern, known)
        names += [name for name in found if name not in names]
    return names


def _other_parameters(text: str, base: Twin) -> Callable[[Twin], Randomization | None]:
    """How the rest varies around a twin; a config is read before anything is fitted, so that a mistake in it costs nothing."""
    from dataclasses import replace

    from twinloop.randomization import default_randomization, load_randomization

    if text == "none":
        return lambda twin: None
    if text == "default":
        return default_randomization
    if text == "scenes":

        def scenes(twin: Twin) -> Randomization:
            usual = default_randomization(twin)
            lies = tuple(v for v in usual.variations if twin.parameter(v.name).stage == "scene")
            return replace(usual, variations=lies)

        return scenes
    if not Path(text).is_file():
        raise WrongUse(
            f"--other-parameters {text}: no such file", expected="default, scenes, none, or a config's file"
        )
    load_randomization(text, base)
    return lambda twin: load_randomization(text, twin)


def _write_randomization(
    result: Identification, folder: Path, target: Path, beside: Randomization | None
) -> None:
    import os

    import yaml

    from twinloop.datasets.commit import write_atomically
    from twinloop.identification.anchor import anchor

    anchored = anchor(result, target.stem, beside)
    place = os.path.relpath(folder.resolve(), target.resolve().parent)
    head = f"# What identification left uncertain about {result.twin.name} {result.twin.version}.\n"
    if anchored.guessed:
        head += f"# Not identified, so these keep their prior range: {', '.join(anchored.guessed)}\n"
    if anchored.offsets:
        head += f"# What replay leaves unexplained, as an offset per episode: {', '.join(anchored.offsets)}\n"
    place = place if "/" in place else f"./{place}"
    text = yaml.safe_dump(anchored.as_config(place), sort_keys=False, allow_unicode=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, (head + text).encode())


def _print(
    result: Identification, choice: Choice | None, folder: Path, page: Path, randomization: Path | None
) -> None:
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
        console.out.print(f"cannot be told apart: {confusion}\n  -> {confusion.remedy}", markup=False)
    rows = [
        (name, f"{before:.4g}", f"{after:.4g}", unit, f"{share:.0%}")
        for (name, (before, after)), unit, share in zip(
            result.errors_by_channel().items(), result.units, result.coverage, strict=True
        )
    ]
    console.print_table(("held-out replay", "nominal", "calibrated", "RMS in", "in 90 % band"), rows)
    for warning in result.warnings:
        console.out.print(f"warning: {warning}", markup=False)
    verdict = "accepted" if result.gate.accepted else "rejected"
    console.out.print(f"{verdict}: {result.gate.reason}", markup=False)
    console.out.print(f"twin {folder}, report {page}", markup=False)
    if not result.gate.accepted:
        console.out.print(
            "the twin stays as it was; no randomization is anchored to a rejected one", markup=False
        )
    if randomization is not None:
        console.out.print(f"next: twinloop generate {randomization}", markup=False)
