"""Coverage as one HTML file: regions as text, and an interactive map of real and simulated points."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.coverage.result import Coverage, CoverageMap
from twinloop.coverage.rule import Range
from twinloop.coverage.sample import Points, SampledEpisodes
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.report.charts import encode_frame
from twinloop.report.page import write_page

MAX_FRAMES = 300
REGION_COLOURS = "#d32f2f #9c39a0 #388e3c #e69700 #007b8a #ff5c5c #2b4a6b #d01f9b".split()
"""Colours of regions, the same in the table and on the map."""
_NONE = 255
_MISSING = 65535


def write_coverage_page(
    coverage: Coverage, path: str | Path, datasets: tuple[Dataset, Dataset] | None = None
) -> Path:
    """Write the map to one self-contained file.

    Args:
        coverage: Both datasets as points, and the regions outside simulation.
        path: The HTML file to write.
        datasets: Real and simulated, to include camera frames, and for the ledger of artefacts.

    Returns:
        The path of the page.

    Raises:
        WrongUse: The coverage was loaded from disk, where its map is not stored.
    """
    if coverage.map is None:
        raise WrongUse("a coverage that was loaded has no map", remedy="run `twinloop coverage --html` again")
    real, sim = coverage.real, coverage.sim
    return write_page(
        path,
        "coverage.html",
        shows=datasets or (),
        title=f"Coverage: {real.dataset} against {sim.dataset}",
        coverage=coverage,
        points=real.points + sim.points,
        colours=REGION_COLOURS,
        data=_make_map_data(coverage, coverage.map, datasets),
        provenance=[
            ("real dataset", f"{real.dataset} {real.id}"),
            ("simulated dataset", f"{sim.dataset} {sim.id}"),
            ("seed", coverage.seed),
        ],
    )


def _make_map_data(
    coverage: Coverage, points: CoverageMap, datasets: tuple[Dataset, Dataset] | None
) -> dict[str, Any]:
    """Data for the map's script."""
    real, sim = points.real, points.sim
    regions = [
        {
            "name": region.name,
            "level": region.level,
            "axes": [c.variable for c in region.conditions if isinstance(c, Range)],
        }
        for region in coverage.regions
    ]
    whole = np.full(len(real), _NONE)
    moment = np.full(len(real.moments.values), _NONE)
    for number, region in reversed(list(enumerate(coverage.regions))):
        moment[points.inside[number]] = number
        if region.level == "situation":
            whole[np.isin(real.numbers, region.episodes)] = number
    score = np.clip(100.0 * np.nan_to_num(points.score), 0, 255)
    places = [
        (f"map {axis + 1}", np.concatenate([points.real_places[:, axis], points.sim_places[:, axis]]))
        for axis in range(2)
    ]
    return {
        "sides": [
            _side(real, "real", datasets and datasets[0]),
            _side(sim, "simulated", datasets and datasets[1]),
        ],
        "regions": regions,
        "levels": [
            _level("moment", [real.moments, sim.moments], moment, score, places),
            _level("situation", [real.situations, sim.situations], whole, np.zeros(len(real)), []),
        ],
        "images": _encode_frames(coverage, points, datasets) if datasets else [],
    }


def _side(side: SampledEpisodes, role: str, dataset: Dataset | None) -> dict[str, Any]:
    ended = []
    for success, failure in zip(side.success, side.failure, strict=True):
        ended.append(
            "outcome unknown"
            if success is None
            else "succeeded"
            if success
            else f"failed: {failure or 'unknown'}"
        )
    path = str(dataset.root) if dataset else side.name
    return {"name": side.name, "path": path, "role": role, "numbers": list(side.numbers), "ended": ended}


def _level(
    name: str, sides: Sequence[Points], region: Array, score: Array, places: list[tuple[str, Array]]
) -> dict[str, Any]:
    """Real points first, then simulated ones; numbers as base64 arrays."""
    real, sim = sides
    none = np.full(len(sim.values), _NONE)
    columns = [_column(n, None, "", "nowhere", values) for n, values in places]
    both = np.concatenate([real.values, sim.values])
    for index, variable in enumerate(real.variables):
        if np.isfinite(both[:, index]).any() and np.nanmax(both[:, index]) > np.nanmin(both[:, index]):
            columns.append(
                _column(variable.name, variable.unit, variable.sql, variable.place, both[:, index])
            )
    return {
        "name": name,
        "count": len(both),
        "side": _encode_array(np.repeat([0, 1], [len(real.values), len(sim.values)]), np.uint8),
        "region": _encode_array(np.concatenate([region, none]), np.uint8),
        "episode": _encode_array(np.concatenate([real.episode, sim.episode]), np.uint32),
        "frame": _encode_array(np.concatenate([real.frame, sim.frame]), np.uint32),
        "score": _encode_array(np.concatenate([score, np.zeros(len(sim.values))]), np.uint8),
        "columns": columns,
    }


def _column(name: str, unit: str | None, sql: str, place: str, values: Array) -> dict[str, Any]:
    """Values on a grid of 65,535 steps: finer than a screen."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    step = (high - low) / (_MISSING - 1) or 1.0
    codes = np.where(np.isfinite(values), np.round((np.nan_to_num(values, nan=low) - low) / step), _MISSING)
    return {
        "name": name,
        "unit": unit,
        "sql": sql,
        "place": place,
        "low": low,
        "high": high,
        "step": step,
        "codes": _encode_array(codes, np.uint16),
    }


def _encode_array(values: Array, kind: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values.astype(kind)).tobytes()).decode()


def _encode_frames(
    coverage: Coverage, points: CoverageMap, datasets: tuple[Dataset, Dataset]
) -> list[dict[str, Any]]:
    """Small frames: of regions first, then spread over both datasets."""
    encoded: list[dict[str, Any]] = []
    for number, (side, dataset) in enumerate(zip((points.real, points.sim), datasets, strict=True)):
        if not dataset.schema.cameras:
            continue
        camera = dataset.schema.cameras[0].name
        room = MAX_FRAMES * 2 // 3 if number == 0 else MAX_FRAMES // 3
        first = {n for region in coverage.regions for n in region.episodes} if number == 0 else set()
        order = sorted(range(len(side)), key=lambda i: (side.numbers[i] not in first, i))
        each = max(1, room // len(side))
        for place in order[: room // each]:
            episode = dataset.episode(side.numbers[place])
            for row in np.unique(np.linspace(0, len(episode) - 1, each + 2).round().astype(int)[:-1][:each]):
                frame = np.asarray(episode.frames[camera][int(row)])
                encoded.append(
                    {
                        "side": number,
                        "episode": place,
                        "frame": int(row),
                        "camera": camera,
                        "source": encode_frame(frame),
                    }
                )
    return encoded
