"""Where and when the real runs failed, and what practice says about failures of that shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from twinloop.diagnosis.evidence import RunEvidence
from twinloop.diagnosis.result import Rule
from twinloop.diagnosis.scene import Layout
from twinloop.episode import Array
from twinloop.stats.interval import Interval, exact_interval

UNLIKELY = 0.01
WIDE = 0.5
"""Below this success everywhere, the gap as a whole is too wide."""


def slice_runs(real: RunEvidence, layout: Layout | None) -> tuple[Mapping[str, Any], ...]:
    """Success in the lower and upper half of each condition, with the chance of so large a difference by luck."""
    judged = [run for run in real.runs if run.success is not None]
    if len(judged) < 4:
        return ()
    won = np.array([bool(run.success) for run in judged])
    conditions: dict[str, Array] = {"order of recording": np.array([run.order for run in judged])}
    if layout is not None and len(judged) == len(real.runs):
        conditions |= {
            "object x": layout.place[:, 0],
            "object y": layout.place[:, 1],
            "object turn": layout.yaw,
        }
    made = []
    for name, values in conditions.items():
        middle = float(np.median(values))
        upper = values > middle
        if not upper.any() or upper.all():
            continue
        table = [[int(won[~upper].sum()), int((~upper).sum())], [int(won[upper].sum()), int(upper.sum())]]
        p = float(stats.fisher_exact([[w, n - w] for w, n in table]).pvalue)
        made.append(
            {"condition": name, "split_at": middle, "lower": table[0], "upper": table[1], "p_value": p}
        )
    return tuple(made)


def apply_rules(
    real: RunEvidence,
    drop: Interval,
    slices: Sequence[Mapping[str, Any]],
    layout: Layout | None,
    base: Mapping[str, Array],
) -> tuple[Rule, ...]:
    """The field's rules of thumb, each with the numbers that it rests on."""
    places = [s for s in slices if s["condition"] != "order of recording"]
    times = [s for s in slices if s["condition"] == "order of recording"]
    halves = [half for s in places for half in (s["lower"], s["upper"])]
    tops = [exact_interval(*half).high for half in halves]
    won, of = sum(half[0] for half in halves), sum(half[1] for half in halves)
    never = bool(halves) and won == 0 and exact_interval(0, of // max(1, len(places))).high < WIDE
    everywhere = bool(halves) and drop.low > 0.0 and (never or max(tops) < WIDE)
    uneven = min(places, key=lambda s: float(s["p_value"]), default=None)
    somewhere = uneven is not None and float(uneven["p_value"]) < UNLIKELY
    worse = [
        s
        for s in times
        if s["p_value"] < 0.05 and s["lower"][0] / s["lower"][1] > s["upper"][0] / s["upper"][1]
    ]
    return (
        Rule(
            "fails in all conditions: the gap is too wide",
            everywhere if halves else None,
            f"best half of any condition: {max((w / n for w, n in halves), default=0.0):.0%}"
            if halves
            else "too few judged runs",
            "close the largest measured dimension first; more data of the same kind will not help",
        ),
        Rule(
            "works in one place and not in another: coverage",
            somewhere if uneven is not None else None,
            "no condition to compare" if uneven is None else _halves(uneven),
            "look at that region with `twinloop coverage` and collect or generate there",
        ),
        Rule(
            "got worse with time: drift, identify again",
            bool(worse) if times else None,
            _halves(times[0]) if times else "too few judged runs",
            "run `twinloop drift` on these recordings, then `twinloop identify`",
        ),
        Rule(
            "always ask: is the failing case in the training data?",
            None,
            _outside(real, layout, base),
            "query the training data for these scenes; `twinloop coverage` draws both",
        ),
    )


def _halves(part: Mapping[str, Any]) -> str:
    (a, n), (b, m) = part["lower"], part["upper"]
    return f"{part['condition']}: {a} of {n} below {part['split_at']:.3g}, {b} of {m} above (p = {part['p_value']:.2g})"


def _outside(real: RunEvidence, layout: Layout | None, base: Mapping[str, Array]) -> str:
    failed = [index for index, run in enumerate(real.runs) if run.success is False]
    if layout is None or not failed or "object_offset_x_m" not in base:
        return f"{len(failed)} failing runs; their scenes are not known"
    beyond = sum(int(layout.beyond[index]) for index in failed)
    return f"{beyond} of {len(failed)} failing runs began outside the training scenes"
