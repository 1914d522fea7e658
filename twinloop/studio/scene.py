"""Scenes for the browser: a twin's geometry, and runs replayed as evidence, each kept while nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.replayed import MeasuredReplay, replay_measured
from twinloop.diagnosis.result import load_diagnosis
from twinloop.engines.geometry import Geometry, read_geometry
from twinloop.errors import UnknownName, WrongUse
from twinloop.studio.context import cached, confine
from twinloop.twins import Twin, load_twin
from twinloop.workspace import Workspace


def scene_of(twin: Twin, values: Mapping[str, float | str] | None = None) -> Geometry:
    """A twin's geometry as values make it look."""
    return _geometry(_Keyed(twin, tuple(sorted((values or {}).items()))))


def open_twin(workspace: Workspace, place: str | None) -> Twin:
    """The twin in a folder of the workspace, or the current one."""
    place = place or workspace.twin
    if place is None:
        raise WrongUse("this workspace has no twin", remedy="twinloop init DIR --twin NAME")
    folder = confine(workspace, place)
    file = folder / "twin.yaml"
    return _load(file) if file.is_file() else load_twin(folder)


def evidence_of(
    workspace: Workspace, diagnosis: str, dataset: str, episode: int, dimension: str
) -> tuple[Geometry, MeasuredReplay]:
    """A run in its twin as it is, and with what a diagnosis measured of one dimension."""
    file = confine(workspace, diagnosis)
    return _evidence(
        str(file),
        file.stat().st_mtime_ns,
        str(confine(workspace, dataset)),
        episode,
        dimension,
        workspace.twin and str(workspace.root / workspace.twin),
    )


@cached
def _load(file: Path) -> Twin:
    return load_twin(file.parent)


class _Keyed:
    """A twin with further facts, compared by content."""

    def __init__(self, twin: Twin, facts: tuple[Any, ...]) -> None:
        self.twin, self.facts = twin, facts

    def __hash__(self) -> int:
        return hash((self.twin.content_hash, self.facts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and (other.twin.content_hash, other.facts) == (
            self.twin.content_hash,
            self.facts,
        )


@lru_cache(maxsize=64)
def _geometry(key: _Keyed) -> Geometry:
    return read_geometry(key.twin, dict(key.facts))


@lru_cache(maxsize=16)
def _evidence(
    file: str, _changed: int, dataset: str, episode: int, dimension: str, current: str | None
) -> tuple[Geometry, MeasuredReplay]:
    diagnosis = load_diagnosis(Path(file))
    twin = _twin_of(diagnosis.twin, diagnosis.twin_hash, current)
    run = open_dataset(dataset).episode(episode)
    return read_geometry(twin), replay_measured(diagnosis, twin, run, [dimension])


def _twin_of(name: str, content_hash: str, current: str | None) -> Twin:
    """The twin that a diagnosis was made with, else the workspace's, else the library's of that name."""
    own = load_twin(Path(current)) if current is not None else None
    if own is not None and own.content_hash == content_hash:
        return own
    try:
        return load_twin(name)
    except UnknownName:
        if own is None:
            raise
        return own
