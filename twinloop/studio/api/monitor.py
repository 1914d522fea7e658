"""Monitor: success of deployed episodes over time, what has shifted, and alerts with their next step."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from twinloop.errors import TwinloopError, UnknownName
from twinloop.monitoring.alerts import FOLDER, Alert, load_alerts
from twinloop.monitoring.run import MonitorReport, load_monitor_report
from twinloop.monitoring.success import Band, success_over_time
from twinloop.monitoring.watch import find_reports
from twinloop.studio.context import CurrentWorkspace, cached, confine

router = APIRouter(prefix="/api/monitor", tags=["monitor"])

ReportPath = Annotated[str, Query(description="File of the report in the workspace.", max_length=1000)]


class ReportLine(BaseModel):
    """A report in one line; `problem` says why it cannot be read."""

    path: str
    at: str
    dataset: str = ""
    episodes: int = 0
    labelled: int = 0
    successes: int = 0
    kind: str | None = None
    alerts: int = 0
    problem: str | None = None


class ReportAnswer(BaseModel):
    """A report with the band of the success rate after each episode."""

    path: str
    at: str
    report: MonitorReport
    band: Band


_reports = cached(load_monitor_report)


@router.get("", operation_id="list_reports")
def list_reports(workspace: CurrentWorkspace) -> list[ReportLine]:
    """The last report about each monitored dataset, the newest first."""
    return [_line(workspace.root, file) for file in find_reports(workspace.root)]


@router.get("/report", operation_id="read_report")
def read_report(workspace: CurrentWorkspace, report: ReportPath) -> ReportAnswer:
    """One report: success over time, drift by kind, alerts."""
    file = confine(workspace, report)
    if not file.is_file():
        known = [one.relative_to(workspace.root).as_posix() for one in find_reports(workspace.root)]
        raise UnknownName("report", report, known)
    found = _reports(file)
    return ReportAnswer(path=report, at=_time(file), report=found, band=success_over_time(found.success))


@router.get("/alerts", operation_id="list_alerts")
def list_alerts(workspace: CurrentWorkspace) -> list[Alert]:
    """Every alert that was raised in the workspace, the newest first."""
    return list(reversed(load_alerts(workspace.root / FOLDER)))


def _line(root: Path, file: Path) -> ReportLine:
    line = ReportLine(path=file.relative_to(root).as_posix(), at=_time(file))
    try:
        found = _reports(file)
    except TwinloopError as error:
        return line.model_copy(update={"problem": error.what})
    return line.model_copy(
        update={
            "dataset": found.dataset,
            "episodes": found.episodes,
            "labelled": found.success.episodes,
            "successes": found.success.successes,
            "kind": found.kind,
            "alerts": len(found.alerts),
        }
    )


def _time(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
