"""Monitors a dataset that grows: one pass whenever episodes were added, with alerts, webhook and copies of failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import NoDataset
from twinloop.monitoring.alerts import FOLDER, deliver, save_new
from twinloop.monitoring.failures import collect_failures
from twinloop.monitoring.run import MonitorConfig, MonitorReport, monitor, resolved_episodes
from twinloop.monitoring.webhook import Webhook
from twinloop.records import find_records, save_record

REPORTS = "reports"


@dataclass(frozen=True)
class Outputs:
    """Folder for alerts, dataset for copies of failed episodes, and address of a webhook."""

    alerts: Path
    failures: Path | None = None
    webhook: Webhook | None = None


@dataclass(frozen=True)
class Pass:
    """One pass: the report, new alerts, webhook errors, and the number of copied failures (None: not asked for)."""

    report: MonitorReport
    new_alerts: int
    webhook_errors: list[str]
    failures_copied: int | None


def report_file(folder: Path, deployed: Dataset) -> Path:
    """Where the last report about a dataset is kept, in the folder of its alerts."""
    return folder / REPORTS / f"{deployed.root.resolve().name}-{deployed.id}.json"


def find_reports(workspace: Path) -> list[Path]:
    """Find the last report about each dataset that was monitored.

    Args:
        workspace: The workspace.

    Returns:
        Files for `load_monitor_report`, the newest first: those of `twinloop monitor` and of the loop.
    """
    found = [*(workspace / FOLDER / REPORTS).glob("*.json"), *find_records(workspace, MonitorReport.FILE)]
    return sorted(found, key=lambda path: -path.stat().st_mtime_ns)


def run_pass(deployed: Dataset, reference: Dataset | None, config: MonitorConfig, outputs: Outputs) -> Pass:
    """Monitor once; store and deliver alerts, and copy failures."""
    report = monitor(deployed, reference, config)
    save_record(report, report_file(outputs.alerts, deployed))
    new = save_new(outputs.alerts, report.alerts, resolved_episodes(deployed, config.after))
    errors = deliver(outputs.alerts, outputs.webhook, report.dataset) if outputs.webhook else []
    copied = collect_failures(deployed, outputs.failures) if outputs.failures else None
    return Pass(report, len(new), errors, copied)


def watch_dataset(
    path: Path,
    reference: Dataset | None,
    config: MonitorConfig,
    outputs: Outputs,
    *,
    every_s: float,
    log: Callable[[str], None],
) -> Iterator[Pass]:
    """Yield a pass whenever episodes were added, without end; alerts that a webhook missed are sent again."""
    seen, logged = -1, ""
    errors: list[str] = []
    while True:
        deployed = _open(path)
        missing = _describe_missing(path, deployed, reference, config)
        if missing and missing != logged:
            log(missing)
        logged = missing
        if deployed is not None and not missing and len(deployed) != seen:
            seen = len(deployed)
            result = run_pass(deployed, reference, config, outputs)
            errors = result.webhook_errors
            yield result
        elif deployed is not None and outputs.webhook and errors:
            errors = deliver(outputs.alerts, outputs.webhook, str(deployed.root))
        time.sleep(every_s)


def _open(path: Path) -> Dataset | None:
    try:
        return open_dataset(path)
    except NoDataset:
        return None


def _describe_missing(
    path: Path, deployed: Dataset | None, reference: Dataset | None, config: MonitorConfig
) -> str:
    """What the monitor waits for; empty if there are enough episodes."""
    if deployed is None:
        return f"waiting for {path}: there is no dataset yet"
    needed = len(resolved_episodes(deployed, config.after)) + (1 if reference else config.baseline + 1)
    return f"waiting for more episodes: {len(deployed)} of {needed}" if len(deployed) < needed else ""
