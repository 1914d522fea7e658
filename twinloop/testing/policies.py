"""Conformance check for policies, and a minimal policy that passes it, as an example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Schema
from twinloop.policies.interface import Interface, make_interface
from twinloop.policies.latency import draw_observations
from twinloop.policies.protocol import Execution, PolicyLike, action_width, make_batched

Array = NDArray[Any]

SEEDS = np.array([3, 1, 4])
ROUNDING = 1e-4
"""Batched and single inference may differ by this much: matrix products of other sizes round differently."""


class ProportionalPolicy:
    """Proportional control of every joint towards a goal: a plain class, without a network."""

    def __init__(self, schema: Schema, goal: Array, gain: float = 0.2, name: str = "proportional") -> None:
        self.name, self.id = name, f"gain-{gain:g}"
        self.interface: Interface = make_interface(schema, ["observation.state"], name)
        self.execution = Execution(n_action_steps=2)
        self._goal, self._gain = np.asarray(goal, np.float64), gain

    def reset(self, seed: int) -> None:
        """Nothing to do: the policy has no state."""

    def infer(self, observation: Mapping[str, Array]) -> Array:
        """Two actions (2, A): one step towards the goal, and another."""
        at = np.asarray(observation["observation.state"], np.float64)[: len(self._goal)]
        first = at + self._gain * (self._goal - at)
        return np.stack([first, first + self._gain * (self._goal - first)])


def check_policy(policy: PolicyLike) -> None:
    """Check that an object implements `PolicyLike`; works for batched and for single-episode policies.

    Raises:
        AssertionError: It does not; the message names the requirement.
    """
    assert policy.name and "/" not in policy.name and "@" not in policy.name, f"name: got {policy.name!r}"
    assert isinstance(policy.id, str) and policy.id and policy.id == policy.id, "id: the same text every time"
    interface, execution = policy.interface, policy.execution
    assert interface.rate_hz > 0 and interface.observations, "the interface has a rate and observations"
    history = execution.history
    assert history and history[-1] == 0 and list(history) == sorted(set(history)), f"history: got {history}"
    assert 0 <= execution.inference_delay_steps < execution.n_action_steps, (
        "a chunk is ready before it is due"
    )
    batch = draw_observations(interface, len(history), len(SEEDS))
    _check_single(policy, batch)
    _check_batch(policy, batch)


def _check_single(policy: PolicyLike, batch: Mapping[str, Array]) -> None:
    """One episode: the declared shape, finite, repeatable, and the observation is left as it was."""
    signals = {signal.name for signal in policy.interface.observations}
    flat = len(policy.execution.history) == 1
    observation = {n: values[0, 0] if flat and n in signals else values[0] for n, values in batch.items()}
    before = {name: values.copy() for name, values in observation.items()}
    policy.reset(int(SEEDS[0]))
    chunk = np.asarray(policy.infer(observation))
    used = policy.execution.n_action_steps + policy.execution.inference_delay_steps
    shortest = used + policy.execution.latency_steps
    assert chunk.ndim == 2 and chunk.shape[1] == action_width(policy), f"chunk: got {chunk.shape}"
    assert len(chunk) >= shortest, f"chunk: got {len(chunk)} actions, executed are {shortest}"
    assert np.isfinite(chunk).all(), "actions are finite"
    assert all(np.array_equal(before[name], observation[name]) for name in before), "observations are inputs"
    policy.infer(observation)
    policy.reset(int(SEEDS[0]))
    again = np.asarray(policy.infer(observation))
    assert np.array_equal(chunk, again), "after reset with the same seed it acts the same"


def _check_batch(policy: PolicyLike, batch: Mapping[str, Array]) -> None:
    """Episodes side by side: each as it would be alone, and a new one leaves the others as they were."""
    batched, rows = make_batched(policy), np.arange(len(SEEDS))
    batched.reset_batch(rows, SEEDS, real=False)
    together = np.asarray(batched.infer_batch(batch, rows))
    batched.reset_batch(rows, SEEDS, real=False)
    for row in rows[::-1]:
        alone = batched.infer_batch({n: v[row : row + 1] for n, v in batch.items()}, rows[row : row + 1])
        assert np.allclose(alone[0], together[row], atol=ROUNDING), "an episode depends on its own row only"
    batched.reset_batch(rows, SEEDS, real=False)
    first = np.asarray(batched.infer_batch(batch, rows))
    second = np.asarray(batched.infer_batch(batch, rows))
    batched.reset_batch(rows, SEEDS, real=False)
    batched.infer_batch(batch, rows)
    batched.reset_batch(rows[1:2], SEEDS[1:2], real=False)
    mixed = np.asarray(batched.infer_batch(batch, rows))
    expected = np.where((rows == 1)[:, None, None], first, second)
    assert np.allclose(mixed, expected, atol=ROUNDING), "a new episode leaves the others as they were"
