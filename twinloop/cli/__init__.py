"""The command line: parse, call one library function with the same words, print."""

from __future__ import annotations

from typing import Annotated

import typer

from twinloop.cli import (
    align,
    check,
    console,
    coverage,
    data,
    demo,
    diagnose,
    engine,
    evaluate,
    excite,
    gap,
    gate,
    generate,
    identify,
    ingest,
    jobs,
    key,
    loop,
    monitor,
    operate,
    plan,
    policy,
    record,
    registry,
    robot,
    serve,
    start,
    studio,
    train,
    tune,
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
for group in (data, twin, engine, policy, robot, registry, key, plan, jobs):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])
for command in (
    demo.demo, start.init, start.doctor, start.status, record.record, record.standin, generate.generate, generate.replay, check.check,
    ingest.ingest, identify.identify, align.align, identify.anchor, excite.excite, excite.drift, gap.gap, gap.rank, coverage.coverage, train.train, tune.tune,
    evaluate.evaluate, loop.loop, gate.gate, registry.promote, registry.rollback, monitor.monitor, diagnose.diagnose, serve.serve, studio.studio,
):  # fmt: skip
    app.command()(command)
app.command(context_settings={"allow_extra_args": True})(operate.operate)


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
