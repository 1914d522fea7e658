"""Require usable data: blocking findings stop later stages until they are overridden."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, fields, replace

from twinloop.datasets.layout import SIDECAR
from twinloop.datasets.overrides import Override, add_override, load_overrides
from twinloop.datasets.reader import Dataset
from twinloop.errors import QualityError, TwinloopError, WrongUse
from twinloop.quality.check import OnProgress, check_dataset
from twinloop.quality.finding import QualityReport
from twinloop.quality.registry import CHECKS
from twinloop.quality.settings import Purpose, Settings
from twinloop.records import SavedRecord, load_record


@dataclass(frozen=True)
class CachedReport(SavedRecord):
    """The last report on a dataset, so that an unchanged one is not checked again."""

    FILE, COMMAND = f"{SIDECAR}/quality/report.json", "twinloop check"

    key: str
    report: QualityReport


def require_usable(
    dataset: Dataset,
    purpose: Purpose,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
    *,
    unused: Collection[int] = (),
    may_leave_out: float = 0.0,
) -> QualityReport:
    """Check a dataset, or load the report of an unchanged one, and refuse it if a finding blocks.

    Args:
        dataset: The dataset.
        purpose: What the data is for; decides what blocks.
        settings: Thresholds.
        on_progress: Called with (episodes done, episodes in all).
        unused: Numbers of episodes that will not be used and whose findings do not block.
        may_leave_out: Fraction of the episodes that the caller leaves out if findings block them; data is refused if more are blocked.

    Returns:
        The report.

    Raises:
        QualityError: A finding blocks; the message says which and how to proceed.
    """
    settings = replace(settings or Settings(), purpose=purpose)
    report = _load_report(dataset, settings)
    if report is None:
        report = check_dataset(dataset, settings, on_progress)
        _save_report(dataset, settings, report)
    blocking = [finding for finding in report.blocking if finding.episode not in unused]
    episodes = len({finding.episode for finding in blocking})
    if episodes > may_leave_out * report.episodes:
        codes = Counter(finding.code for finding in blocking)
        first = blocking[0]
        raise QualityError(
            f"{dataset.place} cannot be used to {purpose}: {episodes} of {report.episodes} episodes are blocked by "
            f"{', '.join(codes)} (episode {first.episode}, {first.channel}: {first.message})",
            remedy=f"twinloop check {dataset.place}; then fix or exclude these episodes, or override: "
            f"twinloop check {dataset.place} --override {first.code} --by NAME --reason TEXT",
        )
    return report


def last_report(dataset: Dataset) -> QualityReport | None:
    """Read the report of the last check of a dataset, for whatever purpose it was made.

    Args:
        dataset: The dataset.

    Returns:
        The report with the overrides of today; None where it was never checked, or has changed since.
    """
    if dataset.manifest is None:
        return None
    try:
        cached = load_record(CachedReport, dataset.root)
    except TwinloopError:
        return None
    if cached.report.version != dataset.manifest.fingerprint:
        return None
    return replace(cached.report, dataset=str(dataset.root), overrides=tuple(load_overrides(dataset.root)))


def override(report: QualityReport, dataset: Dataset, code: str, by: str, reason: str) -> Override:
    """Override a blocking finding for every episode it blocks in this report, with author and reason."""
    if dataset.manifest is None:
        raise WrongUse(
            f"{dataset.place} was not written by Twinloop and is never changed in place",
            remedy=f"twinloop data merge {dataset.place} --out NEW",
        )
    blocked = [finding for finding in report.blocking if finding.code == code]
    if not blocked:
        raise WrongUse(
            f"{code!r} blocks nothing in {dataset.place}", available=sorted({f.code for f in report.blocking})
        )
    return add_override(dataset.root, code, sorted({f.episode_id for f in blocked}), by, reason)


def _save_report(dataset: Dataset, settings: Settings, report: QualityReport) -> None:
    """Save the report, except for foreign datasets and for results that depend on a function in the settings."""
    if dataset.manifest is None or settings.success_of is not None:
        return
    try:
        CachedReport(_key(dataset, settings), report).save(dataset.root)
    except OSError:
        return  # a dataset on a read-only disk is checked again next time


def _load_report(dataset: Dataset, settings: Settings) -> QualityReport | None:
    if dataset.manifest is None or settings.success_of is not None:
        return None
    try:
        cached = load_record(CachedReport, dataset.root)
    except TwinloopError:
        return None
    if cached.key != _key(dataset, settings):
        return None
    overrides = tuple(load_overrides(dataset.root))
    return replace(cached.report, dataset=str(dataset.root), overrides=overrides)


def _key(dataset: Dataset, settings: Settings) -> str:
    """Return a key that changes with the data, its labels, the settings and the registered checks."""
    assert dataset.manifest is not None
    values = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "success_of"}
    labels = {episode_id: outcome.success for episode_id, outcome in dataset.outcomes.items()}
    return json.dumps([dataset.manifest.fingerprint, values, labels, CHECKS.names()], sort_keys=True)
