"""Results of checks: findings, measurements, and the report on a dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from twinloop.datasets.overrides import Override
from twinloop.errors import WrongUse
from twinloop.records import Record, derived

Severity = Literal["note", "warning", "blocking"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From harmless to blocking later stages."""


@dataclass(frozen=True)
class Finding:
    """One problem in one channel of one episode, with the measured value.

    `value` and `threshold` are in `unit`; `start_s` and `end_s` are times of the episode. `check_dataset` sets
    `episode` and `episode_id`.
    """

    code: str
    channel: str
    severity: Severity
    value: float
    unit: str
    threshold: float
    message: str
    remedy: str
    start_s: float
    end_s: float
    episode: int = -1
    episode_id: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise WrongUse("unknown severity", got=self.severity, expected=", ".join(SEVERITIES))


@dataclass(frozen=True)
class Measurement:
    """A measured quantity that is not a problem in itself, such as the lag of a channel behind its `command`."""

    quantity: str
    channel: str
    value: float
    uncertainty: float
    unit: str
    episode: int = -1
    command: str = ""


@dataclass(frozen=True)
class QualityReport(Record):
    """All findings on a dataset, and their overrides."""

    dataset: str
    dataset_id: str
    version: str
    purpose: str
    episodes: int
    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    overrides: tuple[Override, ...] = ()

    def overridden(self, finding: Finding) -> bool:
        """Return whether this finding is overridden."""
        return any(o.code == finding.code and finding.episode_id in o.episode_ids for o in self.overrides)

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that block later stages."""
        return tuple(f for f in self.findings if f.severity == "blocking" and not self.overridden(f))

    def count(self, severity: Severity) -> int:
        """Count the findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def pooled(self, quantity: str) -> list[Measurement]:
        """Pool a measurement over episodes: one value per channel, weighted by inverse variance."""
        pooled = []
        for channel in dict.fromkeys(m.channel for m in self.measurements if m.quantity == quantity):
            values = [m for m in self.measurements if (m.quantity, m.channel) == (quantity, channel)]
            weights = [1 / m.uncertainty**2 if m.uncertainty > 0 else 1.0 for m in values]
            value = sum(w * m.value for w, m in zip(weights, values, strict=True)) / sum(weights)
            # The scatter between episodes counts as well as the uncertainty of each.
            squares = sum(w * (m.value - value) ** 2 for w, m in zip(weights, values, strict=True))
            spread = squares / sum(weights)
            uncertainty = max(sum(weights) ** -0.5, (spread / len(values)) ** 0.5)
            first = values[0]
            pooled.append(
                Measurement(quantity, channel, value, uncertainty, first.unit, command=first.command)
            )
        return pooled

    def groups(self) -> list[FindingGroup]:
        """FindingGroup findings by code, channel and severity, the worst first."""
        by_kind: dict[tuple[str, str, str], list[Finding]] = {}
        for finding in self.findings:
            by_kind.setdefault((finding.code, finding.channel, finding.severity), []).append(finding)
        groups = [_make_group(members, self) for members in by_kind.values()]
        return sorted(
            groups, key=lambda g: (-SEVERITIES.index(g.worst.severity), g.worst.code, g.worst.channel)
        )

    @derived
    def counts(self) -> dict[str, int]:
        """The number of findings of each severity."""
        return {severity: self.count(severity) for severity in SEVERITIES}

    @derived
    def blocked(self) -> bool:
        """Whether a finding blocks later stages."""
        return bool(self.blocking)

    def as_json(self) -> dict[str, Any]:
        """JSON values; each finding with whether it is overridden."""
        values = super().as_json()
        for line, finding in zip(values["findings"], self.findings, strict=True):
            line["overridden"] = self.overridden(finding)
        return values


@dataclass(frozen=True)
class FindingGroup:
    """The same finding in several episodes; `worst` is the one furthest beyond its threshold."""

    worst: Finding
    episodes: tuple[int, ...]
    overridden: bool


def _make_group(members: list[Finding], report: QualityReport) -> FindingGroup:
    def excess(finding: Finding) -> float:
        return abs(finding.value - finding.threshold) / (abs(finding.threshold) or 1.0)

    return FindingGroup(
        max(members, key=excess),
        tuple(sorted({finding.episode for finding in members})),
        all(report.overridden(finding) for finding in members),
    )


def in_episode(finding: Finding, number: int, episode_id: str) -> Finding:
    """Return the finding with its episode."""
    return replace(finding, episode=number, episode_id=episode_id)
