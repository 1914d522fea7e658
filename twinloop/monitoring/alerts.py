"""Alerts: what changed, since when, and the next step; stored, raised once, and posted to a webhook if there is one.

Deliveries are stored too, so that an alert a webhook missed is sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.monitoring.webhook import Webhook, post

ALERTS = "alerts.jsonl"
DELIVERED = "delivered.jsonl"
FOLDER = "monitor"


@dataclass(frozen=True)
class Alert:
    """A change to act on, since the episode with the id `since`; `changes_twin`: the twin no longer matches the robot, so the
    gate blocks until it is identified again."""

    kind: str
    what: str
    since: str
    next_step: str
    command: str
    changes_twin: bool
    dataset: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def key(self) -> tuple[str, str]:
        """Two alerts with the same key are the same, until it is resolved."""
        return self.kind, self.dataset


def load_alerts(folder: Path) -> list[Alert]:
    """Every alert stored in a folder, oldest first."""
    return read_jsonl(folder / ALERTS, Alert, "an alert")


def save_new(folder: Path, alerts: Sequence[Alert], resolved: Collection[str] = ()) -> list[Alert]:
    """Store and return the alerts that are new. Alerts that began in a resolved episode may be raised again."""
    known = {alert.key for alert in load_alerts(folder) if alert.since not in resolved}
    new = [alert for alert in alerts if alert.key not in known]
    if new:
        append_jsonl(folder / ALERTS, [asdict(alert) for alert in new])
    return new


def deliver(folder: Path, webhook: Webhook, dataset: str) -> list[str]:
    """Post the stored alerts about a dataset that have not been delivered yet; returns the errors."""
    done = read_jsonl(folder / DELIVERED, _Delivered, "a delivered alert")
    errors = []
    for alert in load_alerts(folder):
        sent = _Delivered(*alert.key, alert.since)
        if alert.dataset != dataset or sent in done:
            continue
        if error := send(webhook, alert):
            errors.append(error)
        else:
            append_jsonl(folder / DELIVERED, [asdict(sent)])
    return errors


def send(webhook: Webhook, alert: Alert) -> str | None:
    """Post an alert as JSON; returns the error, or None. An unreachable webhook does not stop the monitor."""
    return post(webhook, {"source": "twinloop monitor", **asdict(alert)})


@dataclass(frozen=True)
class _Delivered:
    """An alert that a webhook has received."""

    kind: str
    dataset: str
    since: str = ""
