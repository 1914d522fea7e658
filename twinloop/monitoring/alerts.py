"""Alerts: what was noticed, since when, and the next step; kept, told once, and sent to a webhook if there is one.

What a webhook has received is kept too, so that what it missed is sent again.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.errors import WrongUse

ALERTS = "alerts.jsonl"
DELIVERED = "delivered.jsonl"
FOLDER = "monitor"
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Alert:
    """One thing to act on, noticed since an episode of this id; `changes_twin` says that the twin is no
    longer what the robot is, so that the gate waits for it to be identified again."""

    kind: str
    what: str
    since: str
    next_step: str
    command: str
    at: str
    changes_twin: bool
    dataset: str

    @property
    def key(self) -> tuple[str, str]:
        """What makes two alerts the same, until it is dealt with."""
        return self.kind, self.dataset


def make_alert(
    kind: str, what: str, since: str, next_step: str, command: str, dataset: str, twin: bool
) -> Alert:
    """An alert of now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Alert(kind, what, since, next_step, command, now, twin, dataset)


def load_alerts(folder: Path) -> list[Alert]:
    """Every alert that was ever kept in a folder, oldest first."""
    return read_jsonl(folder / ALERTS, Alert, "an alert")


def keep_new(folder: Path, alerts: Sequence[Alert], dealt_with: Collection[str] = ()) -> list[Alert]:
    """Append those that are not known yet, and give them back. What began in an episode that is dealt with may come again."""
    known = {alert.key for alert in load_alerts(folder) if alert.since not in dealt_with}
    new = [alert for alert in alerts if alert.key not in known]
    if new:
        append_jsonl(folder / ALERTS, [asdict(alert) for alert in new])
    return new


def deliver(folder: Path, url: str, dataset: str) -> list[str]:
    """Post the kept alerts about a dataset that have not been delivered yet; what went wrong."""
    done = read_jsonl(folder / DELIVERED, _Delivered, "a delivered alert")
    troubles = []
    for alert in load_alerts(folder):
        sent = _Delivered(*alert.key, alert.since)
        if alert.dataset != dataset or sent in done:
            continue
        if trouble := send(url, alert):
            troubles.append(trouble)
        else:
            append_jsonl(folder / DELIVERED, [asdict(sent)])
    return troubles


def send(url: str, alert: Alert) -> str | None:
    """Post an alert as JSON; what went wrong, or None. A webhook that is down stops nothing."""
    require_webhook(url)
    body: dict[str, Any] = {"source": "twinloop monitor", **asdict(alert)}
    try:
        request = urllib.request.Request(
            url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return None if answer.status < 300 else f"the webhook answered {answer.status}"
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        return f"the webhook cannot be reached ({error})"


def require_webhook(url: str) -> None:
    """Only http and https can be posted to."""
    scheme, _, place = url.partition("://")
    if scheme not in ("http", "https") or not place.strip("/"):
        raise WrongUse("this is no webhook", got=url, expected="http://... or https://...")


@dataclass(frozen=True)
class _Delivered:
    """An alert that a webhook has received."""

    kind: str
    dataset: str
    since: str = ""
