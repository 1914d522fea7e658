"""How a twin's bodies moved in an episode: the recording as its sensors saw it, and the twin's own replay of its commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.engines.geometry import Geometry, body_poses, read_geometry
from twinloop.episode import Array, Episode
from twinloop.errors import GenerationError, WrongUse
from twinloop.generation.open_loop import replay_actions
from twinloop.generation.perceived import TARGET, read_object_poses, read_perceived
from twinloop.generation.record import find_stored_twin
from twinloop.records import NumberArray, Record, derived, plain
from twinloop.tasks import Cell, make_cell
from twinloop.tasks.joint_names import find_joint_names
from twinloop.tasks.place import start_at_rest
from twinloop.twins import Twin

MOST_ROWS = 300
"""Rows of a motion: with more, a viewer would draw several between two frames of its screen."""


@dataclass(frozen=True, eq=False)
class Motion(Record):
    """Poses over time of the bodies that move: `position` (T, bodies, 3) in m, `quaternion` (T, bodies, 4), w first, at `time_s` (T,)."""

    bodies: tuple[str, ...]
    time_s: NumberArray
    position: NumberArray
    quaternion: NumberArray


@dataclass(frozen=True, eq=False)
class ReplayedSignal:
    """One recorded number and the twin's, (T,) at the times of the motion."""

    name: str
    unit: str
    recorded: NumberArray
    replayed: NumberArray

    @derived
    def rms_error(self) -> float:
        """Root mean square of twin minus recording, in the unit."""
        return float(np.sqrt(np.mean((self.replayed - self.recorded) ** 2)))


@dataclass(frozen=True, eq=False)
class MotionPair(Record):
    """An episode as recorded and as its twin replays it; `replayed` is None where it has no actions that the twin can take.

    `signals` compares the joints' positions and where the object was seen; `reason` says why there is no replay.
    """

    twin: str
    twin_version: str
    episode: str
    recorded: Motion
    replayed: Motion | None = None
    signals: tuple[ReplayedSignal, ...] = ()
    reason: str = ""
    draw: Mapping[str, float | str] = field(default_factory=dict)


def read_motion(episode: Episode, twin: Twin, values: Mapping[str, float | str] | None = None) -> Motion:
    """Compute from its readings how the twin's bodies moved in an episode.

    Args:
        episode: The recording; joints that it does not name stay at rest.
        twin: The twin of the robot that was recorded.
        values: Values of the twin's parameters, such as the draw of a simulated episode.

    Returns:
        Poses at the recorded times, at most `MOST_ROWS` of them, spread evenly.

    Raises:
        WrongUse: The twin has nothing that the recording names.
    """
    cell = make_cell(twin)
    rows = np.unique(np.linspace(0, len(episode) - 1, min(len(episode), MOST_ROWS)).astype(int))
    states = recorded_states(cell, episode, rows, values)
    if not (states.jointed or states.placed):
        raise WrongUse(
            f"episode {episode.id} does not fit twin {twin.name!r}",
            got=", ".join(signal.name for signal in episode.schema.signals),
            expected="observation.state with the joints' names, or the pose of the object",
        )
    qpos, mocap = states.qpos, states.mocap
    position, quaternion = body_poses(twin, qpos, mocap, values)
    moving = _moving(cell, position, quaternion)
    names = tuple(str(cell.model.body(int(body)).name) for body in moving)
    since = np.asarray(episode.time_s, np.float64)[rows] - float(episode.time_s[0])
    return Motion(
        names, np.round(since, 4), np.round(position[:, moving], 4), np.round(quaternion[:, moving], 4)
    )


@dataclass(frozen=True, eq=False)
class RecordedStates:
    """States of a twin as recorded: `qpos` (T, nq) and `mocap` (T, nmocap, 3); whether joints, and the object's pose, are among it."""

    qpos: Array
    mocap: Array
    jointed: bool
    placed: bool


def recorded_states(
    cell: Cell, episode: Episode, rows: Array, values: Mapping[str, float | str] | None = None
) -> RecordedStates:
    """States of a twin at rows (T,) of an episode; what the recording does not name stays at rest."""
    rest = start_at_rest(cell, {name: np.array([value]) for name, value in (values or {}).items()}, 1)
    qpos, mocap = np.tile(rest.qpos, (len(rows), 1)), np.tile(rest.mocap_pos, (len(rows), 1, 1))
    jointed, placed = set_joints(cell, episode, rows, qpos), _set_object(cell, episode, rows, qpos)
    target = read_perceived(episode, TARGET)
    if target is not None and cell.target_mocap is not None:
        mocap[:, cell.target_mocap] = target[rows]
    return RecordedStates(qpos, mocap, jointed, placed)


def compare_motion(
    episode: Episode, twin: Twin, values: Mapping[str, float | str] | None = None, *, threads: int = 1
) -> MotionPair:
    """Replay an episode's actions in a twin and put both motions beside each other.

    Args:
        episode: The recording.
        twin: The twin.
        values: Values of its parameters; default: the episode's own draw if this twin generated it, else nominal.
        threads: Simulation threads.

    Returns:
        Both motions, from the same start, and the joints' positions in both.

    Raises:
        WrongUse: The twin has nothing that the recording names.
    """
    draw = own_draw(episode, twin) if values is None else {n: v for n, v in values.items() if twin.has(n)}
    recorded = read_motion(episode, twin, draw)
    pair = MotionPair(twin.name, twin.version, episode.id, recorded, draw=draw)
    try:
        again = replay_actions(episode, twin, draw, threads=threads).replayed
    except (WrongUse, GenerationError) as error:
        return replace(pair, reason=error.what)
    replayed = read_motion(again, twin, draw)
    signals = _signals(make_cell(twin), episode, again, np.asarray(recorded.time_s))
    return replace(pair, replayed=replayed, signals=signals)


def own_draw(episode: Episode, twin: Twin) -> dict[str, float | str]:
    """The values of a twin's parameters in an episode that it generated; none for any other episode."""
    origin = episode.provenance
    if origin.twin_hash != twin.content_hash:
        return {}
    return {name: value for name, value in origin.draw.items() if twin.has(name)}


def find_episode_twin(dataset: Dataset, episode: Episode, otherwise: Twin | None = None) -> Twin:
    """Find the twin to show an episode with: the one that generated it, or else the robot's.

    Args:
        dataset: The episode's dataset, which holds the twins that generated its episodes.
        episode: The episode.
        otherwise: The robot's twin, for recorded episodes.

    Returns:
        The twin.

    Raises:
        WrongUse: The episode was recorded, and no twin is given; or the twin that generated it is not known.
    """
    origin = episode.provenance
    if origin.source == "sim" and origin.twin_hash is not None:
        return find_stored_twin(dataset.root, origin.twin_hash, origin.twin or "unnamed")
    if otherwise is None:
        raise WrongUse(
            f"no twin is named for episode {episode.id}", remedy="name the robot's twin: --twin NAME|FOLDER"
        )
    return otherwise


def write_scene(file: Path, twin: Twin, motion: MotionPair | None = None) -> Geometry:
    """Write a twin's geometry, and the motions of an episode, as JSON.

    Args:
        file: The file.
        twin: The twin.
        motion: What `compare_motion` found; the geometry is then that of the episode's draw.

    Returns:
        The geometry.
    """
    geometry = read_geometry(twin, motion.draw if motion else None)
    content = {"geometry": plain(geometry), "motion": motion.as_json() if motion else None}
    write_atomically(file, json.dumps(content).encode())
    return geometry


def set_joints(cell: Cell, episode: Episode, rows: Array, qpos: Array) -> bool:
    """Write recorded positions of actuators and joints into qpos (T, nq); False if there are none."""
    if "observation.state" not in episode.signals:
        return False
    signal, names = episode.schema.signal("observation.state"), find_joint_names(cell).names
    values = np.asarray(episode.signals[signal.name], np.float64).reshape(len(episode), -1)[rows]
    places = find_joint_names(cell).match(signal.elements, signal.size)
    for column, place in enumerate(places):
        if place is None:
            continue
        if place >= len(cell.actuators):
            qpos[:, cell.model.joint(names[place]).qposadr[0]] = values[:, column]
            continue
        weights = cell.weights[place]
        for weight, address in zip(weights, cell.qpos_addresses[place], strict=True):
            if weight:
                qpos[:, address] = values[:, column] * weight / float(weights @ weights)
    return any(place is not None for place in places)


def _set_object(cell: Cell, episode: Episode, rows: Array, qpos: Array) -> bool:
    """Write where the object was seen into qpos (T, nq); False if it was not."""
    seen, at = read_object_poses(episode), cell.object_qpos
    if seen is None or at is None:
        return False
    qpos[:, at : at + 3] = seen[0][rows]
    if seen[1] is not None:
        qpos[:, at + 3 : at + 7] = seen[1][rows]
    return True


def _moving(cell: Cell, position: Array, quaternion: Array) -> Array:
    """Bodies that move, and those that an episode may place elsewhere than the twin does."""
    moves = (np.ptp(position, axis=0) > 1e-5).any(axis=1) | (np.ptp(quaternion, axis=0) > 1e-5).any(axis=1)
    placed = (np.asarray(cell.model.body_dofnum) > 0) | (np.asarray(cell.model.body_mocapid) >= 0)
    return np.flatnonzero(moves | placed)


def _signals(cell: Cell, episode: Episode, again: Episode, time_s: Array) -> tuple[ReplayedSignal, ...]:
    """Positions of joints and of the object that both have, at the times of the recorded motion."""
    recorded, replayed = (_readings(cell, one) for one in (episode, again))
    made = []
    for name, (unit, rows) in recorded.items():
        if name in replayed:
            lines = [
                np.round(np.interp(time_s, one.time_s - one.time_s[0], values), 5)
                for one, values in ((episode, rows), (again, replayed[name][1]))
            ]
            made.append(ReplayedSignal(name, unit, lines[0], lines[1]))
    return tuple(made)


def _readings(cell: Cell, episode: Episode) -> dict[str, tuple[str, Array]]:
    """Units and readings (T,) of joints, by the twin's names, and of the object's position."""
    found: dict[str, tuple[str, Array]] = {}
    if "observation.state" in episode.signals:
        signal, names = episode.schema.signal("observation.state"), find_joint_names(cell)
        rows = np.asarray(episode.signals[signal.name], np.float64).reshape(len(episode), -1)
        for column, place in enumerate(names.match(signal.elements, signal.size)):
            if place is not None:
                unit = signal.units[column if len(signal.units) > 1 else 0]
                found[names.names[place]] = (unit, rows[:, column])
    seen = read_object_poses(episode)
    if seen is not None:
        found |= {f"object.{axis}": ("m", seen[0][:, k]) for k, axis in enumerate("xyz")}
    return found
