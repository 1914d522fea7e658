"""`twinloop generate` and `twinloop replay`: simulate episodes, and reproduce them."""

from __future__ import annotations

import time
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import EngineName, EpisodeName, Json, split_episode, split_names
from twinloop.cli.places import default_out, find_twin, find_workspace, next_version
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.generation.replay import Replay, SignalError
    from twinloop.randomization import GenerateConfig

ConfigFile = Annotated[
    Path, Argument(metavar="CONFIG", help="A YAML file: scene or twin, randomization, rollout.")
]
Out = Annotated[
    Path | None,
    Option("--out", help="The new dataset; default: a new one in data/ of the config's workspace."),
]
Cameras = Annotated[str | None, Option(help="Cameras to render, as a,b; 'all' for every camera.")]
Ray = Annotated[str | None, Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")]
ExpertNoise = Annotated[
    float,
    Option(
        help="Perturb the expert so that the data covers recovery: 0: not at all, 0.5: moderately, 2.5: by centimetres."
    ),
]
ExpertSeesTruth = Annotated[
    bool,
    Option("--expert-sees-truth", help="The expert acts on the true state; sensor readings are recorded."),
]
Explain = Annotated[
    bool, Option("--explain", help="Only list the varied parameters: unit, nominal value, distribution.")
]
Preview = Annotated[
    Path | None, Option(help="Only render the first episodes: a contact sheet (.png) and a video (.mp4).")
]
ReplayTwin = Annotated[
    str | None,
    Option(metavar="NAME|FOLDER", help="Replay the recorded actions open loop in this twin instead."),
]

ReplayEngine = Annotated[
    str | None,
    Option(metavar="NAME", help="With --twin: replay the recorded actions in this physics engine."),
]

ReplayDiagnosis = Annotated[
    Path | None,
    Option(
        metavar="FOLDER",
        help="Replay the recorded actions in the twin as it is, and with what this diagnosis measured.",
    ),
]


def generate(
    config: ConfigFile,
    out: Out = None,
    episodes: Annotated[int | None, Option(help="Number of episodes; default: the config's.")] = None,
    cameras: Cameras = None,
    workers: Annotated[int | None, Option(help="Worker processes; default: one per core.")] = None,
    ray: Ray = None,
    seed: Annotated[int | None, Option(help="Random seed; the same seed gives the same episodes.")] = None,
    expert: Annotated[str | None, Option(help="The expert that acts; default: the task's own.")] = None,
    expert_noise: ExpertNoise = 0.0,
    expert_sees_truth: ExpertSeesTruth = False,
    engine: EngineName = "mujoco",
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted run.")] = False,
    explain: Explain = False,
    preview: Preview = None,
    json: Json = False,
) -> None:
    """Simulate a dataset of episodes. The same seed gives the same episodes on any number of workers."""
    from twinloop.randomization import load_config_twin, load_generate_config

    loaded = load_generate_config(config)
    if explain:
        _explain(loaded, json)
        return
    from twinloop.cli.progress import generation_bar

    chosen = tuple(split_names(cameras)) or None
    if chosen == ("all",):
        chosen = tuple(camera.name for camera in load_config_twin(loaded).cameras)
    options: dict[str, Any] = {"seed": seed, "cameras": chosen, "expert": expert}
    options |= {"expert_noise": expert_noise, "expert_sees_truth": expert_sees_truth, "engine": engine}
    if preview is not None:
        _preview(loaded, preview, json, options)
        return
    workspace = find_workspace(config.parent) or find_workspace()
    target = out or next_version(default_out(workspace, f"data/{loaded.name}", "DATASET"), resume)
    started = time.monotonic()
    with generation_bar(target) as progress:
        options |= {"episodes": episodes, "workers": workers, "ray": ray, "resume": resume}
        dataset = twinloop.generate(loaded, out=target, on_progress=progress, **options)
    _print_generated(dataset, target, time.monotonic() - started, json)


def replay(
    episode: EpisodeName,
    twin: ReplayTwin = None,
    diagnosis: ReplayDiagnosis = None,
    engine: ReplayEngine = None,
    dimension: Annotated[
        str | None, Option(metavar="NAME,...", help="With --diagnosis: the gap dimensions that are put in.")
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce a simulated episode and compare it bit for bit, or replay recorded actions open loop in a twin.

    Exits with 1 if the reproduced episode differs.
    """
    folder, number = split_episode(episode)
    dataset = twinloop.open_dataset(folder)
    if diagnosis is not None:
        _replay_measured(dataset.episode(number), twin, diagnosis, split_names(dimension), json)
        return
    if twin is not None:
        found, cell = dataset.episode(number), find_twin(twin)
        other = engine is not None and engine != found.provenance.engine
        if other or found.provenance.source != "sim" or cell.content_hash != found.provenance.twin_hash:
            _replay_actions(found, cell, engine or "mujoco", json)
            return
    elif engine is not None:
        raise WrongUse("--engine replays recorded actions in a twin", remedy="name it: --twin NAME|FOLDER")
    result = twinloop.replay(dataset, number)
    value = {
        "same": result.same,
        "id": result.original.id,
        "differences": result.differences,
        "build_changes": result.build_changes,
        "errors": [asdict(error) for error in result.errors],
    }
    console.print_result(json, value, lambda: _print_replay(number, result))
    if not result.same:
        raise typer.Exit(1)


def _print_generated(dataset: twinloop.Dataset, target: Path, elapsed_s: float, json: bool) -> None:
    from twinloop.cli.progress import format_duration
    from twinloop.datasets.disk_space import format_bytes
    from twinloop.datasets.outcomes import known_outcomes

    success = sum(outcome is True for outcome in known_outcomes(dataset)) / len(dataset)
    size = sum(entry.bytes for entry in dataset.manifest.files.values()) if dataset.manifest else 0
    value = {"out": target, "episodes": len(dataset), "frames": dataset.num_frames, "success": success}
    text = (
        f"wrote {target}: {len(dataset)} episodes, {dataset.num_frames} frames, {success:.0%} success, "
        f"{format_bytes(size)}, in {format_duration(elapsed_s)}"
    )
    console.print_result(json, value | {"bytes": size, "elapsed_s": elapsed_s}, text)


def _print_replay(number: int, result: Replay) -> None:
    if result.same:
        console.out.print(f"episode {number} reproduced bit for bit: {len(result.replayed)} rows")
    else:
        console.out.print("\n  ".join((f"episode {number} differs", *result.differences)))
        print_errors(result.errors)
    console.print_lines(f"recorded with another build: {change}" for change in result.build_changes)


def _replay_actions(episode: twinloop.Episode, twin: twinloop.Twin, engine: str, json: bool) -> None:
    result = twinloop.replay_actions(episode, twin, engine=engine)
    if json:
        console.print_json({"twin": twin.name, "errors": [asdict(error) for error in result.errors]})
        return
    console.out.print(
        f"replayed {len(result.replayed)} actions open loop in {twin.name}, engine {engine}; twin minus recording:"
    )
    print_errors(result.errors)


def _replay_measured(
    episode: twinloop.Episode, twin: str | None, folder: Path, dimensions: list[str], json: bool
) -> None:
    """Replay a run in the twin as it is and with measured values, by default of all that costs success."""
    from twinloop.diagnosis.replayed import replay_measured

    found = twinloop.load_diagnosis(folder)
    names = dimensions or [cost.dimension for cost in found.costs]
    result = replay_measured(found, find_twin(twin or found.twin), episode, names)
    if json:
        console.print_json(
            {"dimensions": names, "values": result.values, "errors": [asdict(e) for e in result.errors]}
        )
        return
    console.out.print(f"twin minus recording, as it is and with what was measured: {', '.join(names)}")
    rows = [(e.name, e.unit, f"{e.nominal:.4g}", f"{e.measured:.4g}") for e in result.errors]
    console.print_table(("signal", "unit", "RMS error", "with measured values"), rows)


def print_errors(errors: tuple[SignalError, ...]) -> None:
    """Print the largest and root-mean-square errors by signal."""
    rows = [(e.signal, e.unit, e.largest, e.root_mean_square) for e in errors]
    console.print_table(("signal", "unit", "max error", "RMS error"), rows)


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
    for dimension, group in groupby(rows, key=lambda row: row.dimension):
        console.out.print(f"\n{dimension}", style="bold")
        console.print_table(
            ("parameter", "nominal", "distribution", "unit", "description"),
            [
                (r.parameter, r.nominal, r.distribution, "" if r.unit == "1" else r.unit, r.description)
                for r in group
            ],
        )


def _preview(config: GenerateConfig, out: Path, json: bool, options: dict[str, Any]) -> None:
    from twinloop.generation.preview import write_preview
    from twinloop.generation.processes import usable_cores
    from twinloop.generation.run import make_work

    work, _ = make_work(config, **options)
    with console.progress_bar("rendering"):
        sheet, video = write_preview(work, out, threads=usable_cores())
    console.print_result(json, {"sheet": sheet, "video": video}, f"wrote {sheet} and {video}")
