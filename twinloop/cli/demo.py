"""`twinloop demo`: the whole loop on embedded defaults."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from twinloop.cli import console
from twinloop.cli.loop import print_loop
from twinloop.cli.options import Json

Reality = Annotated[
    str, Option(metavar="NAME|FILE.yaml", help="The stand-in for a robot: a shipped one, or yours.")
]


def demo(
    out: Annotated[Path, Option(help="The workspace to make, or to resume in.")] = Path("demo-output"),
    reality: Reality = "remote",
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same result.")] = 0,
    json: Json = False,
) -> None:
    """Run the whole loop on a stand-in for a robot: generate, train, evaluate, identify, diagnose, plan, anchor, record, train again,
    gate, promote, monitor. Three to five minutes on two cores; after an interruption the same command resumes.
    """
    from twinloop.cli.progress import stage_progress
    from twinloop.demo import run_demo

    with stage_progress() as listener:
        twin, result = run_demo(out, reality, seed, listener)
    print_loop(f"{twin.name} on standin:{reality}", result, out / "report.html", json)
    if not json:
        console.out.print(f"look at everything in a browser: twinloop studio {shlex.quote(str(out))}")
