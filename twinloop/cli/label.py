"""`twinloop data episodes`, `label` and `trim`: episodes one by one, and what people decide about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import DatasetFolder, Json, NewDataset
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.browsing import EpisodeLine
    from twinloop.datasets.labelling import Agreement, Disagreement


def list_(
    dataset: DatasetFolder,
    source: Annotated[str | None, Option(help="real, sim, standin or unknown.")] = None,
    outcome: Annotated[str | None, Option(help="success, failure or unlabelled.")] = None,
    failure: Annotated[str | None, Option(metavar="MODE", help="This failure mode.")] = None,
    quality: Annotated[
        str | None, Option(help="Worst finding of the last check: ok, note, warning, blocking or unchecked.")
    ] = None,
    site: Annotated[str | None, Option(help="Where it was recorded.")] = None,
    operator: Annotated[str | None, Option(help="Who or what acted.")] = None,
    text: Annotated[str | None, Option(help="In the id, task, failure mode, operator or number.")] = None,
    where: Annotated[str | None, Option(help="An SQL condition on the episodes.")] = None,
    sort: Annotated[str, Option(help="Column to order by; -COLUMN for descending.")] = "episode",
    offset: Annotated[int, Option(help="Episodes to skip.", min=0)] = 0,
    limit: Annotated[int, Option(help="Most episodes to list.", min=1)] = 100,
    json: Json = False,
) -> None:
    """List the episodes of a dataset that have all these properties."""
    from twinloop.browsing import EpisodeFilter, list_episodes

    listed = list_episodes(twinloop.open_dataset(dataset))
    wanted: dict[str, Any] = {"source": source, "outcome": outcome, "failure": failure, "quality": quality}
    wanted |= {"site": site, "operator": operator, "text": text, "where": where}
    found = listed.order(listed.find(EpisodeFilter(**wanted)), sort.lstrip("-"), sort.startswith("-"))
    lines = listed.lines(found[offset : offset + limit])
    columns = ("episode", "source", "outcome", "duration", "quality", "operator", "task")

    def row(line: EpisodeLine) -> tuple[Any, ...]:
        outcome = {True: "success", False: line.failure or "failure", None: "?"}[line.success]
        seconds = "" if line.duration_s is None else f"{line.duration_s:.1f} s"
        return line.episode, line.source, outcome, seconds, line.quality, line.operator or "", line.task

    console.print_list(json, lines, columns, row, "no such episode")
    if not json and len(lines) < len(found):
        console.err.print(f"{len(lines)} of {len(found)} episodes; --offset and --limit show others")


def label(
    dataset: DatasetFolder,
    episodes: Annotated[list[int] | None, Argument(metavar="EPISODE...", help="Episode numbers.")] = None,
    where: Annotated[str | None, Option(help="Instead of numbers: an SQL condition on the episodes.")] = None,
    success: Annotated[bool, Option("--success", help="The task succeeded.")] = False,
    failure: Annotated[
        str | None, Option(metavar="MODE", help="The task failed, in this failure mode.")
    ] = None,
    unknown: Annotated[bool, Option("--unknown", help="Reset the outcome to unknown.")] = False,
    phase: Annotated[str | None, Option(help="The phase in which the outcome was decided.")] = None,
    phases: Annotated[
        str | None, Option(metavar="NAME=START:END ...", help="When each phase was, s; '' removes them.")
    ] = None,
    keep: Annotated[
        str | None, Option(metavar="START:END", help="The part that `trim` keeps, s; '' keeps all.")
    ] = None,
    by: Annotated[str, Option(help="Author of the label.")] = "",
    history: Annotated[bool, Option("--history", help="List all labels instead of adding one.")] = False,
    agreement: Annotated[
        bool,
        Option("--agreement", help="Instead: how far raters agree (Cohen's kappa), and where they do not."),
    ] = False,
    json: Json = False,
) -> None:
    """Label the outcome of episodes; earlier labels, with author and time, are kept."""
    from twinloop.datasets.labelling import label_episodes

    if history:
        _print_label_history(dataset, episodes, json)
        return
    if agreement:
        _compare_raters(dataset, json)
        return
    if sum((success, failure is not None, unknown)) > 1:
        raise WrongUse("--success, --failure and --unknown exclude each other")
    if bool(episodes) == bool(where):
        raise WrongUse("no episodes are named", expected="their numbers, or --where CONDITION")
    values: dict[str, bool | str | None] = {"success": True} if success else {}
    if unknown:
        values = {"success": None, "failure": None}
    named = {"failure": failure, "phase": phase, "phases": phases, "keep": keep}
    values |= {name: value for name, value in named.items() if value is not None}
    added = label_episodes(dataset, values, by, numbers=episodes or [], where=where)
    ids = list(dict.fromkeys(one.episode_id for one in added))
    text = f"labelled {console.count(len(ids), 'episode')} of {dataset}"
    console.print_result(json, {"episodes": ids, "labels": values}, text)


def trim(dataset: DatasetFolder, out: NewDataset, json: Json = False) -> None:
    """Write a dataset whose episodes are cut to the part labelled with --keep; the original stays."""
    from twinloop.datasets.trim import trim as trim_dataset

    with console.progress_bar("trimming") as progress:
        trimmed = trim_dataset(dataset, out, on_progress=progress)
    if json:
        console.print_json({"out": out, "episodes": len(trimmed)})
        return
    console.print_written(out, trimmed)


def _print_label_history(dataset: Path, episodes: Sequence[int] | None, json: bool) -> None:
    """Print every label of these episodes, or of all, oldest first."""
    from twinloop.datasets.labels import load_labels

    rows = twinloop.query([dataset], "select episode_id, episode_index from episodes").to_pylist()
    number_of = {row["episode_id"]: int(row["episode_index"]) for row in rows}
    labels = [
        (number_of[label.episode_id], label)
        for label in load_labels(dataset)
        if label.episode_id in number_of and (not episodes or number_of[label.episode_id] in episodes)
    ]
    if json:
        console.print_json([asdict(label) | {"episode": number} for number, label in labels])
    elif not labels:
        console.out.print("no labels")
    else:
        console.print_table(
            ("episode", "when", "field", "value", "by"),
            [(number, label.at, label.field, label.value, label.by) for number, label in labels],
        )


def _compare_raters(dataset: Path, json: bool) -> None:
    from twinloop.datasets.labelling import compare_raters

    found = compare_raters(dataset)
    console.print_result(json, asdict(found), lambda: _print_agreement(found))


def _print_agreement(found: Agreement) -> None:
    kappa = "" if found.kappa is None else f", Cohen's kappa {found.kappa:.2f}"
    console.out.print(
        f"{console.count(len(found.raters), 'rater')} agree about {found.agreed} of {found.compared} episodes{kappa}"
    )

    def row(one: Disagreement) -> tuple[Any, ...]:
        words = {True: "success", False: "failure"}
        said = ", ".join(
            f"{rater}: {words[value] if isinstance(value, bool) else value}"
            for rater, value in one.said.items()
        )
        return one.episode, one.field, said

    if found.disagreements:
        console.print_table(("episode", "about", "raters"), [row(one) for one in found.disagreements])
