"""`twinloop plan select`, `add`, `move`, `board` and `sheet`: the plan of a workspace, worked with item by item."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, WorkspaceFolder
from twinloop.cli.places import require_workspace
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.coverage.result import Level
    from twinloop.planning.board import BoardItem
    from twinloop.planning.items import Item
    from twinloop.planning.needs import MapSelection

By = Annotated[str, Option(help="Your name; recorded.")]
ItemId = Annotated[str, Argument(metavar="ITEM", help="The item's id, as `twinloop plan board` lists it.")]
CoverageFolder = Annotated[
    Path, Argument(metavar="COVERAGE", help="What `twinloop coverage --out` wrote: the map is in it.")
]
Outline = Annotated[
    str, Option(metavar='"X,Y X,Y ..."', help="Corners of the outline, in units of the two axes.")
]
Across = Annotated[str, Option(metavar="NAME", help='Horizontal axis: "map 1", or a variable.')]
Up = Annotated[str, Option(metavar="NAME", help='Vertical axis: "map 2", or a variable.')]
LevelName = Annotated[str, Option(help="moment: sampled rows; situation: how episodes begin.")]
CostsFile = Annotated[
    Path | None,
    Option(metavar="FILE.yaml", help="What recording costs here; default: see --default-costs."),
]


def select(
    coverage: CoverageFolder,
    polygon: Outline,
    across: Across = "map 1",
    up: Up = "map 2",
    level: LevelName = "moment",
    name: Annotated[str | None, Option(help="What to call it; default: its ranges in words.")] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE.json", help="Store it, for `twinloop plan add`.")
    ] = None,
    json: Json = False,
) -> None:
    """Select the real episodes inside an outline on a coverage map: what sets them apart, and how they ended."""
    from twinloop.planning.select import parse_outline, select_region
    from twinloop.records import save_record

    selection = select_region(
        coverage, parse_outline(polygon), across=across, up=up, level=_level(level), name=name
    )
    if out is not None:
        save_record(selection, out)
    console.print_result(json, selection.as_json() | {"out": out}, lambda: _print_selection(selection, out))


def add(
    item: Annotated[Path, Argument(metavar="FILE.json", help="What `twinloop plan select --out` wrote.")],
    by: By,
    costs: CostsFile = None,
    seed: Annotated[int, Option(help="Random seed for the interval of the expected gain.")] = 0,
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Add an item to the plan of the workspace that asks for demonstrations in a selected region."""
    from twinloop.planning.board import add_item, change_board
    from twinloop.planning.costs import load_costs
    from twinloop.planning.needs import load_selection

    selection, prices = load_selection(item), load_costs(costs)
    added: list[Item] = []

    def change(plan: twinloop.Plan) -> twinloop.Plan:
        changed, made = add_item(plan, selection, by=by, costs=prices, seed=seed)
        added.append(made)
        return changed

    plan = change_board(require_workspace(workspace).root, change)
    made = plan.item(added[0].id)
    assert made is not None
    text = f"{made.title} ({made.id}): {made.episodes} {made.unit}, {made.hours:.1f} h; expected gain {made.gain}"
    console.print_result(json, next(one for one in plan.as_json()["items"] if one["id"] == made.id), text)


def move(
    item: ItemId,
    state: Annotated[str, Argument(help="planned, recording or done.")],
    by: By,
    note: Annotated[str, Option(help="Why, if there is something to say.")] = "",
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Put an item of the workspace's plan into a state; who and when is kept in the plan."""
    from twinloop.planning.board import change_board, move_item

    root = require_workspace(workspace).root
    plan = change_board(root, lambda before: move_item(before, item, state, by=by, note=note))
    last = plan.last_move(item)
    value = asdict(last) if last else {"item": item, "state": plan.state(item)}
    console.print_result(json, value, f"{item} is {plan.state(item)}")


def board(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the items of the workspace's plan with their states, and how much of each is recorded in its datasets."""
    from twinloop.planning.board import load_board, read_board
    from twinloop.workspace import recorded_datasets

    found = require_workspace(workspace)
    plan = load_board(found.root)
    items = read_board(plan, recorded_datasets(found))
    console.print_list(
        json,
        items,
        ("item", "state", "by", "recorded", "of", "hours", "expected gain", "what"),
        _row,
        "the plan has no items: twinloop plan --coverage FOLDER --out plan.json",
    )


def sheet(
    out: Annotated[Path, Option("--out", metavar="FILE.html", help="Where to write the sheet.")],
    item: Annotated[
        list[str] | None, Option(metavar="ID", help="An item to print; may be repeated; default: all.")
    ] = None,
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Write a sheet of the workspace's plan for the operator, to print: one box to tick for every episode."""
    from twinloop.planning.board import load_board
    from twinloop.report.plan_sheet import write_plan_sheet

    page = write_plan_sheet(load_board(require_workspace(workspace).root), out, item or ())
    console.print_result(json, {"sheet": page}, f"wrote {page}")


def _level(text: str) -> Level:
    if text == "moment":
        return "moment"
    if text == "situation":
        return "situation"
    raise WrongUse("unknown level", got=text, available=["moment", "situation"])


def _print_selection(selection: MapSelection, out: Path | None) -> None:
    size = console.count(len(selection.episodes), "real episode")
    console.out.print(
        f"{selection.name}: {size}, {selection.failed} failed; {selection.sim_episodes} simulated"
    )
    if selection.others:
        console.out.print(
            f"  the same ranges hold for {console.count(selection.others, 'other real episode')}"
        )
    console.out.print(f"  {selection.listed}")
    if out is not None:
        console.out.print(f"wrote {out}; next: twinloop plan add {out} --by NAME")


def _row(one: BoardItem) -> tuple[object, ...]:
    item = one.item
    recorded = "-" if one.recorded is None else one.recorded
    return (
        item.id,
        one.state,
        one.by or "-",
        recorded,
        item.episodes,
        f"{item.hours:.1f}",
        str(item.gain),
        item.title,
    )
