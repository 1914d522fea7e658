"""A gate's evidence as one HTML file: the verdict, e-value and confidence over the trials, slices and checks."""

from __future__ import annotations

import base64
import html
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.promotion.checks import Check
from twinloop.promotion.evidence import Evidence
from twinloop.promotion.statistics import SliceStatistic, Statistics
from twinloop.promotion.verdict import Verdict
from twinloop.report.identify_plots import AFTER, BEFORE, INK, _figure, _png
from twinloop.report.quality_page import STYLE

_TONES = {"promote": "fine", "more": "warning", "refuse": "blocking"}
_STANDINGS = {"not worse": "fine", "open": "warning", "worse": "blocking"}
_STATUSES = {"passed": "fine", "not evaluated": "warning", "failed": "blocking"}


def write_gate_page(verdict: Verdict, evidence: Evidence, path: str | Path) -> Path:
    """Write the report to one file that needs no other."""
    target = Path(path)
    found = verdict.statistics
    champion = f"against {verdict.champion.name}" if verdict.champion else "alone"
    title = f"Gate: {verdict.candidate.name} {champion}"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}.wide{{overflow-x:auto}}figure{{margin:1rem 0}}figure img{{max-width:min(100%,860px)}}</style>",
        f"<main><h1>{_text(title)}</h1><div class=soft>{_text(_where(verdict))}</div>",
        f"<div class='verdict {_TONES[verdict.decision]}'>{_text(verdict.sentence)}</div>",
        _image(draw_gate(found, verdict.rules.alpha, _robot(verdict)), "Above: log10 of the e-value of bets that the bar is "
        "passed; it decides at the dashed line. Below: mean outcome and what no bet has refuted, at all times together.")
        if found.trials
        else "",
        f"<h2>Trials</h2>{_trials(verdict, evidence)}",
        f"<h2>Slices</h2>{_slices(found.slices, _robot(verdict))}" if found.slices else "",
        f"<h2>Checks</h2>{_checks(verdict.checks)}" if verdict.checks else "",
        "</main></html>",
    ]  # fmt: skip
    write_atomically(target, "".join(parts).encode())
    return target


def draw_gate(found: Statistics, alpha: float, robot: str) -> bytes:
    """E-value over the trials, and the confidence sequence below it."""
    figure, (e_value, means) = _figure(2, 2.3)
    number = np.arange(1, found.trials + 1)
    decimal = np.log(10.0)
    e_value.plot(number, np.array(found.log_e_value) / decimal, color=AFTER, lw=1.4, label="bar is passed")
    e_value.plot(
        number, np.array(found.log_against) / decimal, color=BEFORE, lw=1.0, label="no gain worth having"
    )
    e_value.axhline(np.log10(1.0 / alpha), color=INK, lw=0.9, ls="--")
    e_value.set_ylabel("log10 of e-value", fontsize=7)
    e_value.legend(fontsize=6, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    running = np.cumsum(found.outcomes) / number
    if found.lows:
        means.fill_between(number, found.lows, found.highs, color=AFTER, alpha=0.18, lw=0)
    means.plot(number, running, color=AFTER, lw=1.2)
    means.axhline(found.bar, color=INK, lw=0.9, ls="--")
    means.set_ylabel("gain" if found.paired else "success", fontsize=7)
    means.set_xlabel(f"{'simulated' if found.grounds == 'simulated' else robot} trials", fontsize=7)
    return _png(figure)


def _robot(verdict: Verdict) -> str:
    """A stand-in is never called real."""
    return "stand-in" if verdict.standin else "real"


def _where(verdict: Verdict) -> str:
    if verdict.robot is None:
        place = "in simulation only" if verdict.rules.simulation_only else "no robot"
    else:
        place = f"{'stand-in ' if verdict.standin else ''}{verdict.robot}"
    return f"{place}; decided {verdict.decided_at}; evidence {verdict.evidence_hash[:16]}"


def _trials(verdict: Verdict, evidence: Evidence) -> str:
    found = verdict.statistics
    rows = []
    for name, trials in (("simulated", evidence.simulated), ("real", evidence.real)):
        if not trials:
            continue
        first = np.mean([trial.candidate for trial in trials])
        second = "" if evidence.champion is None else f"{100 * np.mean([t.champion for t in trials]):.1f} %"
        shown = _robot(verdict) if name == "real" else name
        rows.append(
            f"<tr><td>{shown}</td><td class=n>{len(trials)}</td><td class=n>{100 * first:.1f} %</td><td class=n>{second}</td></tr>"
        )
    head = "<tr><th>trials<th class=n>scenes<th class=n>candidate<th class=n>champion</tr>"
    note = ""
    if found.correlation is not None:
        note = (
            f"<p>Simulated and {_robot(verdict)} outcomes of the same scene correlate by {found.correlation:.2f}; "
            f"{found.coefficient:.2f} of the simulated outcome is taken off the other.</p>"
        )
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div>{note}"


def _slices(slices: tuple[SliceStatistic, ...], robot: str) -> str:
    def mean(value: float | None) -> str:
        return "" if value is None else f"{100 * value:+.1f}"

    rows = "".join(
        f"<tr><td>{_text(s.name)}</td><td class=n>{s.simulated}</td><td class=n>{mean(s.simulated_mean)}</td>"
        f"<td class=n>{s.real}</td><td class=n>{mean(s.real_mean)}</td>"
        f"<td><span class='badge {_STANDINGS[s.standing]}'>{s.standing}</span></td></tr>"
        for s in slices
    )
    head = (
        f"<tr><th>slice<th class=n>simulated<th class=n>points<th class=n>{robot}<th class=n>points<th></tr>"
    )
    return f"<div class=wide><table>{head}{rows}</table></div>"


def _checks(checks: tuple[Check, ...]) -> str:
    rows = "".join(
        f"<tr><td>{_text(c.name)}</td><td><span class='badge {_STATUSES[c.status]}'>{c.status}</span></td>"
        f"<td>{_text(c.detail)}{f' (accepted by {_text(c.accepted)})' if c.accepted else ''}</td></tr>"
        for c in checks
    )
    return f"<div class=wide><table><tr><th>check<th><th></tr>{rows}</table></div>"


def _image(png: bytes, caption: str) -> str:
    data = base64.b64encode(png).decode()
    return f"<figure><img alt='{_text(caption)}' src='data:image/png;base64,{data}'><figcaption class=soft>{_text(caption)}</figcaption></figure>"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
