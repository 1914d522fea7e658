"""Statistics of the evidence relative to the bar; the decision is made in `verdict`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinloop.episode import Array
from twinloop.promotion.control import controlled_outcomes
from twinloop.promotion.evidence import Evidence, PairedTrial, differences
from twinloop.promotion.rules import Rules
from twinloop.promotion.slices import Slice, make_slices
from twinloop.stats.betting import FRACTIONS, MOST, Outcomes, confidence_sequence, log_e_value, raw_outcomes

Standing = Literal["not worse", "worse", "open"]
Grounds = Literal["real", "real and simulated", "simulated"]

FEWEST = 8
"""Trials needed before a forecast is made."""
PULL = 4.0
"""Prior of the forecast: this many additional trials without any gain."""


@dataclass(frozen=True)
class SliceStatistic:
    """One slice: trials and mean outcome in simulation and in reality, and the result of its test."""

    name: str
    simulated: int
    simulated_mean: float | None
    real: int
    real_mean: float | None
    standing: Standing
    shown_by: str


@dataclass(frozen=True)
class Statistics:
    """Estimates after the last trial, and their history.

    `low` and `high` are a confidence sequence for the mean outcome at 1 - alpha; `log_e_value` is that of bets that the mean
    is above the bar, `log_against` of bets that it is below bar + min_effect. `promoting` and `refusing` state whether either
    ever reached 1 / alpha. `more` forecasts how many more trials are needed, None if no number would suffice.
    """

    grounds: Grounds
    paired: bool
    trials: int
    bar: float
    estimate: float | None
    low: float
    high: float
    promoting: bool
    refusing: bool
    more: int | None
    log_e_value: tuple[float, ...]
    log_against: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    outcomes: tuple[float, ...]
    slices: tuple[SliceStatistic, ...]
    correlation: float | None
    coefficient: float
    simulated_trials: int
    simulated_mean: float | None


def measure(
    evidence: Evidence, rules: Rules, *, twin_is_current: bool = False, interval: bool = True
) -> Statistics:
    """Everything a verdict needs; without the interval it is cheap enough to follow every trial.

    Simulated trials speak for slices only if the twin is current.
    """
    bar = rules.bar(evidence.champion is not None)
    simulated = differences(evidence.simulated)
    outcomes, grounds, correlation, coefficient = _outcomes(evidence, rules, simulated)
    threshold = np.log(1.0 / rules.alpha)
    count = len(outcomes.values)
    e_value = log_e_value(outcomes, bar) if count else np.zeros(0)
    worth = min(bar + rules.min_effect, outcomes.span.high - 1e-6)
    against = log_e_value(outcomes, worth, upward=False) if count else np.zeros(0)
    lows = highs = np.zeros(0)
    if interval and count:
        lows, highs = confidence_sequence(outcomes, rules.alpha)
    return Statistics(
        grounds=grounds,
        paired=evidence.champion is not None,
        trials=count,
        bar=bar,
        estimate=float(np.mean(outcomes.values)) if count else None,
        low=float(lows[-1]) if len(lows) else outcomes.span.low,
        high=float(highs[-1]) if len(highs) else outcomes.span.high,
        promoting=bool((e_value >= threshold).any()),
        refusing=bool((against >= threshold).any()),
        more=forecast(outcomes, bar, float(e_value.max(initial=0.0)), rules.alpha),
        log_e_value=tuple(e_value.tolist()),
        log_against=tuple(against.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
        outcomes=tuple(outcomes.values.tolist()),
        slices=slice_statistics(evidence, rules, twin_is_current or rules.simulation_only),
        correlation=correlation,
        coefficient=coefficient,
        simulated_trials=len(simulated),
        simulated_mean=float(np.mean(simulated)) if len(simulated) else None,
    )


def forecast(outcomes: Outcomes, bar: float, e_value: float, alpha: float) -> int | None:
    """Trials until the e-value reaches 1 / alpha if the next ones resemble those before; None if it never would."""
    missing = np.log(1.0 / alpha) - e_value
    if missing <= 0.0:
        return 0
    count = len(outcomes.values)
    if count < FEWEST:
        return FEWEST - count
    room, worst = bar - outcomes.span.low, bar - float(outcomes.low.min())
    rates = [
        float(
            np.sum(
                np.log1p(min(fraction / max(room, 1e-9), MOST / max(worst, 1e-9)) * (outcomes.values - bar))
            )
        )
        for fraction in FRACTIONS
    ]
    rate = max(rates) / (count + PULL)
    return int(np.ceil(missing / rate)) if rate > 0.0 else None


def slice_statistics(evidence: Evidence, rules: Rules, twin_is_current: bool) -> tuple[SliceStatistic, ...]:
    """Every slice: shown not to be worse by the margin, shown to be worse, or open.

    Simulated trials of a current twin can show either; real trials that show a slice to be worse overrule simulated ones.
    """
    slices = make_slices(evidence.simulated or evidence.real)
    return tuple(_slice(part, len(slices), evidence, rules, twin_is_current) for part in slices)


def _slice(
    part: Slice, count: int, evidence: Evidence, rules: Rules, twin_is_current: bool
) -> SliceStatistic:
    least = max(rules.bar(evidence.champion is not None) - rules.slice_margin, evidence.span.low + 1e-6)
    simulated = [trial for trial in evidence.simulated if part.holds(trial)]
    real = [trial for trial in evidence.real if part.holds(trial)]
    standing: Standing = "open"
    shown_by = ""
    for trials, name in ((simulated if twin_is_current else [], "simulated"), (real, "real")):
        if not trials:
            continue
        outcomes = raw_outcomes(differences(trials), evidence.span)
        if log_e_value(outcomes, least, upward=False).max() >= np.log(count / rules.alpha):
            standing, shown_by = "worse", name
        elif standing == "open" and log_e_value(outcomes, least).max() >= np.log(1.0 / rules.alpha):
            standing, shown_by = "not worse", name
    return SliceStatistic(
        part.name, len(simulated), _mean(simulated), len(real), _mean(real), standing, shown_by
    )


def _outcomes(
    evidence: Evidence, rules: Rules, simulated: Array
) -> tuple[Outcomes, Grounds, float | None, float]:
    if rules.simulation_only:
        return raw_outcomes(simulated, evidence.span), "simulated", None, 0.0
    real = differences(evidence.real)
    if not evidence.combinable:
        return raw_outcomes(real, evidence.span), "real", None, 0.0
    by_scene = {trial.scene: trial.difference for trial in evidence.simulated}
    predicted = np.array([by_scene[trial.scene] for trial in evidence.real])
    outcomes, slope = controlled_outcomes(
        real, predicted, float(simulated.mean()), float(simulated.var()), evidence.span
    )
    varied = len(real) > 2 and np.ptp(real) > 0.0 and np.ptp(predicted) > 0.0
    correlation = float(np.corrcoef(real, predicted)[0, 1]) if varied else None
    return outcomes, "real and simulated", correlation, float(slope[-1])


def _mean(trials: Sequence[PairedTrial]) -> float | None:
    return float(np.mean(differences(trials))) if trials else None
