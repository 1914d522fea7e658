"""Conformance check for backends of foreign policies, and a fake one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyGone
from twinloop.policies.backends.protocol import Backend, Inputs

ROUNDING = 1e-4
"""Batched and single inference may differ by this much: matrix products of other sizes round differently."""


class FakeBackend:
    """Adds how often it was asked in the episode to its input `state`: its answers tell which conversation they are of.

    Args:
        chunk: Actions of one answer.
        gone_after: Answers after which it is gone, in any conversation.
        metadata: What it says of itself.
    """

    def __init__(
        self, chunk: int = 2, gone_after: int | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self.metadata: Mapping[str, Any] = metadata or {"name": "fake"}
        self.fingerprint = f"fake {chunk}"
        self.tasks: list[str] = []
        self.closed = False
        self._chunk, self._gone_after, self._asked = chunk, gone_after, 0
        self._answers = [0]

    def open_session(self) -> Backend:
        """Return a conversation of its own; answers are counted over all of them."""
        other = FakeBackend(self._chunk, self._gone_after, self.metadata)
        other._answers, other.tasks = self._answers, self.tasks
        return other

    def reset(self, seed: int, task: str) -> None:
        """Begin an episode."""
        self.tasks.append(task)
        self._asked = 0

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """A chunk (chunk, size) of `state` plus the number of earlier questions."""
        if self._gone_after is not None and self._answers[0] >= self._gone_after:
            raise PolicyGone("the fake policy is gone")
        state = np.asarray(inputs["state"], np.float64)
        answer = np.repeat(state[None] + self._asked, self._chunk, axis=0)
        self._asked += 1
        self._answers[0] += 1
        return {"actions": answer}

    def close(self) -> None:
        """End the conversation."""
        self.closed = True


def check_backend(backend: Backend, inputs: Inputs) -> None:
    """Check that an object implements `Backend`, and `BatchedBackend` if it has `infer_batch`.

    Args:
        backend: The backend; it is closed at the end.
        inputs: One question that it can answer: arrays without a batch axis, or text.

    Raises:
        AssertionError: It does not; the message names the requirement.
    """
    assert isinstance(backend.metadata, Mapping), f"metadata: got {type(backend.metadata).__name__}"
    json.dumps(dict(backend.metadata))  # plain values
    fingerprint = backend.fingerprint
    assert isinstance(fingerprint, str) and fingerprint, "fingerprint: a text"
    assert backend.fingerprint == fingerprint, "fingerprint: the same text every time"
    first, second = backend.open_session(), backend.open_session()
    first.reset(3, "pick up the cube")
    once = _ask(first, inputs)
    twice = _ask(first, inputs)
    second.reset(3, "pick up the cube")
    assert _same(_ask(second, inputs), once), "a conversation does not depend on the others"
    first.reset(3, "pick up the cube")
    assert _same(_ask(first, inputs), once), "after reset with the same seed it answers the same"
    assert _same(_ask(first, inputs), twice), "and again the same to the second question"
    if hasattr(backend, "infer_batch"):
        assert backend.open_session() is backend, "a batched backend keeps nothing between calls"
        _check_batch(backend, inputs)
    for one in (first, second, backend):
        one.close()
        one.close()


def _ask(backend: Backend, inputs: Inputs) -> dict[str, Array]:
    """An answer, after a look at its shape and at what became of the question."""
    before = {name: np.array(value) for name, value in inputs.items()}
    answer = backend.infer(inputs)
    assert isinstance(answer, Mapping) and answer, "an answer is a dictionary of arrays"
    for name, values in answer.items():
        assert isinstance(name, str) and isinstance(values, np.ndarray), (
            f"{name}: got {type(values).__name__}"
        )
        assert values.dtype.kind in "fiub" and np.isfinite(values).all(), f"{name}: finite numbers"
    assert all(np.array_equal(before[name], inputs[name]) for name in before), "inputs are left as they are"
    return {name: values.copy() for name, values in answer.items()}


def _check_batch(backend: Any, inputs: Inputs) -> None:
    """Many questions at once are answered as one by one."""
    shifted = {
        n: v if isinstance(v, str) else (np.asarray(v) * 0.5).astype(v.dtype) for n, v in inputs.items()
    }
    questions = [inputs, shifted, inputs]
    batch = {
        name: [str(value)] * 3
        if isinstance(value, str)
        else np.stack([np.asarray(q[name]) for q in questions])
        for name, value in inputs.items()
    }
    together = backend.infer_batch(batch)
    for row, question in enumerate(questions):
        alone = _ask(backend, question)
        for name, values in alone.items():
            assert np.allclose(np.asarray(together[name])[row], values, atol=ROUNDING), f"{name} of row {row}"


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
