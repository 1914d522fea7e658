"""`twinloop ingest`: real recordings in other people's formats become a data set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse


def ingest(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A log, a folder of logs, or a pattern such as 'runs/*.mcap'."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The new data set.")] = None,
    map_: Annotated[
        Path | None,
        typer.Option("--map", help="What the channels mean: a YAML file. With --propose: where to write it."),
    ] = None,
    twin: Annotated[
        str | None,
        typer.Option(help="The twin of the robot: recorded with every episode; its joints help --propose."),
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
    json: Json = False,
) -> None:
    """Turn logs (LeRobot, MCAP, rosbag2, HDF5, CSV, NPZ, JSON) into a data set, as a map says. Nothing is guessed."""
    if propose:
        _propose(source, map_, twin, json)
        return
    if map_ is None:
        raise WrongUse(
            "a log does not say what its channels mean, so ingest needs a map",
            remedy=f"twinloop ingest {source} --propose --map MAP.yaml, read and correct it, then --map MAP.yaml",
        )
    if out is None:
        raise WrongUse("ingest needs a name for the new data set", remedy="--out DATASET")
    from twinloop.logs.ingest import ingest as take_in
    from twinloop.logs.log_map import load_map

    log_map = load_map(map_)
    name = None
    if twin is not None:
        from twinloop.twin.load import load_twin

        name = load_twin(twin).name
    with console.progress_bar("ingesting") as progress:
        done = take_in(
            source,
            out,
            log_map,
            map_text=map_.read_text(),
            twin=name,
            skip_unusable=skip_unusable,
            progress=progress,
        )
    if json:
        console.print_json(
            {
                "out": str(out),
                "episodes": len(done.dataset),
                "frames": done.dataset.num_frames,
                "streams": [asdict(stream) for stream in done.streams],
                "cameras": done.cameras,
                "skipped": done.skipped,
                "notes": done.notes,
            }
        )
        return
    console.print_table(
        (
            "signal",
            "samples",
            "rate Hz",
            "jitter ms",
            "gaps",
            "longest s",
            "starts s",
            "dropped",
            "how",
            "conversion",
        ),
        [
            (
                s.name,
                s.samples,
                round(s.rate_hz, 3),
                round(s.jitter_s * 1e3, 3),
                s.gaps,
                round(s.longest_gap_s, 3),
                round(s.offset_s, 4),
                s.out_of_order + s.missing,
                s.method,
                s.conversion,
            )
            for s in done.streams
        ],
    )
    for name, way in done.cameras.items():
        console.out.print(f"camera {name}: {way}", markup=False)
    for name, reason in list(done.skipped.items())[:20]:
        console.out.print(f"left out: {name} ({reason})", markup=False)
    if len(done.skipped) > 20:
        console.out.print(f"left out: {len(done.skipped) - 20} more; --json lists all")
    for note in done.notes:
        console.out.print(f"note: {note}", markup=False)
    console.out.print(f"wrote {out}: {len(done.dataset)} episodes, {done.dataset.num_frames} frames")


def _propose(source: str, target: Path | None, twin: str | None, json: bool) -> None:
    from twinloop.logs.propose import propose_map
    from twinloop.logs.twin_joints import load_twin_joints

    text = propose_map(source, load_twin_joints(twin) if twin is not None else None)
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
