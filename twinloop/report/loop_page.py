"""A loop as one HTML file: success rates before and after, the result of each stage, and the stages' reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.generation.videos import video_data_uri
from twinloop.loop_result import LoopResult
from twinloop.policies.networks.policy import Policy
from twinloop.promotion.evidence import Evidence
from twinloop.report.diagnosis_page import make_cost_rows
from twinloop.report.page import write_page
from twinloop.report.summary import summarize
from twinloop.report.training_plots import draw_curves
from twinloop.stats.interval import Interval, exact_interval

REPORT = "report.html"
"""A stage's own page, in its folder."""


@dataclass(frozen=True)
class SuccessRow:
    """One bar of the comparison: when, where, success rate and number of trials."""

    when: str
    where: str
    rate: Interval
    trials: int


def write_loop_page(title: str, result: LoopResult, path: str | Path) -> Path:
    """Write the report to one self-contained file.

    Args:
        title: What was run, on which robot.
        result: The results of the stages that ran.
        path: The HTML file to write.

    Returns:
        The path of the page.
    """
    reports = {stage.name: stage.folder / REPORT for stage in result.stages}
    return write_page(
        path,
        "loop.html",
        shows=[
            *(file for file in reports.values() if file.is_file()),
            *(video.file for video in result.video or ()),
        ],
        title=title,
        stages=[(stage.name, summarize(stage.result), stage.seconds) for stage in result.stages],
        reports={name: file.read_text() for name, file in reports.items() if file.is_file()},
        videos=[(video.caption, video_data_uri(video.file)) for video in result.video or ()],
        **loop_context(result),
    )


def loop_context(result: LoopResult) -> dict[str, Any]:
    """The template's variables, from the results of the stages.

    Args:
        result: The results of the stages that ran.

    Returns:
        Values by variable; None for stages that did not run.
    """
    robot = "stand-in" if result.evaluate is not None and result.evaluate.standin else "robot"
    verdict, diagnosis, identification = result.verdict, result.diagnose, result.identify
    success = _success(result, robot)
    trained = {
        policy.id: policy for policy in (result.train, result.retrain, result.finetune) if policy is not None
    }
    return {
        "robot": robot,
        "verdict": (verdict.decision, verdict.reasons) if verdict else None,
        "success": success,
        "before": _pool([row for row in success if row.where == robot and row.when == "before"]),
        "after": _pool([row for row in success if row.where == robot and row.when != "before"]),
        "episodes": _count_episodes(result),
        "costs": make_cost_rows(
            ((cost.dimension, cost.lost, cost.named) for cost in diagnosis.costs),
            diagnosis.unknown,
            diagnosis.drop,
        )
        if diagnosis
        else None,
        "diagnosis": diagnosis.verdict if diagnosis else None,
        "named": [cost.dimension for cost in diagnosis.named] if diagnosis else [],
        "dimensions": result.gap.dimensions if result.gap else {},
        "accepted": identification.gate.accepted if identification else None,
        "replay": identification.gate.reason if identification else None,
        "estimates": identification.estimates if identification else [],
        "curves": draw_curves(
            [
                (p.name, p.training_record.results.get("curve", []))
                for p in trained.values()
                if isinstance(p, Policy)
            ]
        ),
        "provenance": [("candidate", verdict.candidate.id[:12]), ("decided", verdict.decided_at)]
        if verdict
        else [],
    }


def _success(result: LoopResult, robot: str) -> list[SuccessRow]:
    """Success rates before, at the gate and deployed, each with its exact interval."""
    counts = []
    for where, evaluation in (("simulation", result.evaluate_sim), (robot, result.evaluate)):
        if evaluation is not None:
            counts.append(("before", where, evaluation.successes, len(evaluation.judged)))
    evidence: Evidence | None = result.evidence
    if evidence is not None:
        when = "after, at the gate" if result.gate else "at the gate"
        for where, trials in (("simulation", evidence.simulated), (robot, evidence.real)):
            counts.append((when, where, sum(trial.candidate for trial in trials), len(trials)))
    if result.monitor is not None:
        counts.append(("deployed", robot, result.monitor.success.successes, result.monitor.success.episodes))
    return [SuccessRow(when, where, exact_interval(won, of), of) for when, where, won, of in counts if of]


def _pool(rows: Sequence[SuccessRow]) -> tuple[Interval, int] | None:
    """The success rate over all trials, and their number; None without trials."""
    trials = sum(row.trials for row in rows)
    successes = round(sum(row.rate.value * row.trials for row in rows))
    return (exact_interval(successes, trials), trials) if trials else None


def _count_episodes(result: LoopResult) -> list[tuple[str, int]]:
    """Episodes on the robot, in the order of recording."""
    evidence = result.evidence
    numbers = {
        "trials of the first policy": len(result.evaluate.trials) if result.evaluate else 0,
        "excitation runs": len(result.excite) if result.excite else 0,
        "demonstrations before the second policy": len(result.demonstrate) if result.demonstrate else 0,
        "trials of the second policy": len(result.reevaluate.trials) if result.reevaluate else 0,
        "further demonstrations": len(result.demonstrate_more) if result.demonstrate_more else 0,
        "gate trials": len(evidence.real) if evidence else 0,
        "deployed episodes": result.monitor.episodes if result.monitor else 0,
    }
    return [(name, number) for name, number in numbers.items() if number]
