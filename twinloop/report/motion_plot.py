"""A designed motion on one page: where each actuator is commanded to be, beside the plain chirp."""

from __future__ import annotations

import io
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.errors import WrongUse
from twinloop.identification.design import Design

DESIGNED, PLAIN = "#1f6fb2", "#c9ced3"


def draw_motion(design: Design, path: str | Path) -> Path:
    """Write a PNG of the motion."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    target = Path(path)
    if target.suffix != ".png":
        raise WrongUse("an image of a motion is a PNG", got=str(target))
    motion, plain = design.motion, design.chirp
    rows = len(motion.actuators)
    figure = Figure(figsize=(10, 1.0 + 1.5 * rows), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
    told = ", ".join(f"{e.name} ± {e.half_width:.3g}" for e in design.expected[:4])
    figure.suptitle(
        f"{design.twin}: {motion.duration_s:g} s, confidence volume {design.gain:.3g} times smaller than a chirp's\n{told}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    for column, (axis, name) in enumerate(zip(axes, motion.actuators, strict=True)):
        axis.plot(plain.time_s, plain.commands[:, column], color=PLAIN, lw=0.8, label="chirp")
        axis.plot(motion.time_s, motion.commands[:, column], color=DESIGNED, lw=1.1, label="designed")
        axis.set_ylabel(name, fontsize=8)
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=7)
    axes[0].legend(fontsize=7, loc="upper right", ncols=2)
    axes[-1].set_xlabel("time, s", fontsize=8)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, buffer.getvalue())
    return target
