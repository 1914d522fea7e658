"""Identify: from recordings to a candidate for the twin, step by step, and what it says of each parameter."""

from __future__ import annotations

from itertools import count
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel

from twinloop.datasets.reader import open_dataset
from twinloop.errors import TwinloopError
from twinloop.identification.accept import ReplayGate
from twinloop.identification.identifiable import Confusion
from twinloop.identification.ready import check_ready
from twinloop.identification.replays import ReplayOverlay, load_replays
from twinloop.identification.result import Identification, load_identification
from twinloop.identification.words import explain_estimate
from twinloop.quality.finding import Finding
from twinloop.results import EpisodePlace, find_episodes
from twinloop.studio.context import CurrentWorkspace, confine
from twinloop.studio.datasets import find_datasets, open_shared
from twinloop.studio.scene import open_twin
from twinloop.twin_versions import TwinVersion, list_twin_versions
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/identify", tags=["identify"])

MOST_POINTS = 600
"""Rows of a replay that are drawn."""
MOST_SAMPLES = 500

Twin = Annotated[
    str, Query(min_length=1, max_length=500, description="The twin's folder, seen from the workspace.")
]


class RecordingLine(BaseModel):
    """A dataset of recordings, by its folder seen from the workspace."""

    name: str
    episodes: int
    hours: float
    sources: list[str]


class IdentifyCheck(BaseModel):
    """Whether an identification can start, what it would read and fit, and the folder that it would write."""

    ready: bool
    reasons: list[str]
    notes: list[str]
    episodes: int
    left_out: list[int]
    seconds: float
    channels: list[tuple[str, str]]
    models: dict[str, list[str]]
    findings: list[FindingLine]
    out: str


class FindingLine(BaseModel):
    """What the quality check found in several episodes; `finding` is the worst of them."""

    finding: Finding
    episodes: list[int]
    overridden: bool


class EstimateLine(BaseModel):
    """One parameter before and after, in numbers and in words."""

    name: str
    dimension: str
    unit: str
    nominal: float
    value: float
    low: float
    high: float
    prior: tuple[float, float]
    status: str
    at_edge: bool
    words: str


class ChannelLine(BaseModel):
    """Root mean square replay error of one channel on held-out episodes, and how often its band holds."""

    name: str
    unit: str
    before: float
    after: float
    coverage: float
    sensor_noise: float


class IdentifyResult(BaseModel):
    """An identification: the verdict of held-out replay, every parameter, and what to doubt."""

    version: TwinVersion
    base: str
    gate: ReplayGate
    estimates: list[EstimateLine]
    confusions: list[Confusion]
    channels: list[ChannelLine]
    correlation: list[list[float]]
    warnings: list[str]
    fitted: int
    held_out: int
    fitted_s: float | None
    available_s: float | None
    choice: str | None
    seed: int
    report: str | None


class ReplayChannel(BaseModel):
    """One channel of a held-out episode: recorded, and replayed before and after with its band."""

    name: str
    unit: str
    real: list[float]
    before: list[float]
    after: list[float]
    low: list[float]
    high: list[float]


class ReplayLines(BaseModel):
    """A held-out episode and the twin's replays of it."""

    episode: str
    place: EpisodePlace | None
    task: str
    time_s: list[float]
    channels: list[ReplayChannel]


class PosteriorSamples(BaseModel):
    """Samples of two parameters' joint posterior."""

    x: str
    y: str
    points: list[tuple[float, float]]


@router.get("/datasets", operation_id="identify_datasets")
def datasets(workspace: CurrentWorkspace) -> list[RecordingLine]:
    """Datasets that were recorded on a robot, in `data/` and in a loop's stages."""
    lines = []
    for path in find_datasets(workspace):
        try:
            opened = open_shared(workspace, path)
            counts = {one.value: one.episodes for one in opened.episodes().count_choices()["source"]}
        except TwinloopError:
            continue
        hours = opened.dataset.num_frames / opened.dataset.schema.rate_hz / 3600
        if {"real", "standin"} & counts.keys():
            lines.append(
                RecordingLine(name=path, episodes=len(opened.dataset), hours=hours, sources=sorted(counts))
            )
    return lines


@router.get("/check", operation_id="check_identify")
def check(
    workspace: CurrentWorkspace,
    dataset: Annotated[str, Query(min_length=1, max_length=500)],
    twin: Annotated[str | None, Query(max_length=500)] = None,
    parameters: Annotated[list[str] | None, Query(max_length=400)] = None,
) -> IdentifyCheck:
    """Whether `twinloop identify` can start, as `twinloop identify --check` says."""
    cell = open_twin(workspace, twin)
    found = check_ready(cell, open_dataset(confine(workspace, dataset)), parameters)
    return IdentifyCheck(
        ready=found.ready,
        reasons=list(found.reasons),
        notes=list(found.notes),
        episodes=found.episodes,
        left_out=list(found.left_out),
        seconds=found.seconds,
        channels=list(found.channels),
        models={label: list(names) for label, names in found.models.items()},
        findings=[
            FindingLine(finding=group.worst, episodes=list(group.episodes), overridden=group.overridden)
            for group in found.report.groups()
        ],
        out=_next_out(workspace, cell.name),
    )


@router.get("/results", operation_id="identifications")
def results(workspace: CurrentWorkspace) -> list[TwinVersion]:
    """Identified twins, with what was decided about each."""
    return [one for one in list_twin_versions(workspace) if one.identified]


@router.get("/result", operation_id="identification")
def result(workspace: CurrentWorkspace, twin: Twin) -> IdentifyResult:
    """One identification, in numbers and in words."""
    folder = confine(workspace, twin)
    found = load_identification(folder)
    version = next(
        one for one in list_twin_versions(workspace) if workspace.root / one.twin == workspace.root / twin
    )
    pages = (folder / "report.html", folder.parent / "report.html")
    page = next((path for path in pages if path.is_file()), None)
    return IdentifyResult(
        version=version,
        base=found.base,
        gate=found.gate,
        estimates=[_estimate(found, name) for name in found.names],
        confusions=list(found.confusions),
        channels=_channels(found),
        correlation=_correlation(found),
        warnings=list(found.warnings),
        fitted=len(found.fitted),
        held_out=len(found.held_out),
        fitted_s=found.details.get("fitted_s"),
        available_s=found.details.get("available_s"),
        choice=found.choice.reason if found.choice else None,
        seed=found.seed,
        report=str(page.relative_to(workspace.root.resolve())) if page else None,
    )


@router.get("/replays", operation_id="identification_replays")
def replays(workspace: CurrentWorkspace, twin: Twin) -> list[ReplayLines]:
    """Held-out episodes, recorded and replayed by the twin before and after, with the band of the one after."""
    folder = confine(workspace, twin)
    found, kept = load_identification(folder), load_replays(folder)
    places = {one.id: one for one in find_episodes(workspace, [one.episode for one in kept])}
    return [_lines(found, one, places.get(one.episode)) for one in kept]


@router.get("/posterior", operation_id="identification_posterior")
def posterior(
    workspace: CurrentWorkspace,
    twin: Twin,
    x: Annotated[str, Query(max_length=200)],
    y: Annotated[str, Query(max_length=200)],
) -> PosteriorSamples:
    """Samples of two parameters, which show what they trade against each other."""
    found = load_identification(confine(workspace, twin))
    columns = [found.names.index(found[name].name) for name in (x, y)]
    points = np.asarray(found.samples)[:MOST_SAMPLES, columns]
    return PosteriorSamples(x=x, y=y, points=[(float(a), float(b)) for a, b in points])


def _next_out(workspace: Workspace, name: str) -> str:
    """The folder of the twin's next version; rejected ones count."""
    twins = workspace.root / "twins"
    number = next(n for n in count(2) if not any(twins.glob(f"{name}-{n}*")))
    return f"twins/{name}-{number}"


def _estimate(found: Identification, name: str) -> EstimateLine:
    one = found[name]
    return EstimateLine(
        name=name,
        dimension=one.dimension,
        unit=one.unit,
        nominal=one.nominal,
        value=one.value,
        low=one.low,
        high=one.high,
        prior=one.prior,
        status=one.status,
        at_edge=one.at_edge,
        words=explain_estimate(found, name),
    )


def _channels(found: Identification) -> list[ChannelLine]:
    errors = found.errors_by_channel()
    facts = zip(found.channels, found.units, found.coverage, found.sensor_noise, strict=True)
    return [
        ChannelLine(name=name, unit=unit, before=errors[name][0], after=errors[name][1], coverage=coverage, sensor_noise=noise)
        for name, unit, coverage, noise in facts
    ]  # fmt: skip


def _correlation(found: Identification) -> list[list[float]]:
    """Correlations of the estimates, from their covariance; 0 where a parameter does not vary."""
    covariance = np.asarray(found.covariance)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.outer(deviation, deviation)
    made = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0.0)
    rounded: list[list[float]] = np.round(np.clip(made, -1.0, 1.0), 3).tolist()
    return rounded


def _lines(found: Identification, one: ReplayOverlay, place: EpisodePlace | None) -> ReplayLines:
    rows = np.unique(np.linspace(0, len(one.time_s) - 1, min(len(one.time_s), MOST_POINTS)).astype(int))

    def column(values: np.ndarray, index: int) -> list[float]:
        line: list[float] = np.round(values[rows, index], 6).tolist()
        return line

    channels = [
        ReplayChannel(
            name=name,
            unit=found.units[k],
            real=column(one.real, k),
            before=column(one.before, k),
            after=column(one.after, k),
            low=column(one.after - one.half_width, k),
            high=column(one.after + one.half_width, k),
        )
        for k, name in enumerate(found.channels[: one.real.shape[1]])
    ]
    since = np.round(one.time_s[rows] - one.time_s[0], 4).tolist()
    return ReplayLines(episode=one.episode, place=place, task=one.task, time_s=since, channels=channels)
