"""`twinloop evaluate --engines`: a policy's success in every engine and time step, and whether it exploits one simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import twinloop
from twinloop.cli import console
from twinloop.cli.options import split_names
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.evaluation.quirks import Numerics, Quirks


def read_engines(text: str | None) -> tuple[str, ...]:
    """The engines that are named; none for `all`."""
    names = tuple(split_names(text))
    return () if names == ("all",) else names


def read_timesteps(text: str | None) -> tuple[float, ...]:
    """Time steps in seconds, as a,b,c."""
    try:
        return tuple(float(word) for word in split_names(text))
    except ValueError as error:
        raise WrongUse("cannot read --timesteps", got=text, expected="seconds, as 0.001,0.002") from error


def evaluate_quirks(
    policies: Sequence[twinloop.PolicyLike],
    environment: twinloop.TwinEnvironment,
    engines: str | None,
    timesteps: str | None,
    *,
    episodes: int,
    seed: int,
    out: Path | None,
    json: bool,
) -> None:
    """Measure, keep in a folder if one is given, and print."""
    from twinloop.evaluation.quirks import measure_quirks

    names, steps, found = read_engines(engines), read_timesteps(timesteps), []
    with console.progress_bar("evaluating") as progress:
        for place, policy in enumerate(policies):

            def on_progress(done: int, total: int, before: int = place) -> None:
                progress(before * total + done, len(policies) * total)

            found.append(
                measure_quirks(
                    policy, environment, names, steps, episodes=episodes, seed=seed, on_progress=on_progress
                )
            )
    for quirks in found:
        if out is not None:
            quirks.save(out / quirks.policy if len(found) > 1 else out)
    if json:
        console.print_json({"quirks": [_plain(one) for one in found]})
        return
    for quirks in found:
        _show(quirks)


def _plain(quirks: Quirks) -> dict[str, object]:
    """The result as JSON values, without the trials."""
    cells = [
        {
            "engine": cell.engine,
            "timestep_s": cell.timestep_s,
            "episodes": len(cell.evaluation.trials),
            "successes": cell.evaluation.successes,
            "success": cell.evaluation.success_rate,
            "interval_95": [cell.evaluation.interval().low, cell.evaluation.interval().high],
            "failures": cell.evaluation.failures,
            "lost": None if cell.lost is None else cell.lost.value,
            "lost_interval": None if cell.lost is None else [cell.lost.low, cell.lost.high],
            "expert": cell.expert,
        }
        for cell in quirks.cells
    ]
    kept = {
        name: getattr(quirks, name) for name in ("policy", "policy_id", "twin", "twin_hash", "seed", "margin")
    }
    return kept | {"verdict": quirks.verdict, "because": quirks.because, "cells": cells}


def _show(quirks: Quirks) -> None:
    columns = (
        "engine",
        "time step",
        "episodes",
        "success, 95 % interval",
        "lost, in the same scenes",
        "expert",
        "failures",
    )
    console.print_table(columns, [_row(cell) for cell in quirks.cells])
    console.out.print(f"{quirks.policy}: {quirks.verdict}: {quirks.because}")


def _row(cell: Numerics) -> tuple[str, ...]:
    rate, lost = cell.evaluation.interval(), cell.lost
    return (
        cell.engine,
        f"{1e3 * cell.timestep_s:g} ms",
        str(len(cell.evaluation.trials)),
        f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]",
        "reference"
        if lost is None
        else f"{100 * lost.value:.1f} [{100 * lost.low:.1f}, {100 * lost.high:.1f}] points",
        "-" if cell.expert is None else f"{100 * cell.expert:.0f} %",
        ", ".join(f"{name} {count}" for name, count in cell.evaluation.failures.items()) or "-",
    )
