"""`twinloop ingest`: convert logs in other formats to a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.data import SkipUnusable
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.logs.ingest import IngestResult

MAX_LISTED = 20
"""Skipped episodes that are listed one by one."""


def ingest(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A log, a folder of logs, or a pattern such as 'runs/*.mcap'."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The new dataset.")] = None,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map", help="YAML file that maps channels to signals; with --propose, the file to write."
        ),
    ] = None,
    twin: Annotated[
        str | None,
        typer.Option(help="Twin of the robot: joints are checked against it, episodes refer to it."),
    ] = None,
    propose: Annotated[
        bool,
        typer.Option("--propose", help="Propose a map from the log; review it before use."),
    ] = False,
    skip_unusable: SkipUnusable = False,
    accept_guesses: Annotated[
        bool,
        typer.Option(
            "--accept-guesses",
            help="Use a map with unknown units or unreviewed guesses; this is recorded in every episode's provenance.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a killed or interrupted ingest to --out.")
    ] = False,
    json: Json = False,
) -> None:
    """Convert logs (LeRobot, MCAP, rosbag2, HDF5, CSV, NPZ, JSON) to a dataset, as a map describes them."""
    if propose:
        _propose(source, map_, twin, json)
        return
    if map_ is None:
        raise WrongUse(
            "ingest needs a map that assigns the log's channels to signals",
            remedy=f"twinloop ingest {source} --propose --map MAP.yaml, review and correct it, then --map MAP.yaml",
        )
    if out is None:
        raise WrongUse("ingest needs a path for the new dataset", remedy="--out DATASET")
    from twinloop.logs.ingest import ingest as ingest_logs
    from twinloop.logs.log_map import load_map
    from twinloop.twins.load import load_twin

    log_map = load_map(map_)
    with console.progress_bar("ingesting", size=True) as progress:
        result = ingest_logs(
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
        console.print_json(_as_json(out, result))
    else:
        _print(out, result)


def _as_json(out: Path, result: IngestResult) -> dict[str, object]:
    return {
        "out": str(out),
        "episodes": len(result.dataset),
        "frames": result.dataset.num_frames,
        "streams": [asdict(stream) for stream in result.streams],
        "cameras": result.cameras,
        "skipped": result.skipped,
        "notes": result.notes,
        "resumed": result.resumed,
    }


def _print(out: Path, result: IngestResult) -> None:
    console.print_table(
        ("signal", "samples", "Hz", "jitter ms", "gaps", "lost", "start s", "resampling"),
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
            for stream in result.streams
        ],
    )
    for stream in result.streams:
        if stream.gaps:
            console.out.print(f"{stream.name}: the longest gap is {stream.longest_gap_s:.3g} s", markup=False)
    for name, method in result.cameras.items():
        console.out.print(f"camera {name}: {method}", markup=False)
    for name, reason in list(result.skipped.items())[:MAX_LISTED]:
        console.out.print(f"skipped: {name} ({reason})", markup=False)
    if len(result.skipped) > MAX_LISTED:
        console.out.print(f"skipped: {len(result.skipped) - MAX_LISTED} more; --json lists all")
    for note in result.notes:
        console.out.print(f"note: {note}", markup=False)
    if result.resumed:
        console.out.print(f"resumed after {console.count(result.resumed, 'episode')}")
    console.print_written(out, result.dataset)


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
        console.out.print(f"wrote {target}; review the guesses marked in it before use")
    else:
        console.out.print(text, markup=False, end="")
