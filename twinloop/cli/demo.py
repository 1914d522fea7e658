"""`twinloop demo`: the whole loop on embedded defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.console import Json
from twinloop.cli.loop import tell, watching


def demo(
    out: Annotated[Path, typer.Option("--out", help="The workspace to make, or to go on in.")] = Path(
        "demo-output"
    ),
    reality: Annotated[
        str, typer.Option(metavar="NAME|FILE.yaml", help="The stand-in for a robot: a shipped one, or yours.")
    ] = "remote",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    json: Json = False,
) -> None:
    """Take a policy from nothing to promoted on a stand-in for a robot: simulate, train, try, identify, diagnose, plan,
    record, train again, gate, promote, monitor. About seven minutes on two quiet cores; killed, it goes on where it was.
    """
    from twinloop.demo import run_demo

    with watching() as listener:
        twin, made = run_demo(out, reality, seed, listener)
    tell(twin, f"standin:{reality}", made, out / "report.html", json)
