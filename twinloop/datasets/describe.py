"""What a dataset holds, in one page: counts by source, hours, success, sizes, signals with units, history."""

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
    """The answer to `twinloop data info`."""

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
    """Describe a dataset from its tables; rows and frames are not read."""
    dataset = open_dataset(source)
    counts = query(
        [dataset],
        "select source, count(*) episodes, sum(length) frames, sum(success::int) successes, sum((not success)::int) failures,"
        " sum(duration_s) as total_s from episodes group by source order by source",
    ).to_pylist()
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
        by_source=tuple(
            SourceCount(
                row["source"],
                row["episodes"],
                int(row["frames"]),
                (row["total_s"] or row["frames"] / dataset.schema.rate_hz) / 3600,
                int(row["successes"] or 0),
                int(row["failures"] or 0),
            )
            for row in counts
        ),
        tasks=dataset.index.tasks,
        signals=tuple(asdict(signal) for signal in dataset.schema.signals),
        cameras=tuple(asdict(camera) for camera in dataset.schema.cameras),
        megabytes=_sizes(dataset),
        history=tuple(asdict(step) for step in dataset.manifest.history) if dataset.manifest else (),
        skipped=dict(dataset.skipped),
    )


def _sizes(dataset: Dataset) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for part in ("data", "videos", "meta", ".cache"):
        files = [path for path in (dataset.root / part).rglob("*") if path.is_file()]
        sizes[part] = sum(path.stat().st_size for path in files) / 1e6
    return sizes
