"""Chunk execution: a policy acting in many simulations at once, like an expert, or on one robot, like any other controller.

Chunks are executed as on a real robot: the next one is asked for after `n_action_steps` actions and takes over
`inference_delay_steps` later, when it is ready; until then the old one goes on. Where the hardware is delayed, a chunk is entered at
the action that is due when its first command arrives. Without that, a policy that predicts from where the arm was, and not
from where it will be, starts over with every chunk and hardly moves.

With `blend`, commands go over from the old chunk to the new one gradually, over all steps that both cover. A chunk that was
predicted before the last one had any effect contradicts it; taken over at once, the two kinds of chunk alternate, and on
hardware whose delay is as long as a chunk the arm oscillates between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinloop.episode import Actor, Array, Signal
from twinloop.errors import LearnError, PolicyChanged, PolicyGone, UnknownName
from twinloop.experts import Setup
from twinloop.experts.reading import Reading, name_signals
from twinloop.policies.interface import Interface, require_cameras
from twinloop.policies.latency import Latency
from twinloop.policies.protocol import (
    PartlyGone,
    PolicyLike,
    PromptedPolicy,
    SteppingPolicy,
    action_width,
    actor_id,
    cameras_of,
    make_batched,
    min_image_side,
    require_unchanged,
)
from twinloop.robots.protocol import Description, Observation
from twinloop.tasks import make_task
from twinloop.twins import load_twin

MAX_SILENT = 3
"""Times in a row that a policy may fail to answer anything; then it is gone, and no further trial is begun."""

CHECK_EVERY = 10
"""Trials on a robot after which a foreign policy is asked again whether it is still the same."""


class ChunkExecutor:
    """Executes the chunks of a policy in `count` episodes side by side.

    Keeps, for each episode, the history of observations and the chunk that is being executed. The policy knows the episodes as rows
    `first_row` and following. With `latency`, each chunk takes over as much later as an inference time that is drawn from it; the old
    one goes on and stays at its last action. Episodes in which the policy gave no answer are `void`, with the reason: they stand still.
    """

    def __init__(
        self,
        policy: PolicyLike,
        count: int,
        *,
        real: bool = False,
        task: str = "",
        first_row: int = 0,
        latency: Latency | None = None,
    ) -> None:
        self._policy, self._real = make_batched(policy), real
        if isinstance(policy, PromptedPolicy):
            policy.set_task(task)
        self._settle = policy.settle_batch if isinstance(policy, SteppingPolicy) else None
        self._width = action_width(policy)
        self._execution, self._latency = policy.execution, latency
        self._steps_back = np.array(policy.execution.history) - policy.execution.history[0]
        size = policy.interface.observation_size
        self._observed = np.zeros((count, int(self._steps_back[-1]) + 1, size), np.float32)
        self._fresh = np.ones(count, dtype=bool)
        self._plan = np.zeros((count, 0, self._width), np.float32)
        self._next = self._plan
        self._at = np.zeros(count, dtype=np.int64)
        self._skip = np.zeros(count, dtype=np.int64)
        self._delay = np.zeros(count, dtype=np.int64)
        self._left = np.full(count, -1)
        self._rngs = [np.random.default_rng(0)] * count
        self._sent = np.zeros((count, policy.interface.action.size))
        self._silent = 0
        self.void: dict[int, str] = {}
        self._rows, self._first_row = np.arange(count), first_row
        self._policy.reset_batch(self._rows + first_row, np.zeros(count, dtype=np.int64), real=real)

    def restart(self, ids: Array, seeds: Array) -> None:
        """Begin new episodes in `ids`; randomness follows from their seeds."""
        self._fresh[ids] = True
        for row, seed in zip(np.asarray(ids).tolist(), np.asarray(seeds).tolist(), strict=True):
            self.void.pop(row, None)
            if self._latency is not None:
                self._rngs[row] = self._latency.source(int(seed))
        self._policy.reset_batch(np.asarray(ids) + self._first_row, np.asarray(seeds), real=self._real)

    def needs_images(self) -> Array:
        """Which episodes (N,) need frames for the next `act`, because it runs inference for them."""
        return np.asarray(self._fresh | self._due())

    def act(self, observation: Array, frames: Mapping[str, Array] | None = None) -> Array:
        """Return commands (N, A) for observations (N, D) and, by camera, frames (N, height, width, 3)."""
        self._observed[:, :-1] = self._observed[:, 1:]
        self._observed[:, -1] = observation
        self._observed[self._fresh] = observation[self._fresh, None]
        begins, due = self._fresh, self._due() & ~self._fresh
        self._fresh = np.zeros_like(begins)
        self._sent[begins] = self._standing(observation[begins])
        self._infer(np.flatnonzero(begins | due), frames or {})
        self._plan[begins] = self._next[begins]
        self._at[begins], self._skip[begins], self._left[begins] = 0, 0, -1  # at the start nothing is old
        for row in np.flatnonzero(due).tolist():
            self._delay[row] = self._left[row] = self._draw_delay(row)
        self._take_over(np.flatnonzero(self._left == 0))
        action = self._plan[self._rows, np.minimum(self._at + self._skip, self._plan.shape[1] - 1)]
        self._at += 1
        self._left[self._left > 0] -= 1
        if self._settle is not None:
            action = self._settle(action, np.asarray(observation))
        return self._keep_still(np.asarray(action, np.float64))

    def _due(self) -> Array:
        """Which episodes (N,) ask for their next chunk now."""
        due = (self._at >= self._execution.n_action_steps) & (self._left < 0)
        due[list(self.void)] = False
        return np.asarray(due)

    def _draw_delay(self, row: int) -> int:
        """Steps until the chunk that an episode asks for now is ready."""
        if self._latency is None:
            return self._execution.inference_delay_steps
        return self._latency.draw_steps(self._rngs[row], self._policy.interface.rate_hz)

    def _standing(self, observation: Array) -> Array:
        """The commands (n, A) that keep the robot where its readings (n, D) say it is; zero for what is not read."""
        place = self._policy.interface.readings
        return np.where(place >= 0, observation[:, np.maximum(place, 0)], 0.0)

    def _keep_still(self, action: Array) -> Array:
        """The actions (N, A), those of void episodes being the last that was sent."""
        void = list(self.void)
        action[void] = self._sent[void]
        self._sent = action.copy()
        return action

    def _take_over(self, ids: Array) -> None:
        """Replace the chunk that is being executed by the next one, at once or gradually."""
        for delay in np.unique(self._delay[ids]).tolist():
            self._take_over_after(ids[self._delay[ids] == delay], int(delay))

    def _take_over_after(self, ids: Array, delay: int) -> None:
        """Replace the chunks of episodes that asked for the next one this many steps ago."""
        execution, chunk = self._execution, self._plan.shape[1]
        first = min(delay + execution.latency_steps, chunk)
        ahead = np.arange(chunk - first)
        if execution.blend:
            at = (self._at[ids] + self._skip[ids])[:, None]
            weight = np.minimum((ahead + 1) / np.maximum(chunk - at + 1, 1), 1.0)[:, :, None]
            old = self._plan[ids[:, None], np.minimum(at + ahead, chunk - 1)]
            self._next[ids, first:] = old + weight.astype(np.float32) * (self._next[ids, first:] - old)
        self._plan[ids] = self._next[ids]
        self._at[ids], self._skip[ids], self._left[ids] = delay, execution.latency_steps, -1

    def _infer(self, ids: Array, frames: Mapping[str, Array]) -> None:
        """Ask the policy for the next chunks of these episodes; those that get no answer are void."""
        if not len(ids):
            return
        history = self._observed[ids][:, self._steps_back]
        observation = self._policy.interface.split(history)
        observation |= {name: frame[ids] for name, frame in frames.items()}
        try:
            chunks = np.asarray(self._policy.infer_batch(observation, ids + self._first_row), np.float32)
        except PartlyGone as error:
            self.void.update({int(ids[place]): reason for place, reason in error.reasons.items()})
            chunks = np.asarray(error.chunks, np.float32)
        except PolicyChanged:
            raise
        except PolicyGone as error:
            self._silent += 1
            if self._silent >= MAX_SILENT:
                raise
            self.void.update(dict.fromkeys(ids.tolist(), error.what))
            chunks = np.zeros((len(ids), max(self._plan.shape[1], self._shortest), self._width), np.float32)
        else:
            self._silent = 0
        if self._plan.shape[1] == 0:
            self._plan = np.zeros((len(self._rows), *chunks.shape[1:]), np.float32)
            self._next = np.zeros_like(self._plan)
        self._require_chunk(chunks, len(ids))
        self._next[ids] = chunks

    @property
    def _shortest(self) -> int:
        """Actions that a chunk needs to last until the next one."""
        execution = self._execution
        return execution.n_action_steps + execution.inference_delay_steps + execution.latency_steps

    def _require_chunk(self, chunks: Array, count: int) -> None:
        """Refuse chunks of another shape or too short to last until the next one."""
        shortest, size = self._shortest, self._width
        expected = (count, *self._plan.shape[1:])
        if chunks.shape != expected or chunks.shape[1] < shortest or chunks.shape[2] != size:
            raise LearnError(
                f"policy {self._policy.name} does not give the chunks that it declares",
                got=f"shape {chunks.shape[1:]}",
                expected=f"({max(shortest, self._plan.shape[1])} or more actions, always as many; {size} numbers each)",
            )


class PolicyExpert:
    """A policy through the door for experts: it observes readings, never the truth.

    `real` tells a policy that distinguishes robots from simulations that it observes a robot; `latency` is charged to every chunk.
    `void` has the reasons of episodes in which the policy gave no answer, by their seeds.
    """

    actor: Actor = "policy"

    def __init__(
        self, policy: PolicyLike, setup: Setup, *, real: bool = False, latency: Latency | None = None
    ) -> None:
        cell = setup.cell
        require_fits(policy, policy.interface.action.size, len(cell.actuators), f"twin {cell.twin.name}")
        task = make_task(cell.twin.task, cell.twin).text
        self._executor = ChunkExecutor(policy, setup.count, real=real, task=task, latency=latency)
        self._seeds = np.zeros(setup.count, dtype=np.int64)
        self.void: dict[int, str] = {}
        self._interface = policy.interface
        self._cell = cell
        self._low, self._high = cell.control_low, cell.control_high
        self.cameras = cameras_of(policy)

    def needs_images(self) -> Array:
        """Which environments (N,) need frames for the next `act`."""
        return self._executor.needs_images()

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Begin new episodes in these environments."""
        self._seeds[ids] = seeds
        self._executor.restart(ids, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """The present action of each environment's chunk."""
        observation = self._interface.vector(name_signals(self._cell, reading))
        frames = {name: reading.frames[name] for name in self.cameras}
        action = np.clip(self._executor.act(observation, frames), self._low, self._high)
        self.void |= {int(self._seeds[row]): reason for row, reason in self._executor.void.items()}
        return action


class PolicyController:
    """A policy through the door for controllers of a robot.

    `task` is the instruction; default: that of the robot's task. Controllers of one policy that act at the same time have different
    `row`s. `latency` is charged to every chunk: for simulated robots, whose time stands still while a policy thinks.
    """

    actor: Actor = "policy"

    def __init__(
        self,
        policy: PolicyLike,
        description: Description,
        row: int = 0,
        task: str | None = None,
        latency: Latency | None = None,
    ) -> None:
        require_robot(policy, description)
        self.cameras = cameras_of(policy)
        self.actor_id = actor_id(policy)
        self._interface = policy.interface
        text = task if task is not None else describe_task(description)
        self._executor = ChunkExecutor(policy, 1, real=True, task=text, first_row=row, latency=latency)
        self._policy, self._trials = policy, 0

    def restart(self, observation: Observation, seed: int) -> None:
        """Begin a new episode; every few of them, a foreign policy must show that it is still the same."""
        if self._trials % CHECK_EVERY == CHECK_EVERY - 1:
            require_unchanged(self._policy)
        self._trials += 1
        self._executor.restart(np.array([0]), np.array([seed]))

    def void(self) -> str | None:
        """Why the present episode says nothing about the policy: it gave no answer."""
        return self._executor.void.get(0)

    def needs_images(self) -> bool:
        """Whether the next observation needs frames, because a chunk is predicted from it."""
        return bool(self._executor.needs_images()[0])

    def act(self, observation: Observation) -> Array:
        """The present action of the chunk."""
        frames = (
            {name: observation.frames[name][None] for name in self.cameras} if self.needs_images() else {}
        )
        return np.asarray(self._executor.act(self._interface.vector(observation.signals)[None], frames)[0])


def describe_task(description: Description) -> str:
    """The instruction of a robot's task: the words of a task that its twin knows, else what the robot calls it."""
    if description.twin is None:
        return description.task
    try:
        twin = load_twin(description.twin)
        return make_task(description.task or twin.task, twin).text
    except UnknownName:
        return description.task


def require_fits(policy: PolicyLike, mine: int, theirs: int, where: str) -> None:
    """Refuse a policy for another number of actuators."""
    if mine != theirs:
        raise LearnError(
            f"policy {policy.name} cannot act in {where}",
            got=f"{mine} actions",
            expected=f"{theirs}",
            remedy="train a policy on data of this robot",
        )


def require_robot(policy: PolicyLike, description: Description) -> None:
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
        policy.interface.cameras, description.cameras, min_image_side(policy), f"robot {description.serial}"
    )
    where = f"robot {description.serial}"
    require_same_signals(policy, declared, description.action, description.rate_hz, where)


def require_same_signals(
    policy: PolicyLike, declared: Mapping[str, Signal], action: Signal, rate_hz: float, where: str
) -> None:
    """Refuse where an observed signal, the action or the rate is not the one the policy learned from, down to names and units."""
    mine = policy.interface
    observed = tuple(declared[signal.name] for signal in mine.observations)
    if difference := mine.difference(Interface(observed, action, rate_hz, mine.robot_type, mine.cameras)):
        raise LearnError(
            f"policy {policy.name} does not fit {where}: {difference}",
            remedy="try it on the robot that it learned from, or train one on data of this robot",
        )
