"""`twinloop data selection ...`: weighted selections of episodes, saved as queries."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twinloop.cli import console
from twinloop.cli.options import Json, NewDataset, WorkspaceFolder
from twinloop.cli.places import require_workspace
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.selections import PartCount, Selection, SelectionPart

app = typer.Typer(
    help="Save weighted selections of episodes by name, and draw datasets from them.", no_args_is_help=True
)

SelectionName = Annotated[str, Argument(metavar="NAME", help="The selection.")]


@app.command()
def save(
    name: SelectionName,
    parts: Annotated[
        list[str],
        Argument(
            metavar="DATASET [WHERE [WEIGHT]]...",
            help="Datasets, each with an SQL condition on its episodes and a weight: data/real 'success' 3.",
        ),
    ],
    by: Annotated[str, Option(help="Author of the selection.")] = "",
    note: Annotated[str, Option(help="What it is for.")] = "",
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Save a selection; it is a query, so it follows the data until a dataset is drawn from it."""
    from twinloop.selections import count_selection, save_selection

    root = require_workspace(workspace).root
    selection = save_selection(root, name, _read_parts(root, parts), by, note)
    counts = count_selection(root, selection)
    console.print_result(json, _as_json(selection, counts), lambda: _print_selection(selection, counts))


@app.command("ls")
def list_(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the selections of a workspace."""
    from twinloop.selections import list_selections

    found = list_selections(require_workspace(workspace).root)

    def row(one: Selection) -> tuple[Any, ...]:
        return one.name, len(one.parts), one.by, one.at, one.note

    console.print_list(json, found, ("selection", "parts", "by", "at", "note"), row, "no selection")


@app.command()
def show(name: SelectionName, workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """Count what a selection names now."""
    from twinloop.selections import count_selection, load_selection

    root = require_workspace(workspace).root
    selection = load_selection(root, name)
    counts = count_selection(root, selection)
    console.print_result(json, _as_json(selection, counts), lambda: _print_selection(selection, counts))


@app.command()
def rm(name: SelectionName, workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """Remove a selection; datasets drawn from it stay."""
    from twinloop.selections import remove_selection

    removed = remove_selection(require_workspace(workspace).root, name)
    console.print_result(json, {"removed": removed.name}, f"removed {removed.name}")


@app.command()
def draw(
    name: SelectionName,
    out: NewDataset,
    episodes: Annotated[
        int | None, Option(help="Episodes to draw; default: as many as the weights allow.", min=1)
    ] = None,
    seed: Annotated[int, Option(help="Random seed for the draw.")] = 0,
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Write a dataset drawn from a selection, each part in proportion to its weight, without repetition."""
    from twinloop.selections import draw_selection, load_selection

    root = require_workspace(workspace).root
    selection = load_selection(root, name)
    with console.progress_bar("copying") as progress:
        result = draw_selection(root, selection, out, episodes=episodes, seed=seed, on_progress=progress)
    if json:
        console.print_json({"out": out, "episodes": len(result.dataset)})
        return
    console.print_written(out, result.dataset)


def _read_parts(root: Path, words: list[str]) -> tuple[SelectionPart, ...]:
    """Datasets, each followed by at most a condition and a weight."""
    from twinloop.datasets.layout import INFO
    from twinloop.selections import EVERYTHING, SelectionPart

    groups: list[list[str]] = []
    for word in words:
        if any((place / word / INFO).is_file() for place in (Path(), root)):
            groups.append([word])
        elif groups and len(groups[-1]) < 3:
            groups[-1].append(word)
        else:
            raise WrongUse("not a dataset", got=word, expected="DATASET [WHERE [WEIGHT]] ...")
    parts = []
    for group in groups:
        place, where, weight = (*group, EVERYTHING, "1")[:3] if len(group) < 2 else (*group, "1")[:3]
        try:
            value = float(weight)
        except ValueError as error:
            raise WrongUse(f"bad weight of {place}", got=weight, expected="a number more than 0") from error
        parts.append(SelectionPart(_seen_from(root, place), where, value))
    return tuple(parts)


def _seen_from(root: Path, place: str) -> str:
    folder = Path(place) if Path(place).exists() else root / place
    resolved, top = folder.resolve(), root.resolve()
    if not resolved.is_relative_to(top):
        raise WrongUse("a selection names datasets of its workspace", got=place)
    return resolved.relative_to(top).as_posix()


def _as_json(selection: Selection, counts: list[PartCount]) -> dict[str, Any]:
    return asdict(selection) | {"parts": [asdict(one) for one in counts]}


def _print_selection(selection: Selection, counts: list[PartCount]) -> None:
    console.out.print(f"{selection.name}, by {selection.by}, {selection.at} {selection.note}".rstrip())
    rows = [(one.dataset, one.where, one.weight, one.episodes, f"{one.fraction:.0%}") for one in counts]
    console.print_table(("dataset", "where", "weight", "episodes", "of a draw"), rows)
