"""`groot:tcp://HOST:PORT`: policies behind the ZeroMQ server of Isaac GR00T.

A request is {endpoint, data, api_token}, an answer to `get_action` the list [actions, info]. Inputs are named by modality:
`video/CAMERA`, `state/KEY`, `language/KEY`; all have axes for episodes and time in front. The chunks of all action keys, one beside
the other in the order of the server's modality config, are the output `actions`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import MissingExtra, PolicyChanged, PolicyGone, WrongUse
from twinloop.policies.backends import packing
from twinloop.policies.backends.openpi import fingerprint_of, read_arrays, wrong_answer
from twinloop.policies.backends.protocol import BACKENDS, Inputs
from twinloop.policies.backends.websocket import (
    ANSWER_S,
    CONNECT_S,
    FIRST_ANSWER_S,
    TOKEN,
    require_address,
    require_loopback,
)

AXES = {"video": 5, "state": 3}
"""Of what the server takes: episodes, time, and the value's own."""


class GrootBackend:
    """A conversation with a GR00T server, which keeps nothing between calls."""

    def __init__(self, rest: str, answer_s: float = ANSWER_S) -> None:
        self._address, self._answer_s, self._answered = rest, answer_s, False
        self._token = os.environ.get(TOKEN, "")
        self._socket: Any = None
        self._dialled = self._find_host()
        self._ask("ping", None, CONNECT_S)
        self.metadata: Mapping[str, Any] = self._read_config()
        self.fingerprint = fingerprint_of(self.metadata)

    def open_session(self) -> GrootBackend:
        """Return itself."""
        return self

    def reset(self, seed: int, task: str) -> None:
        """Tell the server that an episode begins, and make sure that it still serves the same policy."""
        if (found := fingerprint_of(self._read_config())) != self.fingerprint:
            raise PolicyChanged(
                f"policy at {self._address}: another policy answers now", got=found, expected=self.fingerprint
            )
        self._ask("reset", {"options": {"seed": seed}}, self._limit_s())

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Ask about one episode: (H, W, 3) or (T, H, W, 3) video, (D,) or (T, D) state, text."""
        batch = {n: [v] if isinstance(v, str) else np.asarray(v)[None] for n, v in inputs.items()}
        return {name: values[0] for name, values in self.infer_batch(batch).items()}

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """As `infer` for n episodes: every array and list has a first axis of n."""
        count = len(next(iter(inputs.values())))
        request: dict[str, dict[str, Any]] = {"video": {}, "state": {}, "language": {}}
        for name, values in inputs.items():
            modality, _, key = name.partition("/")
            if modality not in request or not key:
                raise WrongUse(
                    "a GR00T server has no such input",
                    got=name,
                    expected="video/CAMERA, state/KEY or language/KEY",
                )
            request[modality][key] = _with_time(modality, values)
        answer = self._ask("get_action", {"observation": request, "options": None}, self._limit_s())
        if not isinstance(answer, list) or not answer:
            raise wrong_answer(self._address, type(answer).__name__, "a list of actions and info")
        return self._join(read_arrays(answer[0], self._address), count)

    def close(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None

    def _read_config(self) -> Mapping[str, Any]:
        said = packing.plain(self._ask("get_modality_config", None, CONNECT_S))
        return said if isinstance(said, dict) else {}

    def _join(self, chunks: dict[str, Array], count: int) -> dict[str, Array]:
        """The chunks (n, T, D) by key, and all of them beside each other as `actions`."""
        sizes = {values.shape[:2] for values in chunks.values()}
        if len(sizes) != 1 or any(v.ndim != 3 or len(v) != count for v in chunks.values()):
            got = {name: values.shape for name, values in chunks.items()}
            raise wrong_answer(self._address, got, f"({count}, T, D) for every key, with the same T")
        config = self.metadata.get("action")
        keys = config.get("as_json", config) if isinstance(config, dict) else {}
        declared = keys.get("modality_keys") if isinstance(keys, dict) else None
        names = list(declared) if isinstance(declared, list) else list(chunks)
        found = [chunks[name if name in chunks else f"action.{name}"] for name in names if _has(chunks, name)]
        joined = np.concatenate(found if len(found) == len(chunks) else list(chunks.values()), axis=-1)
        return {**chunks, "actions": joined}

    def _limit_s(self) -> float:
        return self._answer_s if self._answered else max(self._answer_s, FIRST_ANSWER_S)

    def _find_host(self) -> str:
        """The address to dial: numbers, so that nothing else is dialled than was checked."""
        host, port = require_address(self._address, ("tcp",))
        try:
            family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        except (OSError, UnicodeError) as error:
            raise PolicyGone(
                f"policy at {self._address}: no such host", remedy="check the address"
            ) from error
        if self._token:
            require_loopback(str(found[0]), self._address)
        try:  # ZeroMQ itself would wait for somebody to listen there
            socket.create_connection((str(found[0]), port), CONNECT_S).close()
        except OSError as error:
            raise PolicyGone(
                f"policy at {self._address}: nothing answers ({error.strerror or error})",
                remedy="start the server, or check the address",
            ) from error
        return f"tcp://[{found[0]}]:{port}" if family == socket.AF_INET6 else f"tcp://{found[0]}:{port}"

    def _ask(self, endpoint: str, data: Mapping[str, Any] | None, limit_s: float) -> Any:
        zmq = _zmq()
        request: dict[str, Any] = {"endpoint": endpoint}
        request |= {"data": data} if data is not None else {}
        request |= {"api_token": self._token} if self._token else {}
        if self._socket is None:
            self._socket = zmq.Context.instance().socket(zmq.REQ)
            self._socket.setsockopt(zmq.MAXMSGSIZE, packing.MAX_BYTES)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.IPV6, int("[" in self._dialled))
            self._socket.connect(self._dialled)
        try:
            self._socket.setsockopt(zmq.SNDTIMEO, round(1e3 * limit_s))
            self._socket.send(packing.pack(request, "groot"))
            if not self._socket.poll(round(1e3 * limit_s), zmq.POLLIN):
                raise zmq.Again
            answer = packing.unpack(self._socket.recv(zmq.NOBLOCK))
        except PolicyGone:
            self.close()
            raise
        except zmq.ZMQError as error:  # a REQ socket that got no answer is of no use any more
            self.close()
            raise PolicyGone(
                f"policy at {self._address}: no answer to {endpoint} within {limit_s:g} s",
                remedy="start the server, or check the address",
            ) from error
        self._answered = self._answered or endpoint == "get_action"
        if isinstance(answer, dict) and "error" in answer:
            reason = packing.printable(answer["error"])
            raise PolicyGone(
                f"policy at {self._address}: the server reports an error: {reason}",
                remedy=f"set {TOKEN} to the server's token" if "nauthorized" in reason else None,
            )
        return answer


def _has(chunks: Mapping[str, Array], name: object) -> bool:
    return isinstance(name, str) and (name in chunks or f"action.{name}" in chunks)


def _with_time(modality: str, values: Array | list[str]) -> Any:
    """Values of n episodes with an axis for time after the first."""
    if modality == "language":
        return [[str(text)] for text in values]
    array = np.asarray(values, np.uint8 if modality == "video" else np.float32)
    return array[:, None] if array.ndim == AXES[modality] - 1 else array


def _zmq() -> Any:
    try:
        import zmq
    except ImportError as error:
        raise MissingExtra("talking to GR00T servers", "pyzmq", "remote") from error
    return zmq


@BACKENDS.register("groot")
def open_groot(rest: str) -> GrootBackend:
    """`groot:tcp://HOST:PORT`."""
    return GrootBackend(rest)
