"""Controllers that command a robot while it is recorded: scripted experts, excitation signals, operators, policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts import Expert, Setup, find_expert
from twinloop.experts.playback import provenance_name
from twinloop.robots.protocol import Observation, TrialSupervisor
from twinloop.robots.signals import make_reading
from twinloop.tasks import make_cell
from twinloop.twins import Twin


class Controller(Protocol):
    """Turns observations into commands, one control step after the other.

    `cameras` are the ones it uses. A controller may have a method `needs_images() -> bool`: whether the next observation
    must include their frames. Without it, every observation does.
    """

    actor: Actor
    actor_id: str
    cameras: tuple[str, ...]

    def restart(self, observation: Observation, seed: int) -> None:
        """Start a new episode with this observation."""

    def act(self, observation: Observation) -> Array:
        """The command for this control step."""


class ExpertController:
    """A registered expert or excitation signal, acting on the robot's readings; several signals take turns by episode number."""

    cameras: tuple[str, ...] = ()

    def __init__(self, twin: Twin, name: str | Sequence[str], time_limit_s: float) -> None:
        self._cell = make_cell(twin)
        self._steps = max(1, round(time_limit_s * twin.control_hz))
        self._names = (name,) if isinstance(name, str) else tuple(name)
        self._choose(0)

    def _choose(self, episode: int) -> None:
        name = self._names[episode % len(self._names)]
        self.actor_id = provenance_name(name)
        self._expert: Expert = find_expert(name)(Setup(self._cell, 1, self._steps))
        self.actor: Actor = self._expert.actor
        self._step = 0

    def restart(self, observation: Observation, seed: int) -> None:
        """Start over, with the expert of episode number `seed`."""
        self._choose(seed)
        self._expert.restart(np.array([0]), make_reading(self._cell, observation), np.array([seed]))

    def act(self, observation: Observation) -> Array:
        """The expert's command."""
        action = self._expert.act(make_reading(self._cell, observation), np.array([self._step]))[0]
        self._step += 1
        return np.asarray(action)


class OperatorController:
    """A person at a leader arm, known by a pseudonym."""

    actor: Actor = "operator"
    cameras: tuple[str, ...] = ()

    def __init__(self, supervisor: TrialSupervisor, pseudonym: str) -> None:
        self._supervisor = supervisor
        self.actor_id = pseudonym

    def restart(self, observation: Observation, seed: int) -> None:
        """Nothing to do: the person sees the scene."""

    def act(self, observation: Observation) -> Array:
        """The position of the leader arm."""
        return self._supervisor.steer()
