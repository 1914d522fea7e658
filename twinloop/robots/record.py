"""Record a robot into a dataset: only whole episodes, each committed as soon as it ends.

A row holds an observation and the command sent in response to it. Timestamps are the robot's own. When the connection
is lost, the episode in progress is discarded, committed episodes are safe, and the recorder reconnects. While an episode
runs, every command goes through the safety envelope, which holds the robot when commands stop.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.commit import JOURNAL
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.episode import Array, Episode, Event, Outcome, Provenance, Schema, make_episode
from twinloop.errors import RobotGone, SafetyStop, TrialVoid, TwinloopError, WrongUse
from twinloop.robots.controllers import Controller
from twinloop.robots.protocol import AttendingSupervisor, Description, Observation, Robot, TrialSupervisor
from twinloop.robots.replicas import share
from twinloop.robots.safety.envelope import OVERRIDE, SafetyEnvelope
from twinloop.version import __version__

VOID = "void"
"""Kind of the event of an episode that says nothing about its policy, with the reason."""

SAFETY_STOP = "safety_stop"
"""Failure of an episode in which the safety envelope stopped the robot."""

_STALE_OBSERVATIONS = 200
"""Observations with the same timestamp, a quarter of a period apart, before a robot counts as lost."""


@dataclass(frozen=True)
class RecordingSpec:
    """What to record.

    Args:
        episodes: how many episodes.
        time_limit_s: longest duration of an episode.
        task: instruction stored with every episode.
        cameras: cameras to record.
        first: number of the first episode; the supervisor sets the scene from it.
        site: where the robot stands; default: the robot's own.
        operator: pseudonym of the person who demonstrates.
        consent: that person's consent record.
        judged: whether the supervisor judges success. Excitation runs are not judged.
        until_failure: whether the first episode that fails is the last one.
        keep_void: whether an episode in which the policy gave no answer is stored, with an unknown outcome and an event of kind `void`.
        reconnects: attempts to reconnect to a lost robot, per episode.
        reconnect_wait_s: pause between two attempts.
        software: further versions to store in the provenance.
    """

    episodes: int
    time_limit_s: float
    task: str = ""
    cameras: tuple[str, ...] = ()
    first: int = 0
    site: str | None = None
    operator: str | None = None
    consent: str | None = None
    judged: bool = True
    until_failure: bool = False
    keep_void: bool = True
    reconnects: int = 3
    reconnect_wait_s: float = 1.0
    software: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.time_limit_s <= 0 or self.first < 0:
            raise WrongUse("nothing to record", got=f"{self.episodes} episodes of {self.time_limit_s:g} s")


@dataclass(frozen=True)
class Station:
    """A connected robot with what commands it and who supervises it."""

    robot: Robot
    controller: Controller
    supervisor: TrialSupervisor | None = None


def record(
    robot: Robot,
    controller: Controller,
    out: str | Path,
    spec: RecordingSpec,
    *,
    supervisor: TrialSupervisor | None = None,
    replicas: Sequence[Station] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    log: Callable[[str], None] = lambda line: None,
) -> Dataset:
    """Record episodes from a connected robot.

    Args:
        robot: a connected robot, or a `SafetyEnvelope` around one; without that, the limits are those of its safety file.
        controller: computes the commands: an expert, an excitation signal, an operator or a policy.
        out: the dataset's folder; an existing dataset of the same schema is appended to.
        spec: how many episodes, how long, and what to store with them.
        supervisor: sets the scene before each episode and judges its outcome.
        replicas: stations with replicas of the robot (`twinloop.robots.replicas`), which share the episodes.
        on_progress: called with (episodes recorded, episodes requested).
        log: called with one line whenever the robot is lost or reconnected.

    Returns:
        The dataset; its last episodes are the new ones, `spec.episodes` of them unless one failed before.

    Raises:
        RobotGone: the robot was lost and did not reconnect. Episodes recorded before that are safe in `out`.
        SafetyStop: the safety envelope stopped the robot. That episode is recorded too.
        RobotError: the robot has no safety limits, or they do not fit it.
    """
    schema = robot.description.schema(spec.cameras)
    stations = (Station(robot, controller, supervisor), *replicas)
    places = [(SafetyEnvelope.around(station.robot), station) for station in stations]
    for envelope, _ in places:
        envelope.check()
    recorded = 0
    with _open_writer(Path(out), schema, robot.description.serial) as writer:

        def record_one(place: tuple[SafetyEnvelope, Station], number: int) -> Episode:
            return _record_or_reconnect(*place, spec, number, lambda: writer.committed, log)

        episodes = share(places, record_one, range(spec.first, spec.first + spec.episodes))
        on_progress(0, spec.episodes)
        try:
            with closing(episodes):
                for episode in episodes:
                    if not spec.keep_void and any(event.kind == VOID for event in episode.events):
                        continue
                    writer.add(episode)
                    writer.commit()
                    recorded += 1
                    on_progress(recorded, spec.episodes)
                    _require_free(places, out)
                    if spec.until_failure and episode.success is False:
                        break
        except RobotGone as error:
            raise RobotGone(
                f"the robot was lost and did not reconnect ({error.what}); "
                f"{recorded} of {spec.episodes} episodes are safe in {out}",
                remedy="check the robot, then record the missing episodes into the same dataset",
            ) from error
    return open_dataset(out)


def _require_free(places: Sequence[tuple[SafetyEnvelope, Station]], out: str | Path) -> None:
    """Raise where a robot has been stopped: no further episode can begin."""
    for envelope, _ in places:
        if envelope.stopped is not None:
            raise SafetyStop(
                f"robot {envelope.description.serial} was stopped: {envelope.stopped}; what was recorded is safe in {out}",
                remedy="look at the robot; twinloop robot reset ADDRESS --by NAME --reason WHAT_YOU_FOUND; then record what is missing",
            )


def _open_writer(out: Path, schema: Schema, serial: str) -> DatasetWriter:
    if (out / layout.MANIFEST).exists() or (out / JOURNAL).exists():
        return append_to(out, schema=schema)
    return make_dataset(out, schema, history=("recorded", (), f"by {serial}"))


def _record_or_reconnect(
    robot: SafetyEnvelope,
    station: Station,
    spec: RecordingSpec,
    number: int,
    committed: Callable[[], int],
    log: Callable[[str], None],
) -> Episode:
    """One episode, started over each time that the robot was lost and came back."""
    attempts_left = spec.reconnects
    while True:
        try:
            return _record_episode(robot, station, spec, number)
        except RobotGone as error:
            log(f"robot lost in episode {number} ({error.what}); {committed()} recorded episodes are safe")
            attempts_left = _reconnect(robot, spec, attempts_left, log)
            if attempts_left < 0:
                raise


def _reconnect(
    robot: SafetyEnvelope, spec: RecordingSpec, attempts_left: int, log: Callable[[str], None]
) -> int:
    """Try to reconnect; returns the remaining attempts, or -1 when they are used up."""
    while attempts_left > 0:
        attempts_left -= 1
        try:
            robot.connect()
        except RobotGone:
            time.sleep(spec.reconnect_wait_s)
            continue
        log("robot reconnected; the episode starts over")
        return attempts_left
    return -1


def _record_episode(robot: SafetyEnvelope, station: Station, spec: RecordingSpec, number: int) -> Episode:
    controller, supervisor = station.controller, station.supervisor
    person = supervisor if isinstance(supervisor, AttendingSupervisor) else None
    if person is not None:
        person.attach(robot)
    if supervisor is not None:
        supervisor.prepare(number)
    robot.restart()
    judge = supervisor.judge if supervisor is not None and spec.judged else None
    rows: list[tuple[Observation, Array]] = []
    outcome, reason = Outcome(), None
    try:
        with _held_at_the_end(robot):
            outcome = _run_episode(robot, station, spec, number, rows)
            if person is not None:
                person.check()
        reason = _void_reason(controller)
        if judge is not None and reason is None and (outcome.success is None or person is not None):
            outcome = judge(over=True)
    except TrialVoid as void:
        if not rows:
            raise
        outcome, reason = Outcome(), void.what
    except RobotGone as fault:
        if person is None or not rows:
            raise
        outcome, reason = Outcome(), f"robot fault: {fault.what}"
    events = _list_events(robot, rows[0][0].time_s)
    events += person.remarks() if person is not None else ()
    episode = _make_episode(robot.description, controller, spec, rows, outcome, events)
    return episode if reason is None else make_void(episode, reason)


def _list_events(robot: SafetyEnvelope, start_s: float) -> tuple[Event, ...]:
    """What the safety envelope did during the episode, and which limits did not hold."""
    did = (
        Event(max(0.0, one.time_s - start_s), one.kind, f"{one.count} times: {one.detail}")
        for one in robot.take_interventions()
    )
    off = (Event(0.0, OVERRIDE, f"{name}: {why}") for name, why in robot.limits.overrides.items())
    return (*off, *did)


def make_void(episode: Episode, reason: str) -> Episode:
    """The episode without an outcome, and with an event that says why it has none."""
    return replace(episode, outcome=Outcome(), events=(*episode.events, Event(0.0, VOID, reason)))


def _void_reason(controller: Controller) -> str | None:
    """Why the present episode of a controller says nothing about it; None if it does."""
    void: Callable[[], str | None] = getattr(controller, "void", lambda: None)
    return void()


@contextmanager
def _held_at_the_end(robot: SafetyEnvelope) -> Iterator[None]:
    """Hold the robot when commands stop, when the episode ends, and when an error ends the recording.

    A robot in lockstep stands still without commands; only after an error is it told to hold.
    """
    try:
        with robot.watching():
            yield
        if not robot.description.lockstep:
            with suppress(RobotGone):  # the episode is whole; the next one finds out
                robot.hold()
    except RobotGone:
        raise
    except TrialVoid:
        robot.hold()
        raise
    except BaseException:  # also Ctrl-C: whatever stops the commands must not leave the robot moving
        with suppress(TwinloopError):
            robot.hold()
        raise


def _run_episode(
    robot: SafetyEnvelope,
    station: Station,
    spec: RecordingSpec,
    number: int,
    rows: list[tuple[Observation, Array]],
) -> Outcome:
    """Let the controller act until the outcome is known, the time is up or the robot is stopped; `rows` gets what was seen and sent."""
    description, controller, supervisor = robot.description, station.controller, station.supervisor
    judge = supervisor.judge if supervisor is not None and spec.judged else None
    check = supervisor.check if isinstance(supervisor, AttendingSupervisor) else lambda: None
    cameras = tuple(dict.fromkeys((*spec.cameras, *controller.cameras)))
    needs_frames = getattr(controller, "needs_images", lambda: True)
    observation = robot.observe(cameras)
    controller.restart(observation, number)
    steps = max(1, round(spec.time_limit_s * description.rate_hz))
    end_s = (
        observation.time_s + (steps - 0.5) / description.rate_hz
    )  # sooner than after `steps` if ticks are dropped
    outcome = Outcome()
    pace = _Pace(description)
    while True:
        try:
            command = controller.act(observation)
            check()
            rows.append((observation, robot.act(command)))
        except SafetyStop:
            if not rows:
                raise
            return Outcome(False, SAFETY_STOP)
        if _void_reason(controller) is not None:
            break
        if judge is not None:
            outcome = judge()
            if outcome.success is not None:
                break
        pace.wait()
        observation = _observe_newer(robot, cameras if needs_frames() else spec.cameras, observation.time_s)
        if len(rows) == steps or observation.time_s > end_s:
            break
    return outcome


def _observe_newer(robot: Robot, cameras: tuple[str, ...], than_s: float) -> Observation:
    """Wait for an observation with a later timestamp: a robot on its own clock may have nothing new yet."""
    for _ in range(_STALE_OBSERVATIONS):
        observation = robot.observe(cameras)
        if observation.time_s > than_s:
            return observation
        time.sleep(0.25 / robot.description.rate_hz)
    raise RobotGone(
        "the robot's clock has stopped",
        got=f"{_STALE_OBSERVATIONS} observations stamped {than_s:.3f} s",
        remedy="check that the robot's driver is running",
    )


def _make_episode(
    description: Description,
    controller: Controller,
    spec: RecordingSpec,
    rows: list[tuple[Observation, Array]],
    outcome: Outcome,
    events: tuple[Event, ...],
) -> Episode:
    start_s = rows[0][0].time_s
    signals: dict[str, Any] = {
        signal.name: np.stack([seen.signals[signal.name] for seen, _ in rows]).astype(signal.dtype)
        for signal in description.signals
    }
    signals[description.action.name] = np.stack([sent for _, sent in rows]).astype(description.action.dtype)
    operator = spec.operator if controller.actor == "operator" else None
    return make_episode(
        description.schema(spec.cameras),
        [seen.time_s - start_s for seen, _ in rows],
        signals,
        frames={name: np.stack([seen.frames[name] for seen, _ in rows]) for name in spec.cameras},
        events=events,
        success=outcome.success,
        failure=outcome.failure,
        task=spec.task,
        provenance=Provenance(
            source="standin" if description.standin else "real",
            engine=description.engine,
            twin=description.twin,
            twin_hash=description.twin_hash,
            actor=controller.actor,
            actor_id=operator or controller.actor_id,
            robot_serial=description.serial,
            site=spec.site or description.site,
            recorded_at=datetime.now(UTC),
            consent=spec.consent,
            software={
                "twinloop": __version__,
                "python": platform.python_version(),
                **{f"robot.{name}": version for name, version in description.software.items()},
                **spec.software,
            },
        ),
    )


class _Pace:
    """Keeps the control rate of a robot on its own clock; a robot in lockstep needs no waiting.

    A loop that is late by whole control steps drops them: catching up would send commands faster than the control rate.
    """

    def __init__(
        self,
        description: Description,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._step_s = None if description.lockstep else 1.0 / description.rate_hz
        self._clock, self._sleep = clock, sleep
        self._due_s = clock()

    def wait(self) -> None:
        """Wait for the next control step; returns at once if that is due."""
        if self._step_s is None:
            return
        late_s = self._clock() - self._due_s
        self._due_s += self._step_s * max(1, math.floor(late_s / self._step_s))
        self._sleep(max(0.0, self._due_s - self._clock()))
