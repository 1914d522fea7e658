"""How training went: the errors of one or several policies over their weight updates, stage after stage."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import write_atomically
from twinloop.errors import LearnError, WrongUse
from twinloop.policies.policy import Policy

TONES = ("#b26a00", "#2d7a46", "#3f6f93", "#7a4fa0", "#a03a5a", "#5d6b78")


def draw_learning(policies: Sequence[Policy], path: str | Path) -> Path:
    """Write a PNG: held-out error as a line, training error faint, the weights that were kept as a dot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    target = Path(path)
    if target.suffix != ".png":
        raise WrongUse("an image of learning curves is a PNG", got=str(target))
    untold = [policy.name for policy in policies if not policy.training_record.results.get("curve")]
    if untold:
        raise LearnError(f"policy {untold[0]} does not say how its training went", remedy="train it again")
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    for number, policy in enumerate(policies):
        _draw(axis, policy, TONES[number % len(TONES)])
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(which="both", labelsize=8)
    axis.set_xlabel("weight updates")
    axis.set_ylabel("error, in units of each action's spread")
    axis.grid(alpha=0.25, which="both")
    axis.legend(fontsize=8, title="held-out error; faint: training; dot: kept", title_fontsize=8)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, buffer.getvalue())
    return target


def _draw(axis: Any, policy: Policy, tone: str) -> None:
    """One policy; its stages follow each other, and the best of the last one is what was kept."""
    curve = policy.training_record.results["curve"]
    before = 0
    stages = list(dict.fromkeys(point["stage"] for point in curve))
    for stage in stages:
        points = [point for point in curve if point["stage"] == stage]
        updates = [before + point["step"] for point in points]
        axis.plot(updates, [point["training"] for point in points], color=tone, lw=1, alpha=0.35)
        label = f"{policy.name}: {' then '.join(stages)}" if stage == stages[0] else None
        axis.plot(updates, [point["validation"] for point in points], color=tone, lw=1.8, label=label)
        if stage == stages[-1]:
            best = min(range(len(points)), key=lambda k: points[k]["validation"])
            axis.plot(updates[best], points[best]["validation"], "o", color=tone, ms=6)
        else:
            axis.axvline(updates[-1], color=tone, lw=0.8, ls=":")
        before = updates[-1]
