"""A policy behind openpi's WebSocket protocol: any openpi client can run it.

A client gets the metadata when it connects, and then a chunk for each observation, named as in the metadata. A connection is about
one episode at a time, which begins when the client connects and again with a request that carries `reset: SEED`. A policy that
keeps nothing between calls also takes `batch: N`: arrays with a first axis of N episodes, answered by chunks (N, T, A).

Clients are not trusted: messages are bounded by what the policy observes, slow readers are disconnected, web pages of other
sites are refused, and what a client sends wrong is answered with one line of text and goes no further.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Any

import numpy as np

from twinloop.episode import MAX_CAMERA_SIDE, Array
from twinloop.errors import MissingExtra, PolicyGone, TwinloopError, WrongUse, first_line
from twinloop.policies.backends import packing
from twinloop.policies.backends.openpi import BATCH, RESET
from twinloop.policies.backends.websocket import TOKEN
from twinloop.policies.protocol import PolicyLike, is_stateless, make_batched, min_image_side
from twinloop.version import __version__

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

MAX_CLIENTS = 128
MAX_BATCH = 1024
MAX_BATCH_BYTES = 1 << 26
MAX_SEED = 2**63
MIN_TOKEN_CHARACTERS = 16
"""Shorter tokens can be guessed: wrong ones are refused, but not slowed down."""
LARGER_IMAGES = 16
"""Images may have this many times the declared pixels, for policies that resize them."""
SPARE_BYTES = 1 << 16
"""Of a message, for names, text and what the policy does not observe."""
SEND_S = 10.0
"""A client that takes longer to read an answer is disconnected."""
PING_S, PONG_S = 60.0, 300.0
"""Between pings, and the longest wait for an answer: a client that simulates or compiles may be deaf for minutes."""


@dataclass(frozen=True)
class Door:
    """Where a policy is served, and who is let in: on another address than this machine's own only with a token."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    certificate: Path | None = None
    key: Path | None = None


def serve(
    policy: PolicyLike,
    door: Door = Door(),  # noqa: B008  frozen
    *,
    real: bool = True,
    on_ready: Callable[[str], None] = lambda address: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve a policy until interrupted.

    Args:
        policy: Any policy.
        door: Where, and with which token.
        real: Whether clients observe a robot, for a policy that tells robots and simulations apart.
        on_ready: Called with the address once clients can connect.
        stop: Ends the server when set in its own event loop; default: SIGINT and SIGTERM do.

    Raises:
        WrongUse: The address cannot be used, or would let anybody in.
    """
    served = ServedPolicy(policy, real)
    asyncio.run(_run(served, door, on_ready, stop))


class ServedPolicy:
    """A policy with the state of each client's episode, asked from one thread."""

    def __init__(self, policy: PolicyLike, real: bool) -> None:
        self._policy, self._real = make_batched(policy), real
        self._stateless, self._image_side = is_stateless(policy), min_image_side(policy)
        self._interface, self._history = policy.interface, policy.execution.history
        self._free_rows = list(range(MAX_CLIENTS))[::-1]
        row = self.open_row()
        chunk = self.infer(self._blank(), row)["actions"]  # a policy that cannot act is not served
        self.close_row(row)
        self.metadata = describe(policy, chunk.shape[0])

    @property
    def max_message_bytes(self) -> int:
        """The longest message that this policy has any use for."""
        scale = LARGER_IMAGES if self._image_side is not None else 1
        frames = sum(camera.height * camera.width * 3 * scale for camera in self._interface.cameras)
        one = 8 * len(self._history) * self._interface.observation_size + frames
        return SPARE_BYTES + (max(one, min(MAX_BATCH * one, MAX_BATCH_BYTES)) if self._stateless else one)

    def open_row(self) -> int:
        """Begin the first episode of a new client."""
        row = self._free_rows.pop()
        self._reset(row, 0)
        return row

    def close_row(self, row: int) -> None:
        """Forget a client."""
        self._free_rows.append(row)

    def infer(self, request: Mapping[str, Any], row: int) -> dict[str, Any]:
        """Answer one request.

        Raises:
            TwinloopError: It is not an observation, or the policy does not answer with actions.
        """
        if RESET in request:
            self._reset(row, _whole(request, RESET, 0, MAX_SEED - 1))
            if len(request) == 1:
                return {RESET: True}
        count = _whole(request, BATCH, 1, MAX_BATCH) if BATCH in request and self._stateless else None
        observation = self._read(request, count)
        rows = np.array([row]) if count is None else np.full(count, row)
        began_s = time.perf_counter()
        chunks = np.asarray(self._policy.infer_batch(observation, rows))
        if chunks.ndim != 3 or len(chunks) != len(rows) or not np.isfinite(chunks).all():
            raise PolicyGone(
                f"policy {self._policy.name} gives no actions", got=f"shape {chunks.shape}",
                expected=f"finite numbers ({len(rows)}, T, {self._interface.action.size})",
            )  # fmt: skip
        actions = np.ascontiguousarray(chunks if count is not None else chunks[0], np.float32)
        return {"actions": actions, "server_timing": {"infer_ms": 1e3 * (time.perf_counter() - began_s)}}

    def _reset(self, row: int, seed: int) -> None:
        self._policy.reset_batch(np.array([row]), np.array([seed]), real=self._real)

    def _blank(self) -> dict[str, Array]:
        """An observation of zeros."""
        steps = (len(self._history),) if len(self._history) > 1 else ()
        signals = {s.name: np.zeros((*steps, s.size), np.float32) for s in self._interface.observations}
        return signals | {c.name: np.zeros((c.height, c.width, 3), np.uint8) for c in self._interface.cameras}

    def _read(self, request: Mapping[str, Any], count: int | None) -> dict[str, Array]:
        """Signals (n, H, size) and frames (n, height, width, 3) of a request about one episode or, with `count`, several."""
        first = () if count is None else (count,)
        steps = (len(self._history),) if len(self._history) > 1 else ()
        observation: dict[str, Array] = {}
        for signal in self._interface.observations:
            values = _array(request, signal.name, "fiu", (*first, *steps, signal.size))
            if not np.isfinite(values).all():
                raise _wrong_input(signal.name, "numbers that are not finite", "finite numbers")
            observation[signal.name] = values.astype(np.float32).reshape(
                count or 1, len(self._history), signal.size
            )
        for camera in self._interface.cameras:
            frame, size = request.get(camera.name), (camera.height, camera.width)
            if (
                isinstance(frame, np.ndarray)
                and frame.ndim == 3 + len(first)
                and self._image_side is not None
            ):
                size = frame.shape[-3:-1]  # it is resized
                if not (self._image_side <= min(size) and max(size) <= MAX_CAMERA_SIDE):
                    raise _wrong_input(camera.name, size, f"at least {self._image_side} pixels a side")
            frame = _array(request, camera.name, "u", (*first, *size, 3))
            observation[camera.name] = frame.astype(np.uint8).reshape(count or 1, *size, 3)
        return observation


def describe(policy: PolicyLike, chunk: int) -> dict[str, Any]:
    """Return the metadata that a client gets: what the policy observes, at which rate, and what its actions are."""
    interface, execution = policy.interface, policy.execution
    return {
        "server": f"twinloop {__version__}",
        "name": policy.name,
        "id": policy.id,
        "robot_type": interface.robot_type,
        "rate_hz": interface.rate_hz,
        "observations": {
            signal.name: {"size": signal.size, "elements": list(signal.elements), "units": list(signal.units)}
            for signal in interface.observations
        },
        "history": list(execution.history),
        "cameras": {c.name: {"height": c.height, "width": c.width} for c in interface.cameras},
        "actions": {
            "size": interface.action.size,
            "elements": list(interface.action.elements),
            "units": list(interface.action.units),
        },
        "chunk": chunk,
        "n_action_steps": execution.n_action_steps,
        "stateful": not is_stateless(policy),
        "accepts": [RESET, BATCH] if is_stateless(policy) else [RESET],
    }


class Clients:
    """The clients of one served policy, side by side; inference takes turns."""

    def __init__(self, served: ServedPolicy, token: str) -> None:
        self._served, self._token = served, token
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self._count = 0

    def admit(self, connection: ServerConnection, request: Any) -> Any:
        """Answer health checks, and refuse clients without the token; None lets a client in."""
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        given = request.headers.get("Authorization") or ""
        expected = f"Api-Key {self._token}"
        if self._token and not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            return connection.respond(
                http.HTTPStatus.UNAUTHORIZED, f"the token is wrong or missing: set {TOKEN}\n"
            )
        if self._count >= MAX_CLIENTS:
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_CLIENTS} clients already\n")
        return None

    async def attend(self, connection: ServerConnection) -> None:
        """Answer one client until it hangs up."""
        from websockets.exceptions import ConnectionClosed

        if self._count >= MAX_CLIENTS:  # several may have been admitted at once
            return
        self._count += 1
        row = await self._in_turn(self._served.open_row)
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            try:
                await _send(connection, packing.pack(self._served.metadata))
                while True:
                    await _send(connection, await self._answer(await connection.recv(), row))
            finally:
                self._count -= 1
                await self._in_turn(self._served.close_row, row)

    def close(self) -> None:
        """End the thread of inference, after what it is doing."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    async def _answer(self, message: bytes | str, row: int) -> bytes | str:
        """Actions, or one line of text that says what is wrong."""
        try:
            request = packing.unpack(message) if isinstance(message, bytes) else None
            if not isinstance(request, dict) or not all(isinstance(name, str) for name in request):
                raise PolicyGone(
                    "a request cannot be read", expected="a msgpack dictionary of arrays and text by name"
                )
            return packing.pack(await self._in_turn(self._served.infer, request, row))
        except TwinloopError as error:
            return str(error).replace("\n  -> ", " ")
        except Exception as error:  # noqa: BLE001  a policy of the user's: its failure concerns this request only
            return f"the policy failed: {type(error).__name__}: {first_line(error)}"

    async def _in_turn(self, do: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._worker, do, *arguments)


async def _run(
    served: ServedPolicy, door: Door, on_ready: Callable[[str], None], stop: asyncio.Event | None
) -> None:
    listen = _require_websockets()
    _require_closed(door)
    context = _load_certificate(door)
    clients, loop = Clients(served, door.token), asyncio.get_running_loop()
    if stop is None:
        stop = asyncio.Event()
        for number in (SIGINT, SIGTERM):
            loop.add_signal_handler(number, stop.set)
    try:
        server = await listen(
            clients.attend, door.host, door.port, process_request=clients.admit, origins=[None], ssl=context,
            compression=None, max_size=served.max_message_bytes, max_queue=2, open_timeout=5.0,
            ping_interval=PING_S, ping_timeout=PONG_S, close_timeout=2.0, server_header=None,
        )  # fmt: skip
    except OSError as error:
        raise WrongUse(
            f"{door.host} port {door.port} cannot be used ({error.strerror or error})",
            remedy="choose another one",
        ) from error
    try:
        async with server:
            port = server.sockets[0].getsockname()[1]
            host = f"[{door.host}]" if ":" in door.host else door.host
            on_ready(f"{'wss' if context else 'ws'}://{host}:{port}")
            await stop.wait()
    finally:
        clients.close()


async def _send(connection: ServerConnection, message: bytes | str) -> None:
    """Send an answer; who does not read it is disconnected."""
    try:
        async with asyncio.timeout(SEND_S):
            await connection.send(message)
    except TimeoutError:
        connection.transport.abort()
        raise


def _require_websockets() -> Any:
    try:
        from websockets.asyncio.server import serve as listen
    except ImportError as error:
        raise MissingExtra("serving a policy", "websockets", "remote") from error
    return listen


def _require_closed(door: Door) -> None:
    """Refuse to let anybody in who can reach this machine."""
    if door.token and len(door.token) < MIN_TOKEN_CHARACTERS:
        raise WrongUse(
            f"the token in {TOKEN} is too short", got=f"{len(door.token)} characters",
            expected=f"{MIN_TOKEN_CHARACTERS} or more", remedy=f"export {TOKEN}=$(openssl rand -hex 16)",
        )  # fmt: skip
    if door.host not in ("127.0.0.1", "::1", "localhost") and not door.token:
        raise WrongUse(
            "other machines are let in with a token only", got=f"--host {door.host}",
            remedy=f"export {TOKEN}=$(openssl rand -hex 16), here and for the clients",
        )  # fmt: skip


def _load_certificate(door: Door) -> ssl.SSLContext | None:
    if door.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(door.certificate, door.key)
    except (OSError, ssl.SSLError) as error:
        raise WrongUse(
            f"{door.certificate} cannot be used as a certificate ({getattr(error, 'reason', None) or error})",
            expected="PEM files of a certificate and its key",
        ) from error
    return context


def _whole(request: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = request[name]
    if type(value) is not int or not least <= value <= most:
        raise _wrong_input(name, packing.printable(value, 40), f"a whole number from {least} to {most}")
    return value


def _array(request: Mapping[str, Any], name: str, kinds: str, shape: tuple[int, ...]) -> Array:
    if name not in request:
        raise _wrong_input(
            name, f"none among {', '.join(map(packing.printable, request)) or 'nothing'}", f"shape {shape}"
        )
    values = request[name]
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds or values.shape != shape:
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise _wrong_input(name, got, f"{'uint8' if kinds == 'u' else 'numbers'} {shape}")
    return values


def _wrong_input(name: str, got: object, expected: object) -> PolicyGone:
    return PolicyGone(f"the policy observes something else: {name}", got=got, expected=expected)
