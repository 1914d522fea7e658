"""`twinloop data ...`: the store from the command line."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import consent, console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.repair import Repair

app = typer.Typer(
    help="Look into datasets, query, check, join, divide, label and export them.", no_args_is_help=True
)

app.add_typer(consent.app, name="consent")

Source = Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset's folder.")]


@app.command("ls")
def list_(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path(),
    json: Json = False,
) -> None:
    """List the datasets at or below a folder."""
    from twinloop.workspace import list_datasets

    found = list_datasets(folder)
    if json:
        console.print_json([asdict(summary) for summary in found])
    elif not found:
        console.out.print(f"no dataset in {folder}")
    else:
        console.print_table(
            ("dataset", "episodes", "frames", "hours", "source", "success", "problem"),
            [
                (
                    s.name,
                    s.episodes,
                    s.frames,
                    round(s.hours, 3),
                    s.sources,
                    "?" if s.success is None else f"{s.success:.0%}",
                    s.problem or "",
                )
                for s in found
            ],
        )


@app.command()
def info(dataset: Source, json: Json = False) -> None:
    """Describe a dataset: counts by source, hours, success, sizes, signals with units, history."""
    from twinloop.datasets.describe import describe

    what = describe(dataset)
    if json:
        console.print_json(asdict(what))
        return
    console.out.print(
        f"{what.path}: {console.count(what.episodes, 'episode')}, {console.count(what.frames, 'frame')} "
        f"at {what.rate_hz:g} Hz, {what.layout}"
    )
    console.out.print(f"id {what.id}, version {what.version}, robot {what.robot_type}")
    console.print_table(
        ("source", "episodes", "frames", "hours", "success", "failure", "unknown"),
        [
            (
                s.source,
                s.episodes,
                s.frames,
                round(s.hours, 4),
                s.successes,
                s.failures,
                s.episodes - s.successes - s.failures,
            )
            for s in what.by_source
        ],
    )
    channels = [
        (
            s["name"],
            "x".join(map(str, s["shape"])),
            s["dtype"],
            ", ".join(dict.fromkeys(s["units"])),
            ", ".join(s["elements"]),
        )
        for s in what.signals
    ]
    channels += [
        (f"camera {c['name']}", f"{c['height']}x{c['width']}", "video", "", "") for c in what.cameras
    ]
    console.print_table(("signal", "shape", "type", "unit", "elements"), channels)
    for task in what.tasks[:20]:
        console.out.print(f"task: {task or '(none given)'}", markup=False)
    for name, reason in what.skipped.items():
        console.out.print(f"not read: {name} ({reason})", markup=False)
    console.out.print(
        "size: " + ", ".join(f"{part} {size:.1f} MB" for part, size in what.megabytes.items() if size)
    )
    for step in what.history:
        came = f" from {', '.join(step['sources'])}" if step["sources"] else ""
        console.out.print(f"{step['at']} {step['operation']} {step['detail']}{came}", markup=False)


@app.command()
def query(
    words: Annotated[
        list[str], typer.Argument(metavar="DATASET... SQL", help="One or more datasets, then one SELECT.")
    ],
    json: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    limit: Annotated[int, typer.Option(help="Print at most this many rows as a table; 0 prints all.")] = 100,
) -> None:
    """Ask in SQL: tables episodes, frames and transitions, across one or several datasets."""
    from twinloop.datasets.query import query as ask

    if len(words) < 2:
        raise WrongUse(
            "a query needs a dataset and a SELECT",
            got=" ".join(words),
            remedy='twinloop data query DATASET "select ..."',
        )
    if Path(words[-1]).is_dir() or words[0].lower().lstrip().startswith(("select ", "with ")):
        raise WrongUse(
            "the datasets come first and the SELECT last",
            got=" ".join(words)[:120],
            remedy=f'twinloop data query {words[-1]} "{words[0]}"' if len(words) == 2 else None,
        )
    table = ask(words[:-1], words[-1])
    if json:
        console.print_json(table.to_pylist())
    elif csv_:
        writer = csv.writer(sys.stdout)
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    else:
        shown = table if limit == 0 else table.slice(0, limit)
        console.print_rows(table.column_names, [list(row.values()) for row in shown.to_pylist()])
        if len(shown) < len(table):
            console.err.print(f"{len(table) - len(shown)} more rows; --limit 0 prints all")


@app.command()
def verify(
    dataset: Source,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Keep every intact episode; the damaged original is kept beside it."),
    ] = False,
    decode: Annotated[bool, typer.Option("--decode", help="Decode every frame of every video, too.")] = False,
    json: Json = False,
) -> None:
    """Check files, checksums, counts and video; name every broken file. Exits with 1 if something is broken."""
    from twinloop.datasets.repair import repair as mend
    from twinloop.datasets.verify import verify as examine

    if repair:
        with console.progress_bar("repairing") as progress:
            mended = mend(dataset, progress=progress)
        if json:
            console.print_json(asdict(mended))
        else:
            _print_repair(mended)
        return
    with console.progress_bar("verifying") as progress:
        found = examine(dataset, decode=decode, progress=progress)
    if json:
        console.print_json(asdict(found) | {"ok": found.ok})
    else:
        for finding in found.findings:
            which = f" (episodes {_ranges(finding.episodes)})" if finding.episodes else ""
            console.out.print(f"{finding.severity}: {finding.file}: {finding.what}{which}", markup=False)
            console.out.print(f"  -> {finding.remedy}", markup=False)
        state = (
            "ok" if found.ok else f"{console.count(len(found.broken_episodes), 'episode')} cannot be trusted"
        )
        checked = "with checksums" if found.checksums else "no checksums to compare"
        console.out.print(
            f"{dataset}: {state}; {console.count(found.episodes, 'episode')}, {console.count(found.frames, 'frame')}, "
            f"{console.count(found.files, 'file')}, {checked}"
        )
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="DATASET...", help="The datasets to join, in this order.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The new dataset.")],
    skip_unusable: Annotated[
        bool,
        typer.Option(
            "--skip-unusable", help="Leave out repeated and invalid episodes, by name, instead of refusing."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Join datasets into a new one; every episode keeps its id and origin, no frame is decoded."""
    from twinloop.datasets.rewrite import merge as join

    with console.progress_bar("merging") as progress:
        done = join(sources, out, skip_unusable=skip_unusable, progress=progress)
    skipped = [{"dataset": d, "episode": n, "reason": why} for (d, n), why in done.skipped.items()]
    if json:
        console.print_json({"out": str(out), "episodes": len(done.dataset), "skipped": skipped})
        return
    for item in skipped:
        console.out.print(f"left out: {item['reason']}", markup=False)
    episodes, frames = len(done.dataset), done.dataset.num_frames
    console.out.print(f"wrote {out}: {console.count(episodes, 'episode')}, {console.count(frames, 'frame')}")


@app.command()
def select(
    sources: Annotated[
        list[Path], typer.Argument(metavar="DATASET...", help="Recorded datasets of one schema.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The new dataset; one that exists is replaced.")],
    json: Json = False,
) -> None:
    """Copy the episodes that a policy may be trained on: successes without blocking findings."""
    from twinloop.datasets.reader import open_dataset
    from twinloop.quality.select import select_usable

    opened = [open_dataset(source) for source in sources]
    selected = select_usable(opened, out)
    kept, recorded = 0 if selected is None else len(selected), sum(map(len, opened))
    if json:
        console.print_json(
            {"out": str(out) if selected is not None else None, "episodes": kept, "of": recorded}
        )
    else:
        console.out.print(
            f"{kept} of {recorded} episodes are usable" + (f" -> {out}" if kept else ""), markup=False
        )
    if not kept:
        raise typer.Exit(1)


@app.command()
def split(
    dataset: Source,
    out: Annotated[Path, typer.Option("--out", help="The folder that will hold one dataset per part.")],
    parts: Annotated[str, typer.Option(help="Names and shares.")] = "train=0.8,val=0.1,test=0.1",
    seed: Annotated[int, typer.Option(help="The same seed gives the same split.")] = 0,
    stratify: Annotated[
        str, typer.Option(help="Columns of `episodes` whose mix each part should keep.")
    ] = "task,success,source",
    json: Json = False,
) -> None:
    """Divide a dataset by episode: stratified, and never a child in one part and its parent in another."""
    from twinloop.datasets.rewrite import split as divide

    shares = _shares(parts)
    columns = [name for name in stratify.split(",") if name]
    with console.progress_bar("splitting") as progress:
        made = divide(dataset, out, shares, seed=seed, stratify=columns, progress=progress)
    if json:
        console.print_json(
            {name: {"path": str(part.root), "episodes": len(part)} for name, part in made.items()}
        )
    else:
        console.print_table(
            ("part", "episodes", "frames"), [(str(p.root), len(p), p.num_frames) for p in made.values()]
        )


@app.command()
def export(
    dataset: Source,
    out: Annotated[Path, typer.Option("--out", help="The file or folder to write.")],
    kind: Annotated[
        str,
        typer.Option(
            "--as",
            help="transitions (one Parquet file), hdf5 (groups as in robomimic) or lerobot (a plain copy).",
        ),
    ] = "transitions",
    json: Json = False,
) -> None:
    """Write a dataset in another format, with ids and provenance."""
    from twinloop.datasets.export import export as write

    with console.progress_bar("exporting") as progress:
        path = write(dataset, out, kind, progress=progress)
    console.print_json({"out": str(path)}) if json else console.out.print(f"wrote {path}")


@app.command()
def label(
    dataset: Source,
    episodes: Annotated[
        list[int] | None, typer.Argument(metavar="EPISODE...", help="Episode numbers.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Or all episodes for which this SQL condition holds.")
    ] = None,
    success: Annotated[bool, typer.Option("--success", help="The task was achieved.")] = False,
    failure: Annotated[
        str | None, typer.Option(metavar="MODE", help="It was not, and this is how it failed.")
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Take back what was said about success.")
    ] = False,
    phase: Annotated[str | None, typer.Option(help="The phase in which it was decided.")] = None,
    by: Annotated[str, typer.Option(help="Who says so.")] = "",
    history: Annotated[
        bool, typer.Option("--history", help="Say nothing new; list who said what and when.")
    ] = False,
    json: Json = False,
) -> None:
    """Say how episodes ended; who said it and when is kept, and nothing said before is overwritten."""
    from twinloop.datasets.labels import Value, add_labels
    from twinloop.datasets.query import query as ask
    from twinloop.datasets.reader import open_dataset

    if history:
        _print_history(dataset, episodes, json)
        return
    if sum((success, failure is not None, unknown)) > 1:
        raise WrongUse("--success, --failure and --unknown exclude each other")
    if bool(episodes) == bool(where):
        raise WrongUse("say which episodes: their numbers, or --where CONDITION")
    opened = open_dataset(dataset)
    if opened.manifest is None:
        raise WrongUse(
            f"{dataset} was not written by Twinloop and is never changed",
            remedy=f"twinloop data merge {dataset} --out NEW",
        )
    values: dict[str, Value] = {}
    if success:
        values["success"] = True
    if failure is not None:
        values["failure"] = failure
    if unknown:
        values |= {"success": None, "failure": None}
    if phase is not None:
        values["phase"] = phase
    if where:
        ids = ask([opened], f"select episode_id from episodes where {where}").column(0).to_pylist()
    else:
        ids = [opened.episode(number).id for number in episodes or []]
    if not ids:
        raise WrongUse("no episode fits", got=where)
    add_labels(dataset, ids, values, by)
    if json:
        console.print_json({"episodes": ids, "labels": values})
    else:
        console.out.print(f"labelled {console.count(len(ids), 'episode')} of {dataset}")


@app.command()
def show(
    episode: Annotated[
        str, typer.Argument(metavar="DATASET#NUMBER", help="Which episode, for example sim-v1#12.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="A .png or .html file; default: episode-NUMBER.png.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw one episode: signals over time, events, a contact sheet of frames; as PNG or one HTML page."""
    from twinloop.datasets.reader import open_dataset
    from twinloop.report.episode_page import draw_episode

    folder, number = console.episode_name(episode)
    target = out or Path(f"episode-{number}.png")
    found = open_dataset(folder).episode(number)
    draw_episode(found, target, title=f"{Path(folder).name} #{number}")
    console.print_json({"out": str(target), "id": found.id}) if json else console.out.print(f"wrote {target}")


def _print_history(dataset: Path, episodes: Sequence[int] | None, json: bool) -> None:
    """Every label ever given to these episodes, or to all, oldest first."""
    from twinloop.datasets.labels import load_labels
    from twinloop.datasets.query import query as ask
    from twinloop.datasets.reader import open_dataset

    opened = open_dataset(dataset)
    rows = ask([opened], "select episode_id, episode_index from episodes").to_pylist()
    number_of = {row["episode_id"]: int(row["episode_index"]) for row in rows}
    labels = [
        (number_of[label.episode_id], label)
        for label in load_labels(opened.root)
        if label.episode_id in number_of and (not episodes or number_of[label.episode_id] in episodes)
    ]
    if json:
        console.print_json([asdict(label) | {"episode": number} for number, label in labels])
    elif not labels:
        console.out.print("nobody has labelled these episodes")
    else:
        console.print_table(
            ("episode", "when", "field", "value", "by"),
            [(number, label.at, label.field, label.value, label.by) for number, label in labels],
        )


def _print_repair(mended: Repair) -> None:
    for line in mended.done:
        console.out.print(line, markup=False)
    for lost in mended.lost:
        console.out.print(f"lost: episode {lost.number} ({lost.rows or '?'} rows): {lost.why}", markup=False)
    if mended.original:
        console.out.print(f"the damaged original is kept as {mended.original}")
    if not mended.done and not mended.lost:
        console.out.print("nothing to repair")


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _shares(text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError as error:
            raise WrongUse(
                "cannot read the parts", got=text, expected="name=share,..., for example train=0.9,test=0.1"
            ) from error
    return shares
