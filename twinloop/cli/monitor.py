"""`twinloop monitor`: deployed episodes to success, drift, alerts and the next step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import NoDataset, WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.datasets.reader import Dataset
    from twinloop.monitoring.run import MonitorReport

WEBHOOK = "TWINLOOP_WEBHOOK"


def monitor(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="Deployed episodes; may still grow.")],
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET", help="What is usual, such as the training data; default: the first episodes."
        ),
    ] = None,
    baseline: Annotated[int, typer.Option(help="Without a reference: first episodes that are usual.")] = 30,
    expected: Annotated[
        float | None,
        typer.Option(help="Success to watch for, as a share; default: what the reference shows."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="EPISODE", help="Id of the last episode that is dealt with; watch those after it."
        ),
    ] = None,
    twin: Annotated[
        str | None, typer.Option(metavar="NAME|FOLDER", help="With --parameters: the twin they belong to.")
    ] = None,
    parameters: Annotated[
        str, typer.Option(metavar="NAME,...", help="Also follow these parameters through identification.")
    ] = "",
    failures: Annotated[
        Path | None, typer.Option(metavar="DATASET", help="Copy failed episodes here, labelled as failures.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", envvar=WEBHOOK, help="Post every new alert here as JSON.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where alerts are kept; default: monitor/ in the workspace, or beside DATASET.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One pass instead of watching.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="How often to look while watching.")] = 30.0,
    json: Json = False,
) -> None:
    """Watch deployed episodes: success with a band that holds at all times, and what has changed since the reference.

    Tells an aged actuator from a changed scene and a changed camera, and names the next step. With --once, exits with 1
    when something is to be done. Alerts are kept, and the gate heeds them.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.monitoring.alerts import deliver, keep_new, require_webhook
    from twinloop.monitoring.failures import collect_failures
    from twinloop.monitoring.run import dealt_with, require_baseline
    from twinloop.monitoring.run import monitor as run
    from twinloop.twins import load_twin

    if every <= 0:
        raise WrongUse("looking takes time", got=every, expected="seconds above 0")
    require_baseline(baseline)
    if webhook is not None:
        require_webhook(webhook)
    if failures and failures.resolve() in {place.resolve() for place in (dataset, reference) if place}:
        raise WrongUse(
            "failures are kept apart from what is watched and what is usual",
            got=f"--failures {failures}",
            remedy="--failures with a dataset of its own",
        )
    names = [name.strip() for name in parameters.split(",") if name.strip()]
    if names and twin is None:
        raise WrongUse("parameters of which twin?", remedy="--twin NAME|FOLDER")
    cell = load_twin(twin) if twin else None
    usual = open_dataset(reference) if reference else None
    folder = state or _state(dataset)
    seen, waiting = -1, ""
    troubles: list[str] = []
    fewest = 1 if usual else baseline + 1
    while True:
        try:
            opened = open_dataset(dataset)
        except NoDataset:
            if once:
                raise
            opened = None
        past = dealt_with(opened, after) if opened is not None else []
        lacks = "" if once else _lacks(dataset, opened, len(past) + fewest)
        if lacks and lacks != waiting:
            console.err.print(lacks, markup=False)
        waiting = lacks
        if opened is not None and not lacks and len(opened) != seen:
            seen = len(opened)
            report = run(
                opened, usual, baseline=baseline, expected=expected, after=after, twin=cell, parameters=names
            )
            new = keep_new(folder, report.alerts, past)
            troubles = deliver(folder, webhook, report.dataset) if webhook else []
            copied = collect_failures(opened, failures) if failures else None
            if json:
                more = {"new_alerts": len(new), "webhook_errors": troubles, "failures_copied": copied}
                console.print_json(report.as_json() | more)
            else:
                _print(report, copied)
            for trouble in troubles:
                console.err.print(trouble, markup=False)
            if once:
                raise typer.Exit(1 if report.alerts else 0)
        elif opened is not None and webhook and troubles:
            troubles = deliver(folder, webhook, str(opened.root))
        time.sleep(every)


def _lacks(dataset: Path, opened: Dataset | None, fewest: int) -> str:
    """What there is to wait for; nothing if there are episodes enough."""
    if opened is None:
        return f"waiting for {dataset}: there is no dataset yet"
    if len(opened) < fewest:
        return f"waiting for more episodes: {len(opened)} of {fewest}"
    return ""


def _state(dataset: Path) -> Path:
    from twinloop.monitoring.alerts import FOLDER
    from twinloop.workspace import find_workspace

    try:
        return find_workspace().root / FOLDER
    except WorkspaceError:
        return dataset.with_name(f"{dataset.name}.{FOLDER}")


def _print(report: MonitorReport, copied: int | None) -> None:
    found = report.success
    share = f"{found.successes} of {found.episodes} succeeded" if found.episodes else "nobody judged them"
    band = f", {100 * found.low:.0f} to {100 * found.high:.0f} % at all times" if found.episodes else ""
    console.out.print(
        f"{report.episodes} deployed episodes beside {report.reference} usual ones: {share}{band}"
    )
    if report.shifts:
        console.print_table(
            ("moved", "usual", "now", "scatters", "since episode", "noticed at"),
            [
                (s.feature, f"{s.before:.4g}", f"{s.after:.4g}", f"{s.size:.1f}", s.began, s.noticed)
                for s in report.shifts[:12]
            ],
        )
    for alert in report.alerts:
        console.out.print(f"alert: {alert.what}\n  -> {alert.next_step}: {alert.command}", markup=False)
    if not report.alerts:
        console.out.print("nothing to do")
    if copied:
        console.out.print(f"{copied} failed episodes copied")
