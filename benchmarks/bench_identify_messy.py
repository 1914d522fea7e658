"""Identification from messy logs of two arms whose parameters are known: do the intervals still hold the truth?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from benchmarks import messy_logs
from benchmarks.kept import answers, made_on
from benchmarks.report import Section, Settings, Table, Target

NAME, TITLE = "identify_messy", "Identification from messy logs"
ARMS = ("so101", "stranger")
KINDS = ("friction", "damping", "armature", "stiffness", "delay")


def run(settings: Settings) -> Section:
    each = 2 if settings.quick else 60
    jobs = {f"{arm}-{seed}": [arm, seed] for seed in range(each) for arm in ARMS}
    made = list(answers(settings, NAME, messy_logs.recover, jobs, workers=1).values())
    found = [
        {"name": name, "arm": answer["arm"], "rate_hz": answer["rate_hz"], **told}
        for answer in made
        for name, told in answer["parameters"].items()
    ]
    groups = {
        **{f"{kind}, all arms": [one for one in found if kind in one["name"]] for kind in KINDS},
        **{f"arm {arm}": [one for one in found if one["arm"] == arm] for arm in ARMS},
        **{f"{hz:g} Hz": [one for one in found if one["rate_hz"] == hz] for hz in messy_logs.RATES_HZ},
        **{
            f"called {status}": [one for one in found if one["status"] == status]
            for status in ("identifiable", "weak", "not identifiable")
        },
        "all": found,
    }
    rows = tuple((name, *_coverage(group)) for name, group in groups.items() if group)
    covered, interval, _, _ = _coverage(found)
    held = float(np.mean([one["covered"] for one in found]))
    by_kind = {
        kind: float(np.mean([one["covered"] for one in found if kind in one["name"]])) for kind in KINDS
    }
    return Section(
        NAME,
        TITLE,
        (
            Table(
                f"{len(made)} recoveries",
                (
                    "parameters",
                    "95 % interval covers",
                    "95 % interval of that",
                    "how many",
                    "median half-width",
                ),
                rows,
            ),
        ),
        (
            Target("95 % intervals cover 90 to 98 %", f"{covered} [{interval}]", 0.90 <= held <= 0.98),
            Target(
                "95 % intervals cover 90 to 98 % of every kind of parameter",
                ", ".join(f"{kind} {share:.0%}" for kind, share in by_kind.items()),
                all(0.90 <= share <= 0.98 for share in by_kind.values()),
            ),
        ),
        (
            "Each log is four runs of 2 s as CSV files: the loop's period varies by "
            f"{messy_logs.JITTER:.0%} to either side, {messy_logs.LOST:.0%} of rows are lost, {messy_logs.MISSING:.0%} of "
            f"readings are empty, stamps are milliseconds since 1970 by a clock that runs fast by {messy_logs.CLOCK_FAST:.0e} "
            f"and scatter by {messy_logs.STAMP_S:g} s; readings have noise of {messy_logs.NOISE_RAD:g} rad and steps of "
            f"{messy_logs.QUANTUM_RAD:g} rad. Ingested through a map, identified with default settings.",
            "Half-widths are relative to the true value.",
            made_on(settings, NAME),
        ),
    )


def _coverage(group: list[dict[str, Any]]) -> tuple[str, str, str, str]:
    """The fraction of intervals that hold the truth, its exact interval, how many there are, and how wide they are."""
    held = sum(one["covered"] for one in group)
    sure = stats.binomtest(held, len(group)).proportion_ci(0.95)
    width = np.median([0.5 * (one["high"] - one["low"]) / abs(one["truth"]) for one in group])
    return f"{held / len(group):.1%}", f"{sure.low:.0%} to {sure.high:.0%}", str(len(group)), f"{width:.2%}"
