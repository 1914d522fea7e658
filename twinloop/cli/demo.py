"""`twinloop demo`: the whole path on embedded defaults."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.generate import generation_bar


def demo(
    out: Annotated[Path, typer.Option("--out", help="The workspace to make.")] = Path("demo-output"),
    episodes: Annotated[int, typer.Option(help="How many episodes to generate.")] = 64,
    seed: Annotated[int, typer.Option(help="The same seed gives the same data.")] = 1,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None,
    json: Json = False,
) -> None:
    """Take a twin through every stage there is: generate, replay, check, query, split, draw. About a minute."""
    from twinloop.demo import run_demo

    def say(text: str) -> None:
        console.err.print(f"[bold]*[/] {text}")
        sys.stderr.flush()

    with generation_bar(out) as progress:
        done = run_demo(out, episodes=episodes, seed=seed, workers=workers, say=say, progress=progress)
    if json:
        console.print_json(asdict(done))
        return
    lag = "not measured" if done.lag_ms is None else f"{done.lag_ms:.0f} ms behind the command (median)"
    console.print_table(
        ("stage", "result"),
        [
            ("generate", f"{done.episodes} episodes, {done.frames} frames, {done.success:.0%} success"),
            ("replay", f"{done.replayed_same} of {done.replayed} bit for bit"),
            ("verify", "every file intact" if done.intact else "DAMAGED"),
            ("check", f"{done.blocking_findings} blocking findings; joints follow {lag}"),
            *[
                (
                    "query",
                    f"cube {row['cube']}: {row['success_percent']:g} % of {row['episodes']}, {row['mean_duration_s']:g} s",
                )
                for row in done.by_mass
            ],
            ("split", ", ".join(f"{name} {count}" for name, count in done.parts.items())),
            ("picture", str(done.picture)),
        ],
    )
    console.out.print(
        f'next: twinloop data query {done.dataset} "select episode_index, success, draw from episodes limit 3"',
        markup=False,
    )
