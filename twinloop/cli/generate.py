"""`twinloop generate` and `twinloop replay`: simulate episodes, and reproduce them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.reader import Dataset
    from twinloop.episode import Episode
    from twinloop.generation.replay import SignalError
    from twinloop.generation.run import GenerationProgress
    from twinloop.randomization import GenerateConfig

Config = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file: scene or twin, randomization, rollout.")
]


Out = Annotated[
    Path | None,
    typer.Option("--out", help="The new dataset; default: a new one in data/ of the config's workspace."),
]
Episodes = Annotated[int | None, typer.Option(help="Number of episodes; default: the config's.")]
Cameras = Annotated[str | None, typer.Option(help="Cameras to render, as a,b; 'all' for every camera.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes; default: one per core.")]
Ray = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")]
Seed = Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same episodes.")]
Expert = Annotated[str | None, typer.Option(help="The expert that acts; default: the task's own.")]
ExpertNoise = Annotated[
    float,
    typer.Option(
        help="Perturb the expert so that the data covers recovery: 0 none, 0.5 some, 2.5 centimetres."
    ),
]
ExpertSeesTruth = Annotated[
    bool,
    typer.Option(
        "--expert-sees-truth", help="The expert acts on the true state; sensor readings are recorded."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Only list the varied parameters: unit, nominal value, distribution."),
]
Preview = Annotated[
    Path | None,
    typer.Option(help="Only render the first episodes: a contact sheet (.png) and a video (.mp4)."),
]


def generate(
    config: Config,
    out: Out = None,
    episodes: Episodes = None,
    cameras: Cameras = None,
    workers: Workers = None,
    ray: Ray = None,
    seed: Seed = None,
    expert: Expert = None,
    expert_noise: ExpertNoise = 0.0,
    expert_sees_truth: ExpertSeesTruth = False,
    resume: Resume = False,
    explain: Explain = False,
    preview: Preview = None,
    json: Json = False,
) -> None:
    """Simulate a dataset of episodes. The same seed gives the same episodes on any number of workers."""
    from twinloop.generation.run import generate as make
    from twinloop.randomization import load_config_twin, load_generate_config

    loaded = load_generate_config(config)
    if explain:
        _explain(loaded, json)
        return
    chosen: tuple[str, ...] | None = tuple(cameras.split(",")) if cameras else None
    if chosen == ("all",):
        chosen = tuple(camera.name for camera in load_config_twin(loaded).cameras)
    options: dict[str, Any] = {
        "seed": seed,
        "cameras": chosen,
        "expert": expert,
        "expert_noise": expert_noise,
        "expert_sees_truth": expert_sees_truth,
    }
    if preview is not None:
        _preview(loaded, preview, json, options)
        return
    target = out or _next_dataset(config, loaded.name, resume)
    started = time.monotonic()
    with generation_bar(target) as progress:
        options |= {"episodes": episodes, "workers": workers, "ray": ray, "resume": resume}
        dataset = make(loaded, out=target, progress=progress, **options)
    _print_generated(dataset, target, time.monotonic() - started, json)


def _print_generated(dataset: Dataset, target: Path, elapsed_s: float, json: bool) -> None:
    from twinloop.datasets.disk_space import format_bytes
    from twinloop.datasets.outcomes import known_outcomes

    success = sum(outcome is True for outcome in known_outcomes(dataset)) / len(dataset)
    size = sum(entry.bytes for entry in dataset.manifest.files.values()) if dataset.manifest else 0
    if json:
        console.print_json(
            {
                "out": str(target),
                "episodes": len(dataset),
                "frames": dataset.num_frames,
                "success": success,
                "bytes": size,
                "elapsed_s": elapsed_s,
            }
        )
        return
    console.out.print(
        f"wrote {target}: {len(dataset)} episodes, {dataset.num_frames} frames, {success:.0%} success, "
        f"{format_bytes(size)}, in {_duration(elapsed_s)}"
    )


def replay(
    episode: Annotated[
        str, typer.Argument(metavar="DATASET#NUMBER", help="Which episode, for example sim-v1#12.")
    ],
    twin: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER", help="Replay the recorded actions open loop in this twin instead."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce a simulated episode and compare it bit for bit, or replay recorded actions open loop in a twin.

    Exits with 1 if the reproduced episode differs.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.generation.replay import replay as regenerate
    from twinloop.twins import load_twin

    folder, number = console.episode_name(episode)
    dataset = open_dataset(folder)
    if twin is not None:
        found = dataset.episode(number)
        chosen = load_twin(twin)
        if found.provenance.source != "sim" or chosen.content_hash != found.provenance.twin_hash:
            _send_actions(found, chosen.name, json, twin)
            return
    result = regenerate(dataset, number)
    if json:
        console.print_json(
            {
                "same": result.same,
                "id": result.original.id,
                "differences": result.differences,
                "build_changes": result.build_changes,
                "errors": [asdict(error) for error in result.errors],
            }
        )
    elif result.same:
        console.out.print(f"episode {number} reproduced bit for bit: {len(result.replayed)} rows")
    else:
        console.out.print(f"episode {number} differs")
        for difference in result.differences:
            console.out.print(f"  {difference}", markup=False)
        _print_errors(result.errors)
    if not json:
        for change in result.build_changes:
            console.out.print(f"recorded with another build: {change}", markup=False)
    if not result.same:
        raise typer.Exit(1)


def _send_actions(episode: Episode, name: str, json: bool, twin: str) -> None:
    from twinloop.generation.open_loop import replay_actions
    from twinloop.twins import load_twin

    result = replay_actions(episode, load_twin(twin))
    if json:
        console.print_json({"twin": name, "errors": [asdict(error) for error in result.errors]})
        return
    console.out.print(f"replayed {len(result.replayed)} actions open loop in {name}; twin minus recording:")
    _print_errors(result.errors)


def _print_errors(errors: tuple[SignalError, ...]) -> None:
    console.print_table(
        ("signal", "unit", "max error", "RMS error"),
        [(e.signal, e.unit, e.largest, e.root_mean_square) for e in errors],
    )


def _explain(config: GenerateConfig, json: bool) -> None:
    from twinloop.randomization import explain, load_config_twin, load_randomization

    twin = load_config_twin(config)
    rows = explain(load_randomization(config, twin))
    if json:
        console.print_json([asdict(row) for row in rows])
        return
    console.out.print(
        f"{config.episodes} episodes of {twin.name} ({twin.version}), {len(rows)} parameters vary:"
    )
    cells = [(r.parameter, r.nominal, r.distribution, "" if r.unit == "1" else r.unit) for r in rows]
    widths = [max((len(cell[column]) for cell in cells), default=0) for column in range(4)]
    dimension = ""
    for row, cell in zip(rows, cells, strict=True):
        if row.dimension != dimension:
            dimension = row.dimension
            console.out.print(f"\n{dimension}: nominal, distribution, unit, description")
        padded = (word.ljust(width) for word, width in zip(cell, widths, strict=True))
        console.out.print("  " + "  ".join((*padded, row.description)), markup=False)


def _preview(config: GenerateConfig, out: Path, json: bool, options: dict[str, Any]) -> None:
    from twinloop.generation.preview import write_preview
    from twinloop.generation.processes import usable_cores
    from twinloop.generation.run import make_work

    work, _ = make_work(config, **options)
    with console.progress_bar("rendering"):
        sheet, video = write_preview(work, out, threads=usable_cores())
    if json:
        console.print_json({"sheet": str(sheet), "video": str(video)})
    else:
        console.out.print(f"wrote {sheet} and {video}")


def _next_dataset(config: Path, name: str, resume: bool) -> Path:
    """The next free name in the config's workspace, or with `resume` the last one that was used.

    A config that lies outside of any belongs to the workspace the command is run in.
    """
    from twinloop.errors import WorkspaceError
    from twinloop.workspace import find_workspace

    try:
        data = find_workspace(config.parent).data
    except WorkspaceError:
        try:
            data = find_workspace().data
        except WorkspaceError as error:
            raise WrongUse(
                "no output folder: neither the config nor this folder is in a workspace",
                remedy="--out DATASET, or run it inside a workspace",
            ) from error
    number = 1
    while (data / f"{name}-v{number}").exists():
        number += 1
    return data / f"{name}-v{max(1, number - resume)}"


@contextlib.contextmanager
def generation_bar(out: Path) -> Iterator[Callable[[GenerationProgress], None]]:
    """A bar on standard error: episodes, rate, success so far, time left, size on disk; on terminals only."""
    from twinloop.datasets.disk_space import format_bytes

    bar = Progress(
        TextColumn("generating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        console=console.err,
        transient=True,
        disable=not console.err.is_terminal,
    )

    def show(progress: GenerationProgress) -> None:
        success = "" if progress.success is None else f", {progress.success:.0%} success"
        left = "" if math.isinf(progress.remaining_s) else f", {_duration(progress.remaining_s)} left"
        state = (
            f"{progress.episodes_per_s:.3g}/s{success}{left}, {format_bytes(progress.bytes_in_all)} in total"
        )
        bar.update(task, completed=progress.episodes, total=progress.total, state=state)

    try:
        with bar:
            task: Any = bar.add_task("generating", total=None, state="starting workers")
            yield show
    except KeyboardInterrupt:
        console.err.print(
            f"interrupted; finished episodes are kept in {out}. Continue with --resume", markup=False
        )
        raise


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
