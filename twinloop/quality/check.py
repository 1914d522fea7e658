"""Run the checks: over one episode, or streaming over a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinloop.datasets.overrides import load_overrides
from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import DamagedDataset
from twinloop.quality import cameras, outcome, response, signals, timing, units  # noqa: F401  (they register)
from twinloop.quality.finding import Finding, Measurement, Override, QualityReport, in_episode
from twinloop.quality.registry import CHECKS
from twinloop.quality.settings import Settings
from twinloop.quality.view import View, check_names

Progress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""

SERIOUS_IN_SIMULATION = frozenset({"artefact", "success_contradiction", "not_a_number", "unreadable"})
"""Findings that block simulated episodes as well; the others tell of hardware that a simulation does not have."""

HARDWARE = frozenset(
    {"stuck", "clipped", "saturated", "spike", "constant", "duplicated", "quantization", "frozen_camera"}
)
"""Findings that only say "look at the sensor": of a simulated one they are notes, since it cannot be broken."""


def check_episode(episode: Episode, settings: Settings | None = None) -> list[Finding]:
    """Check one episode for faults of the recording.

    Args:
        episode: The episode.
        settings: Thresholds of the checks, each in the unit that its name says.

    Returns:
        The findings: check, channel, time in seconds, measured value, threshold, severity and remedy.
    """
    return _findings(View(episode, settings or Settings()))


def check_dataset(
    dataset: Dataset,
    settings: Settings | None = None,
    progress: Progress | None = None,
    *,
    episodes: Sequence[int] | None = None,
) -> QualityReport:
    """Check the episodes of a dataset one after the other; only findings stay in memory.

    Args:
        dataset: The dataset.
        settings: Thresholds of the checks.
        progress: Called with the numbers of episodes done and in all.
        episodes: Numbers of the episodes to check; by default all.

    Returns:
        Findings and measurements (such as the lag of each joint in seconds), over all episodes.
    """
    settings = settings or Settings()
    numbers = dataset.numbers if episodes is None else list(episodes)
    findings: list[Finding] = []
    measurements: list[Measurement] = []
    for done, number in enumerate(numbers, start=1):
        try:
            view = View(dataset.episode(number), settings)
            found = _findings(view)
            measured = list(response.measurements(view))
        except DamagedDataset as error:
            view, found, measured = None, [_unreadable(error)], []
        identity = view.episode.id if view else ""
        findings += [in_episode(finding, number, identity) for finding in found]
        measurements += [
            Measurement(m.quantity, m.channel, m.value, m.uncertainty, m.unit, number) for m in measured
        ]
        if progress:
            progress(done, len(numbers))
    return QualityReport(
        str(dataset.root),
        dataset.id,
        dataset.manifest.fingerprint if dataset.manifest else "unknown",
        settings.purpose,
        len(numbers),
        tuple(findings),
        tuple(measurements),
        recorded_overrides(dataset),
    )


def recorded_overrides(dataset: Dataset) -> tuple[Override, ...]:
    """What people have answered for in this dataset."""
    return tuple(
        Override(line.code, tuple(line.episode_ids), line.by, line.reason, line.at)
        for line in load_overrides(dataset.root)
    )


def _findings(view: View) -> list[Finding]:
    known = CHECKS.names()
    check_names(view.settings, known)
    found = [one for name in view.settings.checks or known for one in CHECKS.get(name)(view)]
    if view.settings.purpose == "train":
        found = [replace(one, severity="warning") if _met_again(one) else one for one in found]
    if view.episode.provenance.source == "sim":
        found = [one if one.code in SERIOUS_IN_SIMULATION else _as_simulated(one) for one in found]
    return found


def _met_again(finding: Finding) -> bool:
    """A gripper at its force limit, an object at rest: a policy meets the same flat reading when it acts."""
    return finding.code == "clipped" and finding.severity == "blocking"


def _as_simulated(finding: Finding) -> Finding:
    """A gripper at its stop looks clipped, an object at rest looks stuck, one that is dropped makes a spike."""
    if finding.code in HARDWARE:
        return replace(finding, severity="note")
    return replace(finding, severity="warning") if finding.severity == "blocking" else finding


def _unreadable(error: DamagedDataset) -> Finding:
    remedy = error.remedy or "run `twinloop data verify`"
    return Finding("unreadable", "episode", "blocking", 1, "episodes", 0, error.what, remedy, 0.0, 0.0)
