"""`twinloop identify` and `twinloop anchor`: from real episodes to a calibrated twin, and from that to a randomization."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, RealData, Threads, WorkspaceTwin, split_names, split_pairs
from twinloop.cli.places import default_out, find_workspace, load_twin, require_new
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.workspace import Workspace

Parameters = Annotated[
    str | None,
    Option(
        metavar="NAME,...",
        help="Parameters to fit; * and ? match, as in '*_friction_nm'. Default: friction, damping and rotor inertia of every joint that is read, servo stiffness and action delay, with and without gear friction, whichever replays new episodes better.",
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        metavar="LABEL=NAME,...",
        help="A candidate set of parameters; with two or more, the simplest that is not worse is chosen.",
    ),
]
Priors = Annotated[
    list[str] | None,
    Option(metavar="NAME=LOW:HIGH", help="Prior range of a parameter; may be repeated."),
]
Given = Annotated[
    list[str] | None,
    Option(
        metavar="NAME=SIGNAL", help="A recorded signal that holds the known value of a parameter in each run."
    ),
]
Signals = Annotated[
    str | None, Option(metavar="SIGNAL,...", help="Fit these signals; default: positions and poses.")
]
Horizon = Annotated[
    float | None,
    Option(
        metavar="SECONDS", help="How long the twin runs open loop before its state is reset to the recording."
    ),
]
Seconds = Annotated[
    float, Option(help="Maximum duration of recordings to fit; of more data, windows from every episode.")
]
Simulated = Annotated[bool, Option("--simulated", help="Fit simulated episodes as if they were real.")]
HeldOutEvery = Annotated[
    int | None,
    Option(
        metavar="N",
        help="Hold out every N-th episode from the second on; default: a quarter, by the hash of their ids.",
    ),
]
TwinOut = Annotated[
    Path | None,
    Option(
        "--out", help="The calibrated twin's folder; default: the next version in the workspace's twins/."
    ),
]
Force = Annotated[
    str | None,
    Option(
        metavar="REASON", help="Fit data that the quality check refuses, for this reason, which is recorded."
    ),
]

AsCandidate = Annotated[
    bool,
    Option(
        "--candidate",
        help="Leave the calibrated twin a candidate; `twinloop twin accept` or `reject` decides about it.",
    ),
]

IdentificationFolder = Annotated[
    Path, Option("--identification", metavar="FOLDER", help="What `twinloop identify --out` wrote.")
]
ConfigOut = Annotated[
    Path, Option("--out", metavar="FILE.yaml", help="The config that `twinloop generate` takes.")
]
DiagnosisFolder = Annotated[
    Path | None,
    Option(
        metavar="FOLDER", help="What `twinloop diagnose --out` wrote: adds the parameters that it measured."
    ),
]
AlignmentFolders = Annotated[
    list[Path] | None,
    Option(
        "--alignment",
        metavar="FOLDER",
        help="What `twinloop align --out` wrote: adds how its camera may still be off; may be repeated.",
    ),
]
LookDatasets = Annotated[
    list[Path] | None,
    Option(
        "--look",
        metavar="DATASET",
        help="Recordings with frames: measures how the robot's cameras look and varies that, and nothing else of what cameras see; may be repeated.",
    ),
]
Scenes = Annotated[
    str | None,
    Option(
        metavar="training|FILE.yaml",
        help="Where objects and targets lie: the default training scenes, or a config; widened to where they were observed.",
    ),
]
OtherParameters = Annotated[
    str,
    Option(
        metavar="default|none|FILE.yaml",
        help="How parameters that were not measured vary: as by default, not at all, or as in a config.",
    ),
]
Pilot = Annotated[
    int,
    Option(
        help="Simulate this many expert episodes and narrow the ranges of parameters that were not measured to what the task allows; 0: do not."
    ),
]
Nominal = Annotated[
    Path | None,
    Option(
        metavar="DATASET",
        help="Expert episodes in the nominal twin, which set the expected success rate; default: 100 %.",
    ),
]


def identify(
    real: RealData,
    twin: WorkspaceTwin = None,
    parameters: Parameters = None,
    model: Models = None,
    prior: Priors = None,
    given: Given = None,
    signals: Signals = None,
    horizon: Horizon = None,
    seconds: Seconds = 60.0,
    simulated: Simulated = False,
    held_out_every: HeldOutEvery = None,
    out: TwinOut = None,
    force: Force = None,
    candidate: AsCandidate = False,
    check: Annotated[
        bool,
        Option(
            "--check",
            help="Only say whether it can start: what would be read and fitted. Exits with 1 if it cannot.",
        ),
    ] = False,
    seed: Annotated[int, Option(help="Random seed for the search's starts and the posterior's samples.")] = 0,
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Fit a twin's parameters to real episodes, with intervals, and accept the new version only if held-out replay improves.

    Exits with 1 when the data is refused or the new version is rejected; a rejected one is kept with its report.
    """
    workspace = find_workspace()
    base, dataset = load_twin(twin, workspace), twinloop.open_dataset(real)
    if check:
        _check(base, dataset, split_names(parameters), simulated, json)
        return
    priors = {name: _read_range(name, text) for name, text in split_pairs(prior, "--prior").items()}
    config = twinloop.IdentifyConfig(
        priors=priors, given=split_pairs(given, "--given"), signals=split_names(signals) or None, horizon_s=horizon,
        held_out_every=held_out_every, seconds=seconds, seed=seed, threads=threads, force=force,
        allow_simulated=simulated,
    )  # fmt: skip
    folder = out or find_next_folder(default_out(workspace, f"twins/{base.name}"))
    require_new(folder)
    models = {label: split_names(names) for label, names in split_pairs(model, "--model").items()}
    with console.progress_bar("simulated seconds") as bar:
        result = twinloop.identify(
            base, dataset, split_names(parameters) or None, models=models, config=config, on_progress=bar
        )
    if not result.gate.accepted:
        folder = folder.with_name(f"{folder.name}-rejected")
    page = _save(result, base, dataset, config, folder)
    if workspace is not None and out is None and not candidate:
        _use(workspace, result, folder)
    files = {"out": folder, "report": page}
    console.print_result(json, result.as_json() | files, lambda: _print(result, folder, page, candidate))
    if not result.gate.accepted:
        raise typer.Exit(1)


def _use(workspace: Workspace, result: twinloop.Identification, folder: Path) -> None:
    """Make an accepted twin the workspace's."""
    from twinloop.twin_versions import use_twin

    if result.gate.accepted:
        use_twin(workspace, str(folder.relative_to(workspace.root)), result.gate.reason)


def _check(
    base: twinloop.Twin, dataset: twinloop.Dataset, parameters: list[str], simulated: bool, json: bool
) -> None:
    """Print whether an identification can start."""
    from twinloop.identification.ready import check_ready

    found = check_ready(base, dataset, parameters, allow_simulated=simulated)
    fitted = "; ".join(f"{label}: {', '.join(names)}" for label, names in found.models.items())
    lines = [
        f"{found.episodes} episodes, {found.seconds:.0f} s, {len(found.left_out)} left out",
        f"reads {', '.join(name for name, _ in found.channels) or 'nothing'}",
        f"fits {fitted or 'nothing'}",
        *(f"note: {note}" for note in found.notes),
        *(f"cannot start: {reason}" for reason in found.reasons),
    ]
    lines.append("can start" if found.ready else "the twin is unchanged")
    console.print_result(json, found.as_json(), "\n".join(lines))
    if not found.ready:
        raise typer.Exit(1)


def anchor(
    identification: IdentificationFolder,
    out: ConfigOut,
    diagnosis: DiagnosisFolder = None,
    alignment: AlignmentFolders = None,
    look: LookDatasets = None,
    scenes: Scenes = None,
    other_parameters: OtherParameters = "default",
    pilot: Pilot = 64,
    nominal: Nominal = None,
    seed: Annotated[int, Option(help="Random seed for the pilot episodes.")] = 2,
    json: Json = False,
) -> None:
    """Turn an identification and a diagnosis into the randomization that training data is generated with."""
    from twinloop.anchoring import twin_reference, write_config
    from twinloop.datasets.outcomes import success_rate

    result = twinloop.load_identification(identification)
    measured = twinloop.load_diagnosis(diagnosis) if diagnosis else None
    twin = result.accepted_twin
    warnings: list[str] = []
    seen, reference = None, twin_reference(result, identification, out)
    if alignment or look:
        seen, drawn = _read_look(twin, alignment or [], look or [], seed)
        if drawn is not twin:
            reference = f"./{twinloop.save_twin(drawn, out.with_name(f'{out.stem}-twin')).name}"
    where = _load_randomization(scenes, twin, "--scenes") if scenes else None
    usual = other_parameters == "default"
    others = None if usual else _load_randomization(other_parameters, twin, "--other-parameters")
    if pilot:
        expected = success_rate(twinloop.open_dataset(nominal)) if nominal else 1.0
        with console.progress_bar("pilot") as bar:
            anchored = twinloop.anchor(
                result, measured, scenes=where, other_parameters=others, look=seen, expected=expected, episodes=pilot,
                seed=seed, on_progress=bar,
            )  # fmt: skip
        randomization, warnings = anchored.randomization(twin), list(anchored.warnings)
    else:
        randomization = twinloop.anchored_randomization(
            result, measured, scenes=where, other_parameters=others, look=seen
        )
    write_config(randomization, reference, out, warnings)
    value = {"out": out, "parameters": randomization.names, "warnings": warnings}
    last = f"{len(randomization.names)} parameters vary; next: twinloop generate {out}"
    console.print_result(json, value, "\n".join([*(f"warning: {line}" for line in warnings), last]))


def _read_look(
    twin: twinloop.Twin, alignments: list[Path], recordings: list[Path], seed: int
) -> tuple[twinloop.Randomization, twinloop.Twin]:
    """What frames show as a randomization, and the twin with what was photographed."""
    from twinloop.anchoring import combine_look

    aligned = [twinloop.load_alignment(folder) for folder in alignments]
    datasets = [twinloop.open_dataset(folder) for folder in recordings]
    if not datasets:
        return combine_look(twin, None, aligned), twin
    known = {camera.name for camera in twin.cameras}
    filmed = [camera.name for dataset in datasets for camera in dataset.schema.cameras]
    cameras = [name for name in dict.fromkeys(filmed) if name in known]
    if not cameras:
        raise WrongUse(
            "the recordings of --look show nothing that a camera of the twin sees",
            got=", ".join(filmed) or "no cameras",
            available=sorted(known),
            remedy="record with the cameras of the policy",
        )
    episodes = [episode for dataset in datasets for episode in dataset]
    found = twinloop.measure_look(episodes, twin, cameras, seed=seed)
    return combine_look(twin, found, aligned), twinloop.look_twin(found, twin)


def _save(
    result: twinloop.Identification,
    base: twinloop.Twin,
    dataset: twinloop.Dataset,
    config: twinloop.IdentifyConfig,
    folder: Path,
) -> Path:
    """Write the twin and its report, and return the report."""
    from twinloop.identification.replays import replay_held_out, save_replays
    from twinloop.report.identification_page import write_identification_page

    require_new(folder)
    result.save(folder)
    replays = replay_held_out(
        base, result, dataset, given=config.given, signals=config.signals, threads=config.threads
    )
    save_replays(replays, folder, dataset)
    return write_identification_page(result, replays, folder / "report.html", dataset)


def find_next_folder(path: Path) -> Path:
    """The folder of the next version of a twin; a version that was rejected counts."""
    numbers = (number for number in count(2) if not any(path.parent.glob(f"{path.name}-{number}*")))
    return path.with_name(f"{path.name}-{next(numbers)}")


def _read_range(name: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError as error:
        raise WrongUse(f"cannot read the prior of {name!r}", got=text, expected="LOW:HIGH") from error


def _load_randomization(text: str, twin: twinloop.Twin, option: str) -> twinloop.Randomization:
    """The randomization that a word names, or that a config describes."""
    if text == "training":
        return twinloop.training_scenes(twin)
    if text == "none":
        return twinloop.make_randomization(twin, {})
    if not Path(text).is_file():
        expected = "a config's file, or a word that --help lists"
        raise WrongUse(f"{option} {text}: no such file", expected=expected)
    return twinloop.load_randomization(Path(text), twin)


def _print(result: twinloop.Identification, folder: Path, page: Path, candidate: bool) -> None:
    if result.choice is not None:
        console.out.print(result.choice.reason)
    used = result.details
    console.out.print(
        f"fitted {used['windows']} windows of {len(result.fitted)} episodes, {used['fitted_s']:.0f} of "
        f"{used['available_s']:.0f} s; judged on {len(result.held_out)} episodes that were held out"
    )
    console.print_table(
        ("parameter", "nominal", "value", "95 % interval", "unit", "status"),
        [
            (e.name, f"{e.nominal:.4g}", f"{e.value:.4g}", f"{e.low:.4g} to {e.high:.4g}", e.unit, e.status)
            for e in result.estimates
        ],
    )
    for confusion in result.confusions:
        console.out.print(f"not separately identifiable: {confusion}\n  -> {confusion.remedy}")
    rows = [
        (name, f"{before:.4g}", f"{after:.4g}", unit, f"{fraction:.0%}")
        for (name, (before, after)), unit, fraction in zip(
            result.errors_by_channel().items(), result.units, result.coverage, strict=True
        )
    ]
    console.print_table(("held-out replay", "nominal", "calibrated", "RMS in", "in 90 % band"), rows)
    console.print_lines(f"warning: {warning}" for warning in result.warnings)
    accepted = result.gate.accepted
    console.out.print(f"{'accepted' if accepted else 'rejected'}: {result.gate.reason}")
    console.out.print(f"twin {folder}, report {page}")
    following = f"next: twinloop anchor --identification {folder} --out anchored.yaml"
    if candidate and accepted:
        following = f"next: twinloop twin accept {folder} --by NAME --reason TEXT"
    console.out.print(following if accepted else "the twin is unchanged")
