"""The path of one pass over deployed episodes: success, features, parameters, kinds of change, alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import DatasetError, WrongUse
from twinloop.identification.change import FEWEST
from twinloop.identification.drift import Change, Drift, watch_drift
from twinloop.monitoring.alerts import Alert, make_alert
from twinloop.monitoring.features import Group, episode_features, group_of, usual_frames
from twinloop.monitoring.shifts import CHANCE, WATCHED, Shift, find_shifts, kind_of
from twinloop.monitoring.success import Success, follow_success
from twinloop.records import load_record, save_record
from twinloop.stats.interval import exact_interval
from twinloop.twins import Twin

FORMAT = 1
FILE = "monitor.json"

MOST_REFERENCE = 100
"""Reference episodes beyond this many, spread evenly, tell nothing new."""

KINDS: dict[Group, str] = {
    "actuator": "aged actuator",
    "scene": "changed scene",
    "camera": "changed camera",
}
GROUP_OF: dict[str, Group] = {
    "actuation": "actuator",
    "latency": "actuator",
    "contact": "scene",
    "object": "scene",
    "environment": "scene",
    "human": "scene",
    "sensing": "camera",
    "visual": "camera",
    "unexplained": "actuator",
}
"""The kind of change that a parameter's dimension points to."""


@dataclass(frozen=True, eq=False)
class MonitorReport:
    """One pass: what deployed episodes say and what to do."""

    dataset: str
    episodes: int
    reference: int
    success: Success
    kind: Group | None
    shifts: tuple[Shift, ...]
    drift: Drift | None
    alerts: tuple[Alert, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "dataset": self.dataset,
            "episodes": self.episodes,
            "reference": self.reference,
            "success": asdict(self.success),
            "kind": KINDS[self.kind] if self.kind else None,
            "shifts": [asdict(shift) for shift in self.shifts],
            "parameters": self.drift.as_json()["changes"] if self.drift else None,
            "alerts": [asdict(alert) for alert in self.alerts],
        }

    def save(self, folder: str | Path) -> Path:
        """Write `monitor.json` into a folder."""
        return save_record(self, Path(folder) / FILE, FORMAT)


def load_monitor_report(folder: str | Path) -> MonitorReport:
    """Read what `MonitorReport.save` wrote.

    Args:
        folder: The folder with `monitor.json`.

    Returns:
        The report.

    Raises:
        WrongUse: There is no such file or it is not a report.
    """
    return load_record(MonitorReport, Path(folder) / FILE, FORMAT, "twinloop monitor")


def monitor(
    deployed: Dataset,
    reference: Dataset | None = None,
    *,
    baseline: int = 30,
    expected: float | None = None,
    after: str | None = None,
    twin: Twin | None = None,
    parameters: Sequence[str] = (),
    chance: float = CHANCE,
    watched: int = WATCHED,
    threads: int = 0,
) -> MonitorReport:
    """Look at deployed episodes once.

    They are compared with a reference, the data that was trained on, or without one with the first `baseline` of them.
    `expected` is the success that is watched; by default what the reference shows at least, if the same kind of actor
    acted in it. Episodes up to `after`, an episode's id, are dealt with and not looked at. With a twin and names of its
    parameters, those are followed too (`identify.drift`).
    """
    require_baseline(baseline)
    past = len(dealt_with(deployed, after))
    episodes = [deployed.episode(number) for number in deployed.numbers[past:]]
    usual = _spread(reference) if reference is not None else episodes[:baseline]
    fresh = episodes if reference is not None else episodes[baseline:]
    if len(usual) < FEWEST:
        raise WrongUse(
            "too few episodes to know what is usual",
            got=len(usual),
            expected=f"at least {FEWEST}",
            remedy="--reference DATASET, or wait for more episodes",
        )
    if not fresh and reference is None:
        raise DatasetError(
            "too few episodes to watch any: all of them say what is usual",
            got=len(episodes),
            expected=f"more than the baseline of {baseline}",
            remedy="a smaller --baseline, --reference DATASET, or wait for more episodes",
        )
    _require_comparable(usual, fresh)
    frames = usual_frames(usual)
    before = [episode_features(episode, frames) for episode in usual]
    now = [episode_features(episode, frames) for episode in fresh]
    alike = _actors(usual) == _actors(fresh) or not fresh
    if alike:
        shifts = find_shifts(before, now, chance=chance, watched=watched)
    else:
        shifts = _shifts_of_others(before, now, baseline, chance, watched)
    judged = [episode.success for episode in fresh if episode.success is not None]
    if expected is None and alike:
        expected = _expected(usual)
    success = follow_success(judged, expected)
    drift = None
    if twin is not None and parameters and fresh:
        drift = watch_drift(
            twin,
            [*usual, *fresh],
            parameters,
            baseline=len(usual),
            chance=chance,
            watched=watched,
            threads=threads,
        )
    kind = kind_of(shifts)
    if drift is not None and drift.moved:
        kind = GROUP_OF.get(drift.moved[0].dimension, kind)
    place = str(deployed.root)
    return MonitorReport(
        place,
        len(fresh),
        len(usual),
        success,
        kind,
        shifts,
        drift,
        tuple(_alerts(place, kind, shifts, drift, success, fresh)),
    )


def dealt_with(deployed: Dataset, after: str | None) -> list[str]:
    """The ids of episodes up to this one, in their order; none without one."""
    if after is None:
        return []
    ids = [deployed.episode(number).id for number in deployed.numbers]
    if after not in ids:
        raise WrongUse(
            f"{deployed.root} has no such episode",
            got=after,
            expected=f"an id such as {ids[-1]}" if ids else None,
        )
    return ids[: ids.index(after) + 1]


def require_baseline(baseline: int) -> None:
    """From fewer first episodes nobody knows what is usual."""
    if baseline < FEWEST:
        raise WrongUse(
            "too few episodes to know what is usual",
            got=f"a baseline of {baseline}",
            expected=f"at least {FEWEST}",
        )


def _shifts_of_others(
    before: Sequence[Mapping[str, float]],
    now: Sequence[Mapping[str, float]],
    baseline: int,
    chance: float,
    watched: int,
) -> tuple[Shift, ...]:
    """Where somebody else acted in the reference: scene and cameras beside it, joints beside the first deployed episodes.

    How a joint answers depends on how it is asked, so a demonstration says nothing about what is usual under a policy.
    """
    seen = [_only(row, ("scene", "camera")) for row in before]
    shifts = find_shifts(
        seen, [_only(row, ("scene", "camera")) for row in now], chance=chance / 2, watched=watched
    )
    own = [_only(row, ("actuator",)) for row in now]
    later = find_shifts(own[:baseline], own[baseline:], chance=chance / 2, watched=watched)
    later = tuple(replace(s, began=s.began + baseline, noticed=s.noticed + baseline) for s in later)
    return tuple(sorted((*shifts, *later), key=lambda shift: -shift.size))


def _only(row: Mapping[str, float], groups: Sequence[Group]) -> dict[str, float]:
    return {name: value for name, value in row.items() if group_of(name) in groups}


def _actors(episodes: Sequence[Episode]) -> set[str]:
    return {episode.provenance.actor for episode in episodes}


def _require_comparable(usual: Sequence[Episode], fresh: Sequence[Episode]) -> None:
    simulated = [any(episode.provenance.source == "sim" for episode in part) for part in (usual, fresh)]
    if fresh and simulated[0] != simulated[1]:
        raise WrongUse(
            "simulated episodes do not show what is usual on a robot",
            remedy="--reference with episodes of this robot, or none",
        )


def _spread(dataset: Dataset) -> list[Episode]:
    count = len(dataset.numbers)
    step = max(1, -(-count // MOST_REFERENCE))
    return [dataset.episode(number) for number in dataset.numbers[::step]]


def _expected(usual: Sequence[Episode]) -> float | None:
    """The least success that the reference shows with confidence; None where nobody judged it or it never succeeded."""
    judged = [episode.success for episode in usual if episode.success is not None]
    if not judged or not any(judged):
        return None
    return min(exact_interval(sum(judged), len(judged), 0.9).low, 0.99)


def _alerts(
    place: str,
    kind: Group | None,
    shifts: Sequence[Shift],
    drift: Drift | None,
    success: Success,
    fresh: Sequence[Episode],
) -> Iterable[Alert]:
    if kind is not None:
        moved = drift.moved if drift is not None else ()
        what = _what(kind, shifts, moved)
        own = [shift.began for shift in shifts if shift.group == kind]
        since = fresh[min(own)].id if own else fresh[0].id
        step, command = NEXT[kind]
        yield make_alert(KINDS[kind], what, since, step, command.format(place), place, True)
    if success.fell is not None and success.expected is not None:
        what = (
            f"success fell below {100 * success.expected:.0f} %: {success.successes} of {success.episodes}, "
            f"{100 * success.low:.0f} to {100 * success.high:.0f} % (at all times, 95 %)"
        )
        since = [episode for episode in fresh if episode.success is not None][success.fell].id
        command = "twinloop rollback --by NAME --reason 'success fell'"
        yield make_alert("success fell", what, since, "roll back, then find out why", command, place, False)


NEXT: Mapping[Group, tuple[str, str]] = {
    "actuator": ("re-identify the twin, then gate again", "twinloop identify --real {}"),
    "scene": ("collect episodes of the scene as it is now, then train", "twinloop record --robot URL --out NEW --policy POLICY"),
    "camera": ("put the camera back or calibrate it; else collect with it as it is", "twinloop check {}"),
}  # fmt: skip


def _what(kind: Group, shifts: Sequence[Shift], moved: Sequence[Change]) -> str:
    parts = [f"{change.name} {change.before:.3g} -> {change.after:.3g}" for change in moved]
    parts += [f"{s.feature} by {s.size:.1f} scatters" for s in shifts if s.group == kind][:3]
    others = sorted({KINDS[s.group] for s in shifts if s.group != kind})
    less = f"; less so {', '.join(others)}" if others else ""
    return f"{KINDS[kind]}: {', '.join(parts)}{less}"
