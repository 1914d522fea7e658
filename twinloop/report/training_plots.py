"""Learning curves: the errors of one or several policies over their weight updates, stage after stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from twinloop.errors import LearnError
from twinloop.policies.networks.policy import Policy
from twinloop.report.charts import SERIES, add_legend, encode_svg, make_figure, require_png, write_png

Curve = tuple[str, Sequence[Mapping[str, Any]]]
"""A policy's name, and the points of its training: stage, step, training and validation error."""


def draw_learning(policies: Sequence[Policy], path: str | Path) -> Path:
    """Write a PNG of learning curves: validation error as a line, training error faint, the kept weights as a dot.

    Args:
        policies: The policies to compare.
        path: The PNG file to write.

    Returns:
        The path of the image.

    Raises:
        LearnError: A policy has no learning curve.
        WrongUse: The path does not end in .png.
    """
    target = require_png(path, "an image of learning curves")
    curves = [(policy.name, policy.training_record.results.get("curve") or ()) for policy in policies]
    for name, points in curves:
        if not points:
            raise LearnError(f"policy {name} has no learning curve", remedy="train it again")
    return write_png(_draw_curves(curves), target)


def draw_curves(curves: Sequence[Curve]) -> Markup | None:
    """Learning curves for a page; None where there are none."""
    drawn = [(name, points) for name, points in curves if points]
    return encode_svg(_draw_curves(drawn)) if drawn else None


def _draw_curves(curves: Sequence[Curve]) -> Any:
    figure, (axis,) = make_figure(row_height=3.2, width=8)
    for number, (name, points) in enumerate(curves):
        _draw_curve(axis, name, points, SERIES[number % len(SERIES)])
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(which="both", labelsize=7)
    axis.grid(which="both")
    axis.set_xlabel("weight updates")
    axis.set_ylabel("error, in standard deviations of each action")
    add_legend(axis, columns=2)
    return figure


def _draw_curve(axis: Any, name: str, curve: Sequence[Mapping[str, Any]], colour: str) -> None:
    """One policy; its stages follow each other, and the best weights of the last one were kept."""
    before = 0
    stages = list(dict.fromkeys(point["stage"] for point in curve))
    for stage in stages:
        points = [point for point in curve if point["stage"] == stage]
        updates = [before + point["step"] for point in points]
        axis.plot(updates, [point["training"] for point in points], color=colour, lw=1, alpha=0.35)
        label = f"{name}: {' then '.join(stages)}" if stage == stages[0] else None
        axis.plot(updates, [point["validation"] for point in points], color=colour, lw=1.8, label=label)
        if stage == stages[-1]:
            best = min(range(len(points)), key=lambda k: points[k]["validation"])
            axis.plot(updates[best], points[best]["validation"], "o", color=colour, ms=6)
        else:
            axis.axvline(updates[-1], color=colour, lw=0.8, ls=":")
        before = updates[-1]
