"""A plan as a sheet for the operator: printable, one section per item, one line to tick per episode."""

from __future__ import annotations

import html
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.planning.items import Item, Plan
from twinloop.report.quality_page import STYLE

_STYLE = """
main>table{margin-top:1rem}
.item{background:#fff;border-radius:6px;box-shadow:0 1px 2px #0001;padding:1rem 1.2rem;margin:1.1rem 0}.item h2{margin:.1rem 0 .4rem}
.facts{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.5rem 0}.facts b{font-size:1.15rem;display:block}
.item p{margin:.35rem 0}.tick{width:1.4rem;text-align:center}.blank{border-bottom:1px solid var(--soft)!important;min-width:6rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#eef3f7;padding:.5rem .7rem;border-radius:4px;font-size:.8rem}.two{columns:2;column-gap:1.4rem}
.two table{box-shadow:none}.sign{display:flex;gap:2rem;margin-top:1rem}.sign span{flex:1;border-bottom:1px solid var(--ink);padding-top:1.6rem}
@media(max-width:700px){.two{columns:1}}
@media print{@page{margin:14mm}main{padding:0;max-width:none}.item{box-shadow:none;border-top:2px solid #000;border-radius:0;padding:.6rem 0}
.item{break-inside:auto}tr,.facts{break-inside:avoid}pre{background:none;border:1px solid #999}.verdict{box-shadow:none;border:1px solid #999}}
"""


def write_plan_sheet(plan: Plan, path: str | Path) -> Path:
    """Write the sheet to one file that needs no other."""
    target = Path(path)
    count = len(plan.items)
    known = f"success before {plan.success:.0%}; " if plan.success is not None else ""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Recording plan</title><style>{STYLE}{_STYLE}</style><main><h1>What to record next</h1>",
        f"<div class=soft>made {html.escape(plan.made_at)}; {known}{count} item{'' if count == 1 else 's'}, {plan.hours:.1f} h in all, "
        "best gain per hour first</div>",
        _overview(plan),
        *(_section(number, item) for number, item in enumerate(plan.items, 1)),
        f"<p>Then {plan.trials} trials of the policy, before and after, show the largest of these gains ({plan.trial_minutes:.0f} min).</p>"
        if plan.trials
        else "",
        "<h2>What this rests on</h2><ul>",
        *(f"<li>{html.escape(line)}</li>" for line in plan.assumptions),
        *(f"<li class=soft>{html.escape(k)}: {html.escape(v)}</li>" for k, v in plan.sources.items()),
        "</ul><div class=sign><span class=soft>operator</span><span class=soft>date</span><span class=soft>robot</span></div>",
        "</main></html>",
    ]
    write_atomically(target, "".join(parts).encode())
    return target


def _overview(plan: Plan) -> str:
    rows = "".join(
        f"<tr><td>{number}</td><td>{html.escape(item.title)}</td><td class=n>{_amount(item)}</td>"
        f"<td class=n>{item.hours:.1f}</td><td>{html.escape(str(item.gain))}</td><td class=n>{_rate(item)}</td>"
        f"<td>{'real data required' if item.required else ''}</td></tr>"
        for number, item in enumerate(plan.items, 1)
    )
    head = "<tr><th><th>record<th class=n>how many<th class=n>hours<th>expected gain<th class=n>points per hour<th></tr>"
    return (
        f"<table>{head}{rows}</table>"
        if rows
        else "<div class='verdict fine'><b>Nothing to record.</b></div>"
    )


def _section(number: int, item: Item) -> str:
    required = f"<p><b>Real data required:</b> {html.escape(item.required)}.</p>" if item.required else ""
    return (
        f"<div class=item><h2>{number}. {html.escape(item.title)}</h2><p>{html.escape(item.why)}.</p>"
        f"<div class=facts><span><b>{item.episodes}</b>{html.escape(item.unit)}</span>"
        f"<span><b>{item.minutes:.0f} min</b>operator</span><span><b>{html.escape(str(item.gain))}</b>expected gain</span></div>"
        f"<p class=soft>How many: {html.escape(item.power)}.</p>{required}"
        f"<p>Can simulation give it? {html.escape(item.simulation)}.</p><pre>{html.escape(item.command)}</pre>{_ticks(item)}</div>"
    )


def _ticks(item: Item) -> str:
    """A line for each episode: what to set, a box to tick, room for a note."""
    if not item.episodes:
        return ""
    names = list(item.settings[0]) if item.settings else []
    head = "".join(f"<th>{html.escape(name)}" for name in names)
    rows = []
    for number in range(item.episodes):
        setting = item.settings[number] if number < len(item.settings) else {}
        cells = "".join(f"<td>{_value(setting.get(name, ''))}</td>" for name in names)
        rows.append(
            f"<tr><td class=n>{number + 1}</td><td class=tick>☐</td>{cells}<td class=blank></td></tr>"
        )
    wide = "" if len(names) > 1 else " class=two"
    return f"<div{wide}><table><tr><th class=n>#<th>done{head}<th>note</tr>{''.join(rows)}</table></div>"


def _value(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else html.escape(value)


def _amount(item: Item) -> str:
    return f"{item.episodes} {html.escape(item.unit)}" if item.episodes else "nothing"


def _rate(item: Item) -> str:
    return "" if item.gain_per_hour is None else f"{item.gain_per_hour:.1f}"
