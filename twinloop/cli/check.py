"""`twinloop check`: can the data be trusted?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json


def check(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A data set's folder.")],
    episodes: Annotated[int, typer.Option(help="How many episodes to repeat.")] = 8,
    json: Json = False,
) -> None:
    """Repeat simulated episodes at half the physics time step and say how far apart they end up."""
    from twinloop.generate.convergence import check_time_step

    found = check_time_step(dataset, count=episodes)
    if json:
        console.print_json(asdict(found))
        return
    count = len(found.episodes)
    console.out.print(
        f"{count} episodes at {found.physics_dt_s * 1000:g} ms and at half of it: "
        f"{found.outcome_changed} of {count} end differently"
    )
    if found.object_end_m:
        middle = sorted(found.object_end_m)[len(found.object_end_m) // 2]
        console.out.print(
            f"the object ends {middle * 1000:.3g} mm apart in the median, "
            f"{max(found.object_end_m) * 1000:.3g} mm at most"
        )
    console.print_table(
        ("signal", "unit", "largest", "root mean square"),
        [(e.signal, e.unit, e.largest, e.root_mean_square) for e in found.errors],
    )
