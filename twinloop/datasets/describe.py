"""Describe a dataset: episodes by source, hours, outcomes, sizes, signals with units, history."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset, open_dataset


@dataclass(frozen=True)
class SourceCount:
    """Episodes of one source (sim, real, standin, unknown)."""

    source: str
    episodes: int
    frames: int
    hours: float
    successes: int
    failures: int


@dataclass(frozen=True)
class Description:
    """The content of a dataset, as `twinloop data info` prints it."""

    path: str
    id: str
    version: str
    layout: str
    robot_type: str
    rate_hz: float
    episodes: int
    frames: int
    by_source: tuple[SourceCount, ...]
    tasks: tuple[str, ...]
    signals: tuple[dict[str, Any], ...]
    cameras: tuple[dict[str, Any], ...]
    megabytes: dict[str, float]
    history: tuple[dict[str, Any], ...]
    skipped: dict[str, str]


def describe(source: str | Path) -> Description:
    """Describe a dataset from its tables, without reading rows or frames."""
    dataset = open_dataset(source)
    counts = query(
        [dataset],
        "select source, count(*) episodes, sum(length)::bigint frames, "
        f"coalesce(nullif(sum(duration_s), 0), sum(length)::double / {dataset.schema.rate_hz!r}) / 3600 as hours, "
        "count(*) filter (success) successes, count(*) filter (not success) failures "
        "from episodes group by source order by source",
    )
    return Description(
        path=str(source),
        id=dataset.id,
        version=dataset.manifest.fingerprint if dataset.manifest else "unknown",
        layout=f"LeRobot {dataset.layout_version}"
        + ("" if dataset.manifest else ", not written by Twinloop"),
        robot_type=dataset.schema.robot_type,
        rate_hz=dataset.schema.rate_hz,
        episodes=len(dataset),
        frames=dataset.num_frames,
        by_source=tuple(SourceCount(**row) for row in counts.to_pylist()),
        tasks=dataset.index.tasks,
        signals=tuple(asdict(signal) for signal in dataset.schema.signals),
        cameras=tuple(asdict(camera) for camera in dataset.schema.cameras),
        megabytes=_sizes(dataset),
        history=tuple(asdict(step) for step in dataset.manifest.history) if dataset.manifest else (),
        skipped=dict(dataset.skipped),
    )


def _sizes(dataset: Dataset) -> dict[str, float]:
    return {
        part: sum(path.stat().st_size for path in (dataset.root / part).rglob("*") if path.is_file()) / 1e6
        for part in ("data", "videos", "meta", ".cache")
    }
