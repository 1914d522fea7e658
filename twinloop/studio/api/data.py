"""Data: the workspace's datasets, their episodes, SQL, and weighted selections."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from twinloop.browsing import Choice, EpisodeFilter, EpisodeLine, Quality, Success
from twinloop.datasets.query import query
from twinloop.errors import TwinloopError
from twinloop.selections import (
    PartCount,
    SelectionPart,
    count_selection,
    list_selections,
    remove_selection,
    save_selection,
)
from twinloop.studio.context import CurrentWorkspace, Limit, Offset, Page
from twinloop.studio.datasets import DatasetPath, OpenDataset, find_datasets, open_shared
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/data", tags=["data"])

SQL_TIME_LIMIT_S = 20.0
MOST_SQL_ROWS = 1000
TABLES = ("episodes", "frames", "transitions")

SqlText = Annotated[str, Query(max_length=20_000, description="One SELECT.")]


class SourceCount(BaseModel):
    """Episodes of one source."""

    source: str
    episodes: int
    successes: int
    failures: int


class DatasetLine(BaseModel):
    """One dataset of the workspace; `problem` says why it cannot be read."""

    path: str
    episodes: int = 0
    frames: int = 0
    hours: float = 0.0
    by_source: list[SourceCount] = []
    success: float | None = None
    cameras: list[str] = []
    tasks: list[str] = []
    robot: str = ""
    rate_hz: float = 0.0
    checked: bool = False
    writable: bool = True
    problem: str | None = None


class Facets(BaseModel):
    """How many episodes have each value of each facet."""

    source: list[Choice]
    outcome: list[Choice]
    failure: list[Choice]
    quality: list[Choice]
    site: list[Choice]
    operator: list[Choice]
    task: list[Choice]


class EpisodePage(Page[EpisodeLine]):
    """A page of episodes; `total` counts those that the filter lets through, `all` those of the dataset."""

    all: int


class SqlColumn(BaseModel):
    """A column of an answer or of a table."""

    name: str
    type: str


class SqlAnswer(BaseModel):
    """The first rows of an answer; `total` rows there are."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    total: int
    seconds: float


class SqlTables(BaseModel):
    """What a query can name: tables with their columns, and the names of draws."""

    tables: dict[str, list[SqlColumn]]
    draws: list[str]


class SelectionAnswer(BaseModel):
    """A selection and what it names now."""

    name: str
    by: str
    at: str
    note: str
    parts: list[PartCount]
    problem: str | None = None


class NewSelection(BaseModel):
    """A selection to save."""

    name: str = Field(max_length=60)
    parts: list[SelectionPart] = Field(max_length=50)
    by: str = Field(max_length=200)
    note: str = Field("", max_length=1000)


@router.get("/datasets", operation_id="list_datasets")
def list_datasets(workspace: CurrentWorkspace) -> list[DatasetLine]:
    """Every dataset of the workspace, with counts by source."""
    return [_dataset_line(workspace, path) for path in find_datasets(workspace)]


@router.get("/dataset", operation_id="read_dataset")
def read_dataset(workspace: CurrentWorkspace, dataset: DatasetPath) -> DatasetLine:
    """One dataset, with counts by source."""
    return _describe(open_shared(workspace, dataset))


@router.get("/facets", operation_id="list_facets")
def list_facets(workspace: CurrentWorkspace, dataset: DatasetPath) -> Facets:
    """What a list of episodes can be filtered by, with counts."""
    return Facets(**open_shared(workspace, dataset).episodes().count_choices())


@router.get("/episodes", operation_id="list_episodes")
def list_episodes(
    workspace: CurrentWorkspace,
    dataset: DatasetPath,
    source: str | None = None,
    outcome: Success | None = None,
    failure: str | None = None,
    quality: Quality | None = None,
    site: str | None = None,
    operator: str | None = None,
    task: str | None = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
    where: Annotated[str | None, Query(max_length=5000, description="An SQL condition.")] = None,
    sort: str = "episode",
    descending: bool = False,
    offset: Offset = 0,
    limit: Limit = 100,
) -> EpisodePage:
    """The episodes of a dataset that have all these properties, as `twinloop data episodes` lists them."""
    listed = open_shared(workspace, dataset).episodes()
    wanted = EpisodeFilter(source, outcome, failure, quality, site, operator, task, text, where)
    found = listed.order(listed.find(wanted), sort, descending)
    lines = listed.lines(found[offset : offset + limit])
    return EpisodePage(items=lines, total=len(found), offset=offset, limit=limit, all=len(listed))


@router.get("/query", operation_id="query_data")
def query_data(
    workspace: CurrentWorkspace,
    sql: SqlText,
    dataset: Annotated[list[str], Query(description="Paths of datasets.", max_length=50)],
    limit: Annotated[int, Query(ge=1, le=MOST_SQL_ROWS)] = 200,
) -> SqlAnswer:
    """One SELECT over datasets, as `twinloop data query` runs it: it reads only these and cannot write."""
    sources = [open_shared(workspace, path).dataset.root for path in dict.fromkeys(dataset)]
    began = time.perf_counter()
    table = query(sources, sql, time_limit_s=SQL_TIME_LIMIT_S)
    seconds = time.perf_counter() - began
    columns = [SqlColumn(name=one.name, type=str(one.type)) for one in table.schema]
    shown = table.slice(0, limit)
    values = [[_plain(value) for value in column.to_pylist()] for column in shown.columns]
    rows = [list(row) for row in zip(*values, strict=True)]
    return SqlAnswer(columns=columns, rows=rows, total=len(table), seconds=seconds)


@router.get("/tables", operation_id="list_tables")
def list_tables(workspace: CurrentWorkspace, dataset: DatasetPath) -> SqlTables:
    """Tables and columns that a query over this dataset can name."""
    root = open_shared(workspace, dataset).dataset.root
    tables = {}
    for name in TABLES:
        schema = query([root], f"select * from {name} limit 0", time_limit_s=SQL_TIME_LIMIT_S).schema
        tables[name] = [SqlColumn(name=one.name, type=str(one.type)) for one in schema]
    keys = "select distinct unnest(map_keys(draw)) as name from episodes order by name limit 500"
    draws = query([root], keys, time_limit_s=SQL_TIME_LIMIT_S).column("name").to_pylist()
    return SqlTables(tables=tables, draws=draws)


@router.get("/selections", operation_id="list_selections")
def list_all_selections(workspace: CurrentWorkspace) -> list[SelectionAnswer]:
    """Weighted selections saved in this workspace, and what each part names now."""
    answers = []
    for one in list_selections(workspace.root):
        known = {"name": one.name, "by": one.by, "at": one.at, "note": one.note}
        try:
            answers.append(SelectionAnswer(**known, parts=count_selection(workspace.root, one)))
        except TwinloopError as error:
            parts = [PartCount(part.dataset, part.where, part.weight, 0, 0.0) for part in one.parts]
            answers.append(SelectionAnswer(**known, parts=parts, problem=error.what))
    return answers


@router.post("/selections", operation_id="save_selection")
def save_new_selection(workspace: CurrentWorkspace, selection: NewSelection) -> SelectionAnswer:
    """Save a selection, as `twinloop data selection save` does."""
    parts = tuple(selection.parts)
    saved = save_selection(workspace.root, selection.name, parts, selection.by, selection.note)
    counts = count_selection(workspace.root, saved)
    return SelectionAnswer(name=saved.name, by=saved.by, at=saved.at, note=saved.note, parts=counts)


@router.delete("/selections/{name}", operation_id="remove_selection")
def remove_one_selection(workspace: CurrentWorkspace, name: str) -> dict[str, str]:
    """Remove a selection; datasets drawn from it stay."""
    return {"removed": remove_selection(workspace.root, name).name}


def _dataset_line(workspace: Workspace, path: str) -> DatasetLine:
    try:
        return _describe(open_shared(workspace, path))
    except TwinloopError as error:
        return DatasetLine(path=path, problem=error.what)


def _describe(opened: OpenDataset) -> DatasetLine:
    dataset, listed = opened.dataset, opened.episodes()
    counts = [
        SourceCount(source=source, episodes=every, successes=successes, failures=failures)
        for source, (every, successes, failures) in listed.count_outcomes().items()
    ]
    known = sum(one.successes + one.failures for one in counts)
    return DatasetLine(
        path=opened.path,
        episodes=len(listed),
        frames=dataset.num_frames,
        hours=dataset.num_frames / dataset.schema.rate_hz / 3600,
        by_source=counts,
        success=sum(one.successes for one in counts) / known if known else None,
        cameras=[camera.name for camera in dataset.schema.cameras],
        tasks=list(dataset.index.tasks[:20]),
        robot=dataset.schema.robot_type,
        rate_hz=dataset.schema.rate_hz,
        checked=listed.checked,
        writable=dataset.manifest is not None,
    )


def _plain(value: Any) -> Any:
    """A value of a row as JSON; what JSON lacks becomes text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
