"""The gate over thousands of simulated campaigns with known truth: wrong promotions, trials saved, limits that hold.

Every campaign is looked at after every trial and stopped as soon as it may be. Scenes, real and simulated outcomes come
from a latent difficulty per scene; the truth is known exactly. No robot, real or stand-in, is involved.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.report import Section, Settings, Table, Target
from twinloop.promotion.control import controlled_outcomes
from twinloop.stats.betting import PAIRED, SINGLE, log_e_value, log_e_value_both, raw_outcomes

Array = NDArray[Any]

ALPHA = 0.05
CHUNK = 1000
FALSE, FEWER, FEWER_REAL, COVERED, CORRELATED = 0.05, 0.30, 0.20, 0.95, 0.6
POWERS = (0.8, 0.9, 0.95)
TARGET_POWER = 0.95
LISTS = ((400, 40), (400, 100), (400, 150), (200, 150))


@dataclass(frozen=True)
class Size:
    campaigns: int
    trials: int
    longest: int


FULL = Size(10_000, 300, 700)
QUICK = Size(1_000, 100, 700)


@dataclass(frozen=True)
class Law:
    """Chances that only the candidate and only the champion succeeds."""

    better: float
    worse: float

    @property
    def mean(self) -> float:
        return self.better - self.worse

    @property
    def variance(self) -> float:
        return self.better + self.worse - self.mean**2

    def of(self, latent: Array) -> Array:
        """Differences from standard normal latents: easy scenes are won, hard ones lost."""
        up, down = stats.norm.isf(self.better), stats.norm.ppf(self.worse)
        return np.where(latent > up, 1.0, np.where(latent < down, -1.0, 0.0))


def law(candidate: float, champion: float) -> Law:
    """Two policies that succeed independently of each other."""
    return Law(candidate * (1 - champion), champion * (1 - candidate))


def pairs(
    truth: Law, simulation: Law, strength: float, shape: tuple[int, int], seed: int
) -> tuple[Array, Array]:
    """Real and simulated differences in the same scenes; `strength` correlates their latents."""
    rng = np.random.default_rng(seed)
    scene = rng.standard_normal(shape)
    other = strength * scene + np.sqrt(1 - strength**2) * rng.standard_normal(shape)
    return truth.of(scene), simulation.of(other)


def outcomes(truth: Law, simulation: Law | None, strength: float, shape: tuple[int, int], seed: int) -> Any:
    if simulation is None:
        return raw_outcomes(pairs(truth, truth, 0.0, shape, seed)[0], PAIRED), 0.0
    real, simulated = pairs(truth, simulation, strength, shape, seed)
    made, _ = controlled_outcomes(real, simulated, simulation.mean, simulation.variance, PAIRED)
    return made, float(np.corrcoef(real.ravel(), simulated.ravel())[0, 1])


def stopping_times(
    truth: Law, simulation: Law | None, strength: float, size: Size, seed: int
) -> tuple[Array, float]:
    """When each campaign promotes (never: the longest plus one), and the correlation of its trials."""
    times, correlations = [], []
    for begin in range(0, size.campaigns, CHUNK):
        made, correlation = outcomes(truth, simulation, strength, (CHUNK, size.longest), seed + begin)
        hit = log_e_value(made, 0.0) >= np.log(1.0 / ALPHA)
        times.append(np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, size.longest + 1))
        correlations.append(correlation)
    return np.concatenate(times), float(np.mean(correlations))


def mean_trials(times: Array, power: float) -> tuple[float, int]:
    """Mean number of trials of a gate whose budget gives this power, and the budget."""
    budget = int(np.quantile(times, power, method="higher"))
    return float(np.minimum(times, budget).mean()), budget


def fixed_size(truth: Law, power: float) -> int:
    """Pairs that the one-sided exact McNemar test of fixed size needs for this power."""
    apart = truth.better + truth.worse
    count = 5
    while True:
        disagree = np.arange(count + 1)
        least = stats.binom.isf(ALPHA, disagree, 0.5)
        chance = stats.binom.sf(least, disagree, truth.better / apart)
        if float(stats.binom.pmf(disagree, count, apart) @ chance) >= power:
            return count
        count += 1


def false_promotions(size: Size) -> list[tuple[str, float]]:
    found = []
    cases: list[tuple[str, Law, Law | None, float]] = [
        ("50 against 50 %", law(0.5, 0.5), None, 0.0),
        ("70 against 70 %", law(0.7, 0.7), None, 0.0),
        ("95 against 95 %", law(0.95, 0.95), None, 0.0),
        ("60 against 70 %", law(0.6, 0.7), None, 0.0),
        ("always apart, even", Law(0.5, 0.5), None, 0.0),
        ("70 against 70 %, simulation uncorrelated", law(0.7, 0.7), law(0.9, 0.6), 0.0),
        ("70 against 70 %, simulation says +30, correlated", law(0.7, 0.7), law(0.9, 0.6), 0.8),
        ("70 against 70 %, simulation says -50, correlated", law(0.7, 0.7), law(0.3, 0.8), 0.8),
        ("70 against 70 %, simulation the same scene by scene", law(0.7, 0.7), law(0.7, 0.7), 1.0),
    ]
    for seed, (name, truth, simulation, strength) in enumerate(cases):
        ever = []
        for begin in range(0, size.campaigns, CHUNK):
            made, _ = outcomes(truth, simulation, strength, (CHUNK, size.trials), 1_000_000 * seed + begin)
            ever.append((log_e_value(made, 0.0) >= np.log(1.0 / ALPHA)).any(axis=1))
        found.append((name, float(np.mean(ever))))
    rng = np.random.default_rng(99)
    single = raw_outcomes(rng.random((size.campaigns, size.trials)) < 0.8, SINGLE)
    hit = log_e_value(single, 0.8) >= np.log(1.0 / ALPHA)
    found.append(("alone, 80 % against a threshold of 80 %", float(hit.any(axis=1).mean())))
    return found


def from_lists(size: Size, strength: float, scenes: int, trials: int) -> float:
    """Promotions by campaigns that draw from lists of scenes, each list drawn anew, where over all scenes nobody is better."""
    truth, ever = law(0.7, 0.7), []
    for begin in range(0, size.campaigns, CHUNK):
        real, simulated = pairs(truth, truth, strength, (CHUNK, scenes), 400_000_000 + begin)
        chosen = np.random.default_rng(begin).integers(scenes, size=(CHUNK, trials))
        mean, variance = simulated.mean(axis=1, keepdims=True), simulated.var(axis=1, keepdims=True)
        tried, beside = (np.take_along_axis(values, chosen, axis=1) for values in (real, simulated))
        made, _ = controlled_outcomes(tried, beside, mean, variance, PAIRED)
        ever.append((log_e_value(made, 0.0) >= np.log(1.0 / ALPHA)).any(axis=1))
    return float(np.mean(ever))


def savings(size: Size) -> list[tuple[str, float, int, int, float, float]]:
    rows = []
    for seed, (a, b) in enumerate([(0.8, 0.6), (0.9, 0.7), (0.7, 0.5), (0.6, 0.4), (0.95, 0.85), (0.5, 0.2)]):
        truth = law(a, b)
        times, _ = stopping_times(truth, None, 0.0, size, 50_000_000 + 1_000_000 * seed)
        for power in POWERS:
            mean, budget = mean_trials(times, power)
            fixed = fixed_size(truth, power)
            rows.append(
                (f"{100 * a:.0f} against {100 * b:.0f} %", power, fixed, budget, mean, 1 - mean / fixed)
            )
    return rows


def real_savings(size: Size) -> list[tuple[str, float, float, float, float]]:
    rows = []
    for seed, (a, b) in enumerate([(0.8, 0.6), (0.9, 0.7), (0.7, 0.5), (0.6, 0.4)]):
        truth = law(a, b)
        base, _ = stopping_times(truth, None, 0.0, size, 80_000_000 + 1_000_000 * seed)
        alone, _ = mean_trials(base, TARGET_POWER)
        for strength in (0.0, 0.8, 0.9):
            times, correlation = stopping_times(truth, truth, strength, size, 90_000_000 + 1_000_000 * seed)
            mean, _ = mean_trials(times, TARGET_POWER)
            rows.append(
                (f"{100 * a:.0f} against {100 * b:.0f} %", correlation, alone, mean, 1 - mean / alone)
            )
    return rows


def coverage(size: Size) -> list[tuple[str, float, float]]:
    cases: list[tuple[str, Law, Law | None, float]] = [
        ("no simulation", law(0.8, 0.6), None, 0.0),
        ("uncorrelated", law(0.8, 0.6), law(0.8, 0.6), 0.0),
        ("uncorrelated, says -50 where +20 is true", law(0.8, 0.6), law(0.3, 0.8), 0.0),
        ("correlated", law(0.8, 0.6), law(0.8, 0.6), 0.8),
        ("correlated, says -50 where +20 is true", law(0.8, 0.6), law(0.3, 0.8), 0.8),
        ("correlated, near 100 %", law(0.99, 0.95), law(0.99, 0.95), 0.8),
    ]
    found = []
    for seed, (name, truth, simulation, strength) in enumerate(cases):
        missed, correlations = [], []
        for begin in range(0, size.campaigns, CHUNK):
            shape = (CHUNK, size.trials)
            made, correlation = outcomes(
                truth, simulation, strength, shape, 200_000_000 + 1_000_000 * seed + begin
            )
            missed.append((log_e_value_both(made, truth.mean) >= np.log(1.0 / ALPHA)).any(axis=1))
            correlations.append(correlation)
        found.append((name, float(np.mean(correlations)), 1.0 - float(np.mean(missed))))
    return found


def run(settings: Settings) -> Section:
    size = QUICK if settings.quick else FULL
    loads = [os.getloadavg()[0]]
    promoted, saved = false_promotions(size), savings(size)
    loads.append(os.getloadavg()[0])
    real, held = real_savings(size), coverage(size)
    lists = [(n, t, s, from_lists(size, s, n, t)) for n, t in LISTS for s in (0.0, 0.8, 1.0)]
    loads.append(os.getloadavg()[0])
    at_power = [row[5] for row in saved if row[1] == TARGET_POWER]
    correlated = [row[4] for row in real if row[1] >= CORRELATED]
    worst, least = max(share for _, share in promoted), min(share for *_, share in held)
    targets = (
        Target(
            "false promotions at most 5 %, stopped at the best moment",
            f"{100 * worst:.1f} % at worst of {len(promoted)} truths",
            worst <= FALSE,
        ),
        Target(
            f"at least 30 % fewer trials than the fixed-size test, both at power {TARGET_POWER:g}",
            f"{100 * np.mean(at_power):.0f} % on average ({100 * min(at_power):.0f} to {100 * max(at_power):.0f} %)",
            bool(np.mean(at_power) >= FEWER),
        ),
        Target(
            "at least 20 % fewer real trials where simulated and real outcomes correlate by 0.6 or more",
            f"{100 * np.mean(correlated):.0f} % on average ({100 * min(correlated):.0f} to {100 * max(correlated):.0f} %)"
            if correlated
            else "no such case",
            bool(min(correlated) >= FEWER_REAL) if correlated else None,
        ),
        Target(
            "limits hold in at least 95 % of campaigns, at all times together, also at correlation 0",
            f"{100 * least:.1f} % at worst",
            least >= COVERED,
        ),
    )
    return Section(
        "gate",
        "Gate: simulated campaigns with known truth",
        (
            Table(
                "False promotions",
                ("truth", "promoted"),
                tuple((name, f"{100 * share:.2f} %") for name, share in promoted),
            ),
            Table(
                "Trials until promotion, beside the exact McNemar test of fixed size",
                ("truth", "power of both", "fixed size", "budget", "mean trials", "fewer"),
                tuple(
                    (n, f"{p:g}", str(f), str(b), f"{m:.1f}", f"{100 * s:.0f} %")
                    for n, p, f, b, m, s in saved
                ),
            ),
            Table(
                f"Real trials with and without simulation, both at power {TARGET_POWER:g}",
                ("truth", "correlation", "real only", "with simulation", "fewer"),
                tuple((n, f"{c:.2f}", f"{a:.1f}", f"{m:.1f}", f"{100 * s:.0f} %") for n, c, a, m, s in real),
            ),
            Table(
                "Campaigns whose limits held after every trial",
                ("simulation", "correlation", "held"),
                tuple((n, f"{c:.2f}", f"{100 * h:.2f} %") for n, c, h in held),
            ),
            Table(
                "Beyond the list: promotions where nobody is better over all scenes, lists drawn anew",
                ("scenes in the list", "trials drawn from it", "latents correlated", "promoted"),
                tuple((str(n), str(t), f"{s:g}", f"{100 * share:.2f} %") for n, t, s, share in lists),
            ),
        ),
        targets,
        (
            f"{size.campaigns} campaigns a row, looked at after every trial: {size.trials} trials for false promotions and "
            f"limits, up to {size.longest} for trials saved. Fixed size is the smallest number of pairs with which the "
            "one-sided exact McNemar test at 5 % reaches the power; the budget is what gives the gate the same power, and a "
            "campaign that does not promote within it counts with all of it.",
            "A verdict is about the list of scenes that were simulated, and the promises hold for it exactly. The last table "
            "says what it is worth for scenes that are not on the list: the more trials are drawn from a short list, and the "
            "better simulation foresees them, the more the list itself is what is left to chance. The gate's check `list` asks "
            "for four scenes per trial.",
            "Trials saved grow with the power asked for: a gate that may go on is never out of luck, so at low power, where a "
            "fixed test gives up early, it has little to save.",
        ),
        {"scipy": __import__("scipy").__version__},
        tuple(loads),
    )
