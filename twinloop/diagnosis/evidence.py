"""Real episodes as diagnosis reads them: recorded signals and verdicts, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from twinloop.episode import Array, Episode, Outcome
from twinloop.errors import InvalidTwin, WrongUse
from twinloop.experts.kinematics import Arm
from twinloop.generation.perceived import POSE, read_perceived
from twinloop.measure.trace import find_stretches
from twinloop.measure.tracker import Track
from twinloop.tasks import Cell, make_cell
from twinloop.twins import Twin

STOPPED_FRACTION = 0.05
"""A gripper that stops this fraction of its range before its command has something between its fingers."""

CARRIED_M = 0.015
"""A tool this much higher than where the gripper closed carries what it holds."""

GRASPED_M = 0.08
"""A gripper that closes further away from the object closes on something else."""

NEAR_M = 0.12
"""An object whose distance to the tool is larger was not moved by the robot."""

START_ROWS = 10
FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class Run:
    """One real episode: readings and commands (T, actuators), the perceived object (T, 3) and its rotation columns (T, 6).

    `effort`, `place`, `columns` and `target` are None where they were not recorded. `tool` (T, 3) and `frame` (T, 3, 3)
    (columns x, y, z) are where the arm's readings say that the tool is. `closed` is the command that closes the gripper all the
    way, `span` how far it opens from there.
    """

    id: str
    time_s: Array
    position: Array
    velocity: Array
    action: Array
    effort: Array | None
    place: Array | None
    columns: Array | None
    target: Array | None
    tool: Array | None
    frame: Array | None
    gripper: int | None
    closed: float
    span: float
    success: bool | None
    failure: str | None
    order: float

    def __len__(self) -> int:
        return len(self.time_s)

    @cached_property
    def holding(self) -> Array:
        """When (T,) the gripper is commanded to close further than it gets, and has stopped."""
        if self.gripper is None:
            return np.zeros(len(self), dtype=bool)
        at, commanded = self.position[:, self.gripper], self.action[:, self.gripper]
        rows = np.arange(len(self))
        back, ahead = np.maximum(rows - 5, 0), np.minimum(rows + 5, len(self) - 1)
        moving = np.abs(at[ahead] - at[back]) > 0.5 * STOPPED_FRACTION * self.span
        return np.asarray((at - commanded > STOPPED_FRACTION * self.span) & ~moving)

    @cached_property
    def carrying(self) -> Array:
        """When (T,) the tool is higher than where the gripper closed around the object, and the object came along.

        An object that is not seen while the hand is in front of it stays, exactly, where it was; that counts as carried.
        """
        made = np.zeros(len(self), dtype=bool)
        if self.tool is None or self.place is None:
            return made
        for first, last in find_stretches(self.holding):
            rise = self.tool[first:last, 2] - self.tool[first, 2]
            seen = self.place[first:last, 2] - self.place[first, 2]
            near = np.linalg.norm(self.place[first] - self.tool[first]) < GRASPED_M
            made[first:last] = near & (rise > CARRIED_M) & ((seen > 0.5 * rise) | (seen == 0.0))
        return made

    @cached_property
    def apart(self) -> Array:
        """When (T,) the tool has not yet been near the object."""
        if self.place is None or self.tool is None:
            return np.zeros(len(self), dtype=bool)
        near = np.linalg.norm(self.place - self.tool, axis=1) < NEAR_M
        first = int(np.argmax(near)) if near.any() else len(self)
        return np.arange(len(self)) < first

    @cached_property
    def track(self) -> Track | None:
        """The perceived object next to the tool; None where either is not known."""
        if self.place is None or self.tool is None:
            return None
        return Track(self.time_s, self.place, self.tool, self.carrying)

    def start(self, rows: Array) -> Array:
        """What a signal (T, ...) read at the start: the median of the first readings."""
        return np.asarray(np.median(rows[:START_ROWS], axis=0))


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """What is known: the policy's runs, other recordings of the robot, and how every run ended.

    Runs that ended before there was anything to measure are in `outcomes` only.
    """

    twin: Twin
    cell: Cell
    runs: tuple[Run, ...]
    others: tuple[Run, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def all(self) -> tuple[Run, ...]:
        """Runs of the policy and recordings made for measuring."""
        return (*self.runs, *self.others)

    @property
    def judged(self) -> tuple[Outcome, ...]:
        """Outcomes of the judged runs."""
        return tuple(outcome for outcome in self.outcomes if outcome.success is not None)


def read_evidence(twin: Twin, real: Iterable[Episode], others: Iterable[Episode] = ()) -> RunEvidence:
    """Bring recordings into the twin's order of actuators; refuses recordings that do not fit the twin."""
    cell = make_cell(twin)
    arm = _arm(cell)
    runs, outcomes = [], []
    for episode in real:
        outcomes.append(episode.outcome)
        if len(episode) >= FEWEST_ROWS:
            runs.append(_read(cell, arm, episode, len(outcomes)))
    return RunEvidence(
        twin,
        cell,
        tuple(runs),
        tuple(
            _read(cell, arm, episode, k) for k, episode in enumerate(others) if len(episode) >= FEWEST_ROWS
        ),
        tuple(outcomes),
    )


def seen_in_time(evidence: RunEvidence, late_s: float) -> RunEvidence:
    """The same evidence with the perceived object put back to when it was where it is seen."""

    def put_back(run: Run) -> Run:
        if run.place is None:
            return run
        at = run.time_s + late_s
        place = np.stack([np.interp(at, run.time_s, column) for column in run.place.T], axis=1)
        return replace(run, place=place)

    if late_s <= 0.0:
        return evidence
    return replace(
        evidence,
        runs=tuple(put_back(run) for run in evidence.runs),
        others=tuple(put_back(run) for run in evidence.others),
    )


def _arm(cell: Cell) -> Arm | None:
    try:
        return Arm(cell) if "tool" in cell.twin.roles else None
    except InvalidTwin:
        return None


def _read(cell: Cell, arm: Arm | None, episode: Episode, order: int) -> Run:
    action = _per_actuator(cell, episode, "action")
    position = _per_actuator(cell, episode, "observation.state")
    time_s = np.asarray(episode.time_s, np.float64)
    if not (np.isfinite(action).all() and np.isfinite(position).all()):
        raise WrongUse(
            f"episode {episode.id} holds numbers that are not finite",
            remedy="`twinloop check` says where; repair or leave out the episode",
        )
    velocity = (
        _per_actuator(cell, episode, "observation.velocity")
        if "observation.velocity" in episode.signals
        else np.gradient(position, time_s, axis=0)
    )
    effort = (
        _per_actuator(cell, episode, "observation.effort")
        if "observation.effort" in episode.signals
        else None
    )
    scene = _scene(episode)
    pose = arm.tool_pose(position[:, arm.actuators]) if arm is not None else None
    gripper = cell.gripper
    closed, widest = (
        (0.0, 1.0)
        if gripper is None
        else (float(cell.control_low[gripper]), float(cell.control_high[gripper]))
    )
    return Run(
        id=episode.id,
        time_s=time_s,
        position=position,
        velocity=velocity,
        action=action,
        effort=effort,
        place=scene.get("place"),
        columns=scene.get("columns"),
        target=scene.get("target"),
        tool=None if pose is None else pose.place,
        frame=None if pose is None else np.stack([pose.x, pose.y, pose.z], axis=2),
        gripper=gripper,
        closed=closed,
        span=widest - closed,
        success=episode.success,
        failure=episode.outcome.failure,
        order=float(order),
    )


def _per_actuator(cell: Cell, episode: Episode, name: str) -> Array:
    rows = episode.signals.get(name)
    if rows is None or np.asarray(rows).reshape(len(episode), -1).shape[1] != len(cell.actuators):
        raise WrongUse(
            f"episode {episode.id} does not fit twin {cell.twin.name!r}: {name}",
            got="nothing"
            if rows is None
            else f"{np.asarray(rows).reshape(len(episode), -1).shape[1]} numbers",
            expected=f"{len(cell.actuators)}: {', '.join(cell.actuators)}",
            remedy="diagnose with the twin of the robot that was recorded",
        )
    return np.asarray(rows, np.float64).reshape(len(episode), -1)


def _scene(episode: Episode) -> dict[str, Array]:
    parts = {"place": POSE[:3], "columns": POSE[3:], "target": ("target.x", "target.y", "target.z")}
    found = {part: read_perceived(episode, names) for part, names in parts.items()}
    return {part: rows for part, rows in found.items() if rows is not None}
