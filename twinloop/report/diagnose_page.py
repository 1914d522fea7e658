"""A diagnosis as one self-contained page: bars with intervals, what was measured, failures, rules of thumb."""

from __future__ import annotations

from html import escape
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.diagnosis.result import Diagnosis
from twinloop.stats.interval import Interval

WIDTH, BAR, LEFT = 720, 26, 150

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2430; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #c5ccd6; } .quiet { color: #6a7482; } .verdict { font-size: 1.25rem; font-weight: 600; }
svg text { font: 13px system-ui, sans-serif; fill: #1c2430; }
"""


def write_diagnosis(found: Diagnosis, folder: str | Path) -> Path:
    """Write `diagnosis.json` and `diagnosis.html`; returns the page."""
    root = Path(folder)
    found.save(root)
    page = root / "diagnosis.html"
    write_atomically(page, make_page(found).encode())
    return page


def make_page(found: Diagnosis) -> str:
    """The page as text."""
    where = "stand-in for reality" if found.standin else "robot"
    bars = [(cost.dimension, cost.lost, "#c2452d" if cost.named else "#b9c1cc") for cost in found.costs]
    bars += [("unknown", found.unknown, "#7b8794"), ("whole drop", found.drop, "#2b5d8a")]
    parts = [
        f"<h1>Why {escape(found.policy)} loses success</h1>",
        f"<p class=verdict>{escape(found.verdict)}</p>",
        *(f"<p class=quiet>{escape(note)}</p>" for note in found.notes),
        f"<p>In twin {escape(found.twin)} {found.in_twin.percent}; on the {where} {found.on_robot.percent}, "
        f"{found.successes} of {found.trials} runs; in the twin with everything measured put in {found.predicted.percent}. "
        f"95 % intervals.</p>",
        "<h2>Success points lost</h2>",
        _bars(bars),
        f"<p class=quiet>{'Every combination of dimensions was' if found.exact else 'Combinations drawn at random were'} "
        f"evaluated in the same {found.scenes} scenes; a dimension is named when its whole interval is above 2 points.</p>",
        "<h2>Measured</h2>",
        _measured(found),
        "<h2>How runs failed</h2>",
        _failures(found),
        "<h2>Conditions</h2>",
        _slices(found),
        "<h2>Rules of thumb</h2>",
        "<table>"
        + "".join(
            f"<tr><td>{ {True: 'applies', False: 'no', None: 'ask'}[rule.applies] }</td><td><b>{escape(rule.name)}</b><br>"
            f"{escape(rule.because)}<br><span class=quiet>{escape(rule.advice)}</span></td></tr>"
            for rule in found.rules
        )
        + "</table>",
    ]
    body = "\n".join(parts)
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>Diagnosis of {escape(found.policy)}</title>"
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _bars(bars: list[tuple[str, Interval, str]]) -> str:
    reach = max([0.1, *(share.high for _, share, _ in bars)])

    def at(value: float) -> float:
        return LEFT + (WIDTH - LEFT - 110) * max(value, 0.0) / reach

    rows = []
    for index, (name, share, colour) in enumerate(bars):
        top = index * (BAR + 8)
        middle = top + BAR / 2
        rows.append(
            f'<text x="0" y="{middle + 5}">{escape(name)}</text>'
            f'<rect x="{LEFT}" y="{top}" width="{max(at(share.value) - LEFT, 0):.1f}" height="{BAR}" fill="{colour}"/>'
            f'<line x1="{at(share.low):.1f}" x2="{at(share.high):.1f}" y1="{middle}" y2="{middle}" stroke="#1c2430" '
            f'stroke-width="2"/><text x="{at(share.high) + 8:.1f}" y="{middle + 5}">{share.points}</text>'
        )
    height = len(bars) * (BAR + 8)
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">{"".join(rows)}</svg>'


def _measured(found: Diagnosis) -> str:
    rows = []
    for part in found.measured:
        for q in part.quantities:
            mark = "<b>differs</b>" if q.differs else "<span class=quiet>as in the twin</span>"
            unit = "" if q.unit == "1" else f" {q.unit}"
            rows.append(
                f"<tr><td>{part.dimension}</td><td>{escape(q.name)}</td><td>{q.twin:.4g}{unit}</td>"
                f"<td>{q.real:.4g}{unit} [{q.low:.4g}, {q.high:.4g}]</td><td>{mark}</td></tr>"
            )
        rows += [
            f"<tr class=quiet><td>{part.dimension}</td><td colspan=4>not measured: {escape(text)}</td></tr>"
            for text in part.missing
        ]
    return f"<table><tr><th>dimension<th>quantity<th>twin<th>recordings<th></tr>{''.join(rows)}</table>"


def _failures(found: Diagnosis) -> str:
    reasons = sorted({reason for counts in found.failures.values() for reason in counts})
    if not reasons:
        return "<p>No run failed.</p>"
    totals = {"on_robot": found.trials, "in_twin_with_everything": found.scenes}
    head = "".join(f"<th>{where.replace('_', ' ')}" for where in found.failures)
    rows = "".join(
        f"<tr><td>{escape(reason)}</td>"
        + "".join(
            f"<td>{100 * counts.get(reason, 0) / max(totals[where], 1):.0f} %</td>"
            for where, counts in found.failures.items()
        )
        + "</tr>"
        for reason in reasons
    )
    return f"<table><tr><th>reason{head}</tr>{rows}</table>"


def _slices(found: Diagnosis) -> str:
    if not found.slices:
        return "<p>Too few judged runs to compare conditions.</p>"
    rows = "".join(
        f"<tr><td>{escape(s['condition'])}</td><td>{s['split_at']:.3g}</td><td>{s['lower'][0]} of {s['lower'][1]}</td>"
        f"<td>{s['upper'][0]} of {s['upper'][1]}</td><td>{s['p_value']:.2g}</td></tr>"
        for s in found.slices
    )
    return f"<table><tr><th>condition<th>split at<th>below<th>above<th>p by chance</tr>{rows}</table>"
