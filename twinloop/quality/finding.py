"""What a check says: findings, measurements and the report over a whole dataset."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from twinloop.errors import WrongUse

Severity = Literal["note", "warning", "blocking"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From harmless to what stops later stages."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one channel of one episode, with the number that says so.

    `value` and `threshold` are in `unit`; `start_s` and `end_s` are times of the episode. `episode` and `episode_id`
    are filled in by `check_dataset`.
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
    """A number worth knowing that is nothing wrong by itself: the lag of a joint, the offset, the encoder's step."""

    quantity: str
    channel: str
    value: float
    uncertainty: float
    unit: str
    episode: int = -1


@dataclass(frozen=True)
class Override:
    """Somebody's decision to use episodes in spite of blocking findings of one code."""

    code: str
    episode_ids: tuple[str, ...]
    by: str
    reason: str
    at: str


@dataclass(frozen=True)
class QualityReport:
    """Every finding of a dataset, and which of them somebody has answered for."""

    dataset: str
    dataset_id: str
    version: str
    purpose: str
    episodes: int
    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    overrides: tuple[Override, ...] = ()

    def overridden(self, finding: Finding) -> bool:
        """Whether somebody has answered for this finding."""
        return any(o.code == finding.code and finding.episode_id in o.episode_ids for o in self.overrides)

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that stop later stages."""
        return tuple(f for f in self.findings if f.severity == "blocking" and not self.overridden(f))

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def pooled(self, quantity: str) -> list[Measurement]:
        """One value per channel over all episodes, each weighted by what it knows."""
        pooled = []
        for channel in dict.fromkeys(m.channel for m in self.measurements if m.quantity == quantity):
            mine = [m for m in self.measurements if (m.quantity, m.channel) == (quantity, channel)]
            weights = [1 / m.uncertainty**2 if m.uncertainty > 0 else 1.0 for m in mine]
            value = sum(w * m.value for w, m in zip(weights, mine, strict=True)) / sum(weights)
            # What the episodes disagree by counts as much as what each does not know.
            spread = sum(w * (m.value - value) ** 2 for w, m in zip(weights, mine, strict=True)) / sum(
                weights
            )
            uncertainty = max(sum(weights) ** -0.5, (spread / len(mine)) ** 0.5)
            pooled.append(Measurement(quantity, channel, value, uncertainty, mine[0].unit))
        return pooled

    def groups(self) -> list[Group]:
        """Findings of one code, channel and severity together, the worst first."""
        found: dict[tuple[str, str, str], list[Finding]] = {}
        for finding in self.findings:
            found.setdefault((finding.code, finding.channel, finding.severity), []).append(finding)
        groups = [_group(members, self) for members in found.values()]
        return sorted(
            groups, key=lambda g: (-SEVERITIES.index(g.worst.severity), g.worst.code, g.worst.channel)
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, with what blocks after overrides."""
        values = asdict(self)
        for line, finding in zip(values["findings"], self.findings, strict=True):
            line["overridden"] = self.overridden(finding)
        counts = Counter(finding.severity for finding in self.findings)
        return values | {
            "counts": {name: counts.get(name, 0) for name in SEVERITIES},
            "blocked": bool(self.blocking),
        }


@dataclass(frozen=True)
class Group:
    """The same finding in several episodes; `worst` is the one furthest beyond its threshold."""

    worst: Finding
    episodes: tuple[int, ...]
    overridden: bool


def _group(members: list[Finding], report: QualityReport) -> Group:
    def excess(finding: Finding) -> float:
        return abs(finding.value - finding.threshold) / (abs(finding.threshold) or 1.0)

    return Group(
        max(members, key=excess),
        tuple(sorted({finding.episode for finding in members})),
        all(report.overridden(finding) for finding in members),
    )


def in_episode(finding: Finding, number: int, identity: str) -> Finding:
    """The finding with the episode it was found in."""
    return replace(finding, episode=number, episode_id=identity)
