"""Gap and diagnosis: points lost by dimension with the evidence behind each, and how far the twin is from the robot."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from twinloop.diagnosis.measured import Quantity
from twinloop.diagnosis.replayed import SignalErrors
from twinloop.diagnosis.result import Diagnosis, Rule, load_diagnosis
from twinloop.engines.geometry import Geometry
from twinloop.gap.result import Gap, Measure, NotEvaluated, load_gap
from twinloop.gap.success import Success
from twinloop.results import EpisodePlace, find_episodes, find_results
from twinloop.stats.interval import Interval
from twinloop.studio.context import CurrentWorkspace, cached, confine
from twinloop.studio.scene import evidence_of
from twinloop.twins.parameter import DIMENSIONS
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/gap", tags=["gap"])

MOST_EPISODES = 200
"""Runs that are listed as evidence."""

FilePath = Annotated[
    str, Query(min_length=1, max_length=500, description="The result's file, seen from the workspace.")
]


class DiagnosisLine(BaseModel):
    """One diagnosis in a list."""

    path: str
    at: str
    policy: str
    twin: str
    verdict: str
    standin: bool


class GapLine(BaseModel):
    """One measured gap in a list."""

    path: str
    at: str
    twin: str
    episodes: int
    shown: list[str]
    standin: bool


class GapResults(BaseModel):
    """Diagnoses and gaps of the workspace, newest first, and folders for new ones."""

    diagnoses: list[DiagnosisLine]
    gaps: list[GapLine]
    next_diagnosis: str
    next_gap: str


class CostBar(BaseModel):
    """One bar: success points that a dimension costs, and what was measured of it.

    `kind` is "cost" for a dimension that was tried in the twin, "equal" for one that was measured and does not differ, "not measured"
    for one that nothing is known of.
    """

    dimension: str
    kind: Literal["cost", "equal", "not measured"]
    lost: Interval | None
    alone: float | None
    named: bool
    words: str
    quantities: list[Quantity]
    parameters: list[str]
    missing: list[str]


class DiagnosisDetail(BaseModel):
    """A diagnosis with the evidence behind it."""

    path: str
    policy: str
    twin: str
    standin: bool
    verdict: str
    notes: list[str]
    trials: int
    successes: int
    in_twin: Interval
    on_robot: Interval
    predicted: Interval
    drop: Interval
    explained: Interval
    unknown: Interval
    exact: bool
    scenes: int
    evaluations: int
    bars: list[CostBar]
    failures: dict[str, dict[str, int]]
    slices: list[dict[str, Any]]
    rules: list[Rule]
    episodes: list[EpisodePlace]
    episodes_missing: int


class EvidenceSignal(BaseModel):
    """One number of a run: recorded, and in both replays."""

    name: str
    unit: str
    recorded: list[float]
    nominal: list[float]
    measured: list[float]


class Evidence(BaseModel):
    """One run replayed in the twin as it is and with what was measured of a dimension; `reason` says why it cannot be replayed."""

    dimension: str
    values: dict[str, float]
    errors: list[SignalErrors]
    geometry: Geometry
    recorded: dict[str, Any]
    nominal: dict[str, Any] | None
    measured: dict[str, Any] | None
    signals: list[EvidenceSignal]
    reason: str


class DimensionLine(BaseModel):
    """What was measured of one dimension: headlines first, and what would be needed for more."""

    dimension: str
    shown: bool
    headlines: list[Measure]
    channels: list[Measure]
    not_evaluated: list[NotEvaluated]


class GapDetail(BaseModel):
    """A measured gap; differences are simulation minus reality."""

    path: str
    twin: str
    twin_version: str
    sim: str | None
    standin: bool
    level: float
    notes: list[str]
    dimensions: list[DimensionLine]
    success: Success
    episodes: list[EpisodePlace]
    episodes_total: int


@router.get("/results", operation_id="gap_results")
def results(workspace: CurrentWorkspace) -> GapResults:
    """Diagnoses and gaps, wherever a loop or a command wrote them."""
    return GapResults(
        diagnoses=_diagnoses(workspace),
        gaps=_gaps(workspace),
        next_diagnosis=_next(workspace, "diagnosis"),
        next_gap=f"{_next(workspace, 'gap')}/gap.html",
    )


@router.get("/diagnosis", operation_id="diagnosis")
def diagnosis(workspace: CurrentWorkspace, path: FilePath) -> DiagnosisDetail:
    """One diagnosis: a bar for each dimension, the unknown part, and the runs it was made from."""
    found = _read_diagnosis(confine(workspace, path))
    places = find_episodes(workspace, found.episodes[:MOST_EPISODES])
    return DiagnosisDetail(
        path=path,
        policy=found.policy,
        twin=found.twin,
        standin=found.standin,
        verdict=found.verdict,
        notes=list(found.notes),
        trials=found.trials,
        successes=found.successes,
        in_twin=found.in_twin,
        on_robot=found.on_robot,
        predicted=found.predicted,
        drop=found.drop,
        explained=found.explained,
        unknown=found.unknown,
        exact=found.exact,
        scenes=found.scenes,
        evaluations=found.evaluations,
        bars=_bars(found),
        failures={place: dict(counts) for place, counts in found.failures.items()},
        slices=[dict(one) for one in found.slices],
        rules=list(found.rules),
        episodes=sorted(places, key=lambda one: (one.success is True, one.dataset, one.episode)),
        episodes_missing=max(len(found.episodes), found.trials) - len(places),
    )


@router.get("/evidence", operation_id="evidence")
def evidence(
    workspace: CurrentWorkspace,
    path: FilePath,
    dimension: Annotated[str, Query(max_length=100)],
    dataset: Annotated[str, Query(max_length=500)],
    episode: Annotated[int, Query(ge=0)],
) -> Evidence:
    """A run in the twin as it is, and with what was measured of one dimension, which should bring the replay closer."""
    geometry, found = evidence_of(workspace, path, dataset, episode, dimension)
    nominal, measured = found.nominal.as_json(), found.measured.as_json()
    return Evidence(
        dimension=dimension,
        values=dict(found.values),
        errors=list(found.errors),
        geometry=geometry,
        recorded=nominal["recorded"],
        nominal=nominal["replayed"],
        measured=measured["replayed"],
        signals=[
            EvidenceSignal(
                name=one["name"],
                unit=one["unit"],
                recorded=one["recorded"],
                nominal=one["replayed"],
                measured=other["replayed"],
            )
            for one, other in zip(nominal["signals"], measured["signals"], strict=True)
        ],
        reason=nominal["reason"] or measured["reason"],
    )


@router.get("/gap", operation_id="gap")
def gap(workspace: CurrentWorkspace, path: FilePath) -> GapDetail:
    """One measured gap: differences by dimension, success, and the episodes that were looked at."""
    found = _read_gap(confine(workspace, path))
    return GapDetail(
        path=path,
        twin=found.twin,
        twin_version=found.twin_version,
        sim=found.sim,
        standin=found.standin,
        level=found.level,
        notes=list(found.notes),
        dimensions=[
            DimensionLine(
                dimension=name,
                shown=bool(one.shown),
                headlines=list(one.headlines),
                channels=[measure for measure in one.measures if measure not in one.headlines],
                not_evaluated=list(one.not_evaluated),
            )
            for name, one in found.dimensions.items()
        ],
        success=found.success,
        episodes=find_episodes(workspace, found.real_episodes[:MOST_EPISODES]),
        episodes_total=found.episodes,
    )


@cached
def _read_diagnosis(path: Path) -> Diagnosis:
    return load_diagnosis(path)


@cached
def _read_gap(path: Path) -> Gap:
    return load_gap(path)


def _diagnoses(workspace: Workspace) -> list[DiagnosisLine]:
    lines = []
    for one in find_results(workspace, "diagnosis"):
        found = _read_diagnosis(workspace.root / one.path)
        lines.append(
            DiagnosisLine(
                path=one.path, at=one.at, policy=found.policy, twin=found.twin, verdict=found.verdict, standin=found.standin
            )
        )  # fmt: skip
    return lines


def _gaps(workspace: Workspace) -> list[GapLine]:
    lines = []
    for one in find_results(workspace, "gap"):
        found = _read_gap(workspace.root / one.path)
        lines.append(
            GapLine(
                path=one.path, at=one.at, twin=found.twin, episodes=found.episodes, shown=list(found.shown), standin=found.standin
            )
        )  # fmt: skip
    return lines


def _bars(found: Diagnosis) -> list[CostBar]:
    costs = {cost.dimension: cost for cost in found.costs}
    parts = {part.dimension: part for part in found.measured}
    ordered = [*costs, *(name for name in DIMENSIONS if name in parts and name not in costs)]
    bars = []
    for name in ordered:
        cost, part = costs.get(name), parts.get(name)
        quantities = list(part.quantities) if part else []
        kind: Literal["cost", "equal", "not measured"] = (
            "cost" if cost else "equal" if quantities else "not measured"
        )
        words = {"cost": "", "equal": "measured, no difference from the twin", "not measured": "not measured"}
        bars.append(
            CostBar(
                dimension=name,
                kind=kind,
                lost=cost.lost if cost else None,
                alone=cost.alone if cost else None,
                named=bool(cost and cost.named),
                words=cost.points if cost else words[kind],
                quantities=quantities,
                parameters=sorted(part.values) if part else [],
                missing=list(part.missing) if part else [],
            )
        )
    return bars


def _next(workspace: Workspace, name: str) -> str:
    """A folder of reports that does not exist."""
    number = next(n for n in count(1) if not (workspace.root / "reports" / f"{name}-{n}").exists())
    return f"reports/{name}-{number}"
