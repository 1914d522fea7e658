"""Episodes of a twin stepped by a trainer: observations, rewards and ends, as arrays; Gymnasium's classes wrap this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinloop.environments.scenes import Scenes, extremes
from twinloop.environments.settings import Settings
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.experts.reading import Reading, name_signals
from twinloop.generation.simulation import Simulation
from twinloop.tasks import Judgement, RewardedTask

OBSERVED = "observation."
"""Signals whose names begin so are observations; others are the action, or the truth, which no robot has."""

DIVERGED = "simulation_diverged"


@dataclass(frozen=True)
class Transition:
    """What a step did to N environments: reward (N,), ends (N,) bool, outcomes; rows that began are all zero."""

    reward: Array
    terminated: Array
    truncated: Array
    success: Array
    failure: Array

    @property
    def over(self) -> Array:
        """Episodes that ended, (N,) bool."""
        return np.asarray(self.terminated | self.truncated)


class Episodes:
    """`count` environments. `observation` holds, by signal and camera, what each of them sees now."""

    def __init__(
        self, settings: Settings, count: int, threads: int = 1, filmed: tuple[str, ...] = ()
    ) -> None:
        if count < 1:
            raise WrongUse("at least one environment is needed", got=count)
        self.settings, self.count = settings, count
        self.scenes = Scenes(settings.randomization, count)
        twin, task = settings.cell.twin, settings.task
        bounds = {name: twin.parameter(name).bounds for name in settings.randomization.names}
        numeric = {name: span for name, span in bounds.items() if not twin.parameter(name).choices}
        self._simulation = Simulation(
            settings.cell,
            task,
            settings.engine,
            count,
            settings.steps,
            extremes(settings.randomization, numeric),
            threads,
            tuple(dict.fromkeys((*settings.cameras, *filmed))),
        )
        self.action_size = len(settings.cell.actuators)
        self._target = np.zeros((count, self.action_size))
        self._cameras = {camera.name: camera for camera in twin.cameras}
        self._failures = np.array([*task.failures, DIVERGED], dtype=object)
        self.phases = np.array(task.phases, dtype=object)
        self.phase = np.zeros(count, dtype=np.int64)
        self.observation: dict[str, Array] = self._make_observation()
        self._everyone = np.arange(count)

    @property
    def step_number(self) -> Array:
        """Control steps since each episode began, (N,)."""
        return self._simulation.step

    @property
    def draws(self) -> list[Mapping[str, float | str]]:
        """The drawn parameters of each environment's episode."""
        return self._simulation.draws

    def begin(self, ids: Array) -> None:
        """Begin the next episode in the environments `ids` (n,); the others are not disturbed."""
        self._load(ids)
        reading = self._simulation.sense_begun(ids)
        self.phase[ids] = self._simulation.judge(ids).phase[ids]
        self._observe(reading, ids)

    def step(self, action: Array, begin: Array) -> Transition:
        """Simulate one control step with actions (N, actuators); environments where `begin` (N,) bool start anew instead."""
        simulation = self._simulation
        commands = simulation.command(self._targets(action))
        fresh = np.flatnonzero(begin)
        going = np.flatnonzero(~begin) if len(fresh) else self._everyone
        if len(fresh):
            self._load(fresh)
        simulation.step[going] += 1
        diverged = simulation.advance(going, commands)
        reading = simulation.sense()
        judged = simulation.judge()
        self.phase = judged.phase
        self._observe(reading, self._everyone)
        failed = judged.failed.copy()
        if diverged is not None:
            failed[diverged.ids] = True
            judged.reason[diverged.ids] = len(self._failures) - 1
        return self._transition(judged, failed, ~begin)

    def frames(self, camera: str) -> list[Array]:
        """What a camera shows in each environment: (height, width, 3) uint8."""
        return [self._simulation.newest_frames(row)[camera] for row in range(self.count)]

    def close(self) -> None:
        """Free what the renderer holds."""
        self._simulation.close()

    def _load(self, ids: Array) -> None:
        begun = self.scenes.take(ids)
        truth = self._simulation.begin(ids, begun.values, begun.draws, begun.seeds)
        self._target[ids] = np.clip(truth.position[ids], *self._limits())

    def _limits(self) -> tuple[Array, Array]:
        return self.settings.cell.control_low, self.settings.cell.control_high

    def _targets(self, action: Array) -> Array:
        """Position targets (N, actuators) for actions, within the actuators' limits."""
        action = np.asarray(action, dtype=np.float64)
        if action.shape != self._target.shape:
            raise WrongUse("actions have the wrong shape", got=action.shape, expected=self._target.shape)
        if not np.isfinite(action).all():
            row, column = (int(index) for index in np.argwhere(~np.isfinite(action))[0])
            raise WrongUse(f"action {column} of environment {row} is not a number", got=action[row, column])
        if self.settings.control == "delta":
            action = self._target + np.clip(action, -1.0, 1.0) * self.settings.action_step
        self._target = np.clip(action, *self._limits())
        return self._target

    def _transition(self, judged: Judgement, failed: Array, going: Array) -> Transition:
        settings = self.settings
        success = judged.success & ~failed & going
        terminated = (judged.success | failed) & going
        left = settings.steps - 1 - self._simulation.step
        truncated = (left <= 0) & ~terminated & going
        reward = success.astype(np.float64)
        if settings.reward == "dense" and isinstance(settings.task, RewardedTask):
            # Failing costs as much as the rest of the episode at its worst: to give up never pays.
            reward += settings.task.reward(self._simulation.truth) - np.where(failed, left, 0.0)
            reward[~going] = 0.0
        failure = self._failures[judged.reason]
        failure[success | ~(terminated | truncated)] = None
        return Transition(reward, terminated, truncated, success, failure)

    def _make_observation(self) -> dict[str, Array]:
        schema = self.settings.schema
        seen = [signal for signal in schema.signals if signal.name.startswith(OBSERVED)]
        made = {signal.name: np.zeros((self.count, signal.size), np.float32) for signal in seen}
        for camera in schema.cameras:
            made[camera.key] = np.zeros((self.count, camera.height, camera.width, 3), np.uint8)
        return made

    def _observe(self, reading: Reading, ids: Array) -> None:
        read = name_signals(self.settings.cell, reading) | self.settings.observe_poses(reading.position)
        for name, values in read.items():
            if ids is self._everyone:
                self.observation[name][:] = values
            else:
                self.observation[name][ids] = values[ids]
        for row in ids.tolist() if self.settings.cameras else ():
            painted = self._simulation.newest_frames(row)
            for name in self.settings.cameras:
                self.observation[self._cameras[name].key][row] = painted[name]
