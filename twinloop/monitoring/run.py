"""One pass over deployed episodes: success rate, features, parameters, kind of change, alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import DatasetError, PolicyChanged, WrongUse
from twinloop.identification.change import FEWEST
from twinloop.identification.drift import Change, Drift, watch_drift
from twinloop.monitoring.alerts import Alert
from twinloop.monitoring.features import Group, episode_features, group_of, usual_frames
from twinloop.monitoring.shifts import CHANCE, WATCHED, Shift, camera_cause_of, find_shifts, kind_of
from twinloop.monitoring.success import Success, follow_success
from twinloop.records import SavedRecord, derived, load_record
from twinloop.robots.safety.envelope import count_interventions
from twinloop.stats.interval import exact_interval
from twinloop.twins import Twin

MOST_REFERENCE = 100
"""At most this many reference episodes are used, spread evenly."""

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
"""The kind of change indicated by a parameter's dimension."""


@dataclass(frozen=True)
class MonitorConfig:
    """How deployed episodes are compared with the reference.

    Args:
        baseline: Without a reference, or for joints if another actor acted in it: the first deployed episodes are the reference.
        expected: Expected success rate; default: the lower confidence limit of the reference, if the same kind of actor acted in it.
        after: Id of the last resolved episode; only later ones are compared.
        actor: Id of the policy in use, as recordings state it; deployed episodes in which another policy acted are refused.
        twin: The twin of `parameters`.
        parameters: Names of the twin's parameters to follow through identification.
        chance: Probability of a false alarm in any feature in `watched` episodes.
        watched: Number of episodes that `chance` refers to.
        threads: Simulation threads; 0: all cores.
    """

    baseline: int = 30
    expected: float | None = None
    after: str | None = None
    actor: str | None = None
    twin: Twin | None = None
    parameters: tuple[str, ...] = ()
    chance: float = CHANCE
    watched: int = WATCHED
    threads: int = 0

    def __post_init__(self) -> None:
        if self.baseline < FEWEST:
            raise WrongUse(
                "too few reference episodes",
                got=f"a baseline of {self.baseline}",
                expected=f"at least {FEWEST}",
            )
        if self.parameters and self.twin is None:
            raise WrongUse("parameters need a twin", got=self.parameters, remedy="--twin NAME|FOLDER")


@dataclass(frozen=True, eq=False)
class MonitorReport(SavedRecord):
    """The result of one pass over deployed episodes; `group` is the kind of feature that changed most.

    `interventions` counts what the safety envelope did, by kind, in `intervened` of the episodes.
    """

    FILE, FORMAT, COMMAND = "monitor.json", 2, "twinloop monitor"

    dataset: str
    episodes: int
    reference: int
    success: Success
    group: Group | None
    shifts: tuple[Shift, ...]
    drift: Drift | None
    alerts: tuple[Alert, ...]
    interventions: Mapping[str, int] = field(default_factory=dict)
    intervened: int = 0

    @derived
    def kind(self) -> str | None:
        """The kind of change in words."""
        return _kind(self.group, self.shifts) if self.group else None


def load_monitor_report(folder: str | Path) -> MonitorReport:
    """Read what `MonitorReport.save` wrote.

    Args:
        folder: The folder with `monitor.json`.

    Returns:
        The report.

    Raises:
        WrongUse: There is no such file or it is not a report.
    """
    return load_record(MonitorReport, folder)


def monitor(
    deployed: Dataset,
    reference: Dataset | None = None,
    config: MonitorConfig | None = None,
) -> MonitorReport:
    """Compare deployed episodes once with a reference.

    Args:
        deployed: Episodes of the policy in use.
        reference: Reference episodes, such as the real training data; default: the first deployed episodes.
        config: Baseline, expected success rate and parameters to follow.

    Returns:
        Success rate, changed features and parameters, and alerts.

    Raises:
        WrongUse: If there are too few reference episodes, or they are simulated and the deployed ones are not.
        DatasetError: If there are no deployed episodes after the baseline.
    """
    config = config or MonitorConfig()
    baseline, chance, watched, expected = config.baseline, config.chance, config.watched, config.expected
    usual, fresh = _split(deployed, reference, config)
    if config.actor is not None:
        _require_actor(fresh, config.actor)
    frames = usual_frames(usual)
    before = [episode_features(episode, frames) for episode in usual]
    now = [episode_features(episode, frames) for episode in fresh]
    alike = _actors(usual) == _actors(fresh) or not fresh
    if alike:
        shifts = find_shifts(before, now, chance=chance, watched=watched)
    else:
        shifts = _shifts_between_actors(before, now, baseline, chance, watched)
    judged = [episode.success for episode in fresh if episode.success is not None]
    if expected is None and alike:
        expected = _expected(usual)
    success = follow_success(judged, expected)
    drift = None
    if config.twin is not None and config.parameters and fresh:
        drift = watch_drift(
            config.twin,
            [*usual, *fresh],
            config.parameters,
            baseline=len(usual),
            chance=chance,
            watched=watched,
            threads=config.threads,
        )
    kind = kind_of(shifts)
    if drift is not None and drift.moved:
        kind = GROUP_OF.get(drift.moved[0].dimension, kind)
    place = str(deployed.root)
    did = [count_interventions(episode.events) for episode in fresh]
    return MonitorReport(
        place,
        len(fresh),
        len(usual),
        success,
        kind,
        shifts,
        drift,
        tuple(_alerts(place, kind, shifts, drift, success, fresh)),
        dict(sum((Counter(one) for one in did), Counter())),
        sum(map(bool, did)),
    )


def _split(
    deployed: Dataset, reference: Dataset | None, config: MonitorConfig
) -> tuple[list[Episode], list[Episode]]:
    """Reference and deployed episodes to compare."""
    resolved = len(resolved_episodes(deployed, config.after))
    episodes = [deployed.episode(number) for number in deployed.numbers[resolved:]]
    usual = _spread(reference) if reference is not None else episodes[: config.baseline]
    fresh = episodes if reference is not None else episodes[config.baseline :]
    if len(usual) < FEWEST:
        raise WrongUse(
            "too few reference episodes",
            got=len(usual),
            expected=f"at least {FEWEST}",
            remedy="--reference DATASET, or wait for more episodes",
        )
    if not fresh and reference is None:
        raise DatasetError(
            "too few episodes: all of them belong to the baseline",
            got=len(episodes),
            expected=f"more than the baseline of {config.baseline}",
            remedy="a smaller --baseline, --reference DATASET, or wait for more episodes",
        )
    _require_comparable(usual, fresh)
    return usual, fresh


def _require_actor(episodes: Sequence[Episode], actor: str) -> None:
    """Refuse episodes of another policy: what changes with the policy says nothing about the robot."""
    for episode in episodes:
        acted = episode.provenance
        if acted.actor == "policy" and acted.actor_id != actor:
            raise PolicyChanged(
                f"another policy acted in episode {episode.id}",
                got=acted.actor_id,
                expected=actor,
                remedy="name the policy in use with --policy, and with --after the last episode before it",
            )


def resolved_episodes(deployed: Dataset, after: str | None) -> list[str]:
    """Ids of the episodes up to and including `after`, in order; none if it is None."""
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


def _shifts_between_actors(
    before: Sequence[Mapping[str, float]],
    now: Sequence[Mapping[str, float]],
    baseline: int,
    chance: float,
    watched: int,
) -> tuple[Shift, ...]:
    """Another actor acted in the reference: compare scene and cameras with it, joints with the first deployed episodes.

    A joint's response depends on its commands, so demonstrations are no reference for the joints under a policy.
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
            "simulated episodes are no reference for a robot",
            remedy="--reference with episodes of this robot, or no reference",
        )


def _spread(dataset: Dataset) -> list[Episode]:
    count = len(dataset.numbers)
    step = max(1, -(-count // MOST_REFERENCE))
    return [dataset.episode(number) for number in dataset.numbers[::step]]


def _expected(usual: Sequence[Episode]) -> float | None:
    """Lower confidence limit of the reference's success rate; None if it is unlabelled or never succeeded."""
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
        name = _kind(kind, shifts)
        step, command = NEXT_OF_CAMERA.get(name, NEXT[kind])
        yield Alert(name, what, since, step, command.format(place), changes_twin=True, dataset=place)
    if success.fell is not None and success.expected is not None:
        what = (
            f"success rate fell below {100 * success.expected:.0f} %: {success.successes} of {success.episodes}, "
            f"{100 * success.low:.0f} to {100 * success.high:.0f} % (95 % band, valid at all times)"
        )
        since = [episode for episode in fresh if episode.success is not None][success.fell].id
        step, command = (
            "roll back, then find the cause",
            "twinloop rollback --by NAME --reason 'success fell'",
        )
        yield Alert("success fell", what, since, step, command, changes_twin=False, dataset=place)


NEXT: Mapping[Group, tuple[str, str]] = {
    "actuator": ("re-identify the twin, then gate again", "twinloop identify --real {}"),
    "scene": ("record episodes in the changed scene, then train", "twinloop record --robot URL --out NEW --policy POLICY"),
    "camera": ("move the camera back or calibrate it; otherwise record new episodes with it", "twinloop check {}"),
}  # fmt: skip
NEXT_OF_CAMERA: Mapping[str, tuple[str, str]] = {
    "dirty lens": ("clean and focus the lens, then compare again", "twinloop check {}"),
    "changed light": ("bring the light back, or record episodes in it and train", "twinloop check {}"),
}


def _what(kind: Group, shifts: Sequence[Shift], moved: Sequence[Change]) -> str:
    parts = [f"{change.name} {change.before:.3g} -> {change.after:.3g}" for change in moved]
    parts += [f"{s.feature} by {s.size:.1f} standard deviations" for s in shifts if s.group == kind][:3]
    others = sorted({KINDS[s.group] for s in shifts if s.group != kind})
    less = f"; to a lesser degree: {', '.join(others)}" if others else ""
    return f"{_kind(kind, shifts)}: {', '.join(parts)}{less}"


def _kind(group: Group, shifts: Sequence[Shift]) -> str:
    """The kind of change in words; of a camera, what happened to it."""
    cause = camera_cause_of(shifts) if group == "camera" else None
    return cause or KINDS[group]
