"""A whole loop as one HTML file: where the policy stood before and after, what each stage found, and the stages' own reports."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import write_atomically
from twinloop.generation.videos import video_data_uri
from twinloop.report.quality_page import STYLE
from twinloop.stats.interval import Interval

MORE_STYLE = """
.wide{overflow-x:auto}svg{display:block;max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
.narrow{display:none}@media(max-width:600px){.narrow{display:block}.broad{display:none}.wide svg:not(.narrow){min-width:36rem}}
svg .soft{fill:var(--soft)}iframe{width:100%;height:32rem;border:1px solid var(--line);border-radius:6px;background:#fff}
.loop rect{fill:#fff;stroke:var(--line)}.loop .went{stroke:var(--ok);stroke-width:2}.loop path{stroke:var(--soft);fill:none}
.before{fill:#b26a00;stroke:#b26a00}.after{fill:#2d7a46;stroke:#2d7a46}figure{margin:1rem 0}
.films{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:1rem}.films figure{margin:0;max-width:34rem}
.tile{flex:1 1 9rem}.films video{width:100%;cursor:pointer;border-radius:6px;background:#22303c}.panel{background:#fff;border-radius:6px;padding:1rem;box-shadow:0 1px 2px #0001}
h2{scroll-margin-top:1rem}nav{margin:.6rem 0 0}nav a{margin-right:1rem;font-size:.88rem;color:var(--note)}
"""
_BOX, _GAP, _HIGH, _ACROSS = 116, 22, 54, 5

# A stage's own page is as tall as what is in it.
_FIT = """<script>for(const f of document.querySelectorAll("iframe")){const fit=()=>{const d=f.contentDocument;
if(d&&d.documentElement)f.style.height=Math.min(d.documentElement.scrollHeight+4,+f.dataset.most)+"px"};
f.addEventListener("load",fit);f.closest("details")?.addEventListener("toggle",fit)}</script>"""

Found = Mapping[str, Any]
Section = tuple[str, str, str]
"""Its anchor, its heading, its content."""


def write_loop_page(
    title: str,
    found: Mapping[str, Found],
    stages: Sequence[tuple[str, str, float]],
    reports: Mapping[str, Path],
    films: Sequence[tuple[str, Path]],
    path: str | Path,
) -> Path:
    """Write the report to one file that needs no other.

    `found` is what every stage found; `stages` are (name, that in a few words, seconds); `reports` are HTML files of single
    stages by stage, taken in whole; `films` are captions and WebM files.
    """
    target = Path(path)
    curves = {name: found[name]["curve"] for name in ("pretrain", "finetune")}
    sections: list[Section] = [
        (
            "success",
            "Success before and after",
            f"<figure class='wide panel'>{draw_success(_rows(found))}</figure>",
        ),
        (
            "films",
            "A failure before, a success after" if len(films) > 1 else "What it looked like",
            _films(films),
        ),
        ("loop", "The loop", f"<figure class=wide>{draw_loop(stages)}</figure>{_stages(stages)}"),
        (
            "gap",
            "The gap, and what it costs",
            f"<p>{_text(found['diagnose']['verdict'])}</p><figure class='wide panel'>{draw_costs(found['diagnose'])}</figure>"
            f"{_gaps(found['measure'])}{_folded('All that was measured', reports.get('measure'))}"
            f"{_folded('The whole diagnosis', reports.get('diagnose'))}",
        ),
        (
            "twin",
            "The twin, recalibrated" if found["identify"]["accepted"] else "The twin, as it was",
            f"<figure class='wide panel'>{draw_estimates(found['identify']['estimates'])}</figure>"
            f"{_framed('Replay and posterior', reports.get('identify'), 4000)}",
        ),
        ("coverage", "What simulation covers", _framed("Coverage map", reports.get("cover"), 1400)),
        ("plan", "What to record next", _folded("The collection plan", reports.get("plan"))),
        ("learning", "Learning curves", f"<figure class='wide panel'>{draw_curves(curves)}</figure>"),
        ("gate", "The gate's evidence", _framed("Gate", reports.get("gate"), 1800)),
    ]
    sections = [section for section in sections if section[2]]
    links = "".join(f"<a href='#{anchor}'>{_text(heading)}</a>" for anchor, heading, _ in sections)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}{MORE_STYLE}</style><main><h1>{_text(title)}</h1>",
        f"{_verdict(found['gate'])}<div class=tiles>{''.join(_tile(*fact) for fact in _facts(found))}</div><nav>{links}</nav>",
        *(f"<h2 id={anchor}>{_text(heading)}</h2>{content}" for anchor, heading, content in sections),
        f"</main>{_FIT}</html>",
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, "".join(parts).encode())
    return target


def _where(found: Mapping[str, Found]) -> str:
    return "stand-in" if found["try"]["robot"].get("standin") else "robot"


def _rows(found: Mapping[str, Found]) -> list[tuple[str, Found, str]]:
    """Captions, shares, and whether before or after."""
    where = _where(found)
    rows = [
        ("before, simulation", found["try"]["simulation"], "before"),
        (f"before, {where}", found["try"]["robot"], "before"),
        ("after, simulation", found["gate"]["simulation"], "after"),
        (f"after, {where}", found["gate"]["robot"], "after"),
    ]
    if "monitor" in found:
        rows.append((f"deployed, {where}", found["monitor"]["robot"], "after"))
    return [row for row in rows if row[1]["episodes"]]


def _facts(found: Mapping[str, Found]) -> list[tuple[str, str]]:
    where, costs = _where(found), found["diagnose"]["costs"]
    after = [found[name]["robot"] for name in ("gate", "monitor") if name in found]
    tried = sum(share["episodes"] for share in after)
    won = sum(share["episodes"] * share["success"] for share in after if share["episodes"])
    used = (
        sum(found[name]["episodes"] for name in ("excite", "show", "retry", "demonstrate") if name in found)
        + found["try"]["robot"]["episodes"]
    )
    named = [cost for cost in costs if cost["named"]]
    facts = [
        (f"on the {where} before", f"{found['try']['robot']['success']:.0%}"),
        (f"on the {where} after", f"{won / tried:.0%}" if tried else "-"),
        (f"{where} episodes before the gate", str(used)),
        ("twin", "recalibrated" if found["identify"]["accepted"] else "as it was"),
    ]
    if named:
        facts.insert(2, (f"points lost to {named[0]['dimension']}", f"{100 * named[0]['lost']['value']:.0f}"))
    return facts


def _verdict(gate: Found) -> str:
    tone = {"promote": "fine", "more": "warning"}.get(gate["decision"], "blocking")
    word = {"promote": "Promoted.", "more": "Undecided."}.get(gate["decision"], "Refused.")
    return f"<div class='verdict {tone}'><b>{word}</b> {_text('; '.join(gate['reasons']))}</div>"


def _films(films: Sequence[tuple[str, Path]]) -> str:
    made = "".join(
        "<figure><video muted loop autoplay playsinline onclick='this.paused?this.play():this.pause()' "
        f"src='{video_data_uri(file)}'></video><figcaption class=soft>{_text(caption)}</figcaption></figure>"
        for caption, file in films
    )
    return f"<div class=films>{made}</div>" if made else ""


def _framed(name: str, report: Path | None, most: int) -> str:
    if report is None:
        return ""
    return f"<iframe loading=lazy title='{_text(name)}' data-most={most} srcdoc='{_text(report.read_text())}'></iframe>"


def _folded(name: str, report: Path | None) -> str:
    return (
        f"<details><summary>{_text(name)}</summary>{_framed(name, report, 4000)}</details>" if report else ""
    )


def _gaps(gap: Found) -> str:
    rows = []
    for name, one in gap["dimensions"].items():
        if not one["evaluated"]:
            said = f"<td>not evaluated<td class=soft>needs {_text(one['not_evaluated'][0]['needs'])}"
        elif not one["shows"]:
            said = "<td>none shown<td>"
        else:
            first = one["first"]
            unit = "" if first["unit"] == "1" else f" {first['unit']}"
            size = f"{first['value']:+.3g} [{first['low']:.3g}, {first['high']:.3g}]{unit}"
            said = f"<td><span class='badge warning'>gap</span> {_text(first['name'])}<td>{_text(size)}"
        rows.append(f"<tr><td>{name}{said}</tr>")
    head = "<tr><th>dimension<th>most certain difference<th>simulation - robot, 95 % interval</tr>"
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div>"


def draw_costs(diagnosis: Found) -> str:
    """Points lost to each dimension, to what is unknown, and in all, with 95 % intervals."""
    rows = [
        (cost["dimension"], cost["lost"], "#b3261e" if cost["named"] else "#b9c1cc")
        for cost in diagnosis["costs"]
    ]
    rows += [("unknown", diagnosis["unknown"], "#7b8794"), ("whole drop", diagnosis["drop"], "#3f6f93")]
    left, width = 110.0, 520.0
    reach = max([0.1, *(lost["high"] for _, lost, _ in rows)])
    made = []
    for row, (name, lost, tone) in enumerate(rows):
        y, (low, value, high) = (
            24 * row,
            (max(lost[k], 0.0) / reach * width for k in ("low", "value", "high")),
        )
        made.append(
            f"<text x='0' y='{y + 14}'>{_text(name)}</text><rect x='{left}' y='{y + 2}' width='{value:.1f}' height='16' "
            f"fill='{tone}'/><line x1='{left + low:.1f}' x2='{left + high:.1f}' y1='{y + 10}' y2='{y + 10}' stroke='#22303c' "
            f"stroke-width='2'/><text x='{left + high + 8:.1f}' y='{y + 14}'>{Interval(**lost).points}</text>"
        )
    return _svg(left + width + 90, 24 * len(rows) + 4, made, "points lost to each dimension")


def draw_success(rows: Sequence[tuple[str, Found, str]]) -> str:
    """Shares with their 95 % intervals; twice, since scaled to a phone the broad one cannot be read."""
    return _draw_success(rows, 150, 560, "broad") + _draw_success(rows, 124, 240, "narrow")


def _draw_success(rows: Sequence[tuple[str, Found, str]], left: int, width: int, kind: str) -> str:
    made = [
        f"<line x1='{left + share * width / 100}' x2='{left + share * width / 100}' y1='4' y2='{26 * len(rows) + 6}' stroke='#dde3e8'/>"
        f"<text class=soft x='{left + share * width / 100}' y='{26 * len(rows) + 22}' text-anchor='middle'>{share} %</text>"
        for share in ((0, 50, 100) if kind == "narrow" else (0, 25, 50, 75, 100))
    ]
    for row, (name, found, tone) in enumerate(rows):
        low, high = found["interval_95"]
        y, said = 18 + 26 * row, f"{100 * found['success']:.0f} % of {found['episodes']}"
        made.append(
            f"<text x='0' y='{y + 4}'>{_text(name)}</text><line class={tone} x1='{left + low * width:.1f}' "
            f"x2='{left + high * width:.1f}' y1='{y}' y2='{y}' stroke-width='3'/><circle class={tone} "
            f"cx='{left + found['success'] * width:.1f}' cy='{y}' r='5'/><text x='{left + width + 12}' y='{y + 4}'>{said}</text>"
        )
    return _svg(left + width + 96, 26 * len(rows) + 30, made, "success before and after", kind)


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
    """Where each value lies beside nominal, every row on a scale of its own; pale where recordings hardly tell it."""
    left, width = 190.0, 330.0
    made: list[str] = []
    shown = [e for e in estimates if e["status"] != "not identifiable"]
    for row, estimate in enumerate(shown):
        nominal, value, low, high = (float(estimate[k]) for k in ("nominal", "value", "low", "high"))
        first, last = min(nominal, low), max(nominal, high)

        def at(x: float, first: float = first, span: float = last - first or 1.0) -> str:
            return f"{left + (x - first) / span * width:.1f}"

        y = 16 + 22 * row
        unit = "" if estimate["unit"] == "1" else f" {estimate['unit']}"
        pale = " opacity='.4'" if estimate["status"] == "weak" else ""
        made.append(
            f"<text x='0' y='{y + 4}'>{_text(estimate['name'])}</text>"
            f"<line x1='{at(nominal)}' x2='{at(nominal)}' y1='{y - 8}' y2='{y + 8}' stroke='#5d6b78' stroke-width='2'/>"
            f"<g{pale}><line class=after x1='{at(low)}' x2='{at(high)}' y1='{y}' y2='{y}' stroke-width='3'/>"
            f"<circle class=after cx='{at(value)}' cy='{y}' r='4'/></g><text x='{left + width + 16}' y='{y + 4}'>"
            f"{nominal:.3g} → {value:.3g} [{low:.3g}, {high:.3g}]{_text(unit)}</text>"
        )
    text = "grey: nominal; green: identified, 95 %; pale: hardly told by the recordings; every row on its own scale"
    made.append(f"<text class=soft x='0' y='{22 * len(shown) + 22}'>{text}</text>")
    return _svg(left + width + 250, 22 * len(shown) + 30, made, "estimates beside nominal values")


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
