"""Coverage: the map of real and simulated points, its regions, and what an outline on it selects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from twinloop.coverage.map_file import FILE, find_coverages, load_coverage_map
from twinloop.coverage.result import Coverage, CoverageMap, DatasetSummary, Level, Region, load_coverage
from twinloop.coverage.sample import Points, SampledEpisodes
from twinloop.datasets.layout import INFO
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Array
from twinloop.errors import TwinloopError, UnknownName
from twinloop.planning.needs import MapSelection
from twinloop.planning.select import PLACES, axes_of, parse_outline, select_region
from twinloop.records import find_records
from twinloop.studio.context import CurrentWorkspace, Kept, cached, confine, etag_of
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/coverage", tags=["coverage"])

CoveragePath = Annotated[str, Query(description="Folder of the coverage in the workspace.", max_length=1000)]
LevelName = Annotated[Level, Query(description="moment: sampled rows; situation: how episodes begin.")]
Axis = Annotated[str, Query(description='"map 1", "map 2", or a variable of the level.', max_length=300)]

NO_REGION = 255
UNKNOWN, SUCCEEDED, FAILED = 0, 1, 2
"""How the episode of a point ended, in the answer of `owners`."""


class CoverageLine(BaseModel):
    """A coverage of the workspace; `problem` says why it cannot be read."""

    path: str
    at: str
    real: str = ""
    sim: str = ""
    outside: float = 0.0
    regions: int = 0
    has_map: bool = False
    problem: str | None = None


class CoverageAxis(BaseModel):
    """An axis of the map: places on it have no unit."""

    name: str
    unit: str
    low: float
    high: float


class CoverageLevel(BaseModel):
    """Points of one level: real ones first, then simulated ones."""

    name: Level
    real: int
    sim: int
    axes: list[CoverageAxis]


class CoverageSide(BaseModel):
    """One of the two datasets; `path` is where it lies in the workspace, if it still does."""

    summary: DatasetSummary
    path: str | None


class CoverageAnswer(BaseModel):
    """A coverage: its regions, and what its map can show; `levels` is empty where no map was kept."""

    path: str
    real: CoverageSide
    sim: CoverageSide
    outside: float
    far: float
    regions: list[Region]
    missing: list[str]
    levels: list[CoverageLevel]


class Outline(BaseModel):
    """An outline on a coverage map."""

    coverage: str = Field(max_length=1000, description="Folder of the coverage in the workspace.")
    polygon: str = Field(max_length=40_000, description='Corners in units of the axes, "X,Y X,Y ...".')
    across: str = Field(PLACES[0], max_length=300, description='"map 1", or a variable of the level.')
    up: str = Field(PLACES[1], max_length=300, description='"map 2", or a variable of the level.')
    level: Level = Field("moment", description="moment: sampled rows; situation: how episodes begin.")
    name: str | None = Field(None, max_length=200, description="Default: its ranges in words.")


class SelectedRegion(BaseModel):
    """What an outline selects, and where its dataset lies in the workspace, if it still does."""

    selection: MapSelection
    dataset: str | None


def _read_id(info: Path) -> str | None:
    """The id of the dataset that this file describes; None where it cannot be read."""
    try:
        return open_dataset(info.parents[1]).id
    except TwinloopError:
        return None


_ids = Kept(_read_id, most=512)
_maps = cached(load_coverage_map)
_coverages = cached(load_coverage)


@router.get("", operation_id="list_coverages")
def list_coverages(workspace: CurrentWorkspace) -> list[CoverageLine]:
    """Every coverage of the workspace, the newest first."""
    return [_line(workspace.root, folder) for folder in find_coverages(workspace.root)]


@router.get("/coverage", operation_id="read_coverage")
def read_coverage(workspace: CurrentWorkspace, coverage: CoveragePath) -> CoverageAnswer:
    """One coverage: regions, and the axes of its map."""
    folder = confine(workspace, coverage)
    found = _coverages(_existing(folder, Coverage.FILE))
    points = _maps(folder / FILE) if (folder / FILE).is_file() else None
    return CoverageAnswer(
        path=coverage,
        real=CoverageSide(summary=found.real, path=find_by_id(workspace, found.real.id)),
        sim=CoverageSide(summary=found.sim, path=find_by_id(workspace, found.sim.id)),
        outside=found.outside,
        far=found.far,
        regions=list(found.regions),
        missing=list(found.missing),
        levels=[_level(points, level) for level in ("moment", "situation")] if points else [],
    )


@router.get("/owners", operation_id="read_point_owners", response_class=Response)
def read_point_owners(
    workspace: CurrentWorkspace, request: Request, coverage: CoveragePath, level: LevelName = "moment"
) -> Response:
    """Whose point each is: four arrays of 32-bit integers, each as long as there are points.

    Episode number, row, region (255: none), and how the episode ended (0: unknown, 1: succeeded, 2: failed).
    """
    folder = confine(workspace, coverage)
    points = _maps(_existing(folder, FILE))
    sides = (points.real, points.sim)
    episodes = [np.asarray(side.numbers)[_points(side, level).episode] for side in sides]
    rows = [_points(side, level).frame for side in sides]
    ended = [_ended(side)[_points(side, level).episode] for side in sides]
    regions = [_regions(folder, points, level), np.full(len(episodes[1]), NO_REGION)]
    parts = [np.concatenate(part) for part in (episodes, rows, regions, ended)]
    return _binary(request, folder / FILE, "owners", level, np.concatenate(parts).astype("<u4"))


@router.get("/column", operation_id="read_point_column", response_class=Response)
def read_point_column(
    workspace: CurrentWorkspace,
    request: Request,
    coverage: CoveragePath,
    axis: Axis,
    level: LevelName = "moment",
) -> Response:
    """Where points lie on one axis: 32-bit floats, real points first."""
    folder = confine(workspace, coverage)
    points = _maps(_existing(folder, FILE))
    return _binary(
        request, folder / FILE, f"column {axis}", level, _column(points, level, axis).astype("<f4")
    )


@router.get("/select", operation_id="select_points")
def select_points(workspace: CurrentWorkspace, outline: Annotated[Outline, Query()]) -> SelectedRegion:
    """What an outline selects, as `twinloop plan select` says; nothing is written."""
    selection = select_in(workspace, outline)
    found = _coverages(confine(workspace, outline.coverage) / Coverage.FILE)
    return SelectedRegion(selection=selection, dataset=find_by_id(workspace, found.real.id))


def select_in(workspace: Workspace, outline: Outline) -> MapSelection:
    """The selection of an outline on a coverage of the workspace."""
    points = _maps(_existing(confine(workspace, outline.coverage), FILE))
    axes = {"across": outline.across, "up": outline.up}
    return select_region(
        points, parse_outline(outline.polygon), **axes, level=outline.level, name=outline.name or None
    )


def find_by_id(workspace: Workspace, dataset_id: str) -> str | None:
    """Where a dataset lies in the workspace; `data/` first, since copies share their id."""
    root = workspace.root
    infos = [path for path in find_records(root, Path(INFO).name) if path.parts[-2:] == Path(INFO).parts]
    places = sorted(infos, key=lambda path: (not path.is_relative_to(workspace.data), str(path)))
    found = (path for path in places if _ids(path) == dataset_id)
    return next((path.parents[1].relative_to(root).as_posix() for path in found), None)


def _existing(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        remedy = "twinloop coverage --real D1 --sim D2 --out FOLDER"
        raise UnknownName("coverage", folder.name, [], remedy=remedy)
    return file


def _line(root: Path, folder: Path) -> CoverageLine:
    facts = (folder / Coverage.FILE).stat()
    at = datetime.fromtimestamp(facts.st_mtime, UTC).isoformat(timespec="seconds")
    line = CoverageLine(path=folder.relative_to(root).as_posix(), at=at)
    try:
        found = _coverages(folder / Coverage.FILE)
    except TwinloopError as error:
        return line.model_copy(update={"problem": error.what})
    parts = {
        "real": found.real.dataset,
        "sim": found.sim.dataset,
        "outside": found.outside,
        "regions": len(found.regions),
        "has_map": (folder / FILE).is_file(),
    }
    return line.model_copy(update=parts)


def _level(points: CoverageMap, level: Level) -> CoverageLevel:
    units = {v.name: v.unit for v in _points(points.real, level).variables}
    axes = []
    for name in axes_of(points, level):
        values = _column(points, level, name)
        finite = values[np.isfinite(values)]
        if len(finite) and finite.max() > finite.min():
            axes.append(
                CoverageAxis(
                    name=name, unit=units.get(name, ""), low=float(finite.min()), high=float(finite.max())
                )
            )
    sizes = [len(_points(side, level).values) for side in (points.real, points.sim)]
    return CoverageLevel(name=level, real=sizes[0], sim=sizes[1], axes=axes)


def _points(side: SampledEpisodes, level: Level) -> Points:
    return side.moments if level == "moment" else side.situations


def _column(points: CoverageMap, level: Level, axis: str) -> Array:
    """One axis's values of real, then of simulated points."""
    known = axes_of(points, level)
    if axis not in known:
        raise UnknownName(f"axis of the {level}s", axis, known)
    if axis in PLACES:
        places = PLACES.index(axis)
        return np.concatenate([points.real_places[:, places], points.sim_places[:, places]])
    column = [variable.name for variable in _points(points.real, level).variables].index(axis)
    return np.concatenate([_points(side, level).values[:, column] for side in (points.real, points.sim)])


def _ended(side: SampledEpisodes) -> Array:
    codes = {None: UNKNOWN, True: SUCCEEDED, False: FAILED}
    return np.array([codes[success] for success in side.success], dtype=np.uint32)


def _regions(folder: Path, points: CoverageMap, level: Level) -> Array:
    """The first region of each real point; a moment's region holds no situations."""
    found = _coverages(folder / Coverage.FILE)
    marks = np.full(len(_points(points.real, level).values), NO_REGION)
    for number, (region, inside) in reversed(list(enumerate(zip(found.regions, points.inside, strict=True)))):
        if level == "moment":
            marks[inside] = number
        elif region.level == "situation":
            marks[np.isin(points.real.numbers, region.episodes)] = number
    return marks


def _binary(request: Request, file: Path, *parts: object) -> Response:
    """Numbers that stay the same while the map's file does."""
    *names, values = parts
    facts = file.stat()
    tag = etag_of(file, facts.st_mtime_ns, facts.st_size, *names)
    headers = {"etag": tag, "cache-control": "private, max-age=0, must-revalidate"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    assert isinstance(values, np.ndarray)
    return Response(values.tobytes(), media_type="application/octet-stream", headers=headers)
