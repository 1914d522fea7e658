"""The plan of a workspace as a board: items are planned, recording or done, with who moved them and when.

The board is `plan.json` in the workspace. Until somebody changes it, it is the newest plan below the workspace, such as the one
that the loop made, which itself is never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import hold_lock
from twinloop.datasets.reader import Dataset
from twinloop.errors import UnknownName, WorkspaceError, WrongUse
from twinloop.planning.costs import Costs
from twinloop.planning.items import STATES, Item, Move, Plan, State, load_plan
from twinloop.planning.needs import MapSelection, target_of
from twinloop.planning.progress import ItemProgress, count_item
from twinloop.planning.run import episodes_of_task, region_item, with_items
from twinloop.records import Record, derived, find_records, save_record

LOCK = ".plan.lock"
MAX_NOTE = 500


@dataclass(frozen=True)
class BoardItem(Record):
    """An item with its state, who put it there and when, and how much of it is recorded.

    `recorded` is None where nothing is counted: there is nothing to record, or no dataset to count in; `problem` says why it could
    not be counted.
    """

    item: Item
    state: State
    by: str | None
    at: str | None
    note: str
    recorded: int | None
    succeeded: int | None
    problem: str | None = None

    @derived
    def left(self) -> int:
        """How many are still to record."""
        return max(0, self.item.episodes - (self.recorded or 0))


def find_board(workspace: Path) -> Path | None:
    """The file of a workspace's plan.

    Args:
        workspace: The workspace.

    Returns:
        Its `plan.json`, or else the newest one in its folders; None if there is none.
    """
    own = workspace / Plan.FILE
    if own.is_file():
        return own
    return next(iter(find_records(workspace, Plan.FILE)), None)


def load_board(workspace: Path) -> Plan:
    """The plan of a workspace.

    Args:
        workspace: The workspace.

    Returns:
        Its plan; one without items where there is none yet.

    Raises:
        WrongUse: The file is not a plan.
    """
    file = find_board(workspace)
    return load_plan(file) if file is not None else Plan(_now(), (), None, 0, 0.0, {}, ())


def change_board(workspace: Path, change: Callable[[Plan], Plan]) -> Plan:
    """Change the plan of a workspace, one process at a time.

    Args:
        workspace: The workspace.
        change: Makes the new plan of the one that is there.

    Returns:
        The new plan, durable in `plan.json`.

    Raises:
        WorkspaceError: Another process is changing it; nothing is changed.
    """

    def busy(holder: str) -> WorkspaceError:
        return WorkspaceError(f"the plan of {workspace} is being changed by {holder}", remedy="try again")

    with hold_lock(workspace, LOCK, busy):
        plan = change(load_board(workspace))
        save_record(plan, workspace / Plan.FILE)
    return plan


def add_item(
    plan: Plan, selection: MapSelection, *, by: str, costs: Costs | None = None, seed: int = 0
) -> tuple[Plan, Item]:
    """Add an item that asks for demonstrations in a selected region.

    Args:
        plan: The plan.
        selection: The region, from `select_region`.
        by: Who adds it; recorded.
        costs: What recording costs; default: the usual hours.
        seed: Random seed for the interval of the expected gain.

    Returns:
        The plan with the item in order of gain per hour, and the item.

    Raises:
        WrongUse: `by` is empty.
    """
    _require_name(by)
    costs = costs or Costs()
    if plan.success is None and (ended := selection.outcomes) is not None:
        known = ended.known_inside + ended.known_elsewhere
        failed = ended.failed_inside + ended.failed_elsewhere
        plan = replace(plan, success=1.0 - failed / known if known else None)
    number = 1
    while plan.item(f"region-{number}") is not None:
        number += 1
    region = target_of(selection)
    if (
        not region.conditions
    ):  # nothing says where later recordings lie, so they are found by the name of their task
        task = f"plan-region-{number}"
        region = replace(region, task=task, query=episodes_of_task(task))
    item = region_item(number, region, plan, selection.twin, costs, seed)
    item = replace(item, added_by=by.strip(), added_at=_now())
    return with_items(plan, (*plan.items, item), costs), item


def move_item(plan: Plan, name: str, state: str, *, by: str, note: str = "") -> Plan:
    """Put an item into a state.

    Args:
        plan: The plan.
        name: The item's id.
        state: planned, recording or done.
        by: Who moves it; recorded.
        note: Why, if there is something to say.

    Returns:
        The plan with one more move, or as it is if the item is in that state already.

    Raises:
        UnknownName: There is no such item or state.
        WrongUse: `by` is empty, or the note is too long.
    """
    _require_name(by)
    if plan.item(name) is None:
        raise UnknownName("item of the plan", name, [item.id for item in plan.items])
    found = next((one for one in STATES if one == state), None)
    if found is None:
        raise UnknownName("state", state, STATES)
    if len(note) > MAX_NOTE:
        raise WrongUse("the note is too long", got=len(note), expected=f"at most {MAX_NOTE} characters")
    if plan.state(name) == found:
        return plan
    return replace(plan, moves=(*plan.moves, Move(name, found, by.strip(), _now(), note.strip())))


def count_board(plan: Plan, datasets: Sequence[Dataset]) -> tuple[ItemProgress, ...]:
    """How much of each item has been recorded since it is in the plan.

    Args:
        plan: The plan.
        datasets: Where to count; episodes without a recording time may be older than the plan, and do not count.

    Returns:
        Every item of which something is to be recorded.
    """
    return tuple(count_item(item, plan, datasets, undated=False) for item in plan.items if item.episodes)


def read_board(plan: Plan, datasets: Sequence[Dataset] = ()) -> tuple[BoardItem, ...]:
    """Every item of a plan with its state, and how much of it has been recorded since.

    Args:
        plan: The plan.
        datasets: Where recordings are counted.

    Returns:
        The items, best gain per hour first.
    """
    made = []
    progress = {one.id: one for one in count_board(plan, datasets)} if datasets else {}
    for item in plan.items:
        move, counted = plan.last_move(item.id), progress.get(item.id)
        made.append(
            BoardItem(
                item,
                plan.state(item.id),
                move.by if move else item.added_by,
                move.at if move else item.added_at,
                move.note if move else "",
                counted.recorded if counted else None,
                counted.succeeded if counted else None,
                counted.problem if counted else None,
            )
        )
    return tuple(made)


def _require_name(by: str) -> None:
    if not by.strip():
        raise WrongUse("a change of the plan needs a name", remedy="--by NAME")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
