"""Drift on one page: each watched quantity episode by episode, its usual band, and what was noticed when."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.errors import WrongUse
from twinloop.identification.drift import Drift

POINT, BAND, ALARM, BEGAN = "#1f6fb2", "#d5e4f0", "#b3261e", "#e08a1e"


def draw_drift(drift: Drift, path: str | Path) -> Path:
    """Write a PNG with a row for each series."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    target = Path(path)
    if target.suffix != ".png":
        raise WrongUse("an image of drift is a PNG", got=str(target))
    rows = len(drift.series)
    figure = Figure(figsize=(10, 0.8 + 1.7 * rows), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
    number = np.arange(len(drift.episodes))
    alarms = {change.name: change for change in drift.changes}
    for axis, series in zip(axes, drift.series, strict=True):
        low, high = series.level - 2.0 * series.scatter, series.level + 2.0 * series.scatter
        axis.axhspan(low, high, color=BAND, label="usual, ± 2 scatters")
        axis.axvline(drift.baseline - 0.5, color="#8a949d", lw=0.8, ls=":")
        axis.errorbar(
            number,
            series.estimates,
            yerr=2.0 * np.array(series.deviations),
            fmt="o",
            ms=3,
            lw=0.8,
            color=POINT,
        )
        if (change := alarms.get(series.name)) is not None:
            axis.axvline(change.began - 0.5, color=BEGAN, lw=1.2, ls="--", label=f"began at {change.began}")
            axis.axvline(
                change.alarmed, color=ALARM, lw=1.2, label=f"noticed at {change.alarmed} ({change.role})"
            )
        unit = "" if series.unit == "1" else f", {series.unit}"
        axis.set_ylabel(f"{series.name}{unit}", fontsize=7)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6.5, loc="upper left", ncols=3)
    axes[-1].set_xlabel("episode, in the order of recording", fontsize=8)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, buffer.getvalue())
    return target
