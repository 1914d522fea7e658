"""The stand-in's cell over its episodes: hidden world, command delays, sensor errors, and a simulated person.

`tick` is one control step. A client gets only what a real cell provides: readings, images, the commands of a person at a
leader arm, and that person's judgement of the outcome.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinloop.engines.world import World
from twinloop.engines.world_engine import make_world
from twinloop.episode import Array, Outcome
from twinloop.errors import RobotError
from twinloop.experts import Reading
from twinloop.experts.reading import ideal_reading
from twinloop.robots.limits import limit_command
from twinloop.robots.protocol import Description, Observation, read_position, validate_action
from twinloop.robots.signals import describe_cell, make_signals
from twinloop.robots.standin.disturb import Disturbances
from twinloop.robots.standin.drive import Drive
from twinloop.robots.standin.hidden import (
    make_hidden_model,
    placed_values,
    set_surfaces,
    start_values,
    table_pivot,
    table_rise_m,
    table_surface,
)
from twinloop.robots.standin.operator import Operator
from twinloop.robots.standin.reality import Reality
from twinloop.robots.standin.sensor_model import CommandChannel, Outages, SensorModel, draw_encoder_bias
from twinloop.tasks import Start, Task, Truth, make_cell, make_task
from twinloop.twins import Twin

if TYPE_CHECKING:
    from twinloop.robots.standin.camera_model import CameraModel


SERVO_DT_S = 0.002
"""Control period of the servos."""

STEPS_IN_BULLET = 2
"""Steps that Bullet takes in each of them."""

WATCHDOG_S = 0.15
"""Without a command for this long the robot holds its position."""

SETTLE_S = 0.2
"""The person waits this long after setting the scene."""


class Session:
    """The stand-in's cell; starts with episode 0 prepared."""

    def __init__(self, reality: Reality, twin: Twin, *, lockstep: bool = True) -> None:
        self._reality, self._lockstep = reality, lockstep
        self.cell = make_cell(twin)
        self._task: Task | None = make_task(twin.task, twin) if twin.task else None
        self._substeps = max(1, round(self.cell.dt_s / SERVO_DT_S))
        self._encoder_bias = draw_encoder_bias(self.cell, reality.sensing, self._rng("encoders"))
        tracked = {signal.name for signal in self.cell.observed_scene()}
        self._unseen = set() if reality.tracks_objects and not reality.needs_person else tracked
        self._worked_s = 0.0
        self._world: World | None = None
        self._camera_model: CameraModel | None = None
        self.clock_s = 0.0
        self.prepare(0)

    @cached_property
    def description(self) -> Description:
        """The robot's description, without hidden values."""
        described = describe_cell(
            self.cell, serial=self._serial(), lockstep=self._lockstep, engine=self._reality.engine
        )
        return replace(
            described,
            independent_episodes=not self._reality.warms_up,
            judges=not self._reality.needs_person,
            signals=tuple(s for s in described.signals if s.name not in self._unseen),
        )

    def prepare(self, number: int, values: Mapping[str, float] | None = None) -> None:
        """Set the scene of one episode; the same number sets the same scene, with things where `values` ask for them."""
        self.close()
        self._number = number
        reality = self._now = self._reality.at_episode(number)
        rng = self._rng(f"episode {number}")
        model = make_hidden_model(self.cell, reality)
        dt_s = self.cell.dt_s / self._substeps
        self._world = world = make_world(reality.engine, self.cell, model, dt_s, bullet_steps=STEPS_IN_BULLET)
        set_surfaces(world, self.cell, reality.contact)
        start = self._start(model, rng, values or {})
        world.reset(start)
        gears = self._rng("gears")
        self._drive = Drive(self.cell, world.chain_dofs, reality.actuation, gears, self._worked_s)
        first = start.ctrl[0] + self._encoder_bias
        self._line = CommandChannel(reality.latency, first, rng)
        self._disturbances = Disturbances(self.cell, world, reality.environment, reality.human, rng)
        self._outages = Outages(reality.latency, self.cell.dt_s, rng)
        for _ in range(round(SETTLE_S / world.dt_s)):
            world.step(self._drive, start.ctrl[0])
        self._truth: Truth = world.truth()
        self._sensor_model = SensorModel(
            self.cell, reality.sensing, reality.latency, self._encoder_bias, self._truth, rng
        )
        self._reading: Reading = self._sensor_model.read(self._truth)
        longest = 1 + round(reality.latency.camera_delay_s / self.cell.dt_s)
        self._poses = deque([world.pose], maxlen=longest)
        self._operator: Operator | None = None
        self._operator_rng = self._rng(f"operator {number}")
        self._memory = np.zeros((1, self._task.memory if self._task else 0))
        self._wrong = rng.random() < reality.human.wrong_judgement_probability
        self._verdict = Outcome()
        self._missing = ""
        self._silent_s, self._holding = 0.0, False
        self._ticks = 0
        self._commanded = read_position(self.description, self.observe(()))
        self._pending: Array | None = None

    def act(self, action: Array) -> Array:
        """Send a command with the next control step, within the declared limits; of several before it, the last one counts.

        Returns the command as it is sent.
        """
        description = self.description
        self._pending = limit_command(
            description.limits, validate_action(description, action), self._commanded, description.rate_hz
        )
        self._silent_s, self._holding = 0.0, False
        return self._pending

    def tick(self) -> None:
        """Simulate one control step."""
        world = self._world
        assert world is not None
        if self._pending is not None:
            self._commanded = self._pending
            if not self._outages.step():
                self._line.send(self._pending)
        self._pending = None
        self._watch()
        world.refresh()
        if self._now.contact.patch_friction_scale != 1.0 and "table" in self.cell.twin.roles:
            body = int(world.model.body(self.cell.twin.role("table")).id)
            place = self._truth.object_position[0]
            world.set_surface([body], table_surface(self.cell, self._now.contact, world.model, place))
        for _ in range(self._substeps):
            command = self._line.receive(world.dt_s) - self._encoder_bias
            self._disturbances.step(world.dt_s)
            world.step(self._drive, command)
        self._worked_s = self._drive.worked_s
        self._truth = world.truth()
        self._reading = self._sensor_model.read(self._truth, blind=self._outages.step())
        self._poses.append(world.pose)
        self._ticks += 1
        self.clock_s += self.cell.dt_s
        self._silent_s += self.cell.dt_s
        if self._task is not None and self._verdict.success is None:
            self._assess(self._task)

    def observe(self, cameras: Iterable[str]) -> Observation:
        """The newest readings and images, stamped by the robot's own clock."""
        names = [camera.name for camera in self.cell.twin.cameras]
        for name in cameras:
            if name not in names:
                raise RobotError(f"the robot has no camera {name!r}", available=names)
        frames = {name: self._capture(name) for name in cameras}
        signals = make_signals(self.cell, self._reading)
        signals = {name: values for name, values in signals.items() if name not in self._unseen}
        return Observation(self._ticks * self.cell.dt_s, signals, frames)

    def _capture(self, camera: str) -> Array:
        if self._camera_model is None:
            # Imported here because most sessions use no camera, and loading graphics takes time.
            from twinloop.robots.standin.camera_model import CameraModel

            model = make_hidden_model(self.cell, self._now)
            self._camera_model = CameraModel(self.cell, model, self._now.visual, self._number)
        return self._camera_model.capture(camera, *self._poses[0])

    def steer(self) -> Array:
        """The command of a person at a leader arm, who sees the true scene, not the readings."""
        seen = ideal_reading(self._truth)
        if self._operator is None:
            steps = 4 * round((self._task.time_limit_s if self._task else 10.0) * self.cell.twin.control_hz)
            human = self._now.human
            self._operator = Operator(self.cell, self.cell.twin.task, human, seen, steps, self._operator_rng)
        # The leader arm was calibrated against the follower's encoders, so both have the same bias.
        return self._operator.steer(seen) + self._encoder_bias

    def judge(self, over: bool) -> Outcome:
        """The person's judgement: unknown while undecided, unless the episode is over."""
        if self._reality.needs_person:
            return Outcome()
        verdict = self._verdict
        if verdict.success is None and over and self._task is not None:
            verdict = Outcome(False, self._missing)
        if verdict.success is None or not self._wrong:
            return verdict
        return Outcome(False, "misjudged") if verdict.success else Outcome(True)

    def close(self) -> None:
        """Free engine and graphics."""
        if self._camera_model is not None:
            self._camera_model.close()
            self._camera_model = None
        if self._world is not None:
            self._world.close()

    def _watch(self) -> None:
        if self._silent_s > WATCHDOG_S + 1e-9 and not self._holding:
            self._holding = True
            self._commanded = self._truth.position[0] + self._encoder_bias
            self._line.send(self._commanded)

    def _assess(self, task: Task) -> None:
        judged = task.judge(self._truth, self._memory)
        self._memory = judged.memory
        self._missing = task.failures[int(judged.reason[0])]
        if judged.success[0]:
            self._verdict = Outcome(True)
        elif judged.failed[0]:
            self._verdict = Outcome(False, self._missing)

    def _start(self, model: mujoco.MjModel, rng: np.random.Generator, asked: Mapping[str, float]) -> Start:
        twin, environment = self.cell.twin, self._now.environment
        values: dict[str, Any] = start_values(twin, environment, rng)
        values |= placed_values(twin, asked, rng)
        if twin.has("table_height_m"):
            values["table_height_m"] = environment.table_height_m
        if self._task is None:
            raise RobotError(f"twin {twin.name!r} has no task", remedy="give it one in its twin.yaml")
        start = self._task.start(values, np.array([int(rng.integers(2**31))]))
        if "table" in twin.roles:
            pivot = table_pivot(self.cell, model)
            if self.cell.object_qpos is not None:
                place = start.qpos[0, self.cell.object_qpos :][:3]
                body = model.body(twin.role("object"))
                place[2] += table_rise_m(environment, place, pivot)
                place[2] += float(body.pos[2]) * (self._now.object.size_scale - 1.0)
            if self.cell.target_mocap is not None:
                place = start.mocap_pos[0, self.cell.target_mocap]
                place[2] += table_rise_m(environment, place, pivot)
        return start

    def _rng(self, stream: str) -> np.random.Generator:
        word = int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")
        return np.random.default_rng([self._reality.seed, word])

    def _serial(self) -> str:
        # A person beside it, or a tracker above it, makes it no other robot.
        # On Bullet it is the robot that it was before there was a choice.
        usual = {"engine"} if self._reality.engine == "bullet" else set()
        what = self._reality.model_dump_json(exclude={"needs_person", "tracks_objects"} | usual)
        what = hashlib.blake2b(what.encode(), digest_size=3).hexdigest()
        return f"standin-{self._reality.name}-{what}"
