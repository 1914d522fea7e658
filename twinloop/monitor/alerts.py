"""Alerts: what was noticed, since when, and the next step; kept, told once, and sent to a webhook if there is one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.dataset.lines import append_lines, read_lines
from twinloop.errors import WrongUse

ALERTS = "alerts.jsonl"
FOLDER = "monitor"
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Alert:
    """One thing to act on. `kind` and `since` (an episode's id) make it this one; `changes_twin` says that the twin is no
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
        """What makes two alerts the same."""
        return self.kind, self.dataset


def make_alert(
    kind: str, what: str, since: str, next_step: str, command: str, dataset: str, twin: bool
) -> Alert:
    """An alert of now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Alert(kind, what, since, next_step, command, now, twin, dataset)


def load_alerts(folder: Path) -> list[Alert]:
    """Every alert that was ever kept in a folder, oldest first."""
    return read_lines(folder / ALERTS, Alert, "an alert")


def keep_new(folder: Path, alerts: Sequence[Alert]) -> list[Alert]:
    """Append those that are not known yet, and give them back."""
    known = {alert.key for alert in load_alerts(folder)}
    new = [alert for alert in alerts if alert.key not in known]
    if new:
        append_lines(folder / ALERTS, [asdict(alert) for alert in new])
    return new


def send(url: str, alert: Alert) -> str | None:
    """Post an alert as JSON; what went wrong, or None. A webhook that is down stops nothing."""
    if not url.startswith(("http://", "https://")):
        raise WrongUse("this is no webhook", got=url, expected="http://... or https://...")
    body: dict[str, Any] = {"source": "twinloop monitor", **asdict(alert)}
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return None if answer.status < 300 else f"the webhook answered {answer.status}"
    except (urllib.error.URLError, OSError, ValueError) as error:
        return f"the webhook cannot be reached ({error})"
