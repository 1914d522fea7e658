"""The hardware between a controller and the physics: late commands, play in the gears, wrong and noisy readings.

Built from a twin's `imperfect` parameters and the parts in `twinloop.imperfect`. A part is present when its parameter
varies or is nominally not zero, so that what is computed never depends on which episodes run side by side.

Where each effect enters:

- A command is a packet: it travels for the action delay (exact to the physics step) or is lost; the last one is held.
- The servo closes its loop on the same encoder that is read: a bias of the encoder moves the joint the other way.
- Play in the gears follows the command as it arrives.
- A steady load on a joint moves it off its command by load over stiffness, and adds to the servo's effort.
- Readings are delayed, then biased, drifting, noisy, and last of all counted in encoder steps.
- The perceived object pose is late, tilted, biased and noisy; frames without a pose, or with the hand in front of the object, repeat
  the last one.
- Force, torque and inertial sensors: see `twinloop.engines.sensors`.

Encoder effects apply to turning joints, whose parameters are in radians.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.engines.joint_friction import loaded_rows
from twinloop.engines.sensors import ERRORS, NOISE, SensorErrors
from twinloop.episode import Array
from twinloop.experts.reading import Reading, rotation_columns
from twinloop.imperfect import backlash, delay, quantize, stream
from twinloop.imperfect.noise import draw_normal, draw_uniform
from twinloop.tasks import Cell, Truth
from twinloop.twins.declare import to_identifier
from twinloop.twins.hardware import load_names

Values = Mapping[str, Any]

POSE_BIAS = ("object_pose_bias_x_m", "object_pose_bias_y_m", "object_pose_bias_z_m")
TABLE_TILT = ("table_tilt_x_rad", "table_tilt_y_rad")
POSE_SCALE, POSE_DELAY, POSE_HIDDEN = "object_pose_scale_error", "object_pose_delay_s", "object_pose_hidden_m"

WALK_S = 60.0
"""A drift parameter is the standard deviation after this long."""


class Hardware:
    """The hardware of `count` environments, for episodes of at most `steps` control steps.

    `drawn` maps the parameters that vary to the values of every episode to come; it sizes the memories.
    """

    def __init__(self, cell: Cell, count: int, steps: int, drawn: Values) -> None:
        self._cell, self._count, self._steps, self._drawn = cell, count, steps, drawn
        self._rows = np.arange(count)
        self._number: dict[str, Array] = {}
        self._noise: dict[str, Array] = {}
        actuators = len(cell.actuators)
        self._bias = np.zeros((count, actuators))
        self._backlash = np.zeros((count, actuators))
        self._load, self._load_slope = np.zeros((count, actuators)), np.zeros((count, actuators))
        self._stiffness = np.ones((count, actuators))
        self._joints = np.zeros((count, actuators))
        self._turning = cell.turning.astype(np.float64)
        self._biased = self._any(*(f"{to_identifier(name)}_encoder_bias_rad" for name in cell.actuators))
        self._slack = self._any(*(f"{to_identifier(name)}_backlash_rad" for name in cell.actuators))
        self._loaded = self._any(*(name for joint in cell.actuators for name in load_names(joint)))
        self._late_action = self._any("action_delay_s", "action_jitter_s", "action_drop_probability")
        self._late_reading = self._any(
            "observation_delay_s", "observation_jitter_s", "observation_drop_probability"
        )
        self._sensors = SensorErrors(cell, count, WALK_S)
        self._misread = self._any(*ERRORS)
        self._channels = sum(len(group.elements) for group in cell.sensors)
        self._counted = self._any("encoder_quantum_rad")
        self._pose_biased = self._any(*POSE_BIAS, POSE_SCALE)
        self._pose_tilted = self._any(*TABLE_TILT)
        self._pose_late = self._any(POSE_DELAY)
        self._pose_hidden = self._any(POSE_HIDDEN)
        self._sent = self._make_sent(np.zeros((count, actuators)))
        self._seen = self._make_seen(np.zeros((count, 3 * actuators + self._channels + 9)))
        self._driven = backlash.make_state(np.zeros((count, actuators)))
        self._walk = np.zeros((count, actuators))
        self._pose = np.zeros((count, 9))
        late = (
            self._drawn.get(POSE_DELAY, cell.twin.parameter(POSE_DELAY).nominal) if self._pose_late else 0.0
        )
        self._tracked = stream.make_state(delay.Delay(float(np.max(late))), self._pose, cell.dt_s)

    @property
    def bias(self) -> Array:
        """How much the encoders of every environment read too much, (N, actuators)."""
        return self._bias

    def restart(self, ids: Array, values: Values, seeds: Array, truth: Truth, ctrl: Array) -> None:
        """New episodes in the environments `ids`: their draws, noise and an empty past. `truth` is of all rows."""
        for parameter in self._cell.twin.parameters:
            if parameter.stage == "imperfect" and not parameter.choices:
                column = self._number.setdefault(parameter.name, np.full(self._count, parameter.nominal))
                column[ids] = values.get(parameter.name, parameter.nominal)
        for index, name in enumerate(self._cell.actuators):
            for kind, table in (("encoder_bias", self._bias), ("backlash", self._backlash)):
                table[ids, index] = self._value(f"{to_identifier(name)}_{kind}_rad")[ids]
        if self._loaded:
            self._restart_loads(ids, values, truth)
        which = np.zeros(self._count, dtype=bool)
        which[ids] = True
        started = np.zeros_like(self._driven.output)
        started[ids] = ctrl
        if self._late_action:
            self._sent = delay.reset(self._sent, which, started)
        if self._late_reading:
            self._seen = stream.reset(self._seen, which, self._stacked(truth))
        self._driven = backlash.make_state(np.where(which[:, None], started, self._driven.output))
        self._walk[ids] = 0.0
        exact = self._stacked(truth)[:, -9:]
        self._pose[ids] = exact[ids]
        if self._pose_late:
            self._tracked = stream.reset(self._tracked, which, exact)
        self._delays = (self._make_delay("action"), self._make_delay("observation"))
        self._sensors.restart(ids, self._number)
        self._draw(ids, seeds)

    def first_reading(self, truth: Truth) -> Reading:
        """What is seen before anything moved: biased, since encoders are, but without noise and delay."""
        pose = self._stacked(truth)[:, -9:]
        return Reading(
            time_s=truth.time_s,
            position=truth.position + self._bias,
            velocity=truth.velocity,
            effort=truth.effort,
            object_position=pose[:, :3],
            object_columns=pose[:, 3:],
            target_position=truth.target_position,
            sensors=truth.sensors,
        )

    def sense(self, truth: Truth, step: Array) -> Reading:
        """What the controllers of all environments see, each at its own control step (N,)."""
        step = np.minimum(step, self._steps - 1)
        rows, dt_s = self._rows, self._cell.dt_s
        exact = self._stacked(truth)
        if self._late_reading:
            self._seen, exact = stream.step(
                self._delays[1],
                self._seen,
                exact,
                dt_s,
                self._scalar_noise("observation_jitter", step),
                self._scalar_noise("observation_drop", step),
            )
        actuators = len(self._cell.actuators)
        position, velocity, effort = (exact[:, k * actuators : (k + 1) * actuators].copy() for k in range(3))
        if self._loaded:
            self._joints = truth.position
            effort += self._load + self._load_slope * position
        if self._biased:
            position += self._bias
        if "encoder_drift" in self._noise:
            position += self._walk
            rate = self._number["encoder_drift_rad"] * np.sqrt(dt_s / WALK_S)
            self._walk += rate[:, None] * self._noise["encoder_drift"][rows, step] * self._turning
        if "encoder" in self._noise:
            deviation = self._number["encoder_noise_rad"][:, None] * self._turning
            position += deviation * self._noise["encoder"][rows, step]
        if self._counted:
            quantum = self._number["encoder_quantum_rad"][:, None] * self._turning
            position = quantize.apply(quantize.Quantization(quantum), position)
        if "velocity" in self._noise:
            deviation = self._number["velocity_noise_rad_s"][:, None] * self._turning
            velocity += deviation * self._noise["velocity"][rows, step]
        sensors = exact[:, 3 * actuators : -9]
        if not self._misread:
            sensors = sensors + 0.0  # of a zero, the sign that errors of zero would leave
        elif self._channels:
            sensors = self._sensors.read(sensors, self._number, lambda name: self._noise_at(name, step))
        pose = self._perceive(exact[:, -9:], truth, step)
        return Reading(
            time_s=truth.time_s,
            position=position,
            velocity=velocity,
            effort=effort,
            object_position=pose[:, :3],
            object_columns=pose[:, 3:],
            target_position=truth.target_position,
            sensors=sensors,
        )

    def sense_begun(self, truth: Truth, step: Array, ids: Array) -> Reading:
        """The first readings of environments `ids` that have just begun; the others go on as if it had not been asked.

        Rows of the others mean nothing. Signals that travel late need no update: all of their past is the start.
        """
        seen, tracked = self._seen, self._tracked
        walk, pose, sensors = self._walk.copy(), self._pose, self._sensors.state()
        reading = self.sense(truth, step)
        self._seen, self._tracked = seen, tracked
        others = np.ones(self._count, dtype=bool)
        others[ids] = False
        self._walk[others] = walk[others]
        self._pose = np.where(others[:, None], pose, self._pose)
        self._sensors.restore(others, sensors)
        return reading

    def command(self, action: Array, step: Array) -> Array:
        """Commands of the servos at each physics step of this control step, (N, 1 or substeps, actuators)."""
        step = np.minimum(step, self._steps - 1)
        if not self._late_action:
            return self._at_the_joint(action)[:, None]
        twin = self._cell.twin
        self._sent = delay.send(
            self._delays[0],
            self._sent,
            action,
            self._scalar_noise("action_jitter", step),
            self._scalar_noise("action_drop", step),
        )
        commands = np.empty((self._count, twin.substeps, action.shape[1]))
        for substep in range(twin.substeps):
            self._sent, held = delay.receive(self._sent)
            commands[:, substep] = self._at_the_joint(held)
            self._sent = delay.advance(self._sent, twin.physics_dt_s)
        return commands

    def _at_the_joint(self, command: Array) -> Array:
        if self._slack:
            self._driven, command = backlash.step(backlash.Backlash(self._backlash), self._driven, command)
        if self._loaded:
            command = command - (self._load + self._load_slope * self._joints) / self._stiffness
        return command - self._bias if self._biased else command

    def _restart_loads(self, ids: Array, values: Values, truth: Truth) -> None:
        for index, joint in enumerate(self._cell.actuators):
            for name, table in zip(load_names(joint), (self._load, self._load_slope), strict=True):
                table[ids, index] = self._value(name)[ids]
        gains = loaded_rows(self._cell, "actuator_gainprm", values, len(ids))
        self._stiffness[ids] = np.maximum(gains[:, :, 0], 1e-9)
        self._joints = truth.position

    def _perceive(self, exact: Array, truth: Truth, step: Array) -> Array:
        if self._pose_late:
            late = delay.Delay(self._number[POSE_DELAY])
            self._tracked, exact = stream.step(late, self._tracked, exact, self._cell.dt_s, None, None)
        noisy = "object_pose" in self._noise or "object_pose_drop" in self._noise
        if not (self._pose_biased or self._pose_tilted or self._pose_hidden or noisy):
            return exact
        pose = exact.copy()
        if self._pose_biased:
            pose[:, :3] *= 1.0 + self._value(POSE_SCALE)[:, None]
            pose[:, :3] += np.stack([self._value(name) for name in POSE_BIAS], axis=1)
        if self._pose_tilted:
            turn = np.stack([*(self._value(name) for name in TABLE_TILT), np.zeros(self._count)], axis=1)
            for first in (3, 6):
                pose[:, first : first + 3] += np.cross(turn, pose[:, first : first + 3])
        if "object_pose" in self._noise:
            normal = self._noise["object_pose"][self._rows, step]
            pose[:, :3] += self._number["object_pose_noise_m"][:, None] * normal[:, :3]
            angle = self._number["object_pose_noise_rad"] * normal[:, 3]
            pose[:, 3:] = _turned(pose[:, 3:], angle)
        if "object_pose_drop" in self._noise:
            probability = self._number["object_pose_drop_probability"]
            missing = self._noise["object_pose_drop"][self._rows, step, 0] < probability
            pose[missing] = self._pose[missing]
        if self._pose_hidden:
            away = np.linalg.norm(truth.tool_position - truth.object_position, axis=1)
            behind = away < self._number[POSE_HIDDEN]
            pose[behind] = self._pose[behind]
        self._pose = pose
        return pose

    def _draw(self, ids: Array, seeds: Array) -> None:
        actuators = len(self._cell.actuators)
        streams = (
            ("action_jitter", 1, ("action_jitter_s",)),
            ("observation_jitter", 1, ("observation_jitter_s",)),
            ("encoder", actuators, ("encoder_noise_rad",)),
            ("encoder_drift", actuators, ("encoder_drift_rad",)),
            ("velocity", actuators, ("velocity_noise_rad_s",)),
            ("object_pose", 4, ("object_pose_noise_m", "object_pose_noise_rad")),
        )
        sensed = ((name, self._sensors.width(name), (parameter,)) for name, parameter in NOISE.items())
        drops = ("action_drop", "observation_drop", "object_pose_drop")
        for name, width, parameters in (*streams, *sensed):
            if width and self._any(*parameters):
                self._keep(name, ids, draw_normal(seeds, name, self._steps, (width,)))
        for name in drops:
            if self._any(f"{name}_probability"):
                self._keep(name, ids, draw_uniform(seeds, name, self._steps, (1,)))

    def _keep(self, name: str, ids: Array, block: Array) -> None:
        if name not in self._noise:
            self._noise[name] = np.zeros((self._count, *block.shape[:1], *block.shape[2:]), dtype=np.float32)
        self._noise[name][ids] = block.swapaxes(0, 1)

    def _noise_at(self, name: str, step: Array) -> Array | None:
        return self._noise[name][self._rows, step] if name in self._noise else None

    def _scalar_noise(self, name: str, step: Array) -> Array | None:
        return self._noise[name][self._rows, step, 0] if name in self._noise else None

    def _stacked(self, truth: Truth) -> Array:
        columns = rotation_columns(truth.object_quat)
        sensors = [truth.sensors] if truth.sensors is not None else []
        parts = [truth.position, truth.velocity, truth.effort, *sensors, truth.object_position, columns]
        return np.concatenate(parts, axis=1)

    def _value(self, name: str) -> Array:
        """Values of a parameter in every environment; zeros in twins without it."""
        return self._number[name] if name in self._number else np.zeros(self._count)

    def _any(self, *names: str) -> bool:
        twin = self._cell.twin
        return any(
            twin.has(name) and (name in self._drawn or twin.parameter(name).nominal != 0.0) for name in names
        )

    def _make_delay(self, side: str) -> delay.Delay:
        number = self._number
        if f"{side}_delay_s" not in number:
            return delay.Delay()
        return delay.Delay(
            number[f"{side}_delay_s"].copy(),
            number[f"{side}_jitter_s"].copy(),
            number[f"{side}_drop_probability"].copy(),
        )

    def _longest(self, side: str) -> delay.Delay:
        """The longest delay of any episode."""
        twin = self._cell.twin

        def most(name: str) -> float:
            return float(
                np.max(self._drawn.get(name, twin.parameter(name).nominal if twin.has(name) else 0.0))
            )

        return delay.Delay(most(f"{side}_delay_s"), most(f"{side}_jitter_s"))

    def _make_sent(self, initial: Array) -> delay.DelayState:
        return delay.make_state(self._longest("action"), initial, self._cell.dt_s)

    def _make_seen(self, initial: Array) -> stream.StreamState:
        return stream.make_state(self._longest("observation"), initial, self._cell.dt_s)


def _turned(columns: Array, angle: Array) -> Array:
    """Rotation columns (N, 6) turned about the vertical by angles (N,)."""
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = columns.copy()
    for start in (0, 3):
        x, y = columns[:, start], columns[:, start + 1]
        turned[:, start] = cosine * x - sine * y
        turned[:, start + 1] = sine * x + cosine * y
    return turned
