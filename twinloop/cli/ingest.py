"""`twinloop ingest`: real recordings in other people's formats become a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.logs.ingest import Ingested

MOST_LISTED = 20
"""Episodes that were left out and are named one by one."""


def ingest(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A log, a folder of logs, or a pattern such as 'runs/*.mcap'."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The new dataset.")] = None,
    map_: Annotated[
        Path | None,
        typer.Option("--map", help="What the channels mean: a YAML file. With --propose: where to write it."),
    ] = None,
    twin: Annotated[
        str | None,
        typer.Option(help="The twin of the robot: joints are checked against it; every episode names it."),
    ] = None,
    propose: Annotated[
        bool,
        typer.Option("--propose", help="Write a first map by looking at the log; read it before you use it."),
    ] = False,
    skip_unusable: Annotated[
        bool,
        typer.Option(
            "--skip-unusable", help="Leave out episodes that cannot be used, by name, instead of refusing."
        ),
    ] = False,
    accept_guesses: Annotated[
        bool,
        typer.Option(
            "--accept-guesses",
            help="Use a map that leaves units or guesses open; every episode's provenance will say so.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a killed or interrupted ingest to --out stopped.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn logs (LeRobot, MCAP, rosbag2, HDF5, CSV, NPZ, JSON) into a dataset, as a map says. Nothing is guessed."""
    if propose:
        _propose(source, map_, twin, json)
        return
    if map_ is None:
        raise WrongUse(
            "a log does not say what its channels mean, so ingest needs a map",
            remedy=f"twinloop ingest {source} --propose --map MAP.yaml, read and correct it, then --map MAP.yaml",
        )
    if out is None:
        raise WrongUse("ingest needs a name for the new dataset", remedy="--out DATASET")
    from twinloop.logs.ingest import ingest as take_in
    from twinloop.logs.log_map import load_map
    from twinloop.twins.load import load_twin

    log_map = load_map(map_)
    with console.progress_bar("ingesting", size=True) as progress:
        done = take_in(
            source,
            out,
            log_map,
            map_text=map_.read_text(),
            twin=load_twin(twin) if twin is not None else None,
            skip_unusable=skip_unusable,
            accept_guesses=accept_guesses,
            resume=resume,
            progress=progress,
        )
    if json:
        console.print_json(_as_json(out, done))
    else:
        _print(out, done)


def _as_json(out: Path, done: Ingested) -> dict[str, object]:
    return {
        "out": str(out),
        "episodes": len(done.dataset),
        "frames": done.dataset.num_frames,
        "streams": [asdict(stream) for stream in done.streams],
        "cameras": done.cameras,
        "skipped": done.skipped,
        "notes": done.notes,
        "resumed": done.resumed,
    }


def _print(out: Path, done: Ingested) -> None:
    console.print_table(
        ("signal", "samples", "Hz", "jitter ms", "gaps", "lost", "starts s", "how"),
        [
            (
                stream.name,
                stream.samples,
                round(stream.rate_hz, 2),
                round(stream.jitter_s * 1e3, 3),
                stream.gaps,
                stream.out_of_order + stream.missing,
                round(stream.offset_s, 3),
                stream.method + (f", {stream.conversion}" if stream.conversion else ""),
            )
            for stream in done.streams
        ],
    )
    for stream in done.streams:
        if stream.gaps:
            console.out.print(f"{stream.name}: the longest gap is {stream.longest_gap_s:.3g} s", markup=False)
    for name, way in done.cameras.items():
        console.out.print(f"camera {name}: {way}", markup=False)
    for name, reason in list(done.skipped.items())[:MOST_LISTED]:
        console.out.print(f"left out: {name} ({reason})", markup=False)
    if len(done.skipped) > MOST_LISTED:
        console.out.print(f"left out: {len(done.skipped) - MOST_LISTED} more; --json lists all")
    for note in done.notes:
        console.out.print(f"note: {note}", markup=False)
    if done.resumed:
        console.out.print(f"resumed after {console.count(done.resumed, 'episode')}")
    episodes, frames = len(done.dataset), done.dataset.num_frames
    console.out.print(
        f"wrote {out}: {console.count(episodes, 'episode')}, {console.count(frames, 'frame')}", markup=False
    )


def _propose(source: str, target: Path | None, twin: str | None, json: bool) -> None:
    from twinloop.logs.joints import load_joints
    from twinloop.logs.propose import propose_map

    text = propose_map(source, load_joints(twin) if twin is not None else None)
    if target is not None:
        if target.exists():
            raise WrongUse(f"{target} already exists", remedy="choose another name, or delete it")
        target.write_text(text)
    if json:
        console.print_json({"map": text, "out": str(target) if target else None})
    elif target is not None:
        console.out.print(f"wrote {target}; every guess is marked, read them before you use it")
    else:
        console.out.print(text, markup=False, end="")
