"""A whole loop as one HTML file: where the policy stood before and after, what each stage found, and the stages' own reports."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinloop.dataset.commit import write_atomically
from twinloop.report.quality_page import STYLE

MORE_STYLE = """
.wide{overflow-x:auto}svg{display:block;max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .soft{fill:var(--soft)}iframe{width:100%;height:70vh;border:1px solid var(--line);border-radius:6px;background:#fff}
.loop rect{fill:#fff;stroke:var(--line)}.loop .went{stroke:var(--ok);stroke-width:2}.loop path{stroke:var(--soft);fill:none}
.before{fill:#b26a00;stroke:#b26a00}.after{fill:#2d7a46;stroke:#2d7a46}figure{margin:1rem 0}
"""
_BOX, _GAP, _HIGH, _ACROSS = 116, 22, 54, 5

Found = Mapping[str, Any]


def write_loop_page(
    title: str,
    stages: Sequence[tuple[str, str, float]],
    success: Sequence[tuple[str, Found, Found]],
    facts: Sequence[tuple[str, str]],
    estimates: Sequence[Found],
    curves: Mapping[str, Sequence[Found]],
    reports: Sequence[tuple[str, Path]],
    path: str | Path,
) -> Path:
    """Write the report to one file that needs no other.

    `stages` are (name, what it found, seconds); `success` (when, in simulation, on the robot) as evaluations tell it;
    `facts` go into tiles; `reports` are HTML files of single stages, taken in whole.
    """
    target = Path(path)
    where = "stand-in" if any(robot.get("standin") for _, _, robot in success) else "robot"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}{MORE_STYLE}</style><main><h1>{_text(title)}</h1>",
        f"<div class=tiles>{''.join(_tile(name, value) for name, value in facts)}</div>",
        f"<h2>Success before and after</h2><figure class=wide>{draw_success(success, where)}</figure>",
        f"<h2>The loop</h2><figure class=wide>{draw_loop(stages)}</figure>{_stages(stages)}",
        f"<h2>What was identified</h2><figure class=wide>{draw_estimates(estimates)}</figure>"
        if estimates
        else "",
        f"<h2>Learning curves</h2><figure class=wide>{draw_curves(curves)}</figure>" if curves else "",
        "".join(
            f"<details><summary>{_text(name)}</summary><iframe loading=lazy title='{_text(name)}' "
            f"srcdoc='{_text(report.read_text())}'></iframe></details>"
            for name, report in reports
        ),
        "</main></html>",
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, "".join(parts).encode())
    return target


def draw_success(success: Sequence[tuple[str, Found, Found]], where: str) -> str:
    """Shares with their 95 % intervals, simulation above robot, one pair for each time."""
    rows = [
        (f"{when}, {place}", found, when)
        for when, simulated, robot in success
        for place, found in (("simulation", simulated), (where, robot))
    ]
    left, width = 150, 560
    made = [
        f"<line x1='{left + share * width / 100}' x2='{left + share * width / 100}' y1='4' y2='{26 * len(rows) + 6}' stroke='#dde3e8'/>"
        f"<text class=soft x='{left + share * width / 100}' y='{26 * len(rows) + 22}' text-anchor='middle'>{share} %</text>"
        for share in (0, 25, 50, 75, 100)
    ]
    for row, (name, found, when) in enumerate(rows):
        low, high = found["interval_95"]
        y, tone = 18 + 26 * row, "after" if when == "after" else "before"
        said = f"{100 * found['success']:.0f} % of {found['episodes']}"
        made.append(
            f"<text x='0' y='{y + 4}'>{_text(name)}</text><line class={tone} x1='{left + low * width:.1f}' "
            f"x2='{left + high * width:.1f}' y1='{y}' y2='{y}' stroke-width='3'/><circle class={tone} "
            f"cx='{left + found['success'] * width:.1f}' cy='{y}' r='5'/><text x='{left + width + 12}' y='{y + 4}'>{said}</text>"
        )
    return _svg(left + width + 110, 26 * len(rows) + 30, made, "success before and after")


def draw_loop(stages: Sequence[tuple[str, str, float]]) -> str:
    """Boxes in the order of the stages, five across, every second row backwards, so that the path reads as one line."""
    made: list[str] = []
    last = (0.0, 0.0)
    for number, (name, _, seconds) in enumerate(stages):
        row, column = divmod(number, _ACROSS)
        column = column if row % 2 == 0 else _ACROSS - 1 - column
        x, y = column * (_BOX + _GAP) + 2, row * (_HIGH + _GAP) + 2
        middle = (x + _BOX / 2, y + _HIGH / 2)
        if number:
            made.insert(0, f"<path d='M{last[0]} {last[1]} L{middle[0]} {middle[1]}' stroke-width='2'/>")
        made.append(
            f"<rect class=went x='{x}' y='{y}' width='{_BOX}' height='{_HIGH}' rx='8'/>"
            f"<text x='{middle[0]}' y='{y + 23}' text-anchor='middle' font-weight='600'>{_text(name)}</text>"
            f"<text class=soft x='{middle[0]}' y='{y + 41}' text-anchor='middle'>{seconds:.0f} s</text>"
        )
        last = middle
    rows = -(-len(stages) // _ACROSS)
    return _svg(_ACROSS * (_BOX + _GAP), rows * (_HIGH + _GAP), made, "the stages in order", "loop")


def draw_estimates(estimates: Sequence[Found]) -> str:
    """How far each value lies from nominal, in shares of the range that was searched or of nominal where it has one."""
    left, width = 230.0, 420.0
    made: list[str] = []
    shown = [e for e in estimates if e["status"] != "not identifiable"]
    scale = [abs(e["nominal"]) or max(abs(e["value"]), 1e-12) for e in shown]
    away = [
        [(e[k] - e["nominal"]) / s for k in ("low", "value", "high")]
        for e, s in zip(shown, scale, strict=True)
    ]
    reach = float(max([abs(x) for row in away for x in row] + [0.1])) * 1.05
    zero: float = left + width / 2

    def at(x: float) -> float:
        return zero + x / reach * width / 2

    made.append(f"<line x1='{zero}' x2='{zero}' y1='0' y2='{22 * len(shown) + 4}' stroke='#5d6b78'/>")
    for row, (estimate, (low, value, high)) in enumerate(zip(shown, away, strict=True)):
        y = 16 + 22 * row
        unit = "" if estimate["unit"] == "1" else f" {estimate['unit']}"
        made.append(
            f"<text x='0' y='{y + 4}'>{_text(estimate['name'])}</text>"
            f"<line class=after x1='{at(low):.1f}' x2='{at(high):.1f}' y1='{y}' y2='{y}' stroke-width='3'/>"
            f"<circle class=after cx='{at(value):.1f}' cy='{y}' r='4'/><text x='{left + width + 12}' y='{y + 4}'>"
            f"{estimate['nominal']:.3g} → {estimate['value']:.3g}{_text(unit)}</text>"
        )
    text = (
        f"from {-100 * reach:.0f} % to {100 * reach:+.0f} % of nominal (of the value where nominal is zero)"
    )
    made.append(f"<text class=soft x='{left}' y='{22 * len(shown) + 20}'>{text}</text>")
    return _svg(left + width + 170, 22 * len(shown) + 28, made, "estimates beside nominal values")


def draw_curves(curves: Mapping[str, Sequence[Found]]) -> str:
    """Validation error over weight updates, one line for each training."""
    width, high = 640, 220
    points = [p for curve in curves.values() for p in curve if p.get("validation")]
    if not points:
        return ""
    steps, most = max(p["step"] for p in points), max(p["validation"] for p in points)
    made = [
        f"<line x1='50' x2='{50 + width}' y1='{high}' y2='{high}' stroke='#dde3e8'/>"
        f"<text class=soft x='{50 + width}' y='{high + 18}' text-anchor='end'>{steps} updates</text>"
        f"<text class=soft x='0' y='14'>{most:.3g}</text><text class=soft x='0' y='{high}'>0</text>"
    ]
    tones = ("#b26a00", "#2d7a46", "#3f6f93", "#7a4fa0")
    for number, (name, curve) in enumerate(curves.items()):
        line = " ".join(
            f"{50 + p['step'] / steps * width:.1f},{high - p['validation'] / most * (high - 8):.1f}"
            for p in curve
            if p.get("validation")
        )
        tone = tones[number % len(tones)]
        made.append(f"<polyline points='{line}' fill='none' stroke='{tone}' stroke-width='2'/>")
        made.append(f"<text x='{60 + 160 * number}' y='{high + 18}' style='fill:{tone}'>{_text(name)}</text>")
    return _svg(width + 60, high + 26, made, "validation error by weight updates")


def _stages(stages: Sequence[tuple[str, str, float]]) -> str:
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(found)}</td><td class=n>{seconds:.0f} s</td></tr>"
        for name, found, seconds in stages
    )
    return f"<div class=wide><table><tr><th>stage<th>found<th class=n>took</tr>{rows}</table></div>"


def _tile(name: str, value: str) -> str:
    return f"<div class=tile><b>{_text(value)}</b>{_text(name)}</div>"


def _svg(width: float, height: float, parts: Sequence[str], said: str, name: str = "") -> str:
    words = f" class={name}" if name else ""
    return (
        f"<svg{words} viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' role=img aria-label='{_text(said)}'>"
        f"{''.join(parts)}</svg>"
    )


def _text(value: str) -> str:
    return html.escape(value, quote=True)
