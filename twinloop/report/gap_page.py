"""A measured gap as one HTML file: which dimensions differ, by how much, how surely, and what was not evaluated."""

from __future__ import annotations

import html
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.gap.result import ALL, DimensionGap, Gap, Measure
from twinloop.gap.success import Pair, Rate
from twinloop.report.quality_page import STYLE

MORE_STYLE = """
.wide{overflow-x:auto}td.bar{width:13rem;min-width:10rem}td.what{width:19rem;min-width:14rem}td.who{min-width:8rem}svg{display:block;width:100%;height:1.5rem}
.axis{stroke:var(--line);stroke-width:1}.span{stroke:var(--tone,var(--soft));stroke-width:2.5}.dot{fill:var(--tone,var(--soft))}
.real{fill:#33414e}.sim{fill:#1f6fb2}.reals{stroke:#33414e;stroke-width:2.5}.sims{stroke:#1f6fb2;stroke-width:2.5}
section{margin:1.6rem 0}section h2{display:flex;gap:.6rem;align-items:center;margin:1.4rem 0 .5rem}
details summary{margin:.5rem 0}tr.gap{--tone:var(--warn)}.key{display:inline-block;width:.8rem;height:.8rem;border-radius:50%;
vertical-align:-.1rem;margin:0 .25rem 0 .8rem}.needs{background:#eef3f7;border-radius:4px;padding:.45rem .7rem;margin:.4rem 0;font-size:.88rem}
"""


def write_gap_page(found: Gap, path: str | Path) -> Path:
    """Write the report to one file that needs no other."""
    target = Path(path)
    what = "stand-in" if found.standin else "real"
    title = f"Gap between {found.twin} and {Path(found.real).name}"
    compared = (
        f"compared with {found.sim} and the twin's replay" if found.sim else "no simulated dataset was given"
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}{MORE_STYLE}</style><main><h1>{_text(title)}</h1>",
        f"<div class=soft>twin version {_text(found.twin_version)}; {found.episodes} {what} episodes; {_text(compared)}; "
        f"differences are simulation minus reality, intervals {found.level:.0%} by resampling episodes</div>",
        _verdict(found),
        *(f"<div class='verdict warning'>{_text(note)}</div>" for note in found.notes),
        _overview(found),
        _success(found),
        *(_dimension(one) for one in found.dimensions.values()),
        "</main></html>",
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, "".join(parts).encode())
    return target


def _verdict(found: Gap) -> str:
    missing = [name for name, one in found.dimensions.items() if not one.evaluated]
    rest = f" Not evaluated: {', '.join(missing)}." if missing else ""
    if found.shown:
        return f"<div class='verdict warning'><b>A gap shows in {_text(', '.join(found.shown))}.</b>{_text(rest)}</div>"
    return f"<div class='verdict fine'><b>No gap shows.</b> What was evaluated differs by no more than chance.{_text(rest)}</div>"


def _overview(found: Gap) -> str:
    """One bar per dimension: its most certain difference in units of its own uncertainty."""
    rows = []
    for name, one in found.dimensions.items():
        if not one.evaluated:
            rows.append(
                f"<tr><td>{name}</td><td>not evaluated</td><td class=bar></td><td>needs {_text(one.missing[0].needs)}</td></tr>"
            )
            continue
        headlines = one.headlines or one.measures
        first = one.shown[0] if one.shown else max(headlines, key=_certainty)
        rows.append(
            f"<tr class={'gap' if one.shown else ''}><td><a href='#{name}'>{name}</a></td>"
            f"<td>{'<span class=badge>gap</span>' if one.shown else 'none shown'}</td>"
            f"<td class=bar>{_interval(first)}</td><td>{_text(first.name)}: {_difference(first)}</td></tr>"
        )
    head = "<tr><th>dimension<th><th>sim - real<th>most certain difference</tr>"
    return f"<h2>Overview</h2><div class=wide><table>{head}{''.join(rows)}</table></div>"


def _dimension(one: DimensionGap) -> str:
    badge = "<span class='badge warning'>gap</span>" if one.shown else ""
    parts = [f"<section id={one.dimension}><h2>{one.dimension} {badge}</h2>"]
    if one.headlines:
        parts.append(_table(one.headlines, one))
    detail = [measure for measure in one.measures if measure.channel != ALL]
    if detail:
        parts.append(
            f"<details><summary>{len(detail)} by channel or slice</summary>{_table(tuple(detail), one)}</details>"
        )
    for missing in one.missing:
        name = f"{missing.name}: " if missing.name else ""
        parts.append(
            f"<div class=needs><b>Not evaluated.</b> {_text(name)}needs {_text(missing.needs)}</div>"
        )
    return "".join([*parts, "</section>"])


def _table(measures: tuple[Measure, ...], one: DimensionGap) -> str:
    rows = "".join(
        f"<tr class={'gap' if m in one.shown else ''}><td class=what>{_text(m.name)}"
        f"{'' if m.channel == ALL else ' · ' + _text(m.channel)}<div class=soft>{_text(m.about) if m.channel == ALL else ''}</div></td>"
        f"<td class=n>{_level(m.real)}</td><td class=n>{_level(m.sim)}</td><td class=n><b>{m.value:+.3g}</b><div class=soft>"
        f"{m.low:.3g} to {m.high:.3g}</div></td><td>{_text('' if m.unit == '1' else m.unit)}</td><td class=bar>{_interval(m)}</td>"
        f"<td class=n>{m.episodes}{f' / {m.sim_episodes}' if m.sim_episodes else ''}<div class=soft>{m.samples} rows</div></td>"
        f"<td class=who>{_text(m.against)}</td></tr>"
        for m in measures
    )
    head = "<tr><th>measure<th class=n>robot<th class=n>sim<th class=n>sim - real<th>unit<th><th class=n>episodes<th>against</tr>"
    return f"<div class=wide><table>{head}{rows}</table></div>"


def _success(found: Gap) -> str:
    success = found.success
    if success.overall.real is None:
        return (
            f"<h2>Success</h2><div class=needs><b>Not evaluated.</b> needs {_text(success.needs or '')}</div>"
        )
    note = (
        f"<div class=needs>Simulation: not evaluated, needs {_text(success.needs)}</div>"
        if success.needs
        else ""
    )
    rows = "".join(_pair(one) for one in (success.overall, *success.slices))
    head = "<tr><th>slice<th class=n>robot<th class=n>simulation<th>0 to 100 %<th class=n>sim - real, points<th class=n>p</tr>"
    lines = [
        f"<div class=soft>{label}: {_text(', '.join(f'{name} {count}' for name, count in counts.items()))}</div>"
        for label, counts in (
            ("failures on the robot", success.real_failures),
            ("failures in simulation", success.sim_failures),
            ("failed on the robot in phase", success.real_failed_in),
            ("failed in simulation in phase", success.sim_failed_in),
        )
        if counts
    ]
    key = "<span class=key style='background:#33414e'></span>robot<span class=key style='background:#1f6fb2'></span>simulation"
    against = (
        f"<div class=soft>against {_text(success.against)}; exact intervals {key}</div>"
        if success.against
        else ""
    )
    return f"<h2>Success</h2>{against}{note}<div class=wide><table>{head}{rows}</table></div>{''.join(lines)}"


def _pair(one: Pair) -> str:
    difference = "-"
    if one.difference is not None:
        by = one.difference
        difference = f"<b>{100 * by.value:+.0f}</b> ({100 * by.low:.0f} to {100 * by.high:.0f})"
    name = f"{one.condition} {one.slice}".strip()
    chance = "-" if one.p_value is None else f"{one.p_value:.2g}"
    return (
        f"<tr><td>{_text(name)}</td><td class=n>{_rate(one.real)}</td><td class=n>{_rate(one.sim)}</td>"
        f"<td class=bar><svg viewBox='-6 0 212 24'><line class=axis x1=0 x2=200 y1=23 y2=23 />"
        f"{_rate_bar(one.real, 7, 'real')}{_rate_bar(one.sim, 16, 'sim')}</svg></td>"
        f"<td class=n>{difference}</td><td class=n>{chance}</td></tr>"
    )


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "-"
    return f"<b>{100 * rate.value:.0f} %</b> of {rate.episodes}<div class=soft>{100 * rate.low:.0f} to {100 * rate.high:.0f}</div>"


def _rate_bar(rate: Rate | None, y: int, name: str) -> str:
    if rate is None:
        return ""
    low, middle, high = (200 * share for share in (rate.low, rate.value, rate.high))
    return f"<line class={name}s x1={low:.1f} x2={high:.1f} y1={y} y2={y} /><circle class={name} cx={middle:.1f} cy={y} r=4 />"


def _interval(m: Measure) -> str:
    """The interval around zero, which is the line in the middle."""
    reach = max(abs(m.low), abs(m.high), abs(m.value), 1e-300) * 1.08
    low, middle, high = (100 + 100 * value / reach for value in (m.low, m.value, m.high))
    return (
        "<svg viewBox='-6 0 212 24'><line class=axis x1=0 x2=200 y1=12 y2=12 />"
        f"<line class=axis x1=100 x2=100 y1=2 y2=22 /><line class=span x1={low:.1f} x2={high:.1f} y1=12 y2=12 />"
        f"<circle class=dot cx={middle:.1f} cy=12 r=4 /></svg>"
    )


def _certainty(m: Measure) -> float:
    return abs(m.value) / max(m.standard_error, 1e-300)


def _difference(m: Measure) -> str:
    unit = "" if m.unit == "1" else f" {m.unit}"
    return _text(f"{m.value:+.3g}{unit} ({m.low:.3g} to {m.high:.3g}), against {m.against}")


def _level(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
