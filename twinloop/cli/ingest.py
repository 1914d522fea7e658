"""`twinloop ingest`: convert logs in other formats to a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, SkipUnusable
from twinloop.cli.places import find_twin
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.logs.ingest import IngestResult

MAX_LISTED = 20
"""Skipped episodes that are listed one by one."""

Source = Annotated[
    str, Argument(metavar="SOURCE", help="A log, a folder of logs, or a pattern such as 'runs/*.mcap'.")
]
Map = Annotated[
    Path | None,
    Option("--map", help="YAML file that maps channels to signals; with --propose, the file to write."),
]
LogTwin = Annotated[
    str | None, Option(help="Twin of the robot: joints are checked against it, episodes refer to it.")
]
Propose = Annotated[bool, Option("--propose", help="Propose a map from the log; review it before use.")]
AcceptGuesses = Annotated[
    bool,
    Option(
        "--accept-guesses",
        help="Use a map with unknown units or unreviewed guesses; this is recorded in every episode's provenance.",
    ),
]


def ingest(
    source: Source,
    out: Annotated[Path | None, Option("--out", help="The new dataset.")] = None,
    map_: Map = None,
    twin: LogTwin = None,
    propose: Propose = False,
    skip_unusable: SkipUnusable = False,
    accept_guesses: AcceptGuesses = False,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted ingest to --out.")] = False,
    json: Json = False,
) -> None:
    """Convert logs (LeRobot, MCAP, rosbag2, HDF5, CSV, NPZ, NPY, JSON) to a dataset, as a map describes them."""
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
    log_map, cell = twinloop.load_map(map_), find_twin(twin) if twin is not None else None
    with console.progress_bar("ingesting", size=True) as progress:
        result = twinloop.ingest(
            source, out, log_map, map_text=map_.read_text(), twin=cell, skip_unusable=skip_unusable,
            accept_guesses=accept_guesses, resume=resume, on_progress=progress,
        )  # fmt: skip
    console.print_result(json, _as_json(out, result), lambda: _print(out, result))


def _as_json(out: Path, result: IngestResult) -> dict[str, object]:
    return {
        "out": out,
        "episodes": len(result.dataset),
        "frames": result.dataset.num_frames,
        "streams": [asdict(stream) for stream in result.streams],
        "cameras": result.cameras,
        "skipped": result.skipped,
        "notes": result.notes,
        "resumed": result.resumed,
    }


def _print(out: Path, result: IngestResult) -> None:
    columns = ("signal", "samples", "Hz", "jitter ms", "gaps", "lost", "start s", "resampling")
    rows = [
        (s.name, s.samples, round(s.rate_hz, 2), round(s.jitter_s * 1e3, 3), s.gaps, s.out_of_order + s.missing,
         round(s.offset_s, 3), s.method + (f", {s.conversion}" if s.conversion else ""))
        for s in result.streams
    ]  # fmt: skip
    console.print_table(columns, rows)
    for stream in result.streams:
        if stream.gaps:
            console.out.print(f"{stream.name}: the longest gap is {stream.longest_gap_s:.3g} s")
    console.print_lines(f"camera {name}: {method}" for name, method in result.cameras.items())
    for name, reason in list(result.skipped.items())[:MAX_LISTED]:
        console.out.print(f"skipped: {name} ({reason})")
    if len(result.skipped) > MAX_LISTED:
        console.out.print(f"skipped: {len(result.skipped) - MAX_LISTED} more; --json lists all")
    console.print_lines(f"note: {note}" for note in result.notes)
    if result.resumed:
        console.out.print(f"resumed after {console.count(result.resumed, 'episode')}")
    console.print_written(out, result.dataset)


def _propose(source: str, target: Path | None, twin: str | None, json: bool) -> None:
    from twinloop.logs.joints import load_joints

    text = twinloop.propose_map(source, load_joints(twin) if twin is not None else None)
    if target is not None:
        if target.exists():
            raise WrongUse(f"{target} already exists", remedy="choose another name, or delete it")
        target.write_text(text)
    written = f"wrote {target}; review the guesses marked in it before use"
    value = {"map": text, "out": target}
    console.print_result(json, value, text.rstrip("\n") if target is None else written)
