"""`twinloop monitor`: success rate, changes, alerts and the next step from deployed episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, PolicyMap, split_names
from twinloop.cli.places import find_twin, find_workspace, load_policy
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.monitoring.watch import Pass

WEBHOOK, WEBHOOK_ALLOW = "TWINLOOP_WEBHOOK", "TWINLOOP_WEBHOOK_ALLOW"

Deployed = Annotated[Path, Argument(metavar="DATASET", help="Deployed episodes; may still grow.")]
Reference = Annotated[
    Path | None,
    Option(metavar="DATASET", help="Reference, such as the training data; default: the first episodes."),
]
Baseline = Annotated[int, Option(help="Without a reference: number of first episodes to compare with.")]
Expected = Annotated[
    float | None, Option(help="Expected success rate, 0 to 1; default: that of the reference.")
]
After = Annotated[
    str | None,
    Option(metavar="EPISODE", help="Id of the last resolved episode; only later ones are compared."),
]
InUse = Annotated[
    str | None,
    Option(
        "--policy",
        metavar="POLICY",
        help="The policy in use; stops if it has changed, or if another one acted in a deployed episode.",
    ),
]
Parameters = Annotated[
    str, Option(metavar="NAME,...", help="Also follow these parameters through identification.")
]
Failures = Annotated[
    Path | None, Option(metavar="DATASET", help="Copy failed episodes here, labelled as failures.")
]
Webhook = Annotated[
    str | None, Option(metavar="URL", envvar=WEBHOOK, help="Post every new alert here as JSON.")
]
WebhookAllow = Annotated[
    str,
    Option(
        metavar="HOST,...",
        envvar=WEBHOOK_ALLOW,
        help="Hosts the webhook may redirect to, and that may be in a local network or on this machine.",
    ),
]
State = Annotated[
    Path | None,
    Option(
        metavar="FOLDER", help="Folder for alerts; default: monitor/ in the workspace, or next to DATASET."
    ),
]


def monitor(
    dataset: Deployed,
    reference: Reference = None,
    baseline: Baseline = 30,
    expected: Expected = None,
    after: After = None,
    policy: InUse = None,
    map_file: PolicyMap = None,
    twin: Annotated[str | None, Option(metavar="NAME|FOLDER", help="The twin of --parameters.")] = None,
    parameters: Parameters = "",
    failures: Failures = None,
    webhook: Webhook = None,
    webhook_allow: WebhookAllow = "",
    state: State = None,
    once: Annotated[bool, Option("--once", help="Run one pass and exit.")] = False,
    last: Annotated[bool, Option("--last", help="Print the last report again, without a pass.")] = False,
    every: Annotated[float, Option(metavar="SECONDS", help="Time between two passes.")] = 30.0,
    json: Json = False,
) -> None:
    """Monitor deployed episodes: success rate with a band that is valid at all times, and changes since the reference.

    Distinguishes an aged actuator, a changed scene, a moved camera, a dirty lens and changed light, and names the next step. With --once, exits with 1
    if there is an alert. Alerts are stored, and the gate blocks on those that concern the twin.
    """
    from twinloop.monitoring.watch import Outputs, run_pass, watch_dataset
    from twinloop.monitoring.webhook import Webhook as Address
    from twinloop.policies.protocol import actor_id, require_unchanged

    if every <= 0:
        raise WrongUse("--every must be positive", got=every, expected="seconds above 0")
    _require_apart(failures, dataset, reference)
    if last:
        _print_last(dataset, state, json)
        return
    cell = find_twin(twin) if twin else None
    loaded = load_policy(policy, interface_map=map_file, twin=twin) if policy else None
    actor = actor_id(loaded) if loaded else None
    config = twinloop.MonitorConfig(baseline, expected, after, actor, cell, tuple(split_names(parameters)))
    address = Address(webhook, tuple(split_names(webhook_allow))) if webhook else None
    outputs = Outputs(state or _state_folder(dataset), failures, address)
    usual = twinloop.open_dataset(reference) if reference else None
    if once:
        result = run_pass(twinloop.open_dataset(dataset), usual, config, outputs)
        _print_pass(result, json)
        raise typer.Exit(1 if result.report.alerts else 0)
    for result in watch_dataset(dataset, usual, config, outputs, every_s=every, log=console.log):
        _print_pass(result, json)
        if loaded is not None:
            require_unchanged(loaded)


def _require_apart(failures: Path | None, dataset: Path, reference: Path | None) -> None:
    """Refuse to copy failures into a dataset that is read."""
    if failures and failures.resolve() in {place.resolve() for place in (dataset, reference) if place}:
        raise WrongUse(
            "failures need a dataset of their own",
            got=f"--failures {failures}",
            expected="neither the deployed episodes nor the reference",
        )


def _state_folder(dataset: Path) -> Path:
    from twinloop.monitoring.alerts import FOLDER

    workspace = find_workspace()
    return workspace.root / FOLDER if workspace else dataset.with_name(f"{dataset.name}.{FOLDER}")


def _print_last(dataset: Path, state: Path | None, json: bool) -> None:
    """Print the last report about a dataset."""
    from twinloop.monitoring.watch import report_file

    file = report_file(state or _state_folder(dataset), twinloop.open_dataset(dataset))
    if not file.is_file():
        raise WrongUse(f"{dataset} has not been monitored", remedy=f"twinloop monitor {dataset} --once")
    report = twinloop.load_monitor_report(file)
    console.print_result(json, report.as_json(), lambda: _print(report, None))


def _print_pass(result: Pass, json: bool) -> None:
    counts = {name: value for name, value in vars(result).items() if name != "report"}
    value = result.report.as_json() | counts
    console.print_result(json, value, lambda: _print(result.report, result.failures_copied))
    for error in result.webhook_errors:
        console.log(error)


def _print(report: twinloop.MonitorReport, copied: int | None) -> None:
    success = report.success
    rate = f"{success.successes} of {success.episodes} succeeded" if success.episodes else "outcomes unknown"
    band = f", {100 * success.low:.0f} to {100 * success.high:.0f} % at all times" if success.episodes else ""
    console.out.print(
        f"{report.episodes} deployed episodes compared with {report.reference} reference episodes: {rate}{band}"
    )
    if report.intervened:
        did = ", ".join(f"{kind} {count}" for kind, count in report.interventions.items())
        console.out.print(
            f"the safety envelope intervened in {report.intervened} of {report.episodes} episodes ({did})"
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
        console.out.print(f"alert: {alert.what}\n  -> {alert.next_step}: {alert.command}")
    if not report.alerts:
        console.out.print("no alerts")
    if copied:
        console.out.print(f"{copied} failed episodes copied")
