"""`twinloop tune`: the fastest solver settings of a twin whose trajectories stay close to those of fine ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, SceneConfig
from twinloop.cli.places import find_twin

TunedTwin = Annotated[str, Argument(metavar="TWIN", help="A twin's name or folder.")]
JointsTolerance = Annotated[
    float,
    Option("--joints", metavar="RAD", help="How far joints may be from those at a quarter of the time step."),
]
ObjectTolerance = Annotated[
    float, Option("--object", metavar="M", help="How far from there the object may end, in metres.")
]
Out = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="Save the twin with the fastest settings and what was measured."),
]


def tune(
    twin: TunedTwin,
    config: SceneConfig = None,
    episodes: Annotated[int, Option(help="Episodes at each setting.")] = 16,
    seed: Annotated[int, Option(help="Random seed for the scenes.")] = 0,
    joints: JointsTolerance = 0.02,
    object_: ObjectTolerance = 0.005,
    out: Out = None,
    json: Json = False,
) -> None:
    """Find a twin's fastest time step and solver tolerance whose trajectories stay close to those of a fine simulation.

    Exits with 1 if none does.
    """
    from twinloop.generation.tuning import apply_setting, tune_twin
    from twinloop.twins import save_twin

    cell = find_twin(twin)
    varied = twinloop.load_randomization(config, cell) if config else None
    with console.progress_bar("tuning") as progress:
        found = tune_twin(
            cell,
            varied,
            episodes=episodes,
            seed=seed,
            joints_rad=joints,
            object_m=object_,
            on_progress=progress,
        )
    if out is not None and found.chosen is not None:
        found.save(save_twin(apply_setting(cell, found.chosen), out))

    def show() -> None:
        rows = [
            (
                str(one.setting),
                f"{1e3 * one.cpu_s:.0f} ms",
                f"{one.joints_rad:.2g}",
                f"{1e3 * one.object_m:.2g} mm",
                str(one.outcomes_changed),
                f"{100 * one.success:.0f} %",
                "chosen" if one.setting == found.chosen else "close" if one.close else "too far",
            )
            for one in found.tried
        ]
        columns = (
            "setting",
            "processor time each",
            "joints",
            "object's end",
            "outcomes changed",
            "success",
            "",
        )
        console.print_table(columns, rows)
        if found.chosen is None:
            console.out.print(
                f"no setting stays within {joints:g} rad and {object_:g} m of {found.reference}"
            )
        else:
            console.out.print(f"{cell.name}: {found.chosen} is {found.speedup:.2f} times as fast as its own")
        if out is not None and found.chosen is not None:
            console.out.print(f"saved the twin with it, and what was measured, in {out}")

    console.print_result(json, found.as_json(), show)
    if found.chosen is None:
        raise typer.Exit(1)
