"""`twinloop engine`: list physics engines, and check that they get physics right."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from typer import Argument, Option

from twinloop.cli import console
from twinloop.cli.options import Json

EngineNames = Annotated[
    list[str] | None, Argument(metavar="NAME...", help="Engines; default: every one that is installed.")
]
DoorTwin = Annotated[
    str, Option("--twin", metavar="NAME", help="The twin in which the engine's interface is checked.")
]

app = typer.Typer(help="List physics engines, and check that they get physics right.", no_args_is_help=True)


@app.command("ls")
def list_(json: Json = False) -> None:
    """List the engines, their versions, what is missing, and how they compute."""
    from twinloop.engines.listing import EngineDescription, list_engines

    def row(one: EngineDescription) -> tuple[str, ...]:
        missing = f"not installed: pip install 'twinloop[{one.extra}]'"
        return one.name, one.version or missing, one.device, f"{one.bits} bits", one.determinism

    columns = ("engine", "version", "device", "arithmetic", "same seed")
    console.print_list(json, list_engines(), columns, row, "there is no engine")


@app.command()
def check(names: EngineNames = None, twin: DoorTwin = "franka_pick_place", json: Json = False) -> None:
    """Check engines against answers on paper: kinematics, weight, falling, sliding, bouncing, energy, grasps, convergence.

    Exits with 1 if one of them fails.
    """
    from twinloop.cli.places import find_twin
    from twinloop.engines.listing import list_engines
    from twinloop.engines.mujoco_batch import quiet_warnings
    from twinloop.testing.conformance import measure_engine
    from twinloop.testing.engines import check_engine

    cell = find_twin(twin)
    chosen = names or [one.name for one in list_engines() if one.version is not None]
    found, broken = {}, {}
    with console.progress_bar("checking") as progress:
        for done, name in enumerate(chosen):
            progress(done, len(chosen))
            found[name] = measure_engine(name)
            try:
                with quiet_warnings():  # one requirement makes a simulation diverge
                    check_engine(name, cell)
            except AssertionError as error:
                broken[name] = str(error)
        progress(len(chosen), len(chosen))
    value = {
        name: {
            "interface": broken.get(name),
            "requirements": [asdict(one) | {"ok": one.ok} for one in requirements],
        }
        for name, requirements in found.items()
    }

    def show() -> None:
        rows = [
            (
                name,
                one.name,
                f"{one.measured:.2g}",
                f"{'at least' if one.at_least else 'at most'} {one.limit:.2g}",
                one.unit,
                "yes" if one.ok else "NO",
            )
            for name, requirements in found.items()
            for one in requirements
        ]
        console.print_table(("engine", "requirement", "measured", "limit", "unit", "kept"), rows)
        for name in chosen:
            console.out.print(f"{name}: interface in {cell.name}: {broken.get(name, 'kept')}")

    console.print_result(json, value, show)
    if broken or any(not one.ok for requirements in found.values() for one in requirements):
        raise typer.Exit(1)
