"""One-line summaries of what was found; of policies too where `summary` was imported, which brings PyTorch."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from twinloop.alignment.result import Alignment
from twinloop.anchoring import Anchor
from twinloop.coverage.result import Coverage
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset
from twinloop.diagnosis.result import Diagnosis
from twinloop.evaluation.result import Evaluation
from twinloop.gap.result import Gap
from twinloop.generation.videos import Video
from twinloop.identification.result import Identification
from twinloop.monitoring.run import MonitorReport
from twinloop.planning.items import Plan
from twinloop.promotion.verdict import Verdict
from twinloop.stats.interval import exact_interval

MOST_NAMED = 3
"""Parameters named in a line."""


@singledispatch
def summarize(result: Any) -> str:
    """A result in one line."""
    raise TypeError(f"no summary of {type(result).__name__}")


@summarize.register
def _(result: None) -> str:
    return "nothing usable"


@summarize.register
def _(result: Dataset) -> str:
    judged = [success for success in known_outcomes(result) if success is not None]
    outcome = f", {sum(judged) / len(judged):.0%} succeeded" if judged else ""
    return f"{_count(len(result), 'episode')}{outcome}"


@summarize.register
def _(result: Evaluation) -> str:
    return success_rate(result.successes, len(result.judged))


@summarize.register
def _(result: Gap) -> str:
    return f"gap found in {', '.join(result.shown) or 'no dimension'}"


@summarize.register
def _(result: Identification) -> str:
    """Accepted or not, and the identified parameters that moved most, in units of their interval."""
    verdict = "accepted" if result.gate.accepted else "rejected"
    identified = [e for e in result.estimates if e.status == "identifiable"]
    identified.sort(key=lambda e: -abs(e.value - e.nominal) / max(e.high - e.low, 1e-12))
    named = ", ".join(
        f"{e.name} {e.nominal:.3g} -> {e.value:.3g} [{e.low:.3g}, {e.high:.3g}]"
        for e in identified[:MOST_NAMED]
    )
    left = len(identified) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return f"{verdict}: {result.gate.reason}; identified: {named or 'no parameter'}{more}"


@summarize.register
def _(result: Diagnosis) -> str:
    return result.verdict


@summarize.register
def _(result: Coverage) -> str:
    regions = [region.name for region in result.regions if not region.offset]
    offsets = [region.name for region in result.regions if region.offset]
    first = f", most of it {regions[0]}" if regions else ""
    offset = f"; offset in nearly every episode: {offsets[0]}" if offsets else ""
    return f"{result.outside:.0%} of the real data outside simulation{first}{offset}"


@summarize.register
def _(result: Plan) -> str:
    first = f"; first {result.items[0].title}" if result.items else ""
    return f"{_count(len(result.items), 'item')}, {result.hours:.1f} h{first}"


@summarize.register
def _(result: Anchor) -> str:
    parameters = result.config.get("randomization", {})
    return "; ".join(
        (
            f"{_count(len(parameters), 'parameter')} vary, expert succeeds in {result.pilot:.0%}",
            *result.warnings,
        )
    )


@summarize.register
def _(result: Verdict) -> str:
    return result.sentence


@summarize.register
def _(result: tuple) -> str:  # type: ignore[type-arg]
    return ", ".join(summarize(one) for one in result) or "no such episode"


@summarize.register
def _(result: Video) -> str:
    return result.caption


@summarize.register
def _(result: Alignment) -> str:
    far = f"outlines {result.after_px:.1f} px from the edges, {result.before_px:.1f} before"
    loose = f"; not determined: {', '.join(result.not_determined)}" if result.not_determined else ""
    return f"camera {result.camera} {result.verdict}: {far}{loose}"


@summarize.register
def _(result: MonitorReport) -> str:
    alerts = "; ".join(alert.what for alert in result.alerts)
    return f"{success_rate(result.success.successes, result.success.episodes)}; {alerts or 'no alert'}"


def success_rate(successes: int, trials: int) -> str:
    """`93% [86, 97] of 100`."""
    if not trials:
        return "no trials"
    interval = exact_interval(successes, trials)
    return f"{successes / trials:.0%} [{100 * interval.low:.0f}, {100 * interval.high:.0f}] of {trials}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
