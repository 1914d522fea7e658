"""Plan: the workspace's plan as a board, items made of outlines on a coverage map, and the operator's sheet."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from twinloop.planning.board import (
    BoardItem,
    add_item,
    change_board,
    count_board,
    find_board,
    move_item,
    read_board,
)
from twinloop.planning.board import load_board as load_plan_of
from twinloop.planning.items import Item, Move, Plan
from twinloop.planning.progress import ItemProgress
from twinloop.report.page import content_security_policy
from twinloop.report.plan_sheet import render_plan_sheet
from twinloop.studio.api.coverage import Outline, select_in
from twinloop.studio.context import CurrentWorkspace, etag_of
from twinloop.workspace import Workspace, recorded_datasets

router = APIRouter(prefix="/api/plan", tags=["plan"])

Name = Annotated[str, Field(max_length=200)]


class PlanAnswer(BaseModel):
    """The plan of the workspace; `path` is its file there, None if there is no plan yet."""

    path: str | None
    made_at: str
    success: float | None
    hours: float
    trials: int
    trial_minutes: float
    sources: dict[str, str]
    assumptions: list[str]
    items: list[BoardItem]
    moves: list[Move]


class NewItem(Outline):
    """An outline of which an item is made, and who adds it."""

    by: Name


class NewState(BaseModel):
    """Where an item is moved, by whom and why."""

    state: Literal["planned", "recording", "done"]
    by: Name
    note: str = Field("", max_length=500)


@router.get("", operation_id="read_plan")
def read_plan(workspace: CurrentWorkspace) -> PlanAnswer:
    """The plan of the workspace: every item with its state and who put it there; `progress` counts recordings."""
    return _answer(workspace, load_plan_of(workspace.root))


@router.get("/progress", operation_id="read_plan_progress")
def read_plan_progress(workspace: CurrentWorkspace) -> list[ItemProgress]:
    """How much of each item has been recorded since it is in the plan, in whichever dataset of the workspace."""
    return _counted(workspace, load_plan_of(workspace.root))


@router.post("/items", operation_id="add_plan_item")
def add_plan_item(workspace: CurrentWorkspace, new: NewItem) -> Item:
    """Add an item that asks for demonstrations in an outlined region, as `twinloop plan add` does."""
    selection = select_in(workspace, new)
    added: list[Item] = []

    def change(plan: Plan) -> Plan:
        changed, item = add_item(plan, selection, by=new.by)
        added.append(item)
        return changed

    change_board(workspace.root, change)
    return added[0]


@router.post("/items/{item}/move", operation_id="move_plan_item")
def move_plan_item(workspace: CurrentWorkspace, item: str, to: NewState) -> PlanAnswer:
    """Put an item into a state, as `twinloop plan move` does."""
    plan = change_board(workspace.root, lambda one: move_item(one, item, to.state, by=to.by, note=to.note))
    return _answer(workspace, plan)


@router.get("/sheet", operation_id="read_plan_sheet", response_class=HTMLResponse)
def read_plan_sheet(
    workspace: CurrentWorkspace, item: Annotated[list[str] | None, Query(max_length=100)] = None
) -> HTMLResponse:
    """The operator's sheet, to print: one box to tick for every episode."""
    page = render_plan_sheet(load_plan_of(workspace.root), item or ())
    return HTMLResponse(page, headers={"content-security-policy": content_security_policy()})


_last: dict[str, list[ItemProgress]] = {}


def _counted(workspace: Workspace, plan: Plan) -> list[ItemProgress]:
    """What is recorded of each item, counted again where the plan or a dataset has changed."""
    datasets = recorded_datasets(workspace)
    versions = [one.manifest.fingerprint if one.manifest else one.id for one in datasets]
    key = etag_of(workspace.root, plan, *versions)
    if (known := _last.get(key)) is not None:
        return known
    counted = list(count_board(plan, datasets))
    _last.clear()
    _last[key] = counted
    return counted


def _answer(workspace: Workspace, plan: Plan) -> PlanAnswer:
    file = find_board(workspace.root)
    return PlanAnswer(
        path=file.relative_to(workspace.root).as_posix() if file else None,
        made_at=plan.made_at,
        success=plan.success,
        hours=plan.hours,
        trials=plan.trials,
        trial_minutes=plan.trial_minutes,
        sources=dict(plan.sources),
        assumptions=list(plan.assumptions),
        items=list(read_board(plan)),
        moves=list(plan.moves),
    )
