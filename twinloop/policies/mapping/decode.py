"""The outputs of a foreign policy as commands of our robot, by its interface map.

Everything absolute, or relative to when the chunk was asked for, becomes commands at once. What is relative to the reading of its own
step is kept as it is, in `pending` numbers, until that reading is there: `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from twinloop.episode import Array, Schema
from twinloop.errors import MapError
from twinloop.policies.mapping.arm_pose import ArmPose
from twinloop.policies.mapping.elements import (
    Linear,
    find_elements,
    find_readings,
    find_signal,
    make_linear,
    spread,
)
from twinloop.policies.mapping.encode import make_arm
from twinloop.policies.mapping.interface_map import (
    GripperAction,
    HoldAction,
    IgnoredAction,
    InterfaceMap,
    JointAction,
    PoseAction,
)
from twinloop.policies.mapping.rotations import SIZES, rotation_from_numbers
from twinloop.tasks import make_cell
from twinloop.twins import Twin


@dataclass(frozen=True)
class At:
    """Where n episodes were when a chunk was asked for, in the elements and units of the action: (n, A) each.

    `reading` is then, `before` the command before it, `first` the reading at the start of the episode.
    """

    reading: Array
    before: Array
    first: Array

    def rows(self, chosen: list[int]) -> At:
        """Some of the episodes."""
        return At(self.reading[chosen], self.before[chosen], self.first[chosen])


class _Part(Protocol):
    """Some numbers of an action: `size` of the policy's become commands in our `columns`."""

    size: int
    columns: list[int]
    pending: int

    def decode(self, raw: Array, at: At) -> Array:
        """Commands (n, T, columns) from the policy's numbers (n, T, size); with `pending`, numbers (n, T, pending) instead."""

    def settle(self, pending: Array, reading: Array) -> Array:
        """Commands (n, columns) from pending numbers (n, pending) and the reading (n, A) of this step."""


class ActionDecoder:
    """The actions of a map, resolved against the action of our robot.

    - `size`: numbers of one action of the policy.
    - `pending_size`: numbers of an action between `decode` and `settle`: ours, then those that wait for a reading.
    - `steps`: columns of `pending` that jump rather than glide from one action to the next.
    """

    def __init__(self, interface_map: InterfaceMap, schema: Schema, twin: Twin | None) -> None:
        self._schema, self._twin = schema, twin
        self.action = find_signal(schema, "action", "actions")
        self._readings = find_readings(schema)
        self._parts = [self._resolve(part, f"actions.{i}") for i, part in enumerate(interface_map.actions)]
        self.size = sum(part.size for part in self._parts)
        self.waiting = sum(part.pending for part in self._parts)
        self.pending_size = self.action.size + self.waiting
        relative = any(getattr(part, "relative_to", "nothing") != "nothing" for part in interface_map.actions)
        posed = any(isinstance(part, PoseAction | HoldAction) for part in interface_map.actions)
        self.needs_reading = relative or posed
        self.steps = [
            c for part in self._parts if isinstance(part, _Gripper) and part.snaps for c in part.columns
        ]
        self._require_complete()
        if self.needs_reading and self._readings is None:
            raise MapError(
                "actions: the robot does not report where it is in the elements of its action",
                expected="observation.state with the joints of the action",
            )

    def read(self, state: Array) -> Array:
        """The reading (n, A) in the elements of the action, from `observation.state` (n, size)."""
        return np.asarray(state, np.float64)[:, self._readings]

    def decode(self, raw: Array, at: At) -> Array:
        """Turn chunks of the policy (n, T, size) into pending actions (n, T, pending_size)."""
        made = np.zeros((*raw.shape[:2], self.pending_size))
        column, place = 0, self.action.size
        for part in self._parts:
            decoded = part.decode(np.asarray(raw[..., column : column + part.size], np.float64), at)
            if part.pending:
                made[..., place : place + part.pending] = decoded
            elif part.columns:
                made[..., part.columns] = decoded
            column, place = column + part.size, place + part.pending
        return made

    def settle(self, pending: Array, reading: Array | None) -> Array:
        """Turn pending actions (n, pending_size) into commands (n, A), given the reading (n, A) of their step."""
        action = np.array(pending[:, : self.action.size], np.float64)
        place = self.action.size
        for part in self._parts:
            if part.pending and reading is not None:
                action[:, part.columns] = part.settle(pending[:, place : place + part.pending], reading)
            place += part.pending
        return action

    def _require_complete(self) -> None:
        """Refuse a map in which a number of our action has no source, or two."""
        names = self.action.elements or tuple(map(str, range(self.action.size)))
        covered = [column for part in self._parts for column in part.columns]
        if twice := sorted({names[c] for c in covered if covered.count(c) > 1}):
            raise MapError(f"actions: {', '.join(twice)} is commanded twice")
        if missing := [name for index, name in enumerate(names) if index not in covered]:
            raise MapError(
                f"actions: nothing commands {', '.join(missing)}",
                remedy=f"if the policy has no number for it: - {{hold: [{', '.join(missing)}]}}",
            )

    def _resolve(
        self, part: JointAction | PoseAction | GripperAction | HoldAction | IgnoredAction, place: str
    ) -> _Part:
        if isinstance(part, IgnoredAction):
            return _Ignored(part.ignore)
        if isinstance(part, HoldAction):
            return _Hold(find_elements(self.action, part.hold, place))
        if isinstance(part, GripperAction):
            (column,) = find_elements(self.action, [part.gripper], place)
            return _Gripper(part, column, *self._gripper_ends(part, column, place))
        if isinstance(part, PoseAction):
            arm = make_arm(self._twin, part.pose, place)
            columns = find_elements(self.action, [f"{name}.target" for name in arm.names], place)
            return _Pose(part, arm, columns, place)
        columns = find_elements(self.action, part.elements, place)
        linear = make_linear(self.action, columns, part.unit, part.sign, part.scale, part.offset, place)
        return _Joints(part, columns, linear)

    def _gripper_ends(self, part: GripperAction, column: int, place: str) -> tuple[float, float]:
        """Our commands for closed and open."""
        low, high = np.inf, np.inf
        if self._twin is not None:
            cell = make_cell(self._twin)
            low, high = float(cell.control_low[column]), float(cell.control_high[column])
        closed = part.closed_at if part.closed_at is not None else low
        opened = part.opened_at if part.opened_at is not None else high
        if not (np.isfinite(closed) and np.isfinite(opened)):
            raise MapError(
                f"{place}: our commands for an open and a closed gripper are not known",
                remedy="give opened_at and closed_at, or name the robot's twin",
            )
        return closed, opened


class _Ignored:
    pending = 0

    def __init__(self, size: int) -> None:
        self.size, self.columns = size, list[int]()

    def decode(self, raw: Array, at: At) -> Array:
        return raw[..., :0]

    def settle(self, pending: Array, reading: Array) -> Array:
        return pending


class _Hold:
    size = pending = 0

    def __init__(self, columns: list[int]) -> None:
        self.columns = columns

    def decode(self, raw: Array, at: At) -> Array:
        first = at.first[:, None, self.columns]
        return np.broadcast_to(first, (len(raw), raw.shape[1], len(self.columns)))

    def settle(self, pending: Array, reading: Array) -> Array:
        return pending


class _Joints:
    def __init__(self, part: JointAction, columns: list[int], linear: Linear) -> None:
        self.size, self.columns = len(columns), columns
        self._relative_to, self._linear = part.relative_to, linear
        self.pending = len(columns) if part.relative_to == "reading" else 0

    def decode(self, raw: Array, at: At) -> Array:
        if self._relative_to == "nothing":
            return self._linear.invert(raw)
        moves = self._linear.invert_difference(raw)
        if self._relative_to == "chunk_start":
            return np.asarray(at.reading[:, None, self.columns] + moves)
        if self._relative_to == "previous":
            return np.asarray(at.before[:, None, self.columns] + np.cumsum(moves, axis=1))
        return moves

    def settle(self, pending: Array, reading: Array) -> Array:
        return np.asarray(reading[:, self.columns] + pending)


class _Gripper:
    size, pending = 1, 0

    def __init__(self, part: GripperAction, column: int, closed: float, opened: float) -> None:
        self.columns, self.snaps = [column], part.threshold is not None
        self._part, self._closed, self._opened = part, closed, opened

    def decode(self, raw: Array, at: At) -> Array:
        part = self._part
        if part.threshold is None:
            opening = np.clip((raw - part.closed) / (part.open - part.closed), 0.0, 1.0)
        else:
            opening = ((raw > part.threshold) == (part.open > part.closed)).astype(np.float64)
        return np.asarray(self._closed + opening * (self._opened - self._closed))

    def settle(self, pending: Array, reading: Array) -> Array:
        return pending


class _Pose:
    def __init__(self, part: PoseAction, arm: ArmPose, columns: list[int], place: str) -> None:
        self.size = 3 + (SIZES[part.rotation] if part.rotation else 0)
        self.columns, self._part, self._arm = columns, part, arm
        self.pending = self.size if part.relative_to == "reading" else 0
        self._scale = np.array(spread(part.scale, 3, f"{place}.scale"))
        self._turn_scale = np.array(spread(part.rotation_scale, 3, f"{place}.rotation_scale"))

    def decode(self, raw: Array, at: At) -> Array:
        if self.pending:
            return raw
        count, steps = raw.shape[:2]
        positions, rotations = self._goals(raw, at)
        start = np.repeat(at.reading[:, self.columns], steps, axis=0)
        solved = self._arm.inverse(start, positions.reshape(-1, 3), rotations.reshape(-1, 3, 3))
        return solved.joints.reshape(count, steps, len(self.columns))

    def settle(self, pending: Array, reading: Array) -> Array:
        joints = reading[:, self.columns]
        moves, turns = self._numbers(pending[:, None])
        positions, rotations = self._moved(*self._arm.forward(joints), moves[:, 0], turns[:, 0])
        return self._arm.inverse(joints, positions, rotations).joints

    def _goals(self, raw: Array, at: At) -> tuple[Array, Array]:
        """Positions (n, T, 3) and rotations (n, T, 3, 3) in the base."""
        moves, turns = self._numbers(raw)
        relative_to = self._part.relative_to
        before = at.before if relative_to == "previous" else at.reading
        position, rotation = self._arm.forward(before[:, self.columns])
        if relative_to == "nothing":
            kept = np.broadcast_to(rotation[:, None], turns.shape)
            return moves, turns if self._part.rotation else kept
        positions, rotations = np.empty_like(moves), np.empty_like(turns)
        for step in range(raw.shape[1]):
            moved = self._moved(position, rotation, moves[:, step], turns[:, step])
            positions[:, step], rotations[:, step] = moved
            if relative_to == "previous":
                position, rotation = moved
        return positions, rotations

    def _numbers(self, raw: Array) -> tuple[Array, Array]:
        """Positions (n, T, 3) and rotations (n, T, 3, 3) as the policy means them; no turn where it has no rotation."""
        positions, layout = raw[..., :3] / self._scale, self._part.rotation
        if layout is None:
            return positions, np.broadcast_to(np.eye(3), (*raw.shape[:2], 3, 3))
        numbers = raw[..., 3:]
        if layout == "rotation_vector" or layout.startswith("euler"):
            numbers = numbers / self._turn_scale
        turns = rotation_from_numbers(numbers.reshape(-1, SIZES[layout]), layout)
        return positions, turns.reshape(*raw.shape[:2], 3, 3)

    def _moved(self, position: Array, rotation: Array, move: Array, turn: Array) -> tuple[Array, Array]:
        """A pose (n, 3), (n, 3, 3) after a move and a turn in the axes of the base or of the tool."""
        if self._part.frame == "base":
            return position + move, turn @ rotation
        return position + (rotation @ move[:, :, None])[:, :, 0], rotation @ turn


def resample(chunk: Array, ratio: float, jumping: list[int]) -> Array:
    """A chunk (n, T, k) at another rate: (n, floor(T * ratio), k), at least one action.

    Numbers glide from one action to the next and stay at the last; those in `jumping` columns change only when their time has come.

    Args:
        chunk: Actions at the policy's rate.
        ratio: The robot's rate over the policy's.
        jumping: Columns that are not interpolated.
    """
    if ratio == 1.0:
        return chunk
    last = chunk.shape[1] - 1
    times = np.arange(max(1, int(chunk.shape[1] * ratio + 1e-9))) / ratio
    before = np.minimum((times + 1e-9).astype(np.int64), last)
    weight = np.clip(times - before, 0.0, 1.0)[None, :, None]
    made = chunk[:, before] + weight * (chunk[:, np.minimum(before + 1, last)] - chunk[:, before])
    made[..., jumping] = chunk[:, before][..., jumping]
    return np.asarray(made)


def read_output(answer: Mapping[str, Array], interface_map: InterfaceMap) -> list[Array]:
    """The outputs that hold the actions, in the map's order."""
    names = interface_map.output or _only_output(answer)
    for name in names:
        if name not in answer:
            raise MapError(
                f"the policy gives nothing called {name!r}",
                available=sorted(answer),
                remedy="correct `output` in the map",
            )
    return [np.asarray(answer[name]) for name in names]


def _only_output(answer: Mapping[str, Array]) -> tuple[str, ...]:
    if len(answer) == 1:
        return tuple(answer)
    if "actions" in answer:
        return ("actions",)
    raise MapError(
        "the policy gives several outputs",
        available=sorted(answer),
        remedy="say which holds the actions: `output`",
    )
