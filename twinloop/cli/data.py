"""`twinloop data ...`: datasets from the command line."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import consent, console, label, selection
from twinloop.cli.options import (
    DatasetFolder,
    EpisodeName,
    Json,
    NewDataset,
    SkipUnusable,
    split_episode,
    split_names,
    split_pairs,
)
from twinloop.cli.start import format_rate
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.describe import Description
    from twinloop.datasets.repair import Repair
    from twinloop.datasets.transfer import Transfer
    from twinloop.datasets.verification import Verification
    from twinloop.workspace import DatasetSummary

app = typer.Typer(
    help="List, describe, query, verify, merge, split, label and export datasets.", no_args_is_help=True
)

app.add_typer(consent.app, name="consent")
app.add_typer(selection.app, name="selection")
app.command("episodes")(label.list_)
app.command()(label.label)
app.command()(label.trim)

Sources = Annotated[list[Path], Argument(metavar="DATASET...", help="Datasets of one schema, in this order.")]


@app.command("ls")
def list_(
    folder: Annotated[Path, Argument(help="Folder to search.")] = Path(),
    json: Json = False,
) -> None:
    """List the datasets at or below a folder."""
    from twinloop.workspace import list_datasets

    columns = ("dataset", "episodes", "frames", "hours", "source", "success", "problem")

    def row(s: DatasetSummary) -> tuple[Any, ...]:
        size = (s.episodes, s.frames, round(s.hours, 3))
        return s.name, *size, s.sources, format_rate(s.success), s.problem or ""

    console.print_list(json, list_datasets(folder), columns, row, f"no dataset in {folder}")


@app.command()
def info(dataset: DatasetFolder, json: Json = False) -> None:
    """Describe a dataset: episodes by source, hours, outcomes, sizes, signals with units, history."""
    from twinloop.datasets.describe import describe

    description = describe(dataset)
    console.print_result(json, asdict(description), lambda: _print_description(description))


@app.command()
def query(
    arguments: Annotated[
        list[str], Argument(metavar="DATASET... SQL", help="One or more datasets, then one SELECT.")
    ],
    json: Json = False,
    csv_: Annotated[bool, Option("--csv", help="Print comma-separated values.")] = False,
    limit: Annotated[int, Option(help="Print at most this many rows as a table; 0 prints all.")] = 100,
    time_limit_s: Annotated[
        float, Option("--time-limit", help="Stop after this many seconds.", min=0.0)
    ] = 600.0,
) -> None:
    """Query one or more datasets with SQL: tables episodes, frames and transitions."""
    *sources, sql = arguments
    if not sources:
        raise WrongUse(
            "a query needs a dataset and a SELECT",
            got=sql,
            remedy='twinloop data query DATASET "select ..."',
        )
    if Path(sql).is_dir() or sources[0].lower().lstrip().startswith(("select ", "with ")):
        raise WrongUse(
            "the datasets come first and the SELECT last",
            got=" ".join(arguments)[:120],
            remedy=f'twinloop data query {sql} "{sources[0]}"' if len(sources) == 1 else None,
        )
    table = twinloop.query(sources, sql, time_limit_s=time_limit_s)
    if json:
        console.print_json(table.to_pylist())
    elif csv_:
        writer = csv.writer(sys.stdout)
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    else:
        shown = table if limit == 0 else table.slice(0, limit)
        console.print_table(table.column_names, [list(row.values()) for row in shown.to_pylist()])
        if len(shown) < len(table):
            console.err.print(f"{len(table) - len(shown)} more rows; --limit 0 prints all")


BreakLock = Annotated[
    bool, Option("--break-lock", help="Go on although another push holds the place, because it is dead.")
]


@app.command()
def push(
    dataset: DatasetFolder,
    target: Annotated[
        str, Argument(metavar="ADDRESS|FOLDER", help="Such as s3://bucket/folder, or a folder.")
    ],
    break_lock: BreakLock = False,
    json: Json = False,
) -> None:
    """Copy a dataset, or what it has gained since the last push, to object storage or another folder."""
    from twinloop.datasets.transfer import push as push_dataset

    with console.progress_bar("copying", size=True) as bar:
        done = push_dataset(dataset, target, break_lock=break_lock, on_progress=bar)
    console.print_result(json, asdict(done), _describe_transfer(done))


@app.command()
def pull(
    source: Annotated[
        str, Argument(metavar="ADDRESS|FOLDER", help="Such as s3://bucket/folder, or a folder.")
    ],
    out: Annotated[
        Path, Argument(metavar="FOLDER", help="A new folder, or an earlier version of the dataset.")
    ],
    json: Json = False,
) -> None:
    """Copy a dataset, or what it has gained since the last pull, from object storage or another folder."""
    from twinloop.datasets.transfer import pull as pull_dataset

    with console.progress_bar("copying", size=True) as bar:
        done = pull_dataset(source, out, on_progress=bar)
    console.print_result(json, asdict(done), _describe_transfer(done))


def _describe_transfer(done: Transfer) -> str:
    there = f", {done.present} were there" if done.present else ""
    return f"{done.target}: {done.episodes} episodes; {done.files} files with {done.bytes / 1e6:.1f} MB transferred{there}"


@app.command()
def verify(
    dataset: DatasetFolder,
    repair: Annotated[
        bool,
        Option("--repair", help="Repair it: keep every intact episode, and the damaged original."),
    ] = False,
    decode: Annotated[bool, Option("--decode", help="Also decode every video frame.")] = False,
    json: Json = False,
) -> None:
    """Verify files, checksums, counts and videos; exits with 1 if anything is damaged."""
    from twinloop.datasets.repair import repair as repair_dataset
    from twinloop.datasets.verify import verify as verify_dataset

    if repair:
        with console.progress_bar("repairing") as progress:
            repaired = repair_dataset(dataset, on_progress=progress)
        console.print_result(json, asdict(repaired), lambda: _print_repair(repaired))
        return
    with console.progress_bar("verifying") as progress:
        checked = verify_dataset(dataset, decode=decode, on_progress=progress)
    value = asdict(checked) | {"ok": checked.ok}
    console.print_result(json, value, lambda: _print_verification(checked))
    if not checked.ok:
        raise typer.Exit(1)


@app.command()
def merge(sources: Sources, out: NewDataset, skip_unusable: SkipUnusable = False, json: Json = False) -> None:
    """Merge datasets into a new one; episodes keep their ids and origins, and no frame is decoded."""
    with console.progress_bar("merging") as progress:
        result = twinloop.merge(sources, out, skip_unusable=skip_unusable, on_progress=progress)
    skipped = [{"dataset": d, "episode": n, "reason": why} for (d, n), why in result.skipped.items()]
    left_out = _left_out(sources)
    if json:
        value = {"out": out, "episodes": len(result.dataset), "skipped": skipped, "not_copied": left_out}
        console.print_json(value)
        return
    console.print_lines(f"skipped: {item['reason']}" for item in skipped)
    _print_left_out(left_out)
    console.print_written(out, result.dataset)


@app.command()
def select(
    sources: Sources,
    out: Annotated[Path, Option("--out", help="The new dataset; one that exists is replaced.")],
    json: Json = False,
) -> None:
    """Copy the episodes that a policy may be trained on: successes without blocking findings."""
    from twinloop.datasets.outcomes import known_outcomes

    opened = [twinloop.open_dataset(source) for source in sources]
    selected = twinloop.select_usable(opened, out)
    kept, recorded = 0 if selected is None else len(selected), sum(map(len, opened))
    unknown = sum(outcome is None for dataset in opened for outcome in known_outcomes(dataset))
    left_out = _left_out(sources)
    value = {"out": out if selected is not None else None, "episodes": kept, "of": recorded}
    text = f"{kept} of {recorded} episodes are usable" + (f" -> {out}" if kept else "")
    if unknown:
        text += f"; {unknown} have no known outcome: `twinloop data label` says which succeeded"
    console.print_result(json, value | {"unknown": unknown, "not_copied": left_out}, text)
    if not json:
        _print_left_out(left_out)
    if not kept:
        raise typer.Exit(1)


@app.command()
def split(
    dataset: DatasetFolder,
    out: Annotated[Path, Option("--out", help="Folder for the parts, one dataset each.")],
    parts: Annotated[str, Option(help="Names and fractions of the parts.")] = "train=0.8,val=0.1,test=0.1",
    seed: Annotated[int, Option(help="Random seed for the split.")] = 0,
    stratify: Annotated[
        str, Option(help="Columns of `episodes` whose mix each part keeps.")
    ] = "task,success,source",
    json: Json = False,
) -> None:
    """Split a dataset by episode, stratified; related episodes stay in the same part."""
    columns, fractions = split_names(stratify), _parse_fractions(parts)
    with console.progress_bar("splitting") as progress:
        datasets = twinloop.split(dataset, out, fractions, seed=seed, stratify=columns, on_progress=progress)
    value = {name: {"path": part.root, "episodes": len(part)} for name, part in datasets.items()}
    rows = [(str(part.root), len(part), part.num_frames) for part in datasets.values()]
    console.print_result(json, value, lambda: console.print_table(("part", "episodes", "frames"), rows))
    if not json:
        _print_left_out(_left_out([dataset]))


@app.command()
def export(
    dataset: DatasetFolder,
    out: Annotated[Path, Option("--out", help="The file or folder to write.")],
    kind: Annotated[
        str,
        Option(
            "--as",
            help="transitions (one Parquet file), hdf5 (groups as in robomimic), isaaclab (the same for Isaac Lab), lerobot (a plain "
            "copy) or groot (LeRobot v2.1 with modality.json).",
        ),
    ] = "transitions",
    json: Json = False,
) -> None:
    """Export a dataset to another format, with episode ids."""
    from twinloop.datasets.export import export as export_dataset

    with console.progress_bar("exporting") as progress:
        path = export_dataset(dataset, out, kind, on_progress=progress)
    left_out = _left_out([dataset])
    console.print_result(json, {"out": path, "not_copied": left_out}, f"wrote {path}")
    if not json:
        _print_left_out(left_out)


@app.command()
def show(
    episode: EpisodeName,
    out: Annotated[
        Path | None, Option("--out", help="A .png or .html file; default: episode-NUMBER.png.")
    ] = None,
    json: Json = False,
) -> None:
    """Plot one episode as PNG or HTML: signals over time, events, camera frames."""
    from twinloop.report.episode_page import draw_episode

    folder, number = split_episode(episode)
    target = out or Path(f"episode-{number}.png")
    dataset = twinloop.open_dataset(folder)
    shown = dataset.episode(number)
    draw_episode(shown, target, title=f"{Path(folder).name} #{number}", dataset=dataset)
    console.print_result(json, {"out": target, "id": shown.id}, f"wrote {target}")


def _left_out(sources: Sequence[Path]) -> dict[str, str]:
    """Return features of the datasets that a copy does not have, with the reason."""
    return {name: why for source in sources for name, why in twinloop.open_dataset(source).skipped.items()}


def _print_left_out(left_out: dict[str, str]) -> None:
    console.print_lines(f"not copied: {name} ({why})" for name, why in left_out.items())


def _print_description(dataset: Description) -> None:
    console.out.print(
        f"{dataset.path}: {console.count(dataset.episodes, 'episode')}, "
        f"{console.count(dataset.frames, 'frame')} at {dataset.rate_hz:g} Hz, {dataset.layout}"
    )
    console.out.print(f"id {dataset.id}, version {dataset.version}, robot {dataset.robot_type}")
    rows = [
        (s.source, s.episodes, s.frames, round(s.hours, 4), s.successes, s.failures, s.episodes - s.successes - s.failures)
        for s in dataset.by_source
    ]  # fmt: skip
    console.print_table(("source", "episodes", "frames", "hours", "success", "failure", "unknown"), rows)
    channels = [
        (s["name"], "x".join(map(str, s["shape"])), s["dtype"], ", ".join(dict.fromkeys(s["units"])), ", ".join(s["elements"]))
        for s in dataset.signals
    ]  # fmt: skip
    channels += [
        (f"camera {c['name']}", f"{c['height']}x{c['width']}", "video", "", "") for c in dataset.cameras
    ]
    console.print_table(("signal", "shape", "type", "unit", "elements"), channels)
    console.print_lines(f"task: {task or '(none)'}" for task in dataset.tasks[:20])
    console.print_lines(f"not read: {name} ({reason})" for name, reason in dataset.skipped.items())
    sizes = [f"{part} {size:.1f} MB" for part, size in dataset.megabytes.items() if size]
    console.out.print(f"size: {', '.join(sizes)}")
    for step in dataset.history:
        sources = f" from {', '.join(step['sources'])}" if step["sources"] else ""
        console.out.print(f"{step['at']} {step['operation']} {step['detail']}{sources}")


def _print_verification(checked: Verification) -> None:
    for finding in checked.findings:
        which = f" (episodes {_format_ranges(finding.episodes)})" if finding.episodes else ""
        console.out.print(f"{finding.severity}: {finding.file}: {finding.what}{which}")
        if finding.remedy:
            console.out.print(f"  -> {finding.remedy}")
    damaged = console.count(len(checked.broken_episodes), "episode")
    console.out.print(
        f"{checked.root}: {'ok' if checked.ok else f'{damaged} damaged'}; "
        f"{console.count(checked.episodes, 'episode')}, {console.count(checked.frames, 'frame')}, "
        f"{console.count(checked.files, 'file')}, {'checksums' if checked.checksums else 'no checksums'} compared"
    )


def _print_repair(repaired: Repair) -> None:
    for line in repaired.done:
        console.out.print(line)
    for lost in repaired.lost:
        console.out.print(f"lost: episode {lost.number} ({lost.rows or '?'} rows): {lost.why}")
    if repaired.original:
        console.out.print(f"the damaged original is kept as {repaired.original}")
    if not repaired.done and not repaired.lost:
        console.out.print("nothing to repair")


def _format_ranges(numbers: Sequence[int]) -> str:
    """Format 1, 2, 3, 7 as "1-3, 7"."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _parse_fractions(text: str) -> dict[str, float]:
    try:
        return {name: float(part) for name, part in split_pairs(text.split(","), "--parts").items()}
    except ValueError as error:
        example = "name=fraction,..., for example train=0.9,test=0.1"
        raise WrongUse("cannot read --parts", got=text, expected=example) from error
