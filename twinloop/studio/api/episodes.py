"""Episode: one recording with its cameras, signals, origin and labels, and its replay in a twin."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from starlette.responses import Response

from twinloop.datasets.decimate import decimate
from twinloop.datasets.labelling import (
    Agreement,
    PhaseRange,
    compare_raters,
    current_labels,
    format_phases,
    label_episodes,
    parse_phases,
    parse_range,
)
from twinloop.datasets.labels import Label, Value, load_labels
from twinloop.datasets.sheets import make_frame, make_sheet, sheet_layout
from twinloop.datasets.sketch import draw_sketch
from twinloop.engines.geometry import read_geometry
from twinloop.episode import Episode, Event, Signal
from twinloop.errors import TwinloopError, WrongUse
from twinloop.generation.motion import compare_motion, find_episode_twin, own_draw
from twinloop.quality.finding import Finding
from twinloop.quality.require import last_report
from twinloop.records import plain
from twinloop.studio.context import CurrentWorkspace, confine, etag_of
from twinloop.studio.datasets import DatasetPath, OpenDataset, find_datasets, open_shared
from twinloop.twin_versions import list_twin_versions
from twinloop.twins import Twin, load_twin
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/episode", tags=["episode"])

MOST_POINTS = 4000
MOST_ELEMENTS = 64
IMMUTABLE = "private, max-age=31536000, immutable"
"""Frames of an episode never change, and their address holds its id."""

MOST_MOTIONS = 16
"""Replays that are kept: a page asks for its own again when somebody comes back."""
_motions: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
_motions_lock = Lock()

OWN_TWIN = "own"
"""Stands for the twin that generated a simulated episode."""

TwinPlace = Annotated[str, Query(max_length=1000, description="A folder of the workspace, or `own`.")]
EpisodeNumber = Annotated[int, Query(ge=0, description="The episode's number.")]


class SignalLine(BaseModel):
    """One signal: its elements and their units."""

    name: str
    elements: list[str]
    units: list[str]


class CameraLine(BaseModel):
    """One camera, and how its frames lie in the sheets of `/sheet`."""

    name: str
    height: int
    width: int
    frame_height: int
    frame_width: int
    columns: int
    per_sheet: int
    sheets: int


class Drawn(BaseModel):
    """One randomized value of a simulated episode."""

    name: str
    value: float | str


class Relative(BaseModel):
    """An episode that this one was made from; None where no dataset of the workspace has it."""

    id: str
    dataset: str | None
    episode: int | None


class EpisodeAnswer(BaseModel):
    """Everything about an episode but its rows and frames."""

    dataset: str
    episode: int
    id: str
    task: str
    rows: int
    duration_s: float
    rate_hz: float
    robot: str
    success: bool | None
    failure: str | None
    signals: list[SignalLine]
    cameras: list[CameraLine]
    events: list[Event]
    provenance: dict[str, Any]
    draw: list[Drawn]
    parents: list[Relative]
    findings: list[Finding]
    checked: bool
    labels: list[Label]
    phases: list[PhaseRange]
    keep: list[float] | None
    writable: bool
    before: int | None
    after: int | None


class TwinChoice(BaseModel):
    """A twin that an episode can be replayed in."""

    place: str
    title: str


class SeriesLine(BaseModel):
    """One element of a signal over time."""

    signal: str
    element: str
    unit: str
    values: list[float | None]


class SignalsAnswer(BaseModel):
    """Signals on one time axis, s since the episode's first row; `rows` rows were reduced to these points."""

    time_s: list[float]
    series: list[SeriesLine]
    rows: int


class NewLabels(BaseModel):
    """What somebody says of episodes. A field that is left out is not labelled."""

    dataset: str = Field(max_length=1000)
    episodes: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=1000)
    by: str = Field(max_length=200)
    outcome: Literal["success", "failure", "unknown"] | None = None
    failure: str | None = Field(None, max_length=200)
    phases: list[PhaseRange] | None = Field(None, max_length=100)
    keep: tuple[float, float] | Literal["all"] | None = None


class Labelled(BaseModel):
    """How many labels were added."""

    episodes: int
    labels: int


@router.get("", operation_id="read_episode")
def read_episode(workspace: CurrentWorkspace, dataset: DatasetPath, episode: EpisodeNumber) -> EpisodeAnswer:
    """One episode: outcome, events, origin, labels, findings, and what can be plotted and shown."""
    opened = open_shared(workspace, dataset)
    found = opened.episode(episode)
    numbers = opened.dataset.numbers
    place = numbers.index(episode)
    labels = [one for one in load_labels(opened.dataset.root) if one.episode_id == found.id]
    current = current_labels(labels).get(found.id, {})
    report = last_report(opened.dataset)
    return EpisodeAnswer(
        dataset=dataset,
        episode=episode,
        id=found.id,
        task=found.task,
        rows=len(found),
        duration_s=found.duration_s,
        rate_hz=found.schema.rate_hz,
        robot=found.schema.robot_type,
        success=found.outcome.success,
        failure=found.outcome.failure,
        signals=_signals(found),
        cameras=_cameras(found),
        events=[Event(one.time_s - float(found.time_s[0]), one.kind, one.detail) for one in found.events],
        provenance={
            key: value for key, value in found.provenance.as_json().items() if key not in ("draw", "parents")
        },
        draw=[Drawn(name=name, value=value) for name, value in sorted(found.provenance.draw.items())],
        parents=[_find_relative(workspace, one) for one in found.provenance.parents],
        findings=[one for one in report.findings if one.episode_id == found.id] if report else [],
        checked=report is not None,
        labels=labels,
        phases=list(parse_phases(_text(current.get("phases")))),
        keep=list(parse_range(text)) if (text := _text(current.get("keep"))) else None,
        writable=opened.dataset.manifest is not None,
        before=numbers[place - 1] if place else None,
        after=numbers[place + 1] if place + 1 < len(numbers) else None,
    )


@router.get("/signals", operation_id="read_signals")
def read_signals(
    workspace: CurrentWorkspace,
    dataset: DatasetPath,
    episode: EpisodeNumber,
    signal: Annotated[list[str], Query(description="Names of signals.", max_length=20)],
    from_s: float = 0.0,
    to_s: float | None = None,
    points: Annotated[int, Query(ge=4, le=MOST_POINTS)] = 2000,
) -> SignalsAnswer:
    """Signals of an episode between two times, reduced to so many points; the extremes of every stretch are kept."""
    found = open_shared(workspace, dataset).episode(episode)
    since = np.asarray(found.time_s, np.float64) - float(found.time_s[0])
    last = float(since[-1]) if to_s is None else to_s
    first, stop = np.searchsorted(since, [from_s, max(from_s, last + 1e-9)])
    declared = [found.schema.signal(name) for name in dict.fromkeys(signal)]
    columns = [_columns(found.signals[one.name])[first:stop] for one in declared]
    if sum(column.shape[1] for column in columns) > MOST_ELEMENTS:
        raise WrongUse("too many signals at once", expected=f"at most {MOST_ELEMENTS} elements")
    values = np.concatenate(columns, axis=1).astype(np.float64) if columns else np.empty((stop - first, 0))
    times, reduced = decimate(since[first:stop], values, points)
    names = [(one.name, *line) for one, line in zip(declared, map(_elements, declared), strict=True)]
    series = [
        SeriesLine(signal=name, element=element, unit=unit, values=[])
        for name, elements, units in names
        for element, unit in zip(elements, units, strict=True)
    ]
    for line, column in zip(series, reduced.T, strict=True):
        line.values = [value if np.isfinite(value) else None for value in column.tolist()]
    return SignalsAnswer(time_s=np.round(times, 6).tolist(), series=series, rows=int(stop - first))


@router.get("/sheet/{version}", operation_id="read_sheet", response_class=Response)
def read_sheet(
    workspace: CurrentWorkspace,
    request: Request,
    version: Annotated[str, Path(description="The episode's id: the answer never changes.", max_length=100)],
    dataset: DatasetPath,
    episode: EpisodeNumber,
    camera: str,
    sheet: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Frames of a camera as one JPEG, in lines from left to right; `cameras` of the episode says how many."""
    tag = etag_of(version, camera, sheet)
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, "cache-control": IMMUTABLE})
    found = open_shared(workspace, dataset).episode(episode)
    found.schema.camera(camera)
    return _image(make_sheet(found.frames[camera], sheet), "image/jpeg", tag)


@router.get("/frame/{version}", operation_id="read_frame", response_class=Response)
def read_frame(
    workspace: CurrentWorkspace,
    request: Request,
    version: Annotated[str, Path(description="The episode's id: the answer never changes.", max_length=100)],
    dataset: DatasetPath,
    episode: EpisodeNumber,
    camera: str,
    row: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """One frame of a camera in full as JPEG."""
    tag = etag_of(version, camera, "frame", row)
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, "cache-control": IMMUTABLE})
    found = open_shared(workspace, dataset).episode(episode)
    found.schema.camera(camera)
    return _image(make_frame(found.frames[camera], row), "image/jpeg", tag)


@router.get("/thumbnail/{version}", operation_id="read_thumbnail", response_class=Response)
def read_thumbnail(
    workspace: CurrentWorkspace,
    request: Request,
    version: Annotated[str, Path(description="The episode's id: the answer never changes.", max_length=100)],
    dataset: DatasetPath,
    episode: EpisodeNumber,
) -> Response:
    """A small image of an episode: the middle frame of its first camera, or its motion as lines where it has none."""
    tag = etag_of(version, "thumbnail")
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, "cache-control": IMMUTABLE})
    image, kind = draw_sketch(open_shared(workspace, dataset).episode(episode))
    return _image(image, kind, tag)


@router.get("/twins", operation_id="list_episode_twins")
def list_episode_twins(
    workspace: CurrentWorkspace, dataset: DatasetPath, episode: EpisodeNumber
) -> list[TwinChoice]:
    """Twins that an episode can be replayed in: the one that generated it, then those of the workspace, the current first."""
    found = open_shared(workspace, dataset).episode(episode)
    choices = []
    if found.provenance.source == "sim" and found.provenance.twin_hash:
        title = f"{found.provenance.twin or 'twin'} {found.provenance.twin_version or ''}, which generated it".strip()
        choices.append(TwinChoice(place=OWN_TWIN, title=title))
    for one in list_twin_versions(workspace):
        origin = "calibrated" if one.identified else one.name
        choices.append(TwinChoice(place=one.twin, title=f"{origin} {one.version} ({one.state})"))
    return choices


@router.get("/geometry", operation_id="read_episode_geometry")
def read_episode_geometry(
    workspace: CurrentWorkspace, dataset: DatasetPath, episode: EpisodeNumber, twin: TwinPlace = OWN_TWIN
) -> dict[str, Any]:
    """What a viewer draws: the bodies, shapes and cameras of a twin, as it looks in this episode."""
    opened = open_shared(workspace, dataset)
    found = opened.episode(episode)
    chosen = _twin(workspace, opened, found, twin)
    values: dict[str, Any] = plain(read_geometry(chosen, own_draw(found, chosen)))
    return values


@router.get("/motion", operation_id="read_episode_motion")
def read_episode_motion(
    workspace: CurrentWorkspace, dataset: DatasetPath, episode: EpisodeNumber, twin: TwinPlace = OWN_TWIN
) -> dict[str, Any]:
    """The recorded motion and the twin's replay of the same commands, with the joints of both over time."""
    opened = open_shared(workspace, dataset)
    found = opened.episode(episode)
    chosen = _twin(workspace, opened, found, twin)
    key = (found.id, chosen.content_hash)
    with _motions_lock:
        if (known := _motions.get(key)) is not None:
            return known
    motion = compare_motion(found, chosen).as_json()
    with _motions_lock:
        _motions[key] = motion
        while len(_motions) > MOST_MOTIONS:
            _motions.popitem(last=False)
    return motion


@router.post("/labels", operation_id="label_episodes")
def add_labels(workspace: CurrentWorkspace, new: NewLabels) -> Labelled:
    """Label episodes, as `twinloop data label` does; earlier labels, with author and time, are kept."""
    opened = open_shared(workspace, new.dataset)
    values: dict[str, Value] = {}
    if new.outcome == "success":
        values["success"] = True
    elif new.outcome == "unknown":
        values |= {"success": None, "failure": None}
    elif new.outcome == "failure":
        values |= {"failure": new.failure} if new.failure else {"success": False}
    if new.phases is not None:
        values["phases"] = format_phases(new.phases)
    if new.keep is not None:
        values["keep"] = "" if new.keep == "all" else f"{new.keep[0]:.6g}:{new.keep[1]:.6g}"
    with opened.lock:
        added = label_episodes(opened.dataset, values, new.by, numbers=new.episodes)
    return Labelled(episodes=len(new.episodes), labels=len(added))


@router.get("/agreement", operation_id="compare_raters")
def read_agreement(workspace: CurrentWorkspace, dataset: DatasetPath) -> Agreement:
    """How the raters of a dataset agree, and about which episodes they do not."""
    return compare_raters(open_shared(workspace, dataset).dataset)


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    """The elements of a signal, one column each, also where there are no rows."""
    return values.reshape(len(values), int(np.prod(values.shape[1:], dtype=int)))


def _twin(workspace: Workspace, opened: OpenDataset, episode: Episode, place: str) -> Twin:
    if place == OWN_TWIN:
        return find_episode_twin(opened.dataset, episode)
    return load_twin(confine(workspace, place))


def _image(content: bytes, kind: str, tag: str) -> Response:
    return Response(content, media_type=kind, headers={"etag": tag, "cache-control": IMMUTABLE})


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _elements(signal: Signal) -> tuple[list[str], list[str]]:
    """Names and units of a signal's elements."""
    names = list(signal.elements) or ([""] if signal.size == 1 else [str(i) for i in range(signal.size)])
    units = list(signal.units) if len(signal.units) == signal.size else [signal.units[0]] * signal.size
    return names, units


def _signals(episode: Episode) -> list[SignalLine]:
    found = []
    for signal in episode.schema.signals:
        elements, units = _elements(signal)
        found.append(SignalLine(name=signal.name, elements=elements, units=units))
    return found


def _cameras(episode: Episode) -> list[CameraLine]:
    found = []
    for camera in episode.schema.cameras:
        layout = sheet_layout(len(episode), camera.height, camera.width)
        found.append(
            CameraLine(
                name=camera.name,
                height=camera.height,
                width=camera.width,
                frame_height=layout.height,
                frame_width=layout.width,
                columns=layout.columns,
                per_sheet=layout.per_sheet,
                sheets=layout.sheets,
            )
        )
    return found


def _find_relative(workspace: Workspace, episode_id: str) -> Relative:
    """Where an episode is in the workspace."""
    for path in find_datasets(workspace):
        with suppress(TwinloopError):
            number = open_shared(workspace, path).episodes().number_of(episode_id)
            if number is not None:
                return Relative(id=episode_id, dataset=path, episode=number)
    return Relative(id=episode_id, dataset=None, episode=None)
