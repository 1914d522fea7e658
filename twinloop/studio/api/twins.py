"""Twins: their scenes, parameters and versions, and the decisions about them."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from twinloop.engines.geometry import Geometry
from twinloop.errors import WrongUse
from twinloop.identification.result import Identification, load_identification
from twinloop.identification.words import explain_estimate
from twinloop.studio.context import CurrentWorkspace, confine
from twinloop.studio.scene import open_twin, scene_of
from twinloop.twin_values import (
    NOMINAL,
    POSTERIOR,
    ValueSource,
    find_value_sources,
    read_spread,
    read_values,
)
from twinloop.twin_versions import (
    TwinRejection,
    TwinUse,
    TwinVersion,
    accept_twin,
    list_twin_versions,
    reject_twin,
    roll_back_twin,
    twin_history,
)
from twinloop.twins import Difference, Parameter, compare_twins
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/twins", tags=["twins"])

Place = Annotated[
    str | None, Query(max_length=500, description="The twin's folder, seen from the workspace.")
]
Source = Annotated[str, Query(max_length=500, description="Where values come from.")]
Number = Annotated[int, Query(ge=0, le=100_000, description="Which sample or draw.")]
Seed = Annotated[int, Query(ge=0, lt=2**31, description="Random seed of draws.")]


class Twins(BaseModel):
    """Every twin of the workspace, the current one first, and which was current when."""

    current: str | None
    versions: list[TwinVersion]
    history: list[TwinUse]


class TwinParameter(BaseModel):
    """One parameter; the last fields are those of its estimate, where it was identified."""

    name: str
    description: str
    dimension: str
    stage: str
    unit: str
    nominal: float | str
    low: float | None
    high: float | None
    whole: bool
    choices: list[str]
    before: float | None = None
    status: str | None = None
    interval: tuple[float, float] | None = None
    words: str | None = None


class TwinDetail(BaseModel):
    """A twin with its parameters and where values of them may come from."""

    twin: str
    name: str
    version: str
    content_hash: str
    parent: str | None
    description: str
    robot: str
    task: str
    control_hz: float
    physics_dt_s: float
    cameras: list[str]
    parameters: list[TwinParameter]
    sources: list[ValueSource]


class TwinScene(BaseModel):
    """A twin as one set of values makes it look; `values` are those that are not nominal."""

    geometry: Geometry
    values: dict[str, float | str]


class ParameterSpread(BaseModel):
    """How values of a parameter are spread, by source: bin edges and the fraction of values in each bin."""

    source: str
    edges: list[float]
    fractions: list[float]
    middle: float
    low: float
    high: float


class ParameterDetail(BaseModel):
    """One parameter with its nominal value and how others are spread."""

    name: str
    unit: str
    nominal: float | str
    spreads: list[ParameterSpread]


class Decision(BaseModel):
    """A decision about a candidate."""

    twin: str = Field(min_length=1, max_length=500)
    by: str = Field(max_length=100)
    reason: str = Field(max_length=1000)
    override: bool = False


class RollBack(BaseModel):
    """A step back to the twin before."""

    by: str = Field(max_length=100)
    reason: str = Field(max_length=1000)


@router.get("", operation_id="twins")
def twins(workspace: CurrentWorkspace) -> Twins:
    """Every twin of the workspace, as `twinloop twin versions` lists them."""
    return Twins(
        current=workspace.twin, versions=list_twin_versions(workspace), history=twin_history(workspace)
    )


@router.get("/detail", operation_id="twin")
def twin(workspace: CurrentWorkspace, twin: Place = None) -> TwinDetail:
    """One twin with its parameters, as `twinloop twin show` shows them."""
    place = _place(workspace, twin)
    found = open_twin(workspace, place)
    folder = confine(workspace, place)
    identified = load_identification(folder) if (folder / Identification.FILE).is_file() else None
    return TwinDetail(
        twin=place,
        name=found.name,
        version=found.version,
        content_hash=found.content_hash,
        parent=found.parent,
        description=found.description,
        robot=found.robot,
        task=found.task,
        control_hz=found.control_hz,
        physics_dt_s=found.physics_dt_s,
        cameras=[camera.name for camera in found.cameras],
        parameters=[_parameter(one, identified) for one in found.parameters],
        sources=find_value_sources(workspace, place, found),
    )


@router.get("/scene", operation_id="twin_scene")
def scene(
    workspace: CurrentWorkspace,
    twin: Place = None,
    source: Source = NOMINAL,
    number: Number = 0,
    seed: Seed = 0,
    changes: Annotated[
        str, Query(alias="set", max_length=20_000, description="Further values, as a JSON object.")
    ] = "",
) -> TwinScene:
    """A twin as a sample, a draw or values of one's own make it look."""
    place = _place(workspace, twin)
    found = open_twin(workspace, place)
    values = {**read_values(workspace, place, source, number, seed, found), **_read_changes(changes)}
    known = {name: value for name, value in values.items() if found.has(name)}
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        found.parameter(unknown)
    return TwinScene(geometry=scene_of(found, known), values=known)


@router.get("/parameter", operation_id="twin_parameter")
def parameter(
    workspace: CurrentWorkspace,
    name: Annotated[str, Query(max_length=200)],
    twin: Place = None,
    sources: Annotated[list[str] | None, Query(max_length=8, description="Sources of values.")] = None,
) -> ParameterDetail:
    """How the values of one parameter are spread in a posterior and in randomizations."""
    place = _place(workspace, twin)
    cell = open_twin(workspace, place)
    found = cell.parameter(name)
    spreads = []
    for source in dict.fromkeys(sources or (POSTERIOR,)):
        spread = read_spread(workspace, place, source, name, twin=cell)
        if spread is not None:
            edges, fractions = spread.edges.tolist(), spread.fractions.tolist()
            spreads.append(
                ParameterSpread(
                    source=source, edges=edges, fractions=fractions, middle=spread.middle, low=spread.low, high=spread.high
                )
            )  # fmt: skip
    return ParameterDetail(name=name, unit=found.unit, nominal=found.nominal, spreads=spreads)


@router.get("/compare", operation_id="compare_twins")
def compare(
    workspace: CurrentWorkspace,
    first: Annotated[str, Query(max_length=500)],
    second: Annotated[str, Query(max_length=500)],
) -> list[Difference]:
    """Parameters whose nominal values differ between two twins, as `twinloop twin compare` lists them."""
    return list(compare_twins(open_twin(workspace, first), open_twin(workspace, second)))


@router.post("/rollback", operation_id="roll_back_twin")
def roll_back(workspace: CurrentWorkspace, asked: RollBack) -> TwinUse:
    """Make the previous twin current again, as `twinloop twin rollback` does."""
    _require_signed(asked.by, asked.reason)
    return roll_back_twin(workspace, asked.reason, asked.by)


@router.post("/accept", operation_id="accept_twin")
def accept(workspace: CurrentWorkspace, asked: Decision) -> TwinUse:
    """Make a candidate the current twin, as `twinloop twin accept` does."""
    confine(workspace, asked.twin)
    return accept_twin(workspace, asked.twin, asked.reason, asked.by, override=asked.override)


@router.post("/reject", operation_id="reject_twin")
def reject(workspace: CurrentWorkspace, asked: Decision) -> TwinRejection:
    """Decide against a candidate, as `twinloop twin reject` does."""
    confine(workspace, asked.twin)
    return reject_twin(workspace, asked.twin, asked.reason, asked.by)


def _place(workspace: Workspace, twin: str | None) -> str:
    place = twin or workspace.twin
    if place is None:
        raise WrongUse("this workspace has no twin", remedy="twinloop init DIR --twin NAME")
    confine(workspace, place)
    return place


def _parameter(parameter: Parameter, identified: Identification | None) -> TwinParameter:
    low, high = parameter.bounds
    made = TwinParameter(
        name=parameter.name,
        description=parameter.description,
        dimension=parameter.dimension,
        stage=parameter.stage,
        unit=parameter.unit,
        nominal=parameter.nominal,
        low=_finite(low),
        high=_finite(high),
        whole=parameter.whole,
        choices=list(parameter.choices),
    )
    if identified is not None and parameter.name in identified.names:
        estimate = identified[parameter.name]
        made.before, made.status = estimate.nominal, estimate.status
        made.interval = (estimate.low, estimate.high)
        made.words = explain_estimate(identified, parameter.name)
    return made


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _read_changes(text: str) -> dict[str, float | str]:
    if not text:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongUse("the values cannot be read", got=text[:100], expected="a JSON object") from error
    plain = isinstance(values, dict) and all(
        isinstance(value, int | float | str) and not isinstance(value, bool) for value in values.values()
    )
    if not plain:
        raise WrongUse("the values cannot be read", got=text[:100], expected="numbers and words by parameter")
    try:
        return {name: value if isinstance(value, str) else float(value) for name, value in values.items()}
    except OverflowError as error:
        raise WrongUse("a value is too large", got=text[:100]) from error


def _require_signed(by: str, reason: str) -> None:
    if not (by.strip() and reason.strip()):
        raise WrongUse("a decision needs a name and a reason")
