"""Sensor readings with delay, bias, drift, noise and quantization, and a command channel with delay."""

from __future__ import annotations

import math

import numpy as np

from twinloop.episode import Array
from twinloop.experts import Reading
from twinloop.experts.reading import rotation_columns
from twinloop.imperfect import bias, delay, drift, quantize
from twinloop.robots.standin.effects import Latency, Sensing
from twinloop.tasks import Cell, Truth

WALK_S = 60.0
"""Drift parameters are standard deviations after this time."""


def draw_encoder_bias(cell: Cell, sensing: Sensing, rng: np.random.Generator) -> Array:
    """The calibration error of each actuator's encoder, (actuators,): the same in every episode of a reality."""
    return np.asarray(rng.standard_normal(len(cell.actuators)) * sensing.encoder_bias_rad * cell.turning)


class Outages:
    """Random network outages."""

    def __init__(self, latency: Latency, dt_s: float, rng: np.random.Generator) -> None:
        self._chance = latency.outage_rate_hz * dt_s
        self._steps = max(1, round(latency.outage_s / dt_s))
        self._rng, self._left = rng, 0

    def step(self) -> bool:
        """Whether the network is down in this step."""
        if self._left == 0 and self._chance and self._rng.random() < self._chance:
            self._left = self._steps
        self._left = max(0, self._left - 1)
        return self._left > 0


class CommandChannel:
    """The channel from command to servos: packets arrive late or never, and the newest one that arrived is held.

    Follows `imperfect.delay`, which is batched; for one environment at every physics step, this is ten times faster.
    """

    def __init__(self, latency: Latency, first: Array, rng: np.random.Generator) -> None:
        self._delay = delay.Delay(
            latency.action_delay_s, latency.action_jitter_s, latency.action_drop_probability
        )
        self._rng = rng
        self._present = bool(self._delay.max_delay_s or latency.action_drop_probability)
        self._under_way: list[tuple[float, Array]] = []
        self._held = first.copy()

    def send(self, command: Array) -> None:
        """Send a command."""
        if not self._present:
            self._held = command.copy()
            return
        jitter, lost = self._rng.standard_normal(1), self._rng.random() < self._delay.drop_probability
        if not lost:
            travel_s = float(delay.travel_time_s(self._delay, 1, jitter)[0])
            self._under_way.append((travel_s, command.copy()))

    def receive(self, dt_s: float) -> Array:
        """The command that the servos hold now; then `dt_s` passes. Packets overtaken by a newer one are dropped."""
        arrived = [k for k, (left_s, _) in enumerate(self._under_way) if left_s <= delay.SAME_TIME_S]
        if arrived:
            self._held = self._under_way[arrived[-1]][1]
            del self._under_way[: arrived[-1] + 1]
        self._under_way = [(left_s - dt_s, command) for left_s, command in self._under_way]
        return self._held


class _Late:
    """A delayed signal: `imperfect.stream` for a single environment."""

    def __init__(self, params: delay.Delay, now: Array, dt_s: float) -> None:
        self._delay_s, self._jitter_s = float(params.delay_s), float(params.jitter_s)
        self._lost, self._dt_s = float(params.drop_probability), dt_s
        self._values = [now] * (math.ceil(params.max_delay_s / dt_s) + 2)
        self._seen, self._steps = now, 0

    def step(self, now: Array, jitter: float, drop: float) -> Array:
        """The delayed reading while the signal is `now`; `jitter` is standard normal, `drop` uniform."""
        values, slot = self._values, self._steps % len(self._values)
        values[slot] = now
        self._steps += 1
        if drop < self._lost:
            return self._seen
        most = delay.JITTER_LIMIT
        travel_s = max(0.0, self._delay_s + self._jitter_s * min(max(jitter, -most), most))
        age = round(travel_s / self._dt_s * 1e9) / 1e9  # whole steps stay exact
        whole = int(age)
        newer, older = values[slot - whole], values[slot - whole - 1]
        self._seen = newer + (age - whole) * (older - newer)
        return self._seen


class SensorModel:
    """Readings of one episode at the control rate."""

    def __init__(
        self,
        cell: Cell,
        sensing: Sensing,
        latency: Latency,
        encoder_bias: Array,
        truth: Truth,
        rng: np.random.Generator,
    ) -> None:
        self._cell, self._sensing, self._rng = cell, sensing, rng
        self._dt_s = cell.dt_s
        self._turning = cell.turning.astype(np.float64)[None]
        jitter, drop = latency.observation_jitter_s, latency.observation_drop_probability
        late, pose_late = latency.observation_delay_s, latency.observation_delay_s + latency.pose_delay_s
        self._joints = _Late(delay.Delay(late, jitter, drop), _joints(truth), self._dt_s)
        self._pose = _Late(delay.Delay(pose_late, jitter, drop), _pose(truth), self._dt_s)
        self._bias = bias.Bias(encoder_bias[None], noise=sensing.encoder_noise_rad * self._turning)
        self._walk = drift.RandomWalk(sensing.encoder_drift_rad / np.sqrt(WALK_S) * self._turning)
        self._walked = drift.make_walk_state(np.zeros_like(truth.position))
        self._quantum = quantize.Quantization(sensing.encoder_quantum_rad * self._turning)
        force = np.asarray(cell.model.actuator_forcerange)
        self._force = np.where(cell.model.actuator_forcelimited, np.abs(force).max(axis=1), 0.0)[None]
        self._speed = truth.velocity.copy()
        self._seen = _pose(truth)
        self._last: Reading | None = None

    def read(self, truth: Truth, blind: bool = False) -> Reading:
        """The reading at this control step; during an outage (`blind`), the last one again."""
        joints, pose = self._delayed(truth)
        if blind and self._last is not None:
            return self._last
        count = len(self._cell.actuators)
        position, speed, effort = (joints[:, k * count : (k + 1) * count] for k in range(3))
        seen = self._perceive(pose, truth)
        self._last = Reading(
            time_s=truth.time_s,
            position=self._encode(position),
            velocity=self._differentiate(speed),
            effort=self._weigh(effort),
            object_position=seen[:, :3],
            object_columns=seen[:, 3:],
            target_position=truth.target_position,
        )
        return self._last

    def _delayed(self, truth: Truth) -> tuple[Array, Array]:
        jitter, drop = self._rng.standard_normal(), self._rng.random()
        joints = self._joints.step(_joints(truth), jitter, drop)
        return joints, self._pose.step(_pose(truth), jitter, drop)

    def _encode(self, position: Array) -> Array:
        reading = bias.apply(self._bias, position, self._dt_s, self._rng.standard_normal(position.shape))
        self._walked, reading = drift.step_walk(
            self._walk, self._walked, reading, self._dt_s, self._rng.standard_normal(position.shape)
        )
        return quantize.apply(self._quantum, reading)

    def _differentiate(self, speed: Array) -> Array:
        filter_s = self._sensing.velocity_filter_s
        weight = 1.0 if filter_s == 0.0 else 1.0 - np.exp(-self._dt_s / filter_s)
        self._speed = self._speed + weight * (speed - self._speed)
        noise = self._sensing.velocity_noise_rad_s * self._turning
        return np.asarray(self._speed + noise * self._rng.standard_normal(speed.shape))

    def _weigh(self, effort: Array) -> Array:
        noise = self._sensing.effort_noise_share * self._rng.standard_normal(effort.shape)
        return np.asarray(effort + self._force * (self._sensing.effort_bias_share + noise))

    def _perceive(self, pose: Array, truth: Truth) -> Array:
        sensing = self._sensing
        hidden = np.linalg.norm(truth.tool_position - truth.object_position) < sensing.occlusion_m
        lost = self._rng.random() < sensing.pose_drop_probability
        noise = self._rng.standard_normal(4)
        if hidden or lost:
            return self._seen
        seen = pose.copy()
        seen[:, :3] *= 1.0 + sensing.pose_scale_error
        seen[:, :3] += (sensing.pose_bias_x_m, sensing.pose_bias_y_m, sensing.pose_bias_z_m)
        seen[:, :3] += sensing.pose_noise_m * noise[:3]
        cosine, sine = np.cos(sensing.pose_noise_rad * noise[3]), np.sin(sensing.pose_noise_rad * noise[3])
        turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        seen[:, 3:6], seen[:, 6:9] = seen[:, 3:6] @ turn.T, seen[:, 6:9] @ turn.T
        self._seen = seen
        return seen


def _joints(truth: Truth) -> Array:
    return np.concatenate([truth.position, truth.velocity, truth.effort], axis=1)


def _pose(truth: Truth) -> Array:
    return np.concatenate([truth.object_position, rotation_columns(truth.object_quat)], axis=1)
