"""Disturbances: wind on the object, pushes on the object, people who bump the arm, a vibrating table."""

from __future__ import annotations

import math

import numpy as np

from twinloop.engines.world import World
from twinloop.robots.standin.effects import Environment, Human
from twinloop.tasks import Cell

Force = tuple[float, float, float]
STILL: Force = (0.0, 0.0, 0.0)

KNOCK_S = 0.1
GUST_S = 1.5
"""Time constant of gusts."""


class Disturbances:
    """Forces of one episode, written to the world before each physics step."""

    def __init__(
        self, cell: Cell, world: World, environment: Environment, human: Human, rng: np.random.Generator
    ) -> None:
        self._world, self._environment, self._rng = world, environment, rng
        roles = cell.twin.roles
        self._object = int(world.model.body(roles["object"]).id) if "object" in roles else None
        tool = world.model.site(roles["tool"]) if "tool" in roles else None
        self._hand = None if tool is None else int(tool.bodyid[0])
        self._knock = _Knock(environment.push_rate_hz, environment.push_force_n, rng)
        self._bump = _Knock(human.bump_rate_hz, human.bump_force_n, rng)
        self._gust = 0.0
        self._any = bool(
            environment.wind_force_n
            or environment.vibration_m
            or environment.push_rate_hz * environment.push_force_n
            or human.bump_rate_hz * human.bump_force_n
        )
        self._gravity = world.model.opt.gravity.tolist()
        direction = environment.wind_direction_rad
        self._downwind = math.cos(direction), math.sin(direction)

    def step(self, dt_s: float) -> None:
        """Apply the disturbances of the next physics step."""
        if not self._any:
            return
        force = self._knock.step(dt_s)
        if self._environment.wind_force_n:
            wind_n = self._wind_n(dt_s)
            force = (
                force[0] + wind_n * self._downwind[0],
                force[1] + wind_n * self._downwind[1],
                force[2],
            )
        if self._object is not None and any(force):
            self._world.push(self._object, force)
        bump = self._bump.step(dt_s)
        if self._hand is not None and any(bump):
            self._world.push(self._hand, bump)
        if self._environment.vibration_m:
            rate = 2.0 * math.pi * self._environment.vibration_hz
            shake = self._environment.vibration_m * rate * rate * math.sin(rate * self._world.time_s)
            x, y, z = self._gravity
            self._world.set_gravity((x + shake, y, z))

    def _wind_n(self, dt_s: float) -> float:
        fraction = dt_s / GUST_S
        self._gust += -fraction * self._gust + math.sqrt(2.0 * fraction) * self._rng.standard_normal()
        steady = 1.0 - self._environment.gust_share
        strength = max(0.0, steady + self._environment.gust_share * (1.0 + 0.5 * self._gust))
        return self._environment.wind_force_n * strength


class _Knock:
    """Short pushes in random horizontal directions, at random times."""

    def __init__(self, rate_hz: float, force_n: float, rng: np.random.Generator) -> None:
        self._rate_hz, self._force_n, self._rng = rate_hz, force_n, rng
        self._left_s, self._now = 0.0, STILL

    def step(self, dt_s: float) -> Force:
        if not (self._rate_hz and self._force_n):
            return self._now
        if self._left_s <= 0.0:
            self._now = STILL
            if self._rng.random() < self._rate_hz * dt_s:
                angle = self._rng.uniform(-math.pi, math.pi)
                self._now = self._force_n * math.cos(angle), self._force_n * math.sin(angle), 0.0
                self._left_s = KNOCK_S
        self._left_s -= dt_s
        return self._now
