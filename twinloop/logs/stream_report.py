"""Reports on streams: how regularly each was recorded and how it was converted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StreamReport:
    """How regularly one stream was recorded and how it was converted, for one episode or (`summarize`) many.

    `method` is "exact" if the rows are the stream's own samples. `offset_s` is the start of the stream relative to
    the first row; `unused` counts samples outside the rows.
    """

    name: str
    source: str
    method: str
    conversion: str
    episodes: int
    samples: int
    rate_hz: float
    jitter_s: float
    gaps: int
    longest_gap_s: float
    offset_s: float
    out_of_order: int
    missing: int
    unused: int


def summarize(reports: Iterable[StreamReport]) -> tuple[StreamReport, ...]:
    """Merge reports by stream and method: counts are added, rate and jitter averaged, the worst gap and offset kept."""
    merged: dict[tuple[str, str], StreamReport] = {}
    for report in reports:
        key = (report.name, report.method)
        old = merged.get(key)
        if old is None:
            merged[key] = report
            continue
        total = max(old.samples + report.samples, 1)
        weight = report.samples / total
        counts = ("episodes", "gaps", "out_of_order", "missing", "unused")
        merged[key] = replace(
            old,
            samples=total,
            rate_hz=old.rate_hz + weight * (report.rate_hz - old.rate_hz),
            jitter_s=old.jitter_s + weight * (report.jitter_s - old.jitter_s),
            longest_gap_s=max(old.longest_gap_s, report.longest_gap_s),
            offset_s=max(old.offset_s, report.offset_s, key=abs),
            **{name: getattr(old, name) + getattr(report, name) for name in counts},
        )
    return tuple(merged.values())
