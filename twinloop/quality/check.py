"""Run the checks over one episode, or streaming over a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinloop.datasets.ingests import load_constants
from twinloop.datasets.overrides import load_overrides
from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import DamagedDataset
from twinloop.quality import cameras, outcome, response, signals, timing, units, wraps  # noqa: F401  (they register)
from twinloop.quality.finding import Finding, Measurement, QualityReport, in_episode
from twinloop.quality.registry import CHECKS
from twinloop.quality.settings import Settings
from twinloop.quality.view import View, check_names

OnProgress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""

SERIOUS_IN_SIMULATION = frozenset({"artefact", "success_contradiction", "not_a_number", "unreadable"})
"""Findings that also block simulated episodes; the others concern hardware, which a simulation does not have."""

HARDWARE = frozenset(
    {
        "stuck",
        "clipped",
        "saturated",
        "spike",
        "wrap",
        "constant",
        "duplicated",
        "quantization",
        "frozen_camera",
    }
)
"""Findings about a sensor; notes for simulated episodes, whose sensors cannot break."""


def check_episode(episode: Episode, settings: Settings | None = None) -> list[Finding]:
    """Check one episode for faults of the recording.

    Args:
        episode: The episode.
        settings: Thresholds of the checks, each in the unit that its name says.

    Returns:
        The findings: check, channel, time in seconds, measured value, threshold, severity and remedy.
    """
    return _run_checks(View(episode, settings or Settings()))


def check_dataset(
    dataset: Dataset,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
    *,
    episodes: Sequence[int] | None = None,
) -> QualityReport:
    """Check the episodes of a dataset, one at a time.

    Args:
        dataset: The dataset.
        settings: Thresholds, and the purpose that decides what blocks.
        on_progress: Called with (episodes done, episodes in all).
        episodes: Episode numbers; default: all.

    Returns:
        All findings and measurements, with the recorded overrides.
    """
    settings = settings or Settings()
    settings = replace(settings, constants=(*settings.constants, *load_constants(dataset.root)))
    numbers = dataset.numbers if episodes is None else list(episodes)
    findings: list[Finding] = []
    measurements: list[Measurement] = []
    for done, number in enumerate(numbers, start=1):
        try:
            view = View(dataset.episode(number), settings)
            episode_id, episode_findings = view.episode.id, _run_checks(view)
            measured = list(response.measurements(view))
        except DamagedDataset as error:
            episode_id, episode_findings, measured = "", [_unreadable(error)], []
        findings += [in_episode(finding, number, episode_id) for finding in episode_findings]
        measurements += [replace(measurement, episode=number) for measurement in measured]
        if on_progress:
            on_progress(done, len(numbers))
    return QualityReport(
        str(dataset.root),
        dataset.id,
        dataset.manifest.fingerprint if dataset.manifest else "unknown",
        settings.purpose,
        len(numbers),
        tuple(findings),
        tuple(measurements),
        tuple(load_overrides(dataset.root)),
    )


def _run_checks(view: View) -> list[Finding]:
    known = CHECKS.names()
    check_names(view.settings, known)
    findings = [finding for name in view.settings.checks or known for finding in CHECKS.get(name)(view)]
    if view.settings.purpose == "train":
        findings = [replace(f, severity="warning") if _seen_in_deployment(f) else f for f in findings]
    if view.episode.provenance.source == "sim":
        findings = [f if f.code in SERIOUS_IN_SIMULATION else _soften_for_simulation(f) for f in findings]
    return findings


def _seen_in_deployment(finding: Finding) -> bool:
    """Return whether a policy sees the same reading in deployment, such as a gripper at its force limit."""
    return finding.code == "clipped" and finding.severity == "blocking"


def _soften_for_simulation(finding: Finding) -> Finding:
    """Lower the severity: in simulation, a gripper at its stop looks clipped and an object at rest looks stuck."""
    if finding.code in HARDWARE:
        return replace(finding, severity="note")
    return replace(finding, severity="warning") if finding.severity == "blocking" else finding


def _unreadable(error: DamagedDataset) -> Finding:
    remedy = error.remedy or "run `twinloop data verify`"
    return Finding("unreadable", "episode", "blocking", 1, "episodes", 0, error.what, remedy, 0.0, 0.0)
