"""A series of recorded trials with a person beside the robot: each is repeated until it counts, and kept when it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.episode import Episode
from twinloop.errors import PolicyGone, SafetyStop, TrialSkipped, TrialVoid
from twinloop.robots.record import VOID, RecordingSpec, Station, record
from twinloop.robots.safety.envelope import SafetyEnvelope
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.trial import Announcement, find_trial

ATTEMPTS = 3
"""Attempts in which the policy gives no answer before a trial is given up."""


def find_void(episode: Episode) -> str | None:
    """Why an episode says nothing about what acted in it; None if it does."""
    return next((event.detail for event in episode.events if event.kind == VOID), None)


def read_episodes(folder: Path) -> list[Episode]:
    """The episodes in a folder; none where there is no dataset."""
    if not (folder / "meta").exists():
        return []
    dataset: Dataset = open_dataset(folder)
    return [dataset.episode(number) for number in dataset.numbers]


def _count_episodes(folder: Path) -> int:
    return len(open_dataset(folder)) if (folder / "meta").exists() else 0


def count_valid(folder: Path) -> int:
    """How many episodes of a dataset are not void."""
    return sum(find_void(episode) is None for episode in read_episodes(folder))


def run_trial(
    station: Station,
    spec: RecordingSpec,
    folder: Path,
    person: PersonSupervisor,
    log: Callable[[str], None] = lambda line: None,
) -> Episode | None:
    """Make one trial until it counts; every attempt is kept, and after a stop the next one waits until the person has reset the robot.

    Args:
        station: Robot and controller; the person supervises.
        spec: One episode.
        folder: The dataset.
        person: Who has been told which trial comes.
        log: Called with a line whenever the robot is lost or reconnected.

    Returns:
        Its episode; None if the person leaves the scene out.

    Raises:
        PolicyGone: If the policy gives no answer.
        TrialsPaused: If the person leaves.
    """
    silent, robot = 0, SafetyEnvelope.around(station.robot)
    while True:
        person.wait_until_free(robot)
        void_before, kept = person.state.void, _count_episodes(folder)
        try:
            record(robot, station.controller, folder, spec, supervisor=person, log=log)
        except TrialSkipped:
            return None
        except (TrialVoid, SafetyStop):
            if _count_episodes(folder) == kept:
                continue  # stopped before it began
        dataset = open_dataset(folder)
        episode = dataset.episode(dataset.numbers[-1])
        person.wait_until_free(robot)
        if (reason := find_void(episode)) is None:
            if not spec.judged:
                person.count_done(1)
            return episode
        if person.state.void == void_before:
            person.count_void(reason)
            silent += not reason.startswith("robot fault")
        if silent == ATTEMPTS:
            raise PolicyGone(
                f"the policy gave no answer in {ATTEMPTS} attempts, which are void",
                remedy="make sure that it answers; the same command resumes",
            )


def record_attended(
    station: Station,
    out: Path,
    spec: RecordingSpec,
    person: PersonSupervisor,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    log: Callable[[str], None] = lambda line: None,
) -> Dataset:
    """Record the episodes that a dataset does not have yet, with a person beside the robot.

    Args:
        station: Robot and controller.
        out: The dataset's folder.
        spec: The episodes, in all; each has the number of its scene.
        person: Who sets scenes up and judges.
        on_progress: Called with episodes done and episodes in all.
        log: Called with a line whenever the robot is lost or reconnected.

    Returns:
        The dataset.

    Raises:
        TrialsPaused: If the person leaves; the same call resumes.
    """
    numbers = range(spec.first, spec.first + spec.episodes)
    earlier = read_episodes(out)
    done = {find_trial(one.events) for one in earlier if find_void(one) is None} & set(numbers)
    with person.series(len(done), sum(find_void(one) is not None for one in earlier)):
        for number in numbers:
            if number in done:
                continue
            on_progress(len(done), spec.episodes)
            person.announce(Announcement(number, spec.episodes, number))
            if run_trial(station, replace(spec, episodes=1, first=number), out, person, log) is None:
                person.count_done(1)
                continue
            done.add(number)
        on_progress(len(done), spec.episodes)
        person.end()
    return open_dataset(out)
