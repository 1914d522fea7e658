"""The command line: parse, call one library function with the same words, print."""

from __future__ import annotations

from typing import Annotated

import typer

from twinloop.cli import (
    check,
    console,
    coverage,
    data,
    demo,
    diagnose,
    evaluate,
    excite,
    gap,
    gate,
    generate,
    identify,
    ingest,
    loop,
    monitor,
    plan,
    policy,
    registry,
    robot,
    start,
    train,
    twin,
)
from twinloop.version import __version__

app = typer.Typer(
    name="twinloop",
    help="Take a robot policy from simulation to reality and keep it there.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.add_typer(twin.app, name="twin")
app.add_typer(policy.app, name="policy")
app.add_typer(registry.app, name="registry")
app.add_typer(plan.app, name="plan")
app.command()(demo.demo)
app.command()(start.init)
app.command()(start.doctor)
app.command()(start.status)
app.command()(robot.record)
app.command()(robot.standin)
app.command()(generate.generate)
app.command()(generate.replay)
app.command()(check.check)
app.command()(ingest.ingest)
app.command()(identify.identify)
app.command()(identify.anchor)
app.command()(excite.excite)
app.command()(excite.drift)
app.command()(gap.gap)
app.command()(gap.rank)
app.command()(coverage.coverage)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(loop.loop)
app.command()(gate.gate)
app.command()(registry.promote)
app.command()(registry.rollback)
app.command()(monitor.monitor)
app.command()(diagnose.diagnose)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"twinloop {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Take a robot policy from simulation to reality and keep it there."""


def main() -> None:
    """Entry point of the `twinloop` command."""
    console.run(app)
