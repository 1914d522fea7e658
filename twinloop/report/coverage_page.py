"""Coverage as one HTML file: regions in words, and a map of real and simulated points to click, zoom and lasso."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage.result import Coverage, CoverageMap, Region
from twinloop.coverage.rule import Range
from twinloop.coverage.side import Points, Side
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.errors import WrongUse
from twinloop.report.quality_page import STYLE

Array = NDArray[Any]

MOST_PICTURES = 300
_NONE = 255
_MISSING = 65535
_COLOURS = "#d32f2f #9c39a0 #388e3c #e69700 #007b8a #ff5c5c #2b4a6b #d01f9b".split()
_STYLE = """
main{max-width:1500px}.board{display:grid;grid-template-columns:minmax(0,1fr) 340px;gap:1rem}.stage{position:relative;
height:min(76vh,820px);min-height:420px;background:#fff;border-radius:6px;box-shadow:0 1px 2px #0001;overflow:hidden}
.stage canvas{position:absolute;inset:0;width:100%;height:100%;touch-action:none}#overlay{cursor:grab}
.bar{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:.8rem 0;font-size:.88rem}
select,button,.button{font:inherit;font-size:.86rem;padding:.25rem .6rem;border:1px solid var(--line);border-radius:4px;background:#fff;
color:inherit;text-decoration:none;cursor:pointer}button.on{background:var(--ink);color:#fff}.panel{font-size:.86rem;min-width:0}
.panel>section{background:#fff;border-radius:6px;box-shadow:0 1px 2px #0001;padding:.7rem .9rem;margin-bottom:.8rem;overflow-wrap:anywhere}
.panel h3{margin:.1rem 0 .4rem;font-size:.95rem}.panel pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#eef3f7;padding:.5rem;border-radius:4px;font-size:.76rem}
.panel img{display:block;width:100%;max-width:256px;image-rendering:pixelated;margin:.5rem 0}.panel table{font-size:.78rem;box-shadow:none}
.panel td{padding:.12rem .3rem}.dot{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.35rem;vertical-align:-1px}
.region{cursor:pointer}.region.on{background:#eef3f7}code{font-size:.78rem;overflow-wrap:anywhere}
@media(max-width:900px){.board{grid-template-columns:1fr}}
"""


def write_coverage_page(
    result: Coverage, path: str | Path, datasets: tuple[Dataset, Dataset] | None = None
) -> Path:
    """Write the map to one file that needs no other; with the datasets (real, sim), frames of cameras are shown too."""
    target = Path(path)
    title = f"Coverage: {result.real.dataset} against {result.sim.dataset}"
    data = json.dumps(_data(result, datasets)).replace("</", r"<\/")
    script = (files("twinloop.report") / "coverage_map.js").read_text()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(title)}</title><style>{STYLE}{_STYLE}</style><main><h1>{html.escape(title)}</h1>",
        f"<div class=soft>{result.real.episodes} real and {result.sim.episodes} simulated episodes, "
        f"{result.real.points + result.sim.points:,} points</div>",
        _verdict(result),
        _regions(result.regions),
        _board(),
        "".join(f"<div class=soft>Not looked at: {html.escape(line)}</div>" for line in result.missing),
        f"</main><script id=data type='application/json'>{data}</script>",
        f"<script>{script}</script></html>",
    ]
    write_atomically(target, "".join(parts).encode())
    return target


def _verdict(result: Coverage) -> str:
    if not result.regions:
        return "<div class='verdict fine'><b>Covered.</b> No region of the real data lies outside what simulation shows.</div>"
    count = len(result.regions)
    return (
        f"<div class='verdict warning'><b>{result.outside:.0%} outside.</b> {count} region{'s' if count > 1 else ''} of the "
        "real data that simulation hardly shows. Click one to see it on the map.</div>"
    )


def _regions(regions: Sequence[Region]) -> str:
    if not regions:
        return ""
    rows = []
    for number, region in enumerate(regions):
        dot = f"<span class=dot style='background:{_COLOURS[number % len(_COLOURS)]}'></span>"
        rows.append(f"<tr class=region><td>{dot}{_cells(region)}</tr>")
        if region.worst is not None:
            rows.append(f"<tr><td class=soft>mostly where {_cells(region.worst)}</tr>")
    head = (
        "<tr><th>region<th>how episodes begin, or a moment<th class=n>of real data<th class=n>real episodes"
        "<th class=n>simulated<th>failed here<th>failed elsewhere</tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _cells(region: Region) -> str:
    """A region's row, from within its first cell."""
    ended = region.outcomes
    failures = f"{ended.failed_inside} of {ended.known_inside}" if ended.known_inside else "unknown"
    elsewhere = f"{ended.failed_elsewhere} of {ended.known_elsewhere}" if ended.known_elsewhere else "unknown"
    worse = " <span class='badge blocking'>fails more</span>" if ended.worse else ""
    return (
        f"{html.escape(region.name)}</td><td>{region.level}</td><td class=n>{region.fraction:.1%}</td>"
        f"<td class=n>{len(region.episodes)}</td><td class=n>{region.sim_episodes}</td><td>{failures}{worse}</td>"
        f"<td>{elsewhere}</td>"
    )


def _board() -> str:
    return (
        "<div class=bar><label>points <select id=level></select></label><label>across <select id=x></select></label>"
        "<label>up <select id=y></select></label><button id=move class=on>Move</button><button id=lasso>Lasso</button>"
        "<button id=fit>Fit</button><label><input type=checkbox id=show-real checked> <span class=dot "
        "style='background:#d97d4d'></span>real</label><label><input type=checkbox id=show-sim checked> <span class=dot "
        "style='background:#abc3d8'></span>simulated</label><span class=soft>wheel zooms, drag moves, click shows a frame, "
        "Shift and drag is the lasso too</span></div>"
        "<div class=board><div class=stage><canvas id=map></canvas><canvas id=overlay></canvas></div><div class=panel>"
        "<section><h3>Lasso</h3><div id=lassoed class=soft>Draw around points: they become a query and a plan item.</div></section>"
        "<section id=point><div class=soft>Click a point to see its episode and frame.</div></section></div></div>"
    )


def _data(result: Coverage, datasets: tuple[Dataset, Dataset] | None) -> dict[str, Any]:
    points = _map(result)
    sides = (points.real, points.sim)
    regions = [
        {
            "name": region.name,
            "level": region.level,
            "axes": [c.variable.name for c in region.rule.conditions if isinstance(c, Range)],
        }
        for region in result.regions
    ]
    whole = np.full(len(points.real), _NONE)
    moment = np.full(len(points.real.moments.values), _NONE)
    for number, region in reversed(list(enumerate(result.regions))):
        moment[points.inside[number]] = number
        if region.level == "situation":
            whole[np.isin(points.real.numbers, region.episodes)] = number
    score = np.clip(100.0 * np.nan_to_num(points.score), 0, 255)
    places = [("map 1", np.concatenate([points.real_places[:, 0], points.sim_places[:, 0]]))]
    places.append(("map 2", np.concatenate([points.real_places[:, 1], points.sim_places[:, 1]])))
    situations = [side.situations for side in sides]
    return {
        "sides": [
            _side(points.real, "real", datasets and datasets[0]),
            _side(points.sim, "simulated", datasets and datasets[1]),
        ],
        "regions": regions,
        "levels": [
            _level("moment", [side.moments for side in sides], moment, score, places),
            _level("situation", situations, whole, np.zeros(len(points.real)), []),
        ],
        "images": _images(result, datasets) if datasets else [],
    }


def _map(result: Coverage) -> CoverageMap:
    if result.map is None:
        raise WrongUse("a coverage that was loaded has no map", remedy="run `twinloop coverage --html` again")
    return result.map


def _side(side: Side, role: str, dataset: Dataset | None) -> dict[str, Any]:
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
        "side": _coded(np.repeat([0, 1], [len(real.values), len(sim.values)]), np.uint8),
        "region": _coded(np.concatenate([region, none]), np.uint8),
        "episode": _coded(np.concatenate([real.episode, sim.episode]), np.uint32),
        "frame": _coded(np.concatenate([real.frame, sim.frame]), np.uint32),
        "score": _coded(np.concatenate([score, np.zeros(len(sim.values))]), np.uint8),
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
        "codes": _coded(codes, np.uint16),
    }


def _coded(values: Array, kind: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values.astype(kind)).tobytes()).decode()


def _images(result: Coverage, datasets: tuple[Dataset, Dataset]) -> list[dict[str, Any]]:
    """Small frames: of regions first, then spread over both sides."""
    made: list[dict[str, Any]] = []
    for number, (side, dataset) in enumerate(
        zip((_map(result).real, _map(result).sim), datasets, strict=True)
    ):
        if not dataset.schema.cameras:
            continue
        camera = dataset.schema.cameras[0].name
        room = MOST_PICTURES * 2 // 3 if number == 0 else MOST_PICTURES // 3
        first = {n for region in result.regions for n in region.episodes} if number == 0 else set()
        order = sorted(range(len(side)), key=lambda i: (side.numbers[i] not in first, i))
        each = max(1, room // len(side))
        for place in order[: room // each]:
            episode = dataset.episode(side.numbers[place])
            for row in np.unique(np.linspace(0, len(episode) - 1, each + 2).round().astype(int)[:-1][:each]):
                frame = np.asarray(episode.frames[camera][int(row)])
                made.append(
                    {
                        "side": number,
                        "episode": place,
                        "frame": int(row),
                        "camera": camera,
                        "source": _jpeg(frame),
                    }
                )
    return made


def _jpeg(frame: Array) -> str:
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    step = max(1, max(frame.shape[:2]) // 128)
    imsave(buffer, frame[::step, ::step], format="jpeg", pil_kwargs={"quality": 78})
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
