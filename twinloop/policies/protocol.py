"""The door for policies: anything that turns observations into chunks of actions, in one episode or in many at once.

A policy says in its `interface` which signals and cameras it wants, in which units and at which rate, and what its actions are; in
its `execution`, how its chunks are executed. Twinloop's own `Policy` is one implementation. A plain class is another:

    class Still:
        name, id, execution = "still", "1", Execution()

        def __init__(self, schema):
            self.interface = make_interface(schema, ["observation.state"], "my robot")

        def reset(self, seed):
            pass

        def infer(self, observation):
            return observation["observation.state"][None]
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies.interface import Interface


@dataclass(frozen=True)
class Execution:
    """How chunks are executed; all in control steps.

    - `history`: steps, relative to now, at which the policy wants observations; the last is 0.
    - `n_action_steps`: the execution horizon, actions of a chunk before the next chunk is asked for.
    - `inference_delay_steps`: steps until the next chunk is ready; the old one goes on meanwhile.
    - `latency_steps`: delay of the hardware from observation to the effect of a command. So many actions at the start of a
      chunk are about the past and are skipped.
    - `blend`: go over from one chunk to the next gradually.
    """

    history: tuple[int, ...] = (0,)
    n_action_steps: int = 1
    inference_delay_steps: int = 0
    latency_steps: int = 0
    blend: bool = False


class PolicyLike(Protocol):
    """A policy that acts in one episode at a time."""

    @property
    def name(self) -> str:
        """A name for people; also names folders."""

    @property
    def id(self) -> str:
        """A fingerprint: two policies that may act differently have different ids."""

    @property
    def interface(self) -> Interface:
        """Signals, cameras, units and rate of its observations, and the meaning of its actions."""

    @property
    def execution(self) -> Execution:
        """How its chunks are executed."""

    def reset(self, seed: int) -> None:
        """Begin an episode: forget the last one; randomness follows from `seed`."""

    def infer(self, observation: Mapping[str, Array]) -> Array:
        """Predict a chunk of actions.

        Args:
            observation: By signal, the values (size,), or (H, size) where `execution.history` has H > 1 steps, oldest first; by
                camera, the newest frame (height, width, 3) uint8.

        Returns:
            Actions (T, A) in the interface's units, the first for now; T is the same for every call. A `SteppingPolicy` gives (T, K).
        """


class BatchedPolicy(PolicyLike, Protocol):
    """A policy that can also act in many episodes side by side; `rows` says which of them a call is about."""

    def reset_batch(self, rows: Array, seeds: Array, *, real: bool) -> None:
        """Begin episodes in `rows` (n,) with `seeds` (n,); `real` says that a robot is observed, not a simulation."""

    def infer_batch(self, observation: Mapping[str, Array], rows: Array) -> Array:
        """Predict chunks (n, T, A) from signals (n, H, size) and frames (n, height, width, 3) of `rows` (n,)."""


@runtime_checkable
class PromptedPolicy(Protocol):
    """A policy that is told what to do."""

    def set_task(self, text: str) -> None:
        """Say what the episodes that begin from now on are about."""


@runtime_checkable
class SteppingPolicy(Protocol):
    """A policy with actions relative to the reading of their own step: its chunks are settled action by action."""

    @property
    def pending_size(self) -> int:
        """Numbers K of an action in a chunk, before it is settled."""

    def settle_batch(self, pending: Array, observation: Array) -> Array:
        """Turn actions (n, K) of chunks into commands (n, A), given the observations (n, D) of their step."""


@runtime_checkable
class VerifiablePolicy(Protocol):
    """A policy that may become another one while it is used: one behind a server."""

    def require_unchanged(self) -> None:
        """Raise `PolicyChanged` if it is no longer the one that was opened."""


class PartlyGone(PolicyGone):
    """The policy gave no answer in some of several episodes: `reasons` by their places in `chunks` (n, T, A), zeros there."""

    def __init__(self, reasons: Mapping[int, str], chunks: Array) -> None:
        super().__init__(next(iter(reasons.values())))
        self.reasons, self.chunks = dict(reasons), chunks


class SingleEpisodePolicies:
    """A single-episode policy in many episodes side by side: row 0 is the policy itself, the others are deep copies of it.

    A policy that cannot be copied cheaply implements `BatchedPolicy` or defines `__deepcopy__`.
    """

    def __init__(self, policy: PolicyLike) -> None:
        self.name, self.id = policy.name, policy.id
        self.interface, self.execution = policy.interface, policy.execution
        self._episodes: dict[int, PolicyLike] = {0: policy}
        self._original = policy

    def reset(self, seed: int) -> None:
        """Begin an episode in row 0."""
        self._original.reset(seed)

    def infer(self, observation: Mapping[str, Array]) -> Array:
        """Predict the chunk of row 0."""
        return self._original.infer(observation)

    def reset_batch(self, rows: Array, seeds: Array, *, real: bool) -> None:
        """Begin an episode in each of the rows."""
        for row, seed in zip(rows.tolist(), np.asarray(seeds).tolist(), strict=True):
            if row not in self._episodes:
                self._episodes[row] = copy.deepcopy(self._original)
            self._episodes[row].reset(int(seed))

    def infer_batch(self, observation: Mapping[str, Array], rows: Array) -> Array:
        """Ask one row after the other."""
        signals = {signal.name for signal in self.interface.observations}
        flat = len(self.execution.history) == 1
        return np.stack(
            [
                np.asarray(
                    self._episodes[row].infer(
                        {
                            name: values[place, 0] if flat and name in signals else values[place]
                            for name, values in observation.items()
                        }
                    )
                )
                for place, row in enumerate(rows.tolist())
            ]
        )


def make_batched(policy: PolicyLike) -> BatchedPolicy:
    """Return the policy itself if it acts in many episodes at once, else an adapter that makes it do so."""
    if hasattr(policy, "infer_batch") and hasattr(policy, "reset_batch"):
        return policy  # type: ignore[return-value]
    return SingleEpisodePolicies(policy)


def is_concurrent(policy: PolicyLike) -> bool:
    """Whether several threads may use the policy at the same time, each for rows of its own; only a policy that says so."""
    return getattr(policy, "concurrent", False) is True


def is_stateless(policy: PolicyLike) -> bool:
    """Whether chunks depend on the observation alone; only a policy that says so."""
    return getattr(policy, "stateless", False) is True


def action_width(policy: PolicyLike) -> int:
    """Numbers of an action in a chunk: those of the action itself, or more that wait for the reading of their step."""
    return policy.pending_size if isinstance(policy, SteppingPolicy) else policy.interface.action.size


def require_unchanged(policy: PolicyLike) -> None:
    """Raise `PolicyChanged` if a policy that can change has done so."""
    if isinstance(policy, VerifiablePolicy):
        policy.require_unchanged()


def twin_of(policy: PolicyLike) -> str | None:
    """Name or folder of the twin that a policy was trained in or mapped for; None if it is not known."""
    record = getattr(policy, "training_record", None)
    name = getattr(policy, "twin_name", None) if record is None else record.twin["name"]
    return None if name is None else str(name)


def with_latency(policy: PolicyLike, latency_s: float) -> PolicyLike:
    """Return the policy executed for hardware with this delay from observation to the effect of a command."""
    return _adapt(policy, "for_latency", "account for the hardware's latency", latency_s)


def with_name(policy: PolicyLike, name: str) -> PolicyLike:
    """Return the policy under another name."""
    return _adapt(policy, "with_name", "be renamed", name)


def _adapt(policy: PolicyLike, method: str, what: str, value: object) -> PolicyLike:
    make = getattr(policy, method, None)
    if make is None:
        raise WrongUse(f"policy {policy.name} cannot {what}", expected=f"a method {method}")
    made: PolicyLike = make(value)
    return made


def min_image_side(policy: PolicyLike) -> int | None:
    """Return the least pixels a side of frames that the policy resizes itself; None: it takes the size that it declares only."""
    return getattr(policy, "image_side", None)


def training_datasets(policy: PolicyLike) -> tuple[Mapping[str, Any], ...]:
    """Return the datasets of the policy's training record; none for a policy without one."""
    record = getattr(policy, "training_record", None)
    return () if record is None else tuple(record.datasets)


def cameras_of(*policies: PolicyLike) -> tuple[str, ...]:
    """Names of the cameras that policies observe, each once."""
    return tuple(dict.fromkeys(camera.name for policy in policies for camera in policy.interface.cameras))


def actor_id(policy: PolicyLike) -> str:
    """The policy's name and id, as recordings store it."""
    return f"{policy.name}@{policy.id}"
