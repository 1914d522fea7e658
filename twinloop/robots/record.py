"""Record a robot into a dataset: whole episodes only, each committed at once, whatever happens to the robot.

A row holds what was observed and the command that was sent for it. Time stamps are the robot's own. When the robot is
lost, the episode in progress is dropped, what is whole is safe, and the recorder tries to reach the robot again.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.datasets import layout
from twinloop.datasets.commit import JOURNAL
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.episode import Array, Episode, Event, Outcome, Provenance, Schema, make_episode
from twinloop.errors import RobotGone, WrongUse
from twinloop.robots.controllers import Controller
from twinloop.robots.limits import Limited
from twinloop.robots.protocol import Description, Observation, Robot, TrialSupervisor
from twinloop.version import __version__

_REPEATS = 200
"""Observations with the same stamp, a quarter of a period apart, before a robot counts as lost."""

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """What to record. `first` is the number of the first episode, which sets the scene; people are pseudonyms."""

    episodes: int
    longest_s: float
    task: str = ""
    cameras: tuple[str, ...] = ()
    first: int = 0
    site: str | None = None
    operator: str | None = None
    consent: str | None = None
    judged: bool = True
    reconnects: int = 3
    reconnect_wait_s: float = 1.0
    software: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.longest_s <= 0 or self.first < 0:
            raise WrongUse("nothing to record", got=f"{self.episodes} episodes of {self.longest_s:g} s")


@dataclass(frozen=True)
class Recorded:
    """What became of it: `reason` says why it ended early, when it did."""

    episodes: int
    successes: int
    failures: int
    lost: int
    rows: int
    reason: str | None = None


def record(
    robot: Robot,
    controller: Controller,
    out: str | Path,
    plan: Plan,
    *,
    supervisor: TrialSupervisor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda line: None,
) -> Recorded:
    """Record episodes from a connected robot; appends to a dataset that is there already."""
    schema = robot.description.schema(plan.cameras)
    limited = Limited(robot)
    state = Recorded(0, 0, 0, 0, 0)
    number, left = plan.first, plan.reconnects
    with _open(Path(out), schema, robot.description.serial) as writer:
        while state.episodes < plan.episodes:
            progress(state.episodes, plan.episodes)
            try:
                episode = _episode(limited, controller, supervisor, plan, schema, number)
            except RobotGone as error:
                tell(
                    f"the robot was lost in episode {number} ({error.what}); {writer.committed} whole ones are safe"
                )
                state = replace(state, lost=state.lost + 1)
                left = _reach_again(limited, plan, left, tell)
                if left < 0:
                    reason = f"the robot was lost and did not come back: {error.what}"
                    return replace(state, reason=reason)
                continue
            writer.add(episode)
            writer.commit()
            state = replace(
                state,
                episodes=state.episodes + 1,
                successes=state.successes + int(episode.success is True),
                failures=state.failures + int(episode.success is False),
                rows=state.rows + len(episode),
            )
            number, left = number + 1, plan.reconnects
        progress(state.episodes, plan.episodes)
    return state


def _open(out: Path, schema: Schema, serial: str) -> DatasetWriter:
    if (out / layout.MANIFEST).exists() or (out / JOURNAL).exists():
        return append_to(out, schema=schema)
    return make_dataset(out, schema, history=("recorded", (), f"by {serial}"))


def _reach_again(robot: Limited, plan: Plan, left: int, tell: Callable[[str], None]) -> int:
    """Try to connect again; how many tries are left, or -1 when they are used up."""
    while left > 0:
        left -= 1
        try:
            robot.connect()
        except RobotGone:
            time.sleep(plan.reconnect_wait_s)
            continue
        tell("the robot is back; the episode starts over")
        return left
    return -1


def _episode(
    robot: Limited,
    controller: Controller,
    supervisor: TrialSupervisor | None,
    plan: Plan,
    schema: Schema,
    number: int,
) -> Episode:
    description = robot.description
    if supervisor is not None:
        supervisor.prepare(number)
    robot.restart()
    cameras = tuple(dict.fromkeys((*plan.cameras, *controller.cameras)))
    pace = _Pace(description)
    looks = getattr(controller, "looks", lambda: True)
    seen = robot.observe(cameras)
    controller.restart(seen, number)
    clipped = robot.clipped
    rows: list[tuple[Observation, Array]] = []
    outcome = Outcome()
    for _ in range(max(1, round(plan.longest_s * description.rate_hz))):
        rows.append((seen, robot.act(controller.act(seen))))
        if supervisor is not None and plan.judged:
            outcome = supervisor.judge()
            if outcome.success is not None:
                break
        pace.wait()
        seen = _newer(robot, cameras if looks() else plan.cameras, seen.time_s)
    if supervisor is not None and plan.judged and outcome.success is None:
        outcome = supervisor.judge(over=True)
    events: tuple[Event, ...] = ()
    if robot.clipped > clipped:
        events = (
            Event(0.0, "limited", f"{robot.clipped - clipped} commands were cut to the robot's limits"),
        )
    return _assemble(schema, description, controller, plan, rows, outcome, events)


def _newer(robot: Limited, cameras: tuple[str, ...], than_s: float) -> Observation:
    """The next observation with a later stamp: a robot that runs by its own clock may have nothing new yet."""
    for _ in range(_REPEATS):
        seen = robot.observe(cameras)
        if seen.time_s > than_s:
            return seen
        time.sleep(0.25 / robot.description.rate_hz)
    raise RobotGone(
        "the robot's clock stands still",
        got=f"{_REPEATS} observations stamped {than_s:.3f} s",
        remedy="see that the robot's driver runs",
    )


def _assemble(
    schema: Schema,
    description: Description,
    controller: Controller,
    plan: Plan,
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
    person = plan.operator if controller.actor == "operator" else None
    return make_episode(
        schema,
        [seen.time_s - start_s for seen, _ in rows],
        signals,
        frames={name: np.stack([seen.frames[name] for seen, _ in rows]) for name in plan.cameras},
        events=events,
        success=outcome.success,
        failure=outcome.failure,
        task=plan.task,
        provenance=Provenance(
            source="standin" if description.standin else "real",
            engine=description.engine,
            twin=description.twin,
            twin_hash=description.twin_hash,
            actor=controller.actor,
            actor_id=person or controller.actor_id,
            robot_serial=description.serial,
            site=plan.site or description.site,
            recorded_at=datetime.now(UTC),
            consent=plan.consent,
            software={
                "twinloop": __version__,
                "python": platform.python_version(),
                **{f"robot.{name}": version for name, version in description.software.items()},
                **plan.software,
            },
        ),
    )


class _Pace:
    """Keeps the control rate of a robot that runs by the clock; a robot in lockstep needs no waiting."""

    def __init__(self, description: Description) -> None:
        self._step_s = None if description.lockstep else 1.0 / description.rate_hz
        self._due_s = time.monotonic()

    def wait(self) -> None:
        if self._step_s is not None:
            self._due_s += self._step_s
            time.sleep(max(0.0, self._due_s - time.monotonic()))
