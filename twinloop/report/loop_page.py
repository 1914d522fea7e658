"""A whole loop as one HTML file: success before and after, what each stage found, and the stages' own reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinloop.generation.videos import video_data_uri
from twinloop.report.diagnosis_page import make_cost_rows
from twinloop.report.page import write_page
from twinloop.report.training_plots import draw_curves
from twinloop.stats.interval import Interval, exact_interval

Found = Mapping[str, Any]


def write_loop_page(
    title: str,
    found: Mapping[str, Found],
    stages: Sequence[tuple[str, str, float]],
    reports: Mapping[str, Path],
    films: Sequence[tuple[str, Path]],
    path: str | Path,
) -> Path:
    """Write the report to one file that needs no other.

    Args:
        title: What was run, on which robot.
        found: The result of every stage, by stage.
        stages: Name, summary and duration in seconds, in order.
        reports: HTML files of single stages, by stage; each is included whole.
        films: Captions and WebM files.
        path: The HTML file to write.

    Returns:
        The path of the page.
    """
    return write_page(
        path,
        "loop.html",
        title=title,
        stages=stages,
        reports={stage: report.read_text() for stage, report in reports.items()},
        films=[(caption, video_data_uri(file)) for caption, file in films],
        **loop_context(found),
    )


def loop_context(found: Mapping[str, Found]) -> dict[str, Any]:
    """What the template names, from the results of the stages; the only place that knows their shape.

    Args:
        found: The result of every stage, by stage.

    Returns:
        The template's names and values.
    """
    first, gate, diagnosis = found["try"], found["gate"], found["diagnose"]
    robot = "stand-in" if first["robot"].get("standin") else "robot"
    success = [
        ("before", "simulation", first["simulation"]),
        ("before", robot, first["robot"]),
        ("after, at the gate", "simulation", gate["simulation"]),
        ("after, at the gate", robot, gate["robot"]),
    ]
    if "monitor" in found:
        success.append(("after, deployed", robot, found["monitor"]["robot"]))
    return {
        "robot": robot,
        "verdict": (gate["decision"], gate["reasons"]),
        "success": [row for row in success if row[2]["episodes"]],
        "before": _pool([first["robot"]]),
        "after": _pool([found[name]["robot"] for name in ("gate", "monitor") if name in found]),
        "episodes": _count_episodes(found),
        "costs": make_cost_rows(
            ((cost["dimension"], Interval(**cost["lost"]), cost["named"]) for cost in diagnosis["costs"]),
            Interval(**diagnosis["unknown"]),
            Interval(**diagnosis["drop"]),
        ),
        "diagnosis": diagnosis["verdict"],
        "named": [cost["dimension"] for cost in diagnosis["costs"] if cost["named"]],
        "dimensions": found["measure"]["dimensions"],
        "accepted": found["identify"]["accepted"],
        "replay": found["identify"]["reason"],
        "estimates": found["identify"]["estimates"],
        "curves": draw_curves([(found[name]["name"], found[name]["curve"]) for name in _trained(found)]),
        "provenance": [("candidate", gate["candidate"]["id"][:12]), ("decided", gate["decided_at"])],
    }


def _pool(rates: Sequence[Found]) -> tuple[Interval, int] | None:
    """The success rate of all trials together, not of the luckier few, and their number; None without trials."""
    trials = sum(r["episodes"] for r in rates)
    return (exact_interval(sum(r["successes"] for r in rates), trials), trials) if trials else None


def _count_episodes(found: Mapping[str, Found]) -> list[tuple[str, int]]:
    """Episodes on the robot, in the order of recording."""
    numbers = {
        "trials of the first policy": found["try"]["robot"]["episodes"],
        "excitation runs": found["excite"]["episodes"],
        "demonstrations before the second policy": found["show"]["episodes"],
        "trials of the second policy": found.get("retry", {}).get("episodes", 0),
        "further demonstrations": found["demonstrate"]["episodes"],
        "gate trials": found["gate"]["robot"]["episodes"],
        "deployed episodes": found.get("monitor", {"robot": {"episodes": 0}})["robot"]["episodes"],
    }
    return [(name, number) for name, number in numbers.items() if number]


def _trained(found: Mapping[str, Found]) -> list[str]:
    """Stages that trained a policy; one that was kept as it is was not trained again."""
    stages = [name for name in ("pretrain", "retrain", "finetune") if name in found]
    return [name for name in stages if not found[name].get("kept")]
