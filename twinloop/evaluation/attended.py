"""Trials with a person beside the robot: blind, in a drawn order, each kept when it ends, and resumed where the last session stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinloop.episode import Episode
from twinloop.evaluation.environment import OnProgress, read_trial
from twinloop.evaluation.result import Trial
from twinloop.records import save_record
from twinloop.robots.record import RecordingSpec, Station
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.schedule import PlannedTrial, Schedule, keep_schedule
from twinloop.supervision.series import find_void, read_episodes, run_trial
from twinloop.supervision.trial import Announcement, find_trial


@dataclass(frozen=True)
class AttendedTrials:
    """What a series of attended trials made: for each policy its trials by scene, and why others were void."""

    trials: tuple[tuple[Trial, ...], ...]
    void: tuple[tuple[str, ...], ...]


def try_attended(
    person: PersonSupervisor,
    stations: Sequence[Station],
    folders: Sequence[Path],
    drawn: Schedule,
    file: Path,
    spec: RecordingSpec,
    on_progress: OnProgress,
    until_failure: bool = False,
) -> AttendedTrials:
    """Make the trials of a schedule that are not there yet.

    Args:
        person: Who stands beside the robot.
        stations: Robot and controller of each policy.
        folders: The dataset of each policy.
        drawn: The schedule.
        file: Where the schedule is kept.
        spec: How episodes are recorded.
        on_progress: Called with trials done and trials in all.
        until_failure: Whether the first failure ends the series.

    Returns:
        The trials of each policy, scene by scene.
    """
    schedule = keep_schedule(drawn, file)
    done = _done(schedule, folders)
    total = len(schedule.trials)
    void = sum(len(_void_reasons(folder)) for folder in folders)
    with person.series(len(done), void):
        for planned in schedule.trials:
            if planned.number in done or planned.scene in schedule.skipped:
                continue
            on_progress(len(done), total)
            if until_failure and any(trial.success is False for trial in done.values()):
                break
            person.announce(Announcement(planned.number, total, planned.scene))
            one = replace(spec, episodes=1, first=planned.scene, keep_void=True, until_failure=False)
            episode = run_trial(stations[planned.policy], one, folders[planned.policy], person)
            if episode is None:
                schedule = schedule.without(planned.scene)
                save_record(schedule, file)
                person.count_done(
                    sum(t.scene == planned.scene and t.number not in done for t in schedule.trials)
                )
                continue
            done[planned.number] = _as_trial(planned, episode)
        on_progress(len(done), total)
        person.end()
    return AttendedTrials(
        tuple(_trials_of(k, schedule, done) for k in range(len(folders))),
        tuple(_void_reasons(folder) for folder in folders),
    )


def _done(schedule: Schedule, folders: Sequence[Path]) -> dict[int, Trial]:
    """The trials of a schedule that are recorded and count, by number."""
    done: dict[int, Trial] = {}
    for policy, folder in enumerate(folders):
        mine = {trial.number: trial for trial in schedule.trials if trial.policy == policy}
        for episode in read_episodes(folder):
            number = find_trial(episode.events)
            if number in mine and find_void(episode) is None:
                done[number] = _as_trial(mine[number], episode)
    return done


def _void_reasons(folder: Path) -> tuple[str, ...]:
    return tuple(reason for episode in read_episodes(folder) if (reason := find_void(episode)) is not None)


def _as_trial(planned: PlannedTrial, episode: Episode) -> Trial:
    return replace(read_trial(planned.scene, episode), draw=None)


def _trials_of(policy: int, schedule: Schedule, done: dict[int, Trial]) -> tuple[Trial, ...]:
    """A policy's trials by scene; those of scenes that were left out, or not reached, are not judged."""
    mine = sorted((t for t in schedule.trials if t.policy == policy), key=lambda trial: trial.scene)
    reached = {t.scene for t in schedule.trials if t.number in done} | set(schedule.skipped)
    return tuple(
        done.get(t.number) or Trial(t.scene, None, void="left out by the person beside the robot")
        for t in mine
        if t.scene in reached
    )
