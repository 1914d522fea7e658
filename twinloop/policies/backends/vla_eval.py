"""`vla-eval:ws://HOST:PORT`: policies behind the model servers of vla-eval.

Every message is {type, payload, seq, timestamp}; the server answers `hello` and `observation`, the latter with `action` or `error`.
A connection is about one episode at a time. Inputs with a `/` in their name are nested: `images/front` is `{"images": {"front": ...}}`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyGone
from twinloop.policies.backends import packing
from twinloop.policies.backends.openpi import fingerprint_of, read_arrays, require_same_policy, wrong_answer
from twinloop.policies.backends.protocol import BACKENDS, Backend, Inputs
from twinloop.policies.backends.websocket import Conversation
from twinloop.version import __version__

PROTOCOL_VERSION = 1


class VlaEvalBackend:
    """One connection to a model server of vla-eval."""

    def __init__(self, address: str) -> None:
        self._conversation, self._number, self._in_episode = Conversation(address), 0, False
        self.metadata: Mapping[str, Any] = self._connect()
        self.fingerprint = fingerprint_of(self.metadata)

    def open_session(self) -> Backend:
        """Return a connection of its own for another episode."""
        return VlaEvalBackend(self._conversation.address)

    def reset(self, seed: int, task: str) -> None:
        """End the last episode and begin one of this task."""
        if not self._conversation.is_open:
            require_same_policy(fingerprint_of(self._connect()), self.fingerprint, self._conversation)
        elif self._in_episode:
            self._send("episode_end", {})
        self._send("episode_start", {"task": {"name": task, "seed": seed}})
        self._in_episode = True

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Ask for an action or a chunk; a single action is a chunk of one."""
        answer = self._ask("observation", nest(inputs), "action")
        arrays = read_arrays(answer, self._conversation.address)
        return {name: values[None] if values.ndim == 1 else values for name, values in arrays.items()}

    def close(self) -> None:
        """End the episode and disconnect."""
        if self._conversation.is_open and self._in_episode:
            self._send("episode_end", {})
        self._in_episode = False
        self._conversation.close()

    def _connect(self) -> Mapping[str, Any]:
        self._conversation.open()
        self._in_episode = False
        hello = {"harness_version": __version__, "protocol_version": PROTOCOL_VERSION}
        said = packing.plain(self._ask("hello", hello, "hello"))
        return said if isinstance(said, dict) else {}

    def _send(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._conversation.send(self._message(kind, payload))

    def _message(self, kind: str, payload: Mapping[str, Any]) -> bytes:
        self._number += 1
        return packing.pack(
            {"type": kind, "payload": payload, "seq": self._number, "timestamp": time.time()}, "vla-eval"
        )

    def _ask(self, kind: str, payload: Mapping[str, Any], expected: str) -> Any:
        """The payload of the answer to a request."""
        address = self._conversation.address
        answer = packing.unpack(self._conversation.ask([self._message(kind, payload)])[0])
        if not isinstance(answer, dict) or not isinstance(answer.get("type"), str):
            self._conversation.close()
            raise wrong_answer(address, type(answer).__name__, "a message with its type")
        said = answer.get("payload")
        if answer["type"] == "error":
            self._conversation.close()  # an answer may still be on its way: the next trial begins afresh
            reason = said.get("error") if isinstance(said, dict) else said
            raise PolicyGone(f"policy at {address}: the server reports an error: {packing.printable(reason)}")
        if answer["type"] != expected or answer.get("seq") != self._number:
            self._conversation.close()
            got = f"{packing.printable(answer['type'])} number {packing.printable(answer.get('seq'))}"
            raise wrong_answer(address, got, f"{expected} number {self._number}")
        return said


def nest(inputs: Inputs) -> dict[str, Any]:
    """Return inputs by name as nested dictionaries, one level for each `/`."""
    nested: dict[str, Any] = {}
    for name, value in inputs.items():
        place, *path = nested, *name.split("/")
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = np.asarray(value) if not isinstance(value, str) else value
    return nested


@BACKENDS.register("vla-eval")
def open_vla_eval(rest: str) -> VlaEvalBackend:
    """`vla-eval:ws://HOST:PORT`."""
    return VlaEvalBackend(rest)
