"""One conversation with a policy server over a WebSocket: bounded messages, one deadline for each exchange.

Connections live in a thread of their own, which answers the server's keep-alive pings while a robot is being prepared.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import os
import ssl
import threading
import urllib.parse
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from twinloop.errors import MissingExtra, PolicyGone, WrongUse
from twinloop.policies.backends import packing

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

T = TypeVar("T")

TOKEN = "TWINLOOP_POLICY_TOKEN"
"""Environment variable with the token that a policy server may require, for clients and for `twinloop serve`."""

CONNECT_S = 10.0
"""Longest wait for a connection."""
ANSWER_S = 30.0
"""Longest wait for an answer, from the first byte sent to the last one received."""
FIRST_ANSWER_S = 300.0
"""The same for the first answer of a connection: many servers compile their policy then."""


class Conversation:
    """A WebSocket to a policy server, used from one thread at a time."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        answer_s: float = ANSWER_S,
        max_bytes: int = packing.MAX_BYTES,
    ) -> None:
        self.address, self._max_bytes, self._answer_s = address, max_bytes, answer_s
        self._token = token if token is not None else os.environ.get(TOKEN, "")
        self._socket: ClientConnection | None = None
        self._answered = False
        require_address(address, ("ws", "wss"))

    @property
    def is_open(self) -> bool:
        """Nothing has gone wrong since `open`."""
        return self._socket is not None

    def open(self) -> None:
        """Connect, again if need be.

        Raises:
            PolicyGone: Nothing answers at the address, or it refuses.
            WrongUse: The token would go to another machine in clear.
        """
        self.close()
        self._socket, self._answered = self._run(self._dial(), CONNECT_S + 1.0), False

    def ask(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send messages and return as many answers, in the same order; each message adds to the time that all of them have.

        Raises:
            PolicyGone: The connection was lost, the time is up, or the server reports an error. The connection is closed.
        """
        if self._socket is None:
            self._fail("the connection is closed", remedy="the next trial connects again")
        limit_s = self._answer_s if self._answered else max(self._answer_s, FIRST_ANSWER_S)
        answers = self._run(self._exchange(self._socket, messages), limit_s * max(1, len(messages)))
        self._answered = self._answered or bool(messages)
        return answers

    def listen(self) -> bytes:
        """Return the next message, which the server sends without being asked."""
        if self._socket is None:
            self._fail("the connection is closed")
        return self._run(self._receive(self._socket), self._answer_s)

    def send(self, message: bytes) -> None:
        """Send a message that has no answer."""
        if self._socket is None:
            self._fail("the connection is closed")
        self._run(self._socket.send(message), self._answer_s)

    def close(self) -> None:
        """Close the connection; calling it twice is allowed."""
        found, self._socket = self._socket, None
        if found is not None:
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(found.close(), _loop()).result(2.0)

    def _run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        """Run in the thread of connections, with one deadline for all of it."""
        websockets = _websockets()

        async def in_time() -> T:
            async with asyncio.timeout(limit_s):
                return await work

        future = asyncio.run_coroutine_threadsafe(in_time(), _loop())
        try:
            return future.result()
        except (TimeoutError, concurrent.futures.TimeoutError):
            self._fail(
                f"no answer within {limit_s:g} s",
                remedy="check that the server is running and not overloaded",
            )
        except websockets.exceptions.InvalidStatus as error:
            self._refused(error.response.status_code)
        except websockets.exceptions.PayloadTooBig:
            self._fail("an answer is too long", expected=f"at most {self._max_bytes} bytes")
        except websockets.exceptions.ConnectionClosed as error:
            self._closed(error)
        except websockets.exceptions.WebSocketException as error:
            self._fail(
                f"no WebSocket ({packing.printable(error, 100)})", remedy="check the address and the port"
            )
        except ssl.SSLError as error:
            self._fail(
                f"no secure connection ({packing.printable(getattr(error, 'verify_message', '') or error.reason, 100)})",
                remedy="for a certificate of your own, set SSL_CERT_FILE to it",
            )
        except (OSError, UnicodeError, EOFError) as error:
            self._fail(
                f"nothing answers ({getattr(error, 'strerror', None) or packing.printable(error, 100)})",
                remedy="start the server, or check the address",
            )
        finally:
            if not future.done() or future.cancelled():  # interrupted
                future.cancel()
                self._socket = None

    async def _dial(self) -> ClientConnection:
        host, secure = await self._find_host()
        context = ssl.create_default_context() if secure else None
        connection: ClientConnection = await _connect()(
            self.address, host=host, ssl=context, compression=None, max_size=self._max_bytes, proxy=None,
            additional_headers={"Authorization": f"Api-Key {self._token}"} if self._token else None,
            open_timeout=CONNECT_S, close_timeout=1.0, ping_interval=None, user_agent_header="twinloop",
        )  # fmt: skip
        return connection

    async def _find_host(self) -> tuple[str, bool]:
        """The address behind the host's name, which is then the one that is dialled, and whether it is by TLS."""
        parts = urllib.parse.urlsplit(self.address)
        secure, host = parts.scheme == "wss", parts.hostname or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, parts.port, type=1)
        number = str(found[0][4][0])
        if self._token and not secure:
            require_loopback(number, self.address)
        return number, secure

    async def _exchange(self, connection: ClientConnection, messages: Sequence[bytes]) -> list[bytes]:
        async def send_all() -> None:
            for message in messages:
                await connection.send(message)

        sending = asyncio.ensure_future(
            send_all()
        )  # beside receiving, or two full buffers would wait for each other
        try:
            answers = [await self._receive(connection) for _ in messages]
            await sending
            return answers
        finally:
            sending.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await sending

    async def _receive(self, connection: ClientConnection) -> bytes:
        answer = await connection.recv()
        if isinstance(answer, str):  # a traceback, by the protocol of openpi
            lines = [line for line in answer.splitlines() if line.strip()] or ["no reason given"]
            self._fail(f"the server reports an error: {packing.printable(lines[-1])}")
        return answer

    def _refused(self, status: int) -> NoReturn:
        if status in (401, 403):
            self._fail(f"refused with status {status}", remedy=f"set {TOKEN} to the server's token")
        self._fail(f"refused with status {status}", remedy="check the address: is it a policy server?")

    def _closed(self, error: Any) -> NoReturn:
        reason = packing.printable(error.rcvd.reason, 200) if error.rcvd is not None else ""
        if error.sent is not None and error.sent.code == 1009:
            self._fail("an answer is too long", expected=f"at most {self._max_bytes} bytes")
        self._fail(
            f"the connection was lost{f' ({reason})' if reason else ''}", remedy="check the server's output"
        )

    def _fail(self, what: str, *, expected: str | None = None, remedy: str | None = None) -> NoReturn:
        lost, self._socket = self._socket, None
        if lost is not None:
            _loop().call_soon_threadsafe(lost.transport.abort)
        raise PolicyGone(f"policy at {self.address}: {what}", expected=expected, remedy=remedy)


def require_address(address: str, schemes: tuple[str, ...]) -> tuple[str, int]:
    """Return host and port of SCHEME://HOST:PORT.

    Raises:
        WrongUse: It is none.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    plain = address.isascii() and address.isprintable() and " " not in address
    if parts is None or parts.scheme not in schemes or not host or not port or parts.username or not plain:
        raise WrongUse(
            "cannot parse the address of a policy server", got=packing.printable(address, 100),
            expected=f"{schemes[0]}://HOST:PORT, for example {schemes[0]}://127.0.0.1:8000",
        )  # fmt: skip
    return host, port


def require_loopback(number: str, address: str) -> None:
    """Refuse to send the token in clear to another machine."""
    if ipaddress.ip_address(number.partition("%")[0]).is_loopback:
        return
    host, port = require_address(address, ("ws", "tcp"))
    tunnel = address.replace(host, "127.0.0.1", 1)
    raise WrongUse(
        f"the token in {TOKEN} is not sent to another machine in clear", got=address,
        expected="an address of this machine, or wss://",
        remedy=f"an ssh tunnel: ssh -N -L {port}:127.0.0.1:{port} {host}, then {tunnel}",
    )  # fmt: skip


def _websockets() -> Any:
    try:
        import websockets.exceptions
    except ImportError as error:
        raise MissingExtra("talking to policy servers", "websockets", "remote") from error
    return websockets


@cache
def _connect() -> Any:
    """`connect` without redirects: what is refused here must not be reached by a detour."""
    _websockets()
    from websockets.asyncio.client import connect

    class Direct(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Direct


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="twinloop policies", daemon=True).start()
    return loop
