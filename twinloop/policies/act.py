"""A policy at work: in many simulations at once like an expert, or on one robot like any other controller.

Chunks are carried out as on a real robot: the next one is asked for after `n_action_steps` actions and takes over
`inference_delay_steps` later, when it is ready; until then the old one goes on. Where the hardware is late, a chunk is entered at
the action that is due when its first command arrives. Without that, a policy that predicts from where the arm was, and not
from where it will be, starts over with every chunk and hardly moves.

A policy that blends goes over from the old chunk to the new one little by little, over all that both speak of. A chunk that was
thought of before the last one showed any effect contradicts it; taken over at once, the two kinds of chunk alternate, and on
hardware that is as late as a chunk is long the arm swings to and fro between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Actor
from twinloop.errors import LearnError
from twinloop.experts import Reading, Setup
from twinloop.policies.interface import Interface, require_cameras
from twinloop.policies.policy import Policy
from twinloop.robots.protocol import Description, Observation

Array = NDArray[Any]


class Runner:
    """Remembers, for each of `count` episodes side by side, what was seen and which chunk is being carried out."""

    def __init__(self, policy: Policy, count: int, *, real: bool = False) -> None:
        self._policy, self._real = policy, real
        size, actions = policy.interface.observation_size, policy.interface.action.size
        self._back = np.array(policy.execution.history) - policy.execution.history[0]
        self._seen = np.zeros((count, int(self._back[-1]) + 1, size), np.float32)
        self._fresh = np.ones(count, dtype=bool)
        self._plan = np.zeros((count, policy.chunk, actions), np.float32)
        self._next = np.zeros_like(self._plan)
        self._at = np.zeros(count, dtype=np.int64)
        self._skip = np.zeros(count, dtype=np.int64)
        self._images: Array | None = None
        self._rngs = [np.random.default_rng(0) for _ in range(count)]
        self._rows = np.arange(count)

    def restart(self, ids: Array, seeds: Array) -> None:
        """New episodes begin in `ids`; chance follows from their seeds."""
        self._fresh[ids] = True
        for row, seed in zip(ids.tolist(), np.asarray(seeds).tolist(), strict=True):
            self._rngs[row] = np.random.default_rng(int(seed))

    def looks(self) -> Array:
        """Which episodes (N,) the next `act` will think about, and so needs images of."""
        return np.asarray(self._fresh | (self._at == self._policy.execution.n_action_steps))

    def act(self, observation: Array, images: Array | None = None) -> Array:
        """Commands (N, A) for observations (N, D), and images (N, cameras, height, width, 3) of those it looks at."""
        self._images = images
        n_action_steps, think = (
            self._policy.execution.n_action_steps,
            self._policy.execution.inference_delay_steps,
        )
        self._seen[:, :-1] = self._seen[:, 1:]
        self._seen[:, -1] = observation
        self._seen[self._fresh] = observation[self._fresh, None]
        begins, self._fresh = self._fresh, np.zeros_like(self._fresh)
        self._think(begins | (self._at == n_action_steps))
        self._plan[begins] = self._next[begins]
        self._at[begins], self._skip[begins] = 0, 0  # at the start everything stands still: nothing is old
        self._take_over(np.flatnonzero(self._at == n_action_steps + think))
        action = self._plan[self._rows, self._at + self._skip]
        self._at += 1
        return np.asarray(action, np.float64)

    def _take_over(self, ids: Array) -> None:
        """The next chunk instead of the one that is being carried out, at once or little by little."""
        execution, chunk = self._policy.execution, self._plan.shape[1]
        first = execution.inference_delay_steps + execution.latency_steps
        ahead = np.arange(chunk - first)
        if execution.blend and len(ids):
            at = (self._at[ids] + self._skip[ids])[:, None]
            share = np.minimum((ahead + 1) / (chunk - at + 1), 1.0)[:, :, None].astype(np.float32)
            old = self._plan[ids[:, None], np.minimum(at + ahead, chunk - 1)]
            self._next[ids, first:] = old + share * (self._next[ids, first:] - old)
        self._plan[ids] = self._next[ids]
        self._at[ids], self._skip[ids] = execution.inference_delay_steps, execution.latency_steps

    def _think(self, which: Array) -> None:
        ids = np.flatnonzero(which)
        if not len(ids):
            return
        noise = None
        if self._policy.network.shape.head == "flow":
            shape = self._plan.shape[1:]
            noise = np.stack([self._rngs[row].standard_normal(shape, np.float32) for row in ids.tolist()])
        history = self._seen[ids][:, self._back]
        images = None if self._images is None else self._images[ids]
        self._next[ids] = self._policy.predict(history, images, real=self._real, noise=noise)


class PolicyExpert:
    """A policy through the door for experts: it sees readings, never the truth; `real` tells it that they are a robot's."""

    actor: Actor = "policy"

    def __init__(self, policy: Policy, setup: Setup, *, real: bool = False) -> None:
        cell = setup.cell
        require_fits(policy, policy.interface.action.size, len(cell.actuators), f"twin {cell.twin.name}")
        self._runner = Runner(policy, setup.count, real=real)
        self._policy = policy
        self._targeted = cell.target_mocap is not None
        self._low, self._high = cell.control_low, cell.control_high
        self.cameras = tuple(camera.name for camera in policy.interface.cameras)

    def looks(self) -> Array:
        """Where the next chunk is thought of."""
        return self._runner.looks()

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Forget the past of these environments."""
        self._runner.restart(ids, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """The present action of each environment's chunk."""
        seen = self._policy.interface.vector(signals_of_reading(reading, self._targeted))
        images = self._policy.images(reading.frames) if self.cameras else None
        return np.clip(self._runner.act(seen, images), self._low, self._high)


class PolicyController:
    """A policy through the door for whoever acts on a robot."""

    actor: Actor = "policy"

    def __init__(self, policy: Policy, description: Description) -> None:
        require_robot(policy, description)
        self.cameras = tuple(camera.name for camera in policy.interface.cameras)
        self.actor_id = f"{policy.name}@{policy.id}"
        self._policy = policy
        self._runner = Runner(policy, 1, real=True)

    def restart(self, observation: Observation, seed: int) -> None:
        """A new episode begins."""
        self._runner.restart(np.array([0]), np.array([seed]))

    def looks(self) -> bool:
        """Whether the next chunk is thought of with the next observation."""
        return bool(self._runner.looks()[0])

    def act(self, observation: Observation) -> Array:
        """The present action of the chunk."""
        images = None
        if self.cameras and self.looks():
            images = self._policy.images(observation.frames)[None]
        seen = self._policy.interface.vector(observation.signals)[None]
        return np.asarray(self._runner.act(seen, images)[0])


def signals_of_reading(reading: Reading, targeted: bool) -> dict[str, Array]:
    """A batch of readings by the names under which they are recorded."""
    scene = [reading.object_position, reading.object_columns]
    if targeted:
        scene.append(reading.target_position)
    return {
        "observation.state": reading.position,
        "observation.velocity": reading.velocity,
        "observation.effort": reading.effort,
        "observation.environment_state": np.concatenate(scene, axis=1),
    }


def require_fits(policy: Policy, mine: int, theirs: int, where: str) -> None:
    """Refuse a policy for another number of actuators."""
    if mine != theirs:
        raise LearnError(
            f"policy {policy.name} cannot act in {where}",
            got=f"{mine} actions",
            expected=f"{theirs}",
            remedy="train a policy on data of this robot",
        )


def require_robot(policy: Policy, description: Description) -> None:
    """Refuse a robot that declares other signals, actions or another rate than the policy learned from."""
    require_fits(policy, policy.interface.action.size, description.action.size, f"robot {description.serial}")
    declared = {signal.name: signal for signal in description.signals}
    missing = [s.name for s in policy.interface.observations if s.name not in declared]
    if missing:
        raise LearnError(
            f"robot {description.serial} does not report what policy {policy.name} sees",
            got=", ".join(declared),
            expected=", ".join(missing),
        )
    require_cameras(
        policy.interface.cameras, description.cameras, policy.image_side, f"robot {description.serial}"
    )
    found = Interface(
        tuple(declared[s.name] for s in policy.interface.observations),
        description.action,
        description.rate_hz,
        policy.interface.robot_type,
        policy.interface.cameras,
    )
    if difference := policy.interface.difference(found):
        raise LearnError(f"policy {policy.name} does not fit robot {description.serial}: {difference}")
