"""`twinloop monitor`: success rate, changes, alerts and the next step from deployed episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import workspace_here
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.monitoring.run import MonitorReport
    from twinloop.monitoring.watch import Pass

WEBHOOK = "TWINLOOP_WEBHOOK"

Deployed = Annotated[Path, typer.Argument(metavar="DATASET", help="Deployed episodes; may still grow.")]
Reference = Annotated[
    Path | None,
    typer.Option(
        metavar="DATASET", help="Reference, such as the training data; default: the first episodes."
    ),
]
Baseline = Annotated[int, typer.Option(help="Without a reference: number of first episodes to compare with.")]
Expected = Annotated[
    float | None, typer.Option(help="Expected success rate, 0 to 1; default: that of the reference.")
]
After = Annotated[
    str | None,
    typer.Option(metavar="EPISODE", help="Id of the last resolved episode; only later ones are compared."),
]
TwinName = Annotated[str | None, typer.Option(metavar="NAME|FOLDER", help="The twin of --parameters.")]
Parameters = Annotated[
    str, typer.Option(metavar="NAME,...", help="Also follow these parameters through identification.")
]
Failures = Annotated[
    Path | None, typer.Option(metavar="DATASET", help="Copy failed episodes here, labelled as failures.")
]
Webhook = Annotated[
    str | None, typer.Option(metavar="URL", envvar=WEBHOOK, help="Post every new alert here as JSON.")
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder for alerts; default: monitor/ in the workspace, or next to DATASET."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Run one pass and exit.")]
Every = Annotated[float, typer.Option(metavar="SECONDS", help="Time between two passes.")]


def monitor(
    dataset: Deployed,
    reference: Reference = None,
    baseline: Baseline = 30,
    expected: Expected = None,
    after: After = None,
    twin: TwinName = None,
    parameters: Parameters = "",
    failures: Failures = None,
    webhook: Webhook = None,
    state: State = None,
    once: Once = False,
    every: Every = 30.0,
    json: Json = False,
) -> None:
    """Monitor deployed episodes: success rate with a band that is valid at all times, and changes since the reference.

    Distinguishes an aged actuator, a changed scene and a changed camera, and names the next step. With --once, exits with 1
    if there is an alert. Alerts are stored, and the gate blocks on those that concern the twin.
    """
    from twinloop.datasets.reader import open_dataset
    from twinloop.monitoring.alerts import require_webhook
    from twinloop.monitoring.run import MonitorConfig
    from twinloop.monitoring.watch import Outputs, run_pass, watch_dataset
    from twinloop.twins import load_twin

    if every <= 0:
        raise WrongUse("--every must be positive", got=every, expected="seconds above 0")
    if webhook is not None:
        require_webhook(webhook)
    if failures and failures.resolve() in {place.resolve() for place in (dataset, reference) if place}:
        raise WrongUse(
            "failures need a dataset of their own",
            got=f"--failures {failures}",
            expected="neither the deployed episodes nor the reference",
        )
    names = tuple(name.strip() for name in parameters.split(",") if name.strip())
    if names and twin is None:
        raise WrongUse("--parameters needs a twin", remedy="--twin NAME|FOLDER")
    config = MonitorConfig(baseline, expected, after, load_twin(twin) if twin else None, names)
    usual = open_dataset(reference) if reference else None
    outputs = Outputs(state or _state_folder(dataset), failures, webhook)
    if once:
        result = run_pass(open_dataset(dataset), usual, config, outputs)
        _print_pass(result, json)
        raise typer.Exit(1 if result.report.alerts else 0)
    for result in watch_dataset(
        dataset,
        usual,
        config,
        outputs,
        every_s=every,
        log=lambda line: console.err.print(line, markup=False),
    ):
        _print_pass(result, json)


def _state_folder(dataset: Path) -> Path:
    from twinloop.monitoring.alerts import FOLDER

    workspace = workspace_here()
    return workspace.root / FOLDER if workspace else dataset.with_name(f"{dataset.name}.{FOLDER}")


def _print_pass(result: Pass, json: bool) -> None:
    if json:
        counts = {name: value for name, value in vars(result).items() if name != "report"}
        console.print_json(result.report.as_json() | counts)
    else:
        _print(result.report, result.failures_copied)
    for error in result.webhook_errors:
        console.err.print(error, markup=False)


def _print(report: MonitorReport, copied: int | None) -> None:
    success = report.success
    rate = f"{success.successes} of {success.episodes} succeeded" if success.episodes else "outcomes unknown"
    band = f", {100 * success.low:.0f} to {100 * success.high:.0f} % at all times" if success.episodes else ""
    console.out.print(
        f"{report.episodes} deployed episodes compared with {report.reference} reference episodes: {rate}{band}"
    )
    if report.shifts:
        console.print_table(
            ("changed", "reference", "now", "standard deviations", "since episode", "detected at"),
            [
                (s.feature, f"{s.before:.4g}", f"{s.after:.4g}", f"{s.size:.1f}", s.began, s.noticed)
                for s in report.shifts[:12]
            ],
        )
    for alert in report.alerts:
        console.out.print(f"alert: {alert.what}\n  -> {alert.next_step}: {alert.command}", markup=False)
    if not report.alerts:
        console.out.print("no alerts")
    if copied:
        console.out.print(f"{copied} failed episodes copied")
