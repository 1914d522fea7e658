"""`openpi:ws://HOST:PORT`: policies behind openpi's WebSocket protocol, which several stacks serve.

The server sends its metadata when a client connects. A request is one flat dictionary of arrays and text, an answer one with
`actions` (T, A); a text frame instead of an answer is a traceback. openpi itself knows no episodes. Servers of ours say in their
metadata what they add: `stateful: true`, that a connection is about one episode at a time, and what else than observations they
accept in a request: `reset: SEED` begins an episode, `batch: N` says that all arrays have a first axis of N episodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyChanged, PolicyGone
from twinloop.policies.backends import packing
from twinloop.policies.backends.protocol import BACKENDS, Backend, Inputs
from twinloop.policies.backends.websocket import Conversation

RESET, BATCH = "reset", "batch"
"""Keys of a request, for servers that accept them: the seed of an episode that begins; a number of episodes side by side."""


class OpenpiBackend:
    """One connection to a server of the openpi protocol, about one episode at a time."""

    def __init__(self, conversation: Conversation, metadata: Mapping[str, Any]) -> None:
        self._conversation, self._seed = conversation, 0
        self._begins = False
        self.metadata = metadata
        self.fingerprint = fingerprint_of(metadata)

    def open_session(self) -> Backend:
        """Return a connection of its own for another episode."""
        return open_openpi(self._conversation.address)

    def reset(self, seed: int, task: str) -> None:
        """Begin an episode; connect again if the connection was lost in the last one."""
        if not self._conversation.is_open:
            found = fingerprint_of(_greet(self._conversation))
            require_same_policy(found, self.fingerprint, self._conversation)
        self._seed, self._begins = seed, self._accepts(RESET)

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Ask for a chunk: arrays and text by the server's names, arrays by the server's names."""
        return self._ask([dict(inputs)])[0]

    def close(self) -> None:
        """Disconnect."""
        self._conversation.close()

    def _accepts(self, key: str) -> bool:
        accepted = self.metadata.get("accepts")
        return isinstance(accepted, list) and key in accepted

    def _ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Array]]:
        if self._begins:
            requests[0][RESET], self._begins = self._seed, False
        answers = self._conversation.ask([packing.pack(request) for request in requests])
        return [read_arrays(packing.unpack(answer), self._conversation.address) for answer in answers]


class StatelessOpenpi(OpenpiBackend):
    """A server that keeps nothing between calls: requests about many episodes follow each other without waiting."""

    def open_session(self) -> Backend:
        """Return itself."""
        return self

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """As `infer` for n episodes: every array and list has a first axis of n."""
        count, address = len(next(iter(inputs.values()))), self._conversation.address
        if self._accepts(BATCH):
            (answer,) = self._ask([{**inputs, BATCH: count}])
            if any(not values.ndim or len(values) != count for values in answer.values()):
                got = {name: values.shape for name, values in answer.items()}
                raise wrong_answer(address, got, f"arrays with a first axis of {count}")
            return answer
        answers = self._ask([{name: values[row] for name, values in inputs.items()} for row in range(count)])
        return stack(answers, address)


@BACKENDS.register("openpi")
def open_openpi(rest: str) -> Backend:
    """`openpi:ws://HOST:PORT` or `openpi:wss://HOST:PORT`."""
    conversation = Conversation(rest)
    metadata = _greet(conversation)
    kind = OpenpiBackend if metadata.get("stateful") is True else StatelessOpenpi
    return kind(conversation, metadata)


def _greet(conversation: Conversation) -> Mapping[str, Any]:
    """Connect and return the server's metadata."""
    conversation.open()
    said = packing.plain(packing.unpack(conversation.listen()))
    if not isinstance(said, dict):
        conversation.close()
        raise wrong_answer(conversation.address, type(said).__name__, "metadata in a dictionary")
    return said


def require_same_policy(found: str, expected: str, conversation: Conversation) -> None:
    """Refuse to go on with another policy than the conversation began with."""
    if found != expected:
        conversation.close()
        raise PolicyChanged(
            f"policy at {conversation.address}: another policy answers now", got=found, expected=expected,
            remedy="start again with the policy that is served now",
        )  # fmt: skip


def fingerprint_of(metadata: Mapping[str, Any]) -> str:
    """Return a hash of what a server says of itself."""
    text = json.dumps(packing.plain(metadata), sort_keys=True)
    return hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).hexdigest()


def read_arrays(answer: object, address: str) -> dict[str, Array]:
    """Return the arrays of an answer; other entries, such as timings, are left out.

    Raises:
        PolicyGone: There is none, or one is not finite.
    """
    if not isinstance(answer, dict):
        raise wrong_answer(address, type(answer).__name__, "a dictionary with actions")
    arrays = {
        packing.printable(name): values for name, values in answer.items() if isinstance(values, np.ndarray)
    }
    for name, values in arrays.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise wrong_answer(address, f"{name} that is not finite", "finite numbers")
    if not arrays:
        raise wrong_answer(
            address, ", ".join(map(packing.printable, answer)) or "nothing", "arrays, such as actions"
        )
    return arrays


def stack(answers: list[dict[str, Array]], address: str) -> dict[str, Array]:
    """Return answers about n episodes as arrays with a first axis of n; all must have the same names and shapes."""
    shapes = [{name: values.shape for name, values in answer.items()} for answer in answers]
    for shape in shapes:
        if shape != shapes[0]:
            raise wrong_answer(
                address, f"{shape} after {shapes[0]}", "arrays of the same shape in every answer"
            )
    return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}


def wrong_answer(address: str, got: object, expected: object) -> PolicyGone:
    """Return the error for an answer that is no chunk of actions."""
    return PolicyGone(
        f"policy at {address} answers with something else than actions", got=got, expected=expected,
        remedy="check that the server speaks this protocol",
    )  # fmt: skip
