"""Predictions of the twin: recorded commands sent in open loop, for many parameter values and many windows at once.

Every pair of a parameter row and a window is one environment of an engine. Within a window time runs in
physics steps from its first reading. A command is held until the next one and reaches the servo late by the delay; the
physics step in which it changes gets the time average of both, so that predictions are smooth in the delay and a delay
far finer than the step can be found. An observation delay shifts readings against commands exactly as an action delay
does: in open loop, only their sum is identifiable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.engines import DEFAULT_ENGINE, Engine, EngineOptions, make_engine
from twinloop.engines.stability import Instability, find_runaway
from twinloop.episode import Array
from twinloop.identification.meter import Meter
from twinloop.identification.recording import Channel, Recording, rotation_between
from twinloop.imperfect import backlash
from twinloop.tasks import Cell
from twinloop.twins.declare import to_identifier

DELAYS = ("action_delay_s", "observation_delay_s")
POSE_BIAS = {"object.x": "object_pose_bias_x_m", "object.y": "object_pose_bias_y_m"}
_MEMORY_BYTES = 256e6
_BACKLASH_WARM_UP_S = 2.0
LOST = 1e3
"""The residual, in units of the channel, of an environment whose simulation broke."""


@dataclass(frozen=True)
class Window:
    """Rows `start` to `stop` of one recording; the simulation starts from the state read off at `start`."""

    recording: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Handle:
    """One direction in which the start of a window may be wrong: of qpos, or of qvel when `speed`."""

    label: str
    speed: bool
    dofs: tuple[int, ...]
    addresses: tuple[int, ...]
    weights: tuple[float, ...]
    turn: int | None = None


class Predictor:
    """Predicts `channels` of `recordings` by one cell; `varying` names the parameters that rows may set."""

    def __init__(
        self,
        cell: Cell,
        recordings: Sequence[Recording],
        channels: Sequence[Channel],
        varying: Sequence[str],
        threads: int = 0,
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or Meter()
        self.cell, self.recordings, self.channels = cell, tuple(recordings), tuple(channels)
        self.dt_s = cell.twin.physics_dt_s
        self.varying = frozenset(varying) | {name for r in recordings for name in r.given}
        self.handles = find_handles(cell, channels)
        self._threads = threads
        self._engine: Engine | None = None
        self._switched = any(recording.enabled is not None for recording in self.recordings)
        self.steps_done = 0

    def beside(self, recordings: Sequence[Recording] | None = None, cell: Cell | None = None) -> Predictor:
        """A predictor of the same channels and parameters from other recordings, or by another cell."""
        return Predictor(
            cell or self.cell,
            self.recordings if recordings is None else recordings,
            self.channels,
            tuple(self.varying),
            self._threads,
        )

    def residuals(
        self,
        values: Mapping[str, Array],
        windows: Sequence[Window],
        offsets: Array | None = None,
    ) -> Array:
        """Prediction minus reading for parameter rows (R,): (R, rows of all windows, channels).

        `offsets` (R, windows, handles) are added to the start of each window.
        """
        count = len(next(iter(values.values()))) if values else (len(offsets) if offsets is not None else 1)
        ends = np.cumsum([len(window) for window in windows])
        made = np.empty((count, int(ends[-1]), len(self.channels)))
        for rows, which in self._chunks(count, windows):
            predicted = self._simulate(values, rows, [windows[w] for w in which], which, offsets)
            for part, (row, w) in zip(predicted, zip(rows, which, strict=True), strict=True):
                made[row, ends[w] - len(windows[w]) : ends[w]] = part
        return made

    def _chunks(self, count: int, windows: Sequence[Window]) -> Iterator[tuple[list[int], list[int]]]:
        """Environments of similar length, at most as many as memory holds: (parameter row, window) of each."""
        order = sorted(range(len(windows)), key=lambda w: self._steps(windows[w]))
        jobs = [(row, w) for w in order for row in range(count)]
        width = 8.0 * (self.cell.model.nq + self.cell.model.nv + 2 * self.cell.model.nu)
        most = max(self._steps(windows[w]) for w in order)
        size = int(np.clip(_MEMORY_BYTES / (width * most), 8, min(1024, len(jobs))))
        for start in range(0, len(jobs), size):
            chunk = jobs[start : start + size]
            yield [row for row, _ in chunk], [w for _, w in chunk]

    def _steps(self, window: Window) -> int:
        time_s = self.recordings[window.recording].time_s
        return max(1, math.ceil(float(time_s[window.stop - 1] - time_s[window.start]) / self.dt_s - 1e-9))

    def _simulate(
        self,
        values: Mapping[str, Array],
        rows: Sequence[int],
        windows: Sequence[Window],
        which: Sequence[int],
        offsets: Array | None,
    ) -> list[Array]:
        recordings = [self.recordings[window.recording] for window in windows]
        drawn = self._values(values, rows, recordings)
        bias, states_q, states_v, diverged = self._roll(drawn, recordings, windows, rows, which, offsets)
        made = []
        for env, (recording, window) in enumerate(zip(recordings, windows, strict=True)):
            if diverged[env]:
                made.append(np.full((len(window), len(self.channels)), LOST))
                continue
            shift = {k: float(drawn[k][env]) for k in POSE_BIAS.values() if k in drawn}
            made.append(self._compare(recording, window, states_q[env], states_v[env], bias[env], shift))
        return made

    def find_runaway(self, window: Window) -> Instability | None:
        """Which joint's simulation diverges in a window of the nominal twin, and when."""
        recordings = [self.recordings[window.recording]]
        drawn = self._values({}, [0], recordings)
        _, _, speeds, _ = self._roll(drawn, recordings, [window], [0], [0], None)
        return find_runaway(self.cell, speeds[0])

    def _roll(
        self,
        drawn: Mapping[str, Array],
        recordings: Sequence[Recording],
        windows: Sequence[Window],
        rows: Sequence[int],
        which: Sequence[int],
        offsets: Array | None,
    ) -> tuple[Array, Array, Array, Array]:
        """Encoder bias, qpos and qvel of every physics step, and which environments diverged."""
        engine = self._make_engine(len(rows))
        bias = self._encoder_bias(drawn, len(rows))
        qpos, qvel = self._starts(recordings, windows, bias, drawn)
        if offsets is not None:
            self._displace(qpos, qvel, offsets[list(rows), list(which)])
        steps = max(self._steps(window) for window in windows)
        controls = self._controls(recordings, windows, steps, drawn) - bias[:, None]
        enabled = self._enabled(recordings, windows, steps, drawn) if self._switched else None
        rolled = engine.roll(np.arange(len(rows)), drawn, (qpos, qvel), controls, enabled=enabled)
        self.steps_done += steps * len(rows)
        self._meter.count(steps * len(rows) * self.dt_s)
        states_q = np.concatenate([qpos[:, None], rolled.qpos], axis=1)
        states_v = np.concatenate([qvel[:, None], rolled.qvel], axis=1)
        return bias, states_q, states_v, rolled.diverged

    def _values(
        self, values: Mapping[str, Array], rows: Sequence[int], recordings: Sequence[Recording]
    ) -> dict[str, Array]:
        """Per environment: the row's value, else the recording's, else nominal."""
        drawn = {}
        for name in self.varying:
            nominal = self.cell.twin.parameter(name).nominal
            recorded = np.array([recording.given.get(name, nominal) for recording in recordings], np.float64)
            drawn[name] = np.asarray(values[name], np.float64)[list(rows)] if name in values else recorded
        return drawn

    def _make_engine(self, count: int) -> Engine:
        """The engine of the last call where it is large enough, else a larger one."""
        if self._engine is None or self._engine.count < count:
            options = EngineOptions(contacts=False, switched_servos=self._switched)
            self._engine = make_engine(DEFAULT_ENGINE, self.cell, count, self._threads, self.varying, options)
        return self._engine

    def _encoder_bias(self, drawn: Mapping[str, Array], count: int) -> Array:
        """What each actuator's encoder reads beyond the truth, (environments, actuators)."""
        bias = np.zeros((count, len(self.cell.actuators)))
        for index, name in enumerate(self.cell.actuators):
            if self.cell.turning[index]:
                bias[:, index] = self._number(f"{to_identifier(name)}_encoder_bias_rad", drawn)
        return bias

    def _number(self, name: str, drawn: Mapping[str, Array]) -> Array | float:
        if name in drawn:
            return drawn[name]
        return float(self.cell.twin.parameter(name).nominal) if self.cell.twin.has(name) else 0.0

    def _starts(
        self,
        recordings: Sequence[Recording],
        windows: Sequence[Window],
        bias: Array,
        drawn: Mapping[str, Array],
    ) -> tuple[Array, Array]:
        qpos = np.stack([r.qpos[w.start] for r, w in zip(recordings, windows, strict=True)])
        qvel = np.stack([r.qvel[w.start] for r, w in zip(recordings, windows, strict=True)])
        for channel in self.channels:
            if channel.kind == "position" and channel.actuator is not None:
                scale = sum(weight * weight for weight in channel.weights)
                for address, weight in zip(channel.addresses, channel.weights, strict=True):
                    if weight:
                        qpos[:, address] -= bias[:, channel.actuator] * weight / scale
        if self.cell.object_qpos is not None:
            for axis, name in enumerate(POSE_BIAS.values()):
                qpos[:, self.cell.object_qpos + axis] -= self._number(name, drawn)
        return qpos, qvel

    def _displace(self, qpos: Array, qvel: Array, offsets: Array) -> None:
        at = self.cell.object_qpos
        turn = np.zeros((len(qpos), 3))
        for index, handle in enumerate(self.handles):
            amount = offsets[:, index]
            if handle.turn is not None:
                turn[:, handle.turn] = amount
            elif handle.speed:
                for dof, weight in zip(handle.dofs, handle.weights, strict=True):
                    qvel[:, dof] += amount * weight
            else:
                for address, weight in zip(handle.addresses, handle.weights, strict=True):
                    qpos[:, address] += amount * weight
        if at is not None and turn.any():
            qpos[:, at + 3 : at + 7] = _turned(qpos[:, at + 3 : at + 7], turn)

    def _controls(
        self,
        recordings: Sequence[Recording],
        windows: Sequence[Window],
        steps: int,
        drawn: Mapping[str, Array],
    ) -> Array:
        """What arrives at the servos in each physics step, (environments, steps, actuators)."""
        actuators = len(self.cell.actuators)
        if not actuators:
            return np.zeros((len(windows), steps, 0))
        backlashes = [
            self._number(f"{to_identifier(name)}_backlash_rad", drawn) for name in self.cell.actuators
        ]
        warm = (
            round(_BACKLASH_WARM_UP_S / self.dt_s) if np.any([np.any(width) for width in backlashes]) else 0
        )
        edges = (np.arange(-warm, steps + 1)) * self.dt_s
        delay = self._delay(drawn, len(windows))
        controls = np.empty((len(windows), warm + steps, actuators))
        for env, (recording, window) in enumerate(zip(recordings, windows, strict=True)):
            at = recording.time_s[window.start] + edges - delay[env]
            controls[env] = (
                np.diff(held_integral(recording.command_s, recording.commands, at), axis=0) / self.dt_s
            )
        if warm:
            width = np.stack([np.broadcast_to(width, (len(windows),)) for width in backlashes], axis=1)
            state = backlash.make_state(controls[:, 0])
            for step in range(warm + steps):
                state, controls[:, step] = backlash.step(backlash.Backlash(width), state, controls[:, step])
        return controls[:, warm:]

    def _delay(self, drawn: Mapping[str, Array], count: int) -> Array:
        return np.broadcast_to(sum((self._number(name, drawn) for name in DELAYS), np.zeros(1)), (count,))

    def _enabled(
        self,
        recordings: Sequence[Recording],
        windows: Sequence[Window],
        steps: int,
        drawn: Mapping[str, Array],
    ) -> Array | None:
        """Whether the servos are on in each physics step, (environments, steps); None when all are always on."""
        if all(recording.enabled is None for recording in recordings):
            return None
        made = np.ones((len(windows), steps), dtype=bool)
        delay = self._delay(drawn, len(windows))
        for env, (recording, window) in enumerate(zip(recordings, windows, strict=True)):
            if recording.enabled is not None:
                at = recording.time_s[window.start] + np.arange(steps) * self.dt_s - delay[env]
                row = np.clip(np.searchsorted(recording.time_s, at, side="right") - 1, 0, len(recording) - 1)
                made[env] = recording.enabled[row]
        return made

    def _compare(
        self,
        recording: Recording,
        window: Window,
        qpos: Array,
        qvel: Array,
        bias: Array,
        shift: Mapping[str, float],
    ) -> Array:
        rows = slice(window.start, window.stop)
        at = (recording.time_s[rows] - recording.time_s[window.start]) / self.dt_s
        low = np.minimum(at.astype(np.int64), len(qpos) - 2)
        fraction = (at - low)[:, None]
        sampled = qpos[low] * (1.0 - fraction) + qpos[low + 1] * fraction
        speeds = qvel[low] * (1.0 - fraction) + qvel[low + 1] * fraction
        made = np.empty((len(window), len(self.channels)))
        turned: Array | None = None
        for index, channel in enumerate(self.channels):
            if channel.kind == "turn":
                if turned is None:
                    first = self.cell.object_qpos
                    assert first is not None
                    quat = sampled[:, first + 3 : first + 7]
                    quat = quat / np.linalg.norm(quat, axis=1, keepdims=True)
                    turned = rotation_between(recording.qpos[rows, first + 3 : first + 7], quat)
                made[:, index] = turned[:, "xyz".index(channel.name[-1])]
                continue
            if channel.kind == "place":
                first = self.cell.object_qpos
                assert first is not None
                predicted = sampled[:, first + "xyz".index(channel.name[-1])]
                predicted = predicted + shift.get(POSE_BIAS.get(channel.name, ""), 0.0)
            else:
                table = sampled if channel.kind == "position" else speeds
                predicted = table[:, list(channel.addresses)] @ np.asarray(channel.weights)
                if channel.kind == "position" and channel.actuator is not None:
                    predicted = predicted + bias[channel.actuator]
            made[:, index] = predicted - recording.readings[rows, index]
        return made


def held_integral(stamps: Array, values: Array, at: Array) -> Array:
    """The integral from the first stamp to times `at` (M,) of values (N, k), each held until the next stamp: (M, k)."""
    widths = np.diff(stamps)[:, None]
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values[:-1] * widths, axis=0)])
    index = np.clip(np.searchsorted(stamps, at, side="right") - 1, 0, len(stamps) - 1)
    return np.asarray(sums[index] + values[index] * (at - stamps[index])[:, None])


def find_handles(cell: Cell, channels: Sequence[Channel]) -> tuple[Handle, ...]:
    """Everything observed whose start may be wrong: place and speed of each joint and of the object."""
    made: list[Handle] = []
    for channel in channels:
        if channel.kind == "position":
            scale = sum(weight * weight for weight in channel.weights)
            weights = tuple(weight / scale for weight in channel.weights)
            dofs = _dof_of(cell, channel)
            made.append(Handle(channel.name, False, dofs, channel.addresses, weights))
            made.append(Handle(f"{channel.name} speed", True, dofs, channel.addresses, weights))
    at, dof = cell.object_qpos, cell.object_dof
    if at is not None and dof is not None and any(channel.kind == "place" for channel in channels):
        for axis in range(3):
            made.append(Handle(f"object {'xyz'[axis]}", False, (dof + axis,), (at + axis,), (1.0,)))
            made.append(Handle(f"object {'xyz'[axis]} speed", True, (dof + axis,), (at + axis,), (1.0,)))
            if any(channel.kind == "turn" for channel in channels):
                made.append(Handle(f"object turn {'xyz'[axis]}", False, (), (), (), axis))
                made.append(Handle(f"object turn {'xyz'[axis]} speed", True, (dof + 3 + axis,), (), (1.0,)))
    return tuple(made)


def _dof_of(cell: Cell, channel: Channel) -> tuple[int, ...]:
    if channel.actuator is not None:
        return tuple(cell.dof_addresses[channel.actuator].tolist())
    joint = int(np.flatnonzero(np.asarray(cell.model.jnt_qposadr) == channel.addresses[0])[0])
    return (int(cell.model.jnt_dofadr[joint]),)


def _turned(quat: Array, turn: Array) -> Array:
    """Orientations (n, 4) turned by rotation vectors (n, 3) in their own frames."""
    angle = np.linalg.norm(turn, axis=1, keepdims=True)
    half = 0.5 * angle
    vector = np.where(angle > 1e-12, turn / np.maximum(angle, 1e-12), 0.0) * np.sin(half)
    w, v = quat[:, :1], quat[:, 1:]
    c = np.cos(half)
    return np.concatenate(
        [w * c - np.sum(v * vector, axis=1, keepdims=True), w * vector + c * v + np.cross(v, vector)], axis=1
    )
