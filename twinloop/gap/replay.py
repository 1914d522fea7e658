"""The twin's replay of recorded commands, at the recording's own time stamps and seen through a sensor.

Two sensors are of use. Seen through the recording's own (its noise and its step, as measured), a replay differs from the
recording only by what the robot did, so that noise is not taken for friction. Seen through the twin's nominal one, it
differs by what the sensors do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from twinloop.engines.hardware import WALK_S
from twinloop.episode import Array, Episode, Signal
from twinloop.errors import TwinloopError
from twinloop.generation.perceived import POSE, quaternions_of, read_perceived
from twinloop.identification.predict import LOST, Predictor, Window
from twinloop.identification.recording import Channel, Recording, find_channels, read_recording
from twinloop.identification.windows import cut, find_horizon_s, sensor_noise
from twinloop.imperfect import quantize
from twinloop.measure.quantization import resolution_of
from twinloop.tasks import Cell


@dataclass(frozen=True, eq=False)
class RecordingSet:
    """Episodes that the twin can replay: recordings, what their columns are, and which episode each comes from."""

    recordings: tuple[Recording, ...]
    channels: tuple[Channel, ...]
    origin: tuple[int, ...]

    @property
    def samples(self) -> int:
        """Rows in all recordings."""
        return sum(len(recording) for recording in self.recordings)


@dataclass(frozen=True, eq=False)
class TwinReplay:
    """What the twin did with one recording's commands: readings (rows, channels) of both, at the recorded times.

    `rows` are the recording's; `window` numbers the stretch each row belongs to: the twin is put back on the recording
    where a stretch begins.
    """

    recording: Recording
    rows: Array
    window: Array
    real: Array
    twin: Array

    @property
    def time_s(self) -> Array:
        """The time of every row."""
        return np.asarray(self.recording.time_s[self.rows])


def read_all(cell: Cell, episodes: Sequence[Episode], wanted: Sequence[str] | None = None) -> RecordingSet:
    """The episodes as the twin reads them; those that do not fit are left out, and if none does, the first error is raised.

    `wanted` names signals, by default positions and poses.
    """
    shaped = [with_object_pose(episode) for episode in episodes]
    recordings, origin = [], []
    channels: tuple[Channel, ...] = ()
    first_error: TwinloopError | None = None
    for index, episode in enumerate(shaped):
        try:
            channels = channels or find_channels(cell, episode, wanted)
            recording = read_recording(cell, episode, channels)
        except TwinloopError as error:
            first_error = first_error or error
            continue
        if len(recording) >= 4 and np.isfinite(recording.readings).all():
            recordings.append(recording)
            origin.append(index)
    if not recordings and first_error is not None:
        raise first_error
    return RecordingSet(tuple(recordings), channels, tuple(origin))


def with_object_pose(episode: Episode) -> Episode:
    """The episode with the perceived object as `observation.position` and `.orientation`, where it has only the former.

    Replays then start with the object where it was seen.
    """
    seen = None if "observation.position" in episode.signals else read_perceived(episode, POSE)
    if seen is None:
        return episode
    signals = (
        Signal("observation.position", (3,), ("m",), "float64", ("x", "y", "z")),
        Signal("observation.orientation", (4,), ("1",), "float64"),
    )
    schema = replace(episode.schema, signals=(*episode.schema.signals, *signals), cameras=())
    poses = (seen[:, :3], quaternions_of(seen[:, 3:]))
    values = {**episode.signals, **{s.name: rows for s, rows in zip(signals, poses, strict=True)}}
    return replace(episode, schema=schema, signals=values, frames={})


def replay_all(cell: Cell, readable: RecordingSet, horizon_s: float | None, threads: int) -> list[TwinReplay]:
    """Replay every recording; in windows of `horizon_s`, or whole."""
    predictor = Predictor(cell, readable.recordings, readable.channels, (), threads)
    windows = cut(readable.recordings, range(len(readable.recordings)), horizon_s)
    return replay_windows(predictor, windows)


def replay_windows(
    predictor: Predictor, windows: Sequence[Window], values: Mapping[str, Array] | None = None
) -> list[TwinReplay]:
    """Replay these windows, those of one recording joined; windows in which the simulation broke are left out.

    `values` replaces nominal ones, one number each.
    """
    residuals = predictor.residuals(values or {}, windows)[0]
    parts: dict[int, list[tuple[Window, Array]]] = {}
    begin = 0
    for window in windows:
        rows = residuals[begin : begin + len(window)]
        begin += len(window)
        if not np.all(rows == LOST):
            parts.setdefault(window.recording, []).append((window, rows))
    made = []
    for index, kept in sorted(parts.items()):
        recording = predictor.recordings[index]
        rows = np.concatenate([np.arange(window.start, window.stop) for window, _ in kept])
        number = np.concatenate([np.full(len(window), k) for k, (window, _) in enumerate(kept)])
        real = recording.readings[rows]
        made.append(TwinReplay(recording, rows, number, real, real + np.concatenate([r for _, r in kept])))
    return made


def horizon_of(cell: Cell, readable: RecordingSet, threads: int) -> float | None:
    """How long replay may run before errors of its start take over; None: whole episodes."""
    predictor = Predictor(cell, readable.recordings, readable.channels, (), threads)
    return find_horizon_s(predictor, range(len(readable.recordings)))


def through_own_sensor(replay: TwinReplay, rng: np.random.Generator) -> Array:
    """The twin's readings with the recording's own noise and step."""
    noise = sensor_noise([replay.recording])
    seen = replay.twin.copy()
    for index, column in enumerate(replay.recording.readings.T):
        step = resolution_of(column)
        # What counts in steps looks like noise of a third of a step by itself.
        sigma = float(np.sqrt(max(noise[index] ** 2 - step**2 / 12.0, 0.0)))
        seen[:, index] += sigma * rng.standard_normal(len(seen))
        if step:
            seen[:, index] = step * np.rint(seen[:, index] / step)
    return seen


def through_twins_sensor(
    cell: Cell, channels: Sequence[Channel], time_s: Array, exact: Array, rng: np.random.Generator
) -> Array:
    """Exact readings (T, channels) as the twin's nominal encoders show them: drift, noise, then whole steps."""
    seen = exact.copy()
    dt_s = np.maximum(np.diff(time_s, prepend=time_s[0]), 0.0)
    walk = nominal(cell, "encoder_drift_rad") * np.sqrt(dt_s / WALK_S)
    noise = nominal(cell, "encoder_noise_rad")
    steps = quantize.Quantization(nominal(cell, "encoder_quantum_rad"))
    for index, channel in enumerate(channels):
        if channel.kind == "position" and channel.actuator is not None and cell.turning[channel.actuator]:
            added = np.cumsum(walk * rng.standard_normal(len(seen))) + noise * rng.standard_normal(len(seen))
            seen[:, index] = quantize.apply(steps, seen[:, index] + added)
    return seen


def nominal(cell: Cell, name: str) -> float:
    """A parameter's nominal number, 0 where the twin has none."""
    return float(cell.twin.parameter(name).nominal) if cell.twin.has(name) else 0.0


def tool_places(cell: Cell, qpos: Array) -> Array:
    """Where the tool is (T, 3) in the poses `qpos` (T, nq), by the twin's kinematics."""
    model = cell.model
    data = mujoco.MjData(model)
    site = model.site(cell.twin.role("tool")).id
    places = np.empty((len(qpos), 3))
    for row, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        places[row] = data.site_xpos[site]
    return places


def gravity_loads(cell: Cell, qpos: Array) -> Array:
    """What gravity asks of every actuator (T, actuators) in the poses `qpos` (T, nq), by the twin's masses."""
    model = cell.model
    data = mujoco.MjData(model)
    loads = np.empty((len(qpos), len(cell.actuators)))
    force = np.zeros(model.nv)
    for row, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_rne(model, data, 0, force)
        loads[row] = cell.velocities(force[None])[0]
    return loads
