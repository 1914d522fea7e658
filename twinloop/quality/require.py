"""The gate before later stages: data with blocking findings is refused until somebody answers for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import write_atomically
from twinloop.datasets.layout import SIDE
from twinloop.datasets.overrides import OverrideLine, add_override
from twinloop.datasets.reader import Dataset
from twinloop.errors import QualityError, WrongUse
from twinloop.quality.check import Progress, check_dataset, recorded_overrides
from twinloop.quality.finding import Finding, Measurement, QualityReport
from twinloop.quality.registry import CHECKS
from twinloop.quality.settings import Purpose, Settings

KEPT = f"{SIDE}/quality/report.json"
"""The last report, so that an unchanged dataset is not checked twice."""


def require_usable(
    dataset: Dataset,
    purpose: Purpose,
    settings: Settings | None = None,
    progress: Progress | None = None,
    *,
    unused: Collection[int] = (),
) -> QualityReport:
    """Check a dataset and refuse it if a fault makes it unusable for a purpose.

    Args:
        dataset: The dataset.
        purpose: What the data is for, such as "train" or "identify".
        settings: Thresholds of the checks.
        progress: Called with the numbers of episodes done and in all.
        unused: Numbers of episodes that will not be used and cannot block.

    Returns:
        The report of the checks.

    Raises:
        QualityError: A finding blocks the purpose; the message names it and the remedy.
    """
    settings = replace(settings or Settings(), purpose=purpose)
    report = _kept(dataset, settings)
    if report is None:
        report = check_dataset(dataset, settings, progress)
        _keep(dataset, settings, report)
    blocking = [finding for finding in report.blocking if finding.episode not in unused]
    if blocking:
        codes = Counter(finding.code for finding in blocking)
        first = blocking[0]
        episodes = len({finding.episode for finding in blocking})
        raise QualityError(
            f"{dataset.root} cannot be used to {purpose}: {episodes} of {report.episodes} episodes are blocked by "
            f"{', '.join(codes)} (episode {first.episode}, {first.channel}: {first.message})",
            remedy=f"twinloop check {dataset.root}; then mend or leave them out, or answer for them: "
            f"twinloop check {dataset.root} --override {first.code} --by NAME --reason TEXT",
        )
    return report


def override(report: QualityReport, dataset: Dataset, code: str, by: str, reason: str) -> OverrideLine:
    """Let every episode pass that `code` blocks in this report; recorded beside the labels, with name and reason."""
    if dataset.manifest is None:
        raise WrongUse(
            f"{dataset.root} was not written by Twinloop and is never changed",
            remedy=f"twinloop data merge {dataset.root} --out NEW",
        )
    blocked = [finding for finding in report.blocking if finding.code == code]
    if not blocked:
        raise WrongUse(
            f"{code!r} blocks nothing in {dataset.root}", available=sorted({f.code for f in report.blocking})
        )
    return add_override(dataset.root, code, sorted({f.episode_id for f in blocked}), by, reason)


def _keep(dataset: Dataset, settings: Settings, report: QualityReport) -> None:
    """Only for datasets of ours, which may be written; and never where a function had a say."""
    if dataset.manifest is None or settings.success_of is not None:
        return
    content = {
        "key": _key(dataset, settings),
        "episodes": report.episodes,
        "findings": [asdict(finding) for finding in report.findings],
        "measurements": [asdict(measurement) for measurement in report.measurements],
    }
    try:
        write_atomically(dataset.root / KEPT, (json.dumps(content) + "\n").encode())
    except OSError:
        return  # a dataset on a read-only disk is checked again next time


def _kept(dataset: Dataset, settings: Settings) -> QualityReport | None:
    path: Path = dataset.root / KEPT
    if dataset.manifest is None or settings.success_of is not None or not path.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        if content["key"] != _key(dataset, settings):
            return None
        findings = tuple(Finding(**line) for line in content["findings"])
        measurements = tuple(Measurement(**line) for line in content["measurements"])
        episodes = int(content["episodes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return QualityReport(
        str(dataset.root),
        dataset.id,
        dataset.manifest.fingerprint,
        settings.purpose,
        episodes,
        findings,
        measurements,
        recorded_overrides(dataset),
    )


def _key(dataset: Dataset, settings: Settings) -> str:
    """Changes with the data, its labels (they decide on success), the settings and the checks there are."""
    assert dataset.manifest is not None
    values = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "success_of"}
    labels = {identity: outcome.success for identity, outcome in dataset.outcomes.items()}
    return json.dumps([dataset.manifest.fingerprint, values, labels, CHECKS.names()], sort_keys=True)
