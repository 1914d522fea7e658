"""`Recording`: a real episode for identification, with stamped commands, stamped readings, and their places in the twin.

Readings are never resampled: the twin's prediction is brought to the stamps of the recording, not the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.interpolate import PchipInterpolator

from twinloop.episode import Array, Episode, Signal
from twinloop.errors import WrongUse
from twinloop.measure.noise import noise_of
from twinloop.measure.trace import SMOOTHING_ROWS, adaptive_slopes, slopes
from twinloop.tasks import Cell
from twinloop.tasks.joint_names import actuator_rows, bare_name, find_joint_names
from twinloop.tasks.place import start_at_rest

Kind = Literal["position", "velocity", "place", "turn"]

MOST_LOST = 5
"""Rows in a row that a log may miss while the robot's loop went on."""
ENABLED = "observation.torque_enable"
"""The signal that says whether servos are on."""


@dataclass(frozen=True)
class Channel:
    """One recorded number and where the twin has it.

    `position` and `velocity` are of a joint or actuator: the sum of `weights * state[addresses]`. `place` is a coordinate
    of the object, `turn` a component of its rotation vector away from the recorded orientation.
    """

    name: str
    kind: Kind
    unit: str
    addresses: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    actuator: int | None = None


def find_travel(cell: Cell, channels: Sequence[Channel]) -> Array:
    """How far each channel may go (channels,): a joint's range, a turn where it has none; 0 for what is no joint's place."""
    made = []
    for channel in channels:
        far = 0.0
        if channel.kind == "position":
            for address, weight in zip(channel.addresses, channel.weights, strict=True):
                joint = int(np.flatnonzero(np.asarray(cell.model.jnt_qposadr) == address)[0])
                low, high = cell.model.jnt_range[joint]
                far += abs(weight) * float(high - low if high > low else 2.0 * np.pi)
        made.append(far)
    return np.array(made)


@dataclass(frozen=True, eq=False)
class Recording:
    """One episode: readings (T, channels) at `time_s` (T,), commands (C, actuators) at `command_s` (C,), starts of windows.

    `qpos` and `qvel` (T, ...) are the twin's state at every row, from which windows start. `given` holds parameters whose
    values the recording contains, such as a gain that was set for this run. `enabled` (T,) says when the
    servos were on; None is always. `speed_error` (T, channels) is how wrong speeds read off positions may be, 0 for others.
    """

    id: str
    time_s: Array
    readings: Array
    command_s: Array
    commands: Array
    qpos: Array
    qvel: Array
    given: Mapping[str, float]
    enabled: Array | None = None
    speed_error: Array | None = None

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def row_commands(self) -> Array:
        """The command of every row (T, actuators): without those that were put between rows where some were lost."""
        if len(self.commands) == len(self):
            return self.commands
        return np.asarray(self.commands[np.searchsorted(self.command_s, self.time_s)])


def find_channels(cell: Cell, episode: Episode, wanted: Sequence[str] | None = None) -> tuple[Channel, ...]:
    """The recorded numbers that the twin can predict; `wanted` names signals, by default positions and poses."""
    names = (
        tuple(wanted) if wanted else ("observation.state", "observation.position", "observation.orientation")
    )
    found: list[Channel] = []
    for name in names:
        if name not in episode.signals:
            if wanted:
                episode.schema.signal(name)
            continue
        found += _channels_of(cell, episode.schema.signal(name))
    if not found and not wanted:
        found = _perceived_object(cell, episode)
    if not found:
        raise WrongUse(
            f"nothing in the recording can be predicted by twin {cell.twin.name!r}",
            got=", ".join(signal.name for signal in episode.schema.signals),
            expected="observation.state with the joints' names, or observation.position and .orientation of the object",
            remedy="name the joints in the map's `elements` as the twin does; `twinloop twin show` lists them",
        )
    return tuple(found)


def unknown_joints(cell: Cell, episode: Episode) -> tuple[str, ...]:
    """Joints whose positions were recorded and which the twin does not have: is it the right twin?"""
    if "observation.state" not in episode.signals:
        return ()
    signal = episode.schema.signal("observation.state")
    places = zip(signal.elements, _names_in_twin(cell, signal), strict=False)
    return tuple(bare_name(element) for element, name in places if name is None)


def read_recording(
    cell: Cell, episode: Episode, channels: Sequence[Channel], given: Mapping[str, str] | None = None
) -> Recording:
    """Convert an episode for prediction; `given` maps parameters to the signals that hold their values."""
    time_s = np.asarray(episode.time_s, np.float64)
    readings = np.stack(
        [_unwrapped(cell, channel, _column(episode, cell, channel)) for channel in channels], axis=1
    )
    commands, command_s = _commands(cell, episode, time_s)
    qpos, qvel, speed_error = _states(cell, episode, channels, time_s, readings)
    known = {}
    for parameter, signal in (given or {}).items():
        cell.twin.parameter(parameter)
        episode.schema.signal(signal)
        known[parameter] = float(np.asarray(episode.signals[signal]).reshape(len(time_s), -1)[0, 0])
        cell.twin.parameter(parameter).check(known[parameter])
    enabled = _enabled(episode)
    return Recording(
        episode.id, time_s, readings, command_s, commands, qpos, qvel, known, enabled, speed_error
    )


def _enabled(episode: Episode) -> Array | None:
    """When servos were on (T,), if the recording says that they were not always."""
    if ENABLED not in episode.signals:
        return None
    on = np.asarray(np.all(np.asarray(episode.signals[ENABLED]).reshape(len(episode), -1), axis=1))
    return None if on.all() else on


def _channels_of(cell: Cell, signal: Signal) -> list[Channel]:
    if signal.name in ("observation.position", "observation.orientation"):
        if cell.object_qpos is None:
            return []
        if signal.name == "observation.position":
            return [_place(axis) for axis in range(3)]
        return [Channel(f"object.turn_{axis}", "turn", "rad") for axis in "xyz"]
    kind: Kind = "velocity" if signal.name == "observation.velocity" else "position"
    return [
        _of_joint(cell, name, kind, signal.units[index if len(signal.units) > 1 else 0])
        for index, name in enumerate(_names_in_twin(cell, signal))
        if name is not None
    ]


def _names_in_twin(cell: Cell, signal: Signal) -> list[str | None]:
    """What the twin calls each element of a signal; None for what it does not have."""
    known = find_joint_names(cell)
    places = known.match(signal.elements, signal.size)
    return [None if place is None else known.names[place] for place in places]


def _of_joint(cell: Cell, name: str, kind: Kind, unit: str) -> Channel:
    model = cell.model
    label = name if kind == "position" else f"{name}.velocity"
    if name in cell.actuators:
        index = cell.actuators.index(name)
        table = cell.qpos_addresses if kind == "position" else cell.dof_addresses
        return Channel(
            label, kind, unit, tuple(table[index].tolist()), tuple(cell.weights[index].tolist()), index
        )
    joint = model.joint(name).id
    address = int(model.jnt_qposadr[joint] if kind == "position" else model.jnt_dofadr[joint])
    return Channel(label, kind, unit, (address,), (1.0,))


def _perceived_object(cell: Cell, episode: Episode) -> list[Channel]:
    """The object as a policy perceives it, where nothing better was recorded."""
    if cell.object_qpos is None or "observation.environment_state" not in episode.signals:
        return []
    elements = episode.schema.signal("observation.environment_state").elements
    return [_place(axis) for axis in range(3) if f"object.{'xyz'[axis]}" in elements]


def _place(axis: int) -> Channel:
    return Channel(f"object.{'xyz'[axis]}", "place", "m")


def _column(episode: Episode, cell: Cell, channel: Channel) -> Array:
    """The readings of one channel (T,). A rotation away from itself is nothing: `turn` channels read zero."""
    if channel.kind == "turn":
        return np.zeros(len(episode))
    if channel.kind == "place":
        axis = channel.name[-1]
        for name, element in (
            ("observation.position", axis),
            ("observation.environment_state", f"object.{axis}"),
        ):
            if name in episode.signals:
                elements = episode.schema.signal(name).elements
                index = elements.index(element) if element in elements else "xyz".index(axis)
                return np.asarray(episode.signals[name], np.float64)[:, index]
    name = "observation.velocity" if channel.kind == "velocity" else "observation.state"
    signal = episode.schema.signal(name)
    names = _names_in_twin(cell, signal)
    wanted = channel.name.removesuffix(".velocity")
    return np.asarray(episode.signals[name], np.float64).reshape(len(episode), -1)[:, names.index(wanted)]


def _unwrapped(cell: Cell, channel: Channel, column: Array) -> Array:
    """A joint that turns freely is often logged within one turn; the twin's angle goes on."""
    if channel.kind != "position" or channel.unit != "rad":
        return column
    joint = int(np.flatnonzero(np.asarray(cell.model.jnt_qposadr) == channel.addresses[0])[0])
    return column if cell.model.jnt_limited[joint] else np.unwrap(column)


def _commands(cell: Cell, episode: Episode, time_s: Array) -> tuple[Array, Array]:
    """Commands in the twin's order and the time each was sent."""
    if not cell.actuators:
        return np.zeros((1, 0)), time_s[:1]
    name = "action.applied" if "action.applied" in episode.signals else "action"
    if name not in episode.signals:
        raise WrongUse(f"episode {episode.id} has no commands", expected="a signal called 'action'")
    signal = episode.schema.signal(name)
    rows = actuator_rows(cell, signal, episode.signals[name], start_at_rest(cell, {}, 1).ctrl[0])
    if rows is None:
        raise WrongUse(
            f"the commands of episode {episode.id} do not fit twin {cell.twin.name!r}",
            got=f"{signal.size}: {', '.join(signal.elements) or 'without names'}",
            expected=f"{len(cell.actuators)}: {', '.join(cell.actuators)}",
            remedy="name the command's elements in the map as the twin names its actuators",
        )
    return with_lost_commands(rows, time_s)


def with_lost_commands(commands: Array, time_s: Array) -> tuple[Array, Array]:
    """Commands (C, actuators) and their times (C,), with those of lost rows put back between their neighbours.

    A loop goes on when its log misses a few rows. Holding the command before them would be late for as long, and a delay found from
    such logs too short by that. A pause longer than `MOST_LOST` rows is none of these: the command before it is held.
    """
    if len(time_s) < 3:
        return commands, time_s
    gaps = np.diff(time_s)
    lost = np.round(gaps / np.median(gaps)).astype(int) - 1
    lost = np.where((lost > 0) & (lost <= MOST_LOST), lost, 0)
    if not lost.any():
        return commands, time_s
    place = np.concatenate([np.arange(n + 1) / (n + 1) + row for row, n in enumerate(lost)] + [[len(lost)]])
    rows = np.arange(len(time_s))
    return PchipInterpolator(rows, commands)(place), np.interp(place, rows, time_s)


def _states(
    cell: Cell, episode: Episode, channels: Sequence[Channel], time_s: Array, readings: Array
) -> tuple[Array, Array, Array]:
    """Positions and speeds of the twin at every row, and how wrong speeds may be that are read off positions."""
    model, count = cell.model, len(time_s)
    qpos = np.tile(np.asarray(model.qpos0), (count, 1))
    for joint, position in cell.twin.home.items():
        qpos[:, model.joint(joint).qposadr[0]] = position
    qvel = np.zeros((count, model.nv))
    noise, error = np.nan_to_num(noise_of(readings)), np.zeros(readings.shape)
    spoken = {c.name.removesuffix(".velocity") for c in find_velocities(cell, episode)}
    for index, channel in enumerate(channels):
        if channel.kind != "position":
            continue
        dofs = _dofs(cell, channel)
        if channel.name in spoken:
            speed = _column(episode, cell, Channel(f"{channel.name}.velocity", "velocity", ""))
        else:
            speed, error[:, index] = adaptive_slopes(time_s, readings[:, index], noise[index])
        scale = sum(weight * weight for weight in channel.weights)
        for address, dof, weight in zip(channel.addresses, dofs, channel.weights, strict=True):
            if weight:
                qpos[:, address] = readings[:, index] * weight / scale
                qvel[:, dof] = speed * weight / scale
    if cell.object_qpos is not None and cell.object_dof is not None:
        _object_states(cell, episode, time_s, qpos, qvel)
    return qpos, qvel, error


def find_velocities(cell: Cell, episode: Episode) -> list[Channel]:
    """Speeds of joints that were recorded."""
    if "observation.velocity" not in episode.signals or not (cell.actuators or cell.object_qpos is None):
        return []
    return [
        c for c in _channels_of(cell, episode.schema.signal("observation.velocity")) if c.kind == "velocity"
    ]


def _dofs(cell: Cell, channel: Channel) -> tuple[int, ...]:
    if channel.actuator is not None:
        return tuple(cell.dof_addresses[channel.actuator].tolist())
    joint = int(np.flatnonzero(np.asarray(cell.model.jnt_qposadr) == channel.addresses[0])[0])
    return (int(cell.model.jnt_dofadr[joint]),)


def _object_states(cell: Cell, episode: Episode, time_s: Array, qpos: Array, qvel: Array) -> None:
    """MuJoCo's free joint: speed in the world's frame, turning rate in the body's."""
    at, dof = cell.object_qpos, cell.object_dof
    assert at is not None and dof is not None
    signals = {name: np.asarray(rows, np.float64) for name, rows in episode.signals.items()}
    if "observation.position" not in signals:
        return
    qpos[:, at : at + 3] = signals["observation.position"]
    velocity = signals.get("observation.velocity")
    for axis in range(3):
        recorded = velocity is not None and velocity.shape[1:] == (3,) and not cell.actuators
        qvel[:, dof + axis] = (
            velocity[:, axis] if recorded and velocity is not None else slopes(time_s, qpos[:, at + axis])
        )
    if "observation.orientation" in signals:
        quat = signals["observation.orientation"]
        qpos[:, at + 3 : at + 7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    if "observation.omega" in signals:
        qvel[:, dof + 3 : dof + 6] = signals["observation.omega"]
    elif "observation.orientation" in signals:
        qvel[:, dof + 3 : dof + 6] = turning_rates(time_s, qpos[:, at + 3 : at + 7])


def turning_rates(time_s: Array, quat: Array) -> Array:
    """Turning rate in the body's own frame (T, 3) from orientations (T, 4), w first."""
    reach = min(SMOOTHING_ROWS // 2, (len(quat) - 1) // 2)
    if reach < 1:
        return np.zeros((len(quat), 3))
    middle = np.clip(np.arange(len(quat)), reach, len(quat) - 1 - reach)
    turn = rotation_between(quat[middle - reach], quat[middle + reach])
    return np.asarray(turn / (time_s[middle + reach] - time_s[middle - reach])[:, None])


def rotation_between(first: Array, second: Array) -> Array:
    """The rotation vector, in the first one's frame, that turns `first` into `second`; quaternions (..., 4), w first."""
    w1, v1 = first[..., :1], -first[..., 1:]
    w2, v2 = second[..., :1], second[..., 1:]
    w = w1 * w2 - np.sum(v1 * v2, axis=-1, keepdims=True)
    v = w1 * v2 + w2 * v1 + np.cross(v1, v2)
    sign = np.where(w < 0.0, -1.0, 1.0)
    w, v = w * sign, v * sign
    size = np.linalg.norm(v, axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(size, w)
    return np.asarray(np.where(size > 1e-12, v / np.maximum(size, 1e-12), 0.0) * angle)
