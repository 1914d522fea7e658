"""`twinloop generate` and `twinloop replay`: episodes out of a twin, and the same episodes once more."""

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
    from twinloop.episode import Episode
    from twinloop.generation.replay import SignalError
    from twinloop.generation.run import GenerationProgress
    from twinloop.randomization import GenerateConfig

Config = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file: the cell, what varies, how many episodes.")
]


def generate(
    config: Config,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The new dataset; default: in data/ of the config's workspace."),
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="How many; default: what the config says.")] = None,
    cameras: Annotated[
        str | None, typer.Option(help="Cameras to draw, as a,b; 'all' for every camera of the twin.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same episodes.")] = None,
    expert: Annotated[str | None, typer.Option(help="Who acts; default: the task's own expert.")] = None,
    expert_noise: Annotated[
        float,
        typer.Option(
            help="Disturb the expert, so that the data shows recoveries: 0 none, 0.5 some, 2.5 by centimetres."
        ),
    ] = 0.0,
    expert_sees_truth: Annotated[
        bool,
        typer.Option(
            "--expert-sees-truth",
            help="The expert acts on how things are; what is recorded are readings all the same.",
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Only say what will vary, in which unit, against nominal.")
    ] = False,
    preview: Annotated[
        Path | None,
        typer.Option(
            help="Only draw the first episodes: a contact sheet (.png) and beside it a video (.mp4)."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a dataset of simulated episodes; the same seed gives the same one on any number of workers."""
    from twinloop.datasets.room import in_words
    from twinloop.generation.run import generate as make
    from twinloop.randomization import load_config_twin, load_generate_config

    read = load_generate_config(config)
    if explain:
        _explain(read, json)
        return
    chosen: tuple[str, ...] | None = tuple(cameras.split(",")) if cameras else None
    if chosen == ("all",):
        chosen = tuple(camera.name for camera in load_config_twin(read).cameras)
    if preview is not None:
        _preview(read, preview, chosen, seed, expert, expert_noise, expert_sees_truth, json)
        return
    target = out or _next_dataset(config, read.name, resume)
    started = time.monotonic()
    with generation_bar(target) as progress:
        dataset = make(
            read,
            out=target,
            episodes=episodes,
            seed=seed,
            cameras=chosen,
            expert=expert,
            expert_noise=expert_noise,
            expert_sees_truth=expert_sees_truth,
            workers=workers,
            ray=ray,
            resume=resume,
            progress=progress,
        )
    elapsed_s = time.monotonic() - started
    side = dataset.side_table()
    outcomes = side.column("success").to_pylist() if side is not None else []
    success = sum(value is True for value in outcomes) / len(outcomes)
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
        f"{in_words(size)}, in {_duration(elapsed_s)}"
    )


def replay(
    episode: Annotated[
        str, typer.Argument(metavar="DATASET#NUMBER", help="Which episode, for example sim-v1#12.")
    ],
    twin: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER", help="Send the recorded actions to this twin instead of repeating."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a simulated episode again and compare bit for bit, or send a recorded one's actions to a twin.

    Exits with 1 if a repeated episode is not the same.
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
        console.out.print(f"episode {number} is the same, bit for bit: {len(result.replayed)} rows")
    else:
        console.out.print(f"episode {number} is not the same")
        for difference in result.differences:
            console.out.print(f"  {difference}", markup=False)
        _print_errors(result.errors)
    if not json:
        for change in result.build_changes:
            console.out.print(f"made by another build; {change}", markup=False)
    if not result.same:
        raise typer.Exit(1)


def _send_actions(episode: Episode, name: str, json: bool, twin: str) -> None:
    from twinloop.generation.open_loop import replay_actions
    from twinloop.twins import load_twin

    result = replay_actions(episode, load_twin(twin))
    if json:
        console.print_json({"twin": name, "errors": [asdict(error) for error in result.errors]})
        return
    console.out.print(f"sent {len(result.replayed)} actions to {name}; twin minus recording:")
    _print_errors(result.errors)


def _print_errors(errors: tuple[SignalError, ...]) -> None:
    console.print_table(
        ("signal", "unit", "largest", "root mean square"),
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
            console.out.print(f"\n{dimension}: nominal, what it varies over, unit, what it is")
        padded = (word.ljust(width) for word, width in zip(cell, widths, strict=True))
        console.out.print("  " + "  ".join((*padded, row.description)), markup=False)


def _preview(
    config: GenerateConfig,
    out: Path,
    cameras: tuple[str, ...] | None,
    seed: int | None,
    expert: str | None,
    expert_noise: float,
    expert_sees_truth: bool,
    json: bool,
) -> None:
    from twinloop.generation.preview import write_preview
    from twinloop.generation.processes import usable_cores
    from twinloop.generation.run import make_work

    work, _ = make_work(
        config,
        seed=seed,
        cameras=cameras,
        expert=expert,
        expert_noise=expert_noise,
        expert_sees_truth=expert_sees_truth,
    )
    with console.progress_bar("drawing"):
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
                "where to? neither the config nor this folder is in a workspace",
                remedy="--out DATASET, or run it inside a workspace",
            ) from error
    number = 1
    while (data / f"{name}-v{number}").exists():
        number += 1
    return data / f"{name}-v{max(1, number - resume)}"


@contextlib.contextmanager
def generation_bar(out: Path) -> Iterator[Callable[[GenerationProgress], None]]:
    """A bar on standard error: episodes, rate, success so far, time left, size on disk; only if somebody watches."""
    from twinloop.datasets.room import in_words

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
        state = f"{progress.episodes_per_s:.3g}/s{success}{left}, {in_words(progress.bytes_in_all)} in all"
        bar.update(task, completed=progress.episodes, total=progress.total, state=state)

    try:
        with bar:
            task: Any = bar.add_task("generating", total=None, state="starting workers")
            yield show
    except KeyboardInterrupt:
        console.err.print(f"stopped; what is finished is kept in {out}. Continue with --resume", markup=False)
        raise


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
