"""A quality report as one HTML file: the verdict, what to do, and an image of each kind of finding."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.quality.finding import SEVERITIES, Group, QualityReport
from twinloop.quality.settings import Settings
from twinloop.quality.view import View
from twinloop.report.quality_plots import draw_finding, draw_lags

MOST_PICTURES = 60
MOST_NUMBERS = 12

STYLE = """
:root{--ink:#22303c;--soft:#5d6b78;--line:#dde3e8;--block:#b3261e;--warn:#b26a00;--note:#3f6f93;--ok:#2d7a46}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:#f6f8fa;margin:0}
main{max-width:1080px;margin:0 auto;padding:2rem 1.2rem 4rem}h1{font-size:1.5rem;margin:0 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2.2rem 0 .7rem}.soft{color:var(--soft);font-size:.86rem;overflow-wrap:anywhere}
.verdict{border-left:6px solid var(--tone);background:#fff;padding:.9rem 1.1rem;margin:1.1rem 0;border-radius:4px;
box-shadow:0 1px 2px #0001}.verdict b{color:var(--tone);font-size:1.1rem}.tiles{display:flex;gap:.8rem;flex-wrap:wrap}
.tile{background:#fff;border-radius:6px;padding:.6rem 1rem;min-width:8rem;box-shadow:0 1px 2px #0001}
.tile b{display:block;font-size:1.5rem;line-height:1.2}.blocking{--tone:var(--block)}.warning{--tone:var(--warn)}
.note{--tone:var(--note)}.fine{--tone:var(--ok)}.tile b{color:var(--tone,var(--ink))}
table{border-collapse:collapse;width:100%;background:#fff;border-radius:6px;box-shadow:0 1px 2px #0001;font-size:.88rem}
th,td{text-align:left;padding:.4rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft)}.n{text-align:right!important;white-space:nowrap}summary{margin:2rem 0 .7rem;cursor:pointer}a{color:inherit}
.badge{display:inline-block;color:#fff;background:var(--tone);border-radius:3px;padding:0 .45rem;font-size:.76rem;
line-height:1.5}.card{background:#fff;border-radius:6px;box-shadow:0 1px 2px #0001;padding:1rem 1.1rem;margin:.9rem 0;
border-top:3px solid var(--tone);display:grid;grid-template-columns:minmax(0,5fr) minmax(0,8fr);gap:1.2rem}
.card.plain{grid-template-columns:1fr}.card h3{margin:.1rem 0 .3rem;font-size:1rem;overflow-wrap:anywhere}.card img{width:100%}
.remedy{margin:.5rem 0 0;padding:.45rem .7rem;background:#eef3f7;border-radius:4px;font-size:.88rem}
@media(max-width:760px){.card{grid-template-columns:1fr}}@media print{body{background:#fff}.card{break-inside:avoid}}
"""


def write_quality_page(
    report: QualityReport, dataset: Dataset, path: str | Path, settings: Settings | None = None
) -> Path:
    """Write the report to one file that needs no other; the dataset is read again for the images."""
    target = Path(path)
    settings = settings or Settings()
    groups = [group for group in report.groups() if group.worst.severity != "note"]
    notes = [group for group in report.groups() if group.worst.severity == "note"]
    cards = _cards(groups, dataset, settings)
    title = f"Data quality: {Path(report.dataset).resolve().name}"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><main><h1>{html.escape(title)}</h1>",
        f"<div class=soft>{report.episodes} episodes, id {html.escape(report.dataset_id)}, version "
        f"{html.escape(report.version)}, checked for: {html.escape(report.purpose)}</div>",
        _verdict(report),
        _tiles(report),
        f"<h2>Findings</h2>{_table(groups, linked=True)}" if groups else "",
        _lags(report),
        f"<h2>Finding by finding</h2>{''.join(cards)}" if cards else "",
        f"<details><summary>{len(notes)} kinds of notes, which need no action</summary>{_table(notes, linked=False)}"
        "</details>"
        if notes
        else "",
        _overrides(report),
        "</main></html>",
    ]
    write_atomically(target, "".join(parts).encode())
    return target


def _verdict(report: QualityReport) -> str:
    blocked = {finding.episode for finding in report.blocking}
    if blocked:
        codes = ", ".join(sorted({finding.code for finding in report.blocking}))
        text = f"<b>Blocked.</b> {len(blocked)} of {report.episodes} episodes cannot be used as they are: {html.escape(codes)}."
        tone = "blocking"
    elif report.count("blocking"):
        text, tone = (
            "<b>Usable, by decision.</b> Somebody answers for every blocking finding; see below.",
            "warning",
        )
    elif report.count("warning"):
        text, tone = "<b>Usable.</b> Nothing blocks; read the warnings before you trust results.", "fine"
    else:
        text, tone = "<b>Clean.</b> Nothing was found that would change a result.", "fine"
    return f"<div class='verdict {tone}'>{text}</div>"


def _tiles(report: QualityReport) -> str:
    tiles = "".join(
        f"<div class='tile {name if report.count(name) else ''}'><b>{report.count(name)}</b>{text}</div>"
        for name, text in zip(reversed(SEVERITIES), ("blocking", "warnings", "notes"), strict=True)
    )
    touched = len({finding.episode for finding in report.findings if finding.severity != "note"})
    return f"<div class=tiles>{tiles}<div class=tile><b>{touched}</b>episodes with either</div></div>"


def _table(groups: Sequence[Group], *, linked: bool) -> str:
    def name(place: int, group: Group) -> str:
        code = html.escape(group.worst.code)
        return f"<a href='#f{place}'>{code}</a>" if linked else code

    rows = "".join(
        f"<tr class={group.worst.severity}><td><span class=badge>{group.worst.severity}</span>"
        f"{' overridden' if group.overridden else ''}</td><td>{name(place, group)}</td>"
        f"<td>{html.escape(group.worst.channel)}</td><td class=n>{len(group.episodes)}</td>"
        f"<td class=n>{group.worst.value:.4g} {html.escape(group.worst.unit)}</td>"
        f"<td class=n>{group.worst.threshold:.4g}</td></tr>"
        for place, group in enumerate(groups)
    )
    head = (
        "<tr><th>severity</th><th>finding</th><th>channel</th><th class=n>episodes</th><th class=n>worst</th>"
        "<th class=n>threshold</th></tr>"
    )
    return f"<table>{head}{rows}</table>"


def _lags(report: QualityReport) -> str:
    image = draw_lags(list(report.measurements))
    if image is None:
        return ""
    return (
        f"<h2>Lag behind the command</h2><div class='card plain note'>{_image(image, 'lag by channel')}</div>"
    )


def _cards(groups: Sequence[Group], dataset: Dataset, settings: Settings) -> list[str]:
    """One card per group; the images of one episode are drawn together, so that it is read once."""
    images: dict[int, bytes | None] = {}
    drawn = sorted(range(min(len(groups), MOST_PICTURES)), key=lambda place: groups[place].worst.episode)
    view: tuple[int, View] | None = None
    for place in drawn:
        worst = groups[place].worst
        if worst.code == "unreadable":
            continue
        if view is None or view[0] != worst.episode:
            view = (worst.episode, View(dataset.episode(worst.episode), settings))
        images[place] = draw_finding(view[1], worst)
    return [_card(place, group, images.get(place)) for place, group in enumerate(groups)]


def _card(place: int, group: Group, image: bytes | None) -> str:
    worst = group.worst
    numbers = ", ".join(map(str, group.episodes[:MOST_NUMBERS])) + (
        f" and {len(group.episodes) - MOST_NUMBERS} more" if len(group.episodes) > MOST_NUMBERS else ""
    )
    shown = _image(image, f"{worst.code} in {worst.channel}, episode {worst.episode}") if image else ""
    return (
        f"<section class='card {worst.severity} {'' if shown else 'plain'}' id=f{place}><div>"
        f"<span class=badge>{worst.severity}</span><h3>{html.escape(worst.code)}: {html.escape(worst.channel)}</h3>"
        f"<div>{html.escape(worst.message)}</div>"
        f"<div class=soft>episode{'s' * (len(group.episodes) > 1)} {numbers}; shown: {worst.episode}, "
        f"{worst.start_s:.2f} to {worst.end_s:.2f} s</div>"
        f"<div class=remedy>{html.escape(worst.remedy)}</div></div><div>{shown}</div></section>"
    )


def _overrides(report: QualityReport) -> str:
    if not report.overrides:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(o.code)}</td><td class=n>{len(o.episode_ids)}</td><td>{html.escape(o.by)}</td>"
        f"<td>{html.escape(o.reason)}</td><td>{html.escape(o.at)}</td></tr>"
        for o in report.overrides
    )
    head = "<tr><th>finding</th><th>episodes</th><th>by</th><th>reason</th><th>when</th></tr>"
    return f"<h2>Who answers for what</h2><table>{head}{rows}</table>"


def _image(image: bytes, text: str) -> str:
    return f"<img alt='{html.escape(text, quote=True)}' src='data:image/png;base64,{base64.b64encode(image).decode()}'>"
