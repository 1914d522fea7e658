"""A gate's verdict as one HTML file: the decision, e-value and confidence over the trials, slices and checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from twinloop.promotion.evidence import Evidence
from twinloop.promotion.statistics import Statistics
from twinloop.promotion.verdict import Verdict
from twinloop.report.charts import BLUE, INK, ORANGE, add_legend, encode_svg, make_figure
from twinloop.report.page import write_page
from twinloop.stats.interval import exact_interval


def write_gate_page(verdict: Verdict, evidence: Evidence, path: str | Path) -> Path:
    """Write the report to one self-contained file.

    Args:
        verdict: The decision and the statistics it rests on.
        evidence: The trials behind it.
        path: The HTML file to write.

    Returns:
        The path of the page.
    """
    robot = "stand-in" if verdict.standin else "robot"  # a stand-in is never called real
    champion = verdict.champion
    rates = []
    for place, trials in (("simulation", evidence.simulated), (robot, evidence.real)):
        if trials:
            wins = sum(trial.candidate for trial in trials)
            rates.append((place, "candidate", exact_interval(wins, len(trials)), len(trials)))
            if champion is not None:
                wins = sum(bool(trial.champion) for trial in trials)
                rates.append((place, "champion", exact_interval(wins, len(trials)), len(trials)))
    statistics = verdict.statistics
    return write_page(
        path,
        "gate.html",
        shows=(),
        title=f"Gate: {verdict.candidate.name}" + (f" against {champion.name}" if champion else ""),
        verdict=verdict,
        rates=rates,
        robot=robot,
        chart=draw_gate(statistics, verdict.rules.alpha, robot) if statistics.trials else None,
        provenance=[
            ("robot", verdict.robot if verdict.robot else "none"),
            ("candidate", verdict.candidate.id[:12]),
            ("champion", champion.id[:12] if champion else ""),
            ("decided", verdict.decided_at),
            ("evidence", verdict.evidence_hash[:16]),
        ],
    )


def draw_gate(statistics: Statistics, alpha: float, robot: str) -> Markup:
    """E-value over the trials, and the confidence sequence below it."""
    figure, (e_value, means) = make_figure(2, row_height=2.0)
    number = np.arange(1, statistics.trials + 1)
    scale = 100.0
    unit = "points" if statistics.paired else "%"
    bar = f"above {scale * statistics.bar:g} {unit}"
    e_value.plot(number, np.array(statistics.log_e_value) / np.log(10.0), color=BLUE, lw=1.4, label=bar)
    against = np.array(statistics.log_against) / np.log(10.0)
    e_value.plot(number, against, color=ORANGE, lw=1.0, label="no gain of the required size")
    e_value.axhline(np.log10(1.0 / alpha), color=INK, lw=0.9, ls="--", label="decides")
    e_value.set_ylabel("log10 e-value")
    add_legend(e_value)
    if statistics.lows:
        lows, highs = (scale * np.array(ends) for ends in (statistics.lows, statistics.highs))
        means.fill_between(
            number, lows, highs, color=BLUE, alpha=0.18, lw=0, label=f"{1 - alpha:.0%} confidence sequence"
        )
    means.plot(number, scale * np.cumsum(statistics.outcomes) / number, color=BLUE, lw=1.2, label="mean")
    means.axhline(scale * statistics.bar, color=INK, lw=0.9, ls="--", label="required")
    means.set_ylabel(f"{'gain' if statistics.paired else 'success rate'}, {unit}")
    means.set_xlabel(f"trials ({'simulation' if statistics.grounds == 'simulated' else robot})")
    add_legend(means)
    return encode_svg(figure)
