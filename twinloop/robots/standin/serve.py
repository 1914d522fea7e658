"""The stand-in's server: one client at a time, over a local socket, in lockstep or in real time.

In lockstep, virtual time passes by one control step for every command. In real time the cell runs by the clock, with or
without commands. Error messages are fixed sentences: no reply contains hidden values.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import os
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop.episode import Array
from twinloop.errors import RobotError, TwinloopError, WrongUse
from twinloop.robots import wire
from twinloop.robots.remote import PROTOCOL, description_as_json

if TYPE_CHECKING:
    from twinloop.robots.standin.session import Session

Request = dict[str, Any]
Answer = tuple[dict[str, Any], dict[str, Array]]

MAX_WAIT_STEPS = 100_000
MAX_EPISODE_NUMBER = 10**9
MAX_VALUES = 64
"""Of a scene that a client asks for."""
MAX_REQUEST_BYTES = 1 << 16
"""Arrays of a request: an action."""
MAX_HELLO_BYTES = 1 << 12
MAX_REASON_CHARACTERS = 400
HELLO_TIMEOUT_S = 5.0
"""A client that has not shown its token by then is disconnected."""
CLIENT_TIMEOUT_S = 10.0
"""A client that takes longer to send a request, or to read its answer, is disconnected."""
IDLE_S = 60.0
"""A client that has sent nothing for this long loses its place to another one that shows the token."""
MAX_STRANGERS = 16
"""Clients that have not shown their token yet; of more, the one that has been silent longest is disconnected."""
FIRST_PAUSE_S, MAX_PAUSE_S = 0.25, 8.0
"""Between a wrong token and the check of the next one; doubles with every wrong one."""


def open_listener(address: str | int) -> socket.socket:
    """Listen at a path (a Unix socket that only this user can reach) or at a port of the loopback interface."""
    if isinstance(address, int):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", address))
            listener.listen(4)
        except OSError as error:
            listener.close()
            raise WrongUse(
                f"port {address} cannot be used ({error.strerror})", remedy="choose another one"
            ) from error
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = Path(address)
        if path.is_socket():
            path.unlink()  # left by a server that was killed
        elif path.exists():
            raise WrongUse(f"{address} cannot be used as a socket", got="a file or folder")
        before = os.umask(0o177)
        # Bound under another name first: the path must not exist before the socket listens.
        unready = f"{address}~"
        try:
            Path(unready).unlink(missing_ok=True)
            listener.bind(unready)
            listener.listen(4)
            Path(unready).replace(address)
        except OSError as error:
            listener.close()
            raise WrongUse(f"{address} cannot be used as a socket ({error.strerror or error})") from error
        finally:
            os.umask(before)
    return listener


class Connection:
    """A client's socket, read and written without waiting."""

    def __init__(self, peer: socket.socket, now_s: float) -> None:
        peer.setblocking(False)
        if peer.family == socket.AF_INET:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peer = peer
        self._unsent = bytearray()
        self._closing = False
        self.inbox = wire.Inbox(MAX_HELLO_BYTES, max_body_bytes=0)
        self.closed = False
        self.heard_s = now_s
        self.expires_s = now_s + HELLO_TIMEOUT_S

    def fileno(self) -> int:
        """For `select`."""
        return self._peer.fileno()

    @property
    def wants_to_read(self) -> bool:
        """The last answer is on its way."""
        return not self._unsent

    @property
    def wants_to_write(self) -> bool:
        """Part of an answer is waiting for the client to read."""
        return bool(self._unsent)

    def accept_requests(self) -> None:
        """After authentication: larger messages are allowed, and no time limit between them."""
        self.inbox.max_header_bytes, self.inbox.max_body_bytes = wire.MAX_HEADER_BYTES, MAX_REQUEST_BYTES
        self.expires_s = math.inf

    def read(self, now_s: float) -> None:
        """Read what has arrived, up to the end of a message.

        Raises:
            RobotError: It is not a message.
        """
        was_empty, self.heard_s = self.inbox.is_empty, now_s
        if not self.inbox.needed:  # it hung up, or does not wait for its answer
            self.close()
            return
        while self.inbox.needed:
            try:
                piece = self._peer.recv(min(self.inbox.needed, 1 << 16))
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                self.close()
                return
            self.inbox.feed(piece)
        if not self.inbox.needed:
            self.expires_s = now_s + wire.TIMEOUT_S  # a token may have to wait for its check
        elif was_empty and not self.inbox.is_empty:
            self.expires_s = min(self.expires_s, now_s + CLIENT_TIMEOUT_S)

    def answer(self, message: bytes, now_s: float, *, last: bool = False) -> None:
        """Send an answer, as far as the client takes it at once; after the `last` one the connection is closed."""
        self._unsent += message
        self._closing = last
        self.expires_s = now_s + CLIENT_TIMEOUT_S
        self.write()

    def write(self) -> None:
        """Send what the client takes of an answer that waits."""
        try:
            sent = self._peer.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._unsent[:sent]
        if self._unsent:
            return
        self.expires_s = math.inf
        if self._closing:
            self.close()

    def close(self) -> None:
        """Disconnect."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._peer.close()


class Server:
    """Answers requests about one session.

    One client at a time has the robot, after it has shown the token. Nothing that a client does or leaves undone stops the
    robot's clock: sockets are read and written without waiting, a message has `CLIENT_TIMEOUT_S` from its first byte to its
    last, and so has an answer. A client that has been silent for `IDLE_S` makes room for the next one that shows the token.
    """

    def __init__(
        self,
        session: Session,
        listener: socket.socket,
        *,
        token: str = "",
        lockstep: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._listener, self._token, self._lockstep = session, listener, token, lockstep
        self._clock = clock
        self._client: Connection | None = None
        self._strangers: list[Connection] = []
        self._wrong_tokens, self._next_check_s = 0, -math.inf
        self._due_s = clock()
        listener.setblocking(False)

    def run(self) -> None:
        """Serve until interrupted."""
        try:
            while True:
                self.turn()
        finally:
            self.close()

    def close(self) -> None:
        """Disconnect every client."""
        for connection in self._connections():
            connection.close()

    def turn(self) -> None:
        """Wait for a message, a client, the next control step or a time limit, whichever comes first."""
        connections = self._connections()
        readers: list[socket.socket | Connection] = [
            self._listener,
            *(c for c in connections if c.wants_to_read),
        ]
        writers = [c for c in connections if c.wants_to_write]
        readable, writable, _ = select.select(readers, writers, [], self._wait_s())
        for connection in writable:
            connection.write()
        for connection in connections:
            if connection in readable:
                self._read(connection)
        if self._client is not None and not self._client.closed:
            self._serve_client(self._client)
        self._greet_strangers()
        if self._listener in readable:  # after the others, of which some may just have disconnected
            self._accept()
        self._disconnect_expired()
        if not self._lockstep and self._clock() >= self._due_s:
            self._session.tick()
            step_s = self._session.cell.dt_s
            # On a machine that cannot keep up, the cell runs slower instead of falling ever further behind.
            self._due_s = max(self._due_s + step_s, self._clock() - step_s)

    def _connections(self) -> list[Connection]:
        return [*self._strangers, *([self._client] if self._client is not None else [])]

    def _wait_s(self) -> float | None:
        """How long nothing has to be done, unless a socket is ready; None: for ever."""
        times = [connection.expires_s for connection in self._connections()]
        if any(not connection.inbox.needed for connection in self._strangers):
            times.append(self._next_check_s)
        if not self._lockstep:
            times.append(self._due_s)
        first_s = min(times, default=math.inf)
        return None if first_s == math.inf else max(0.0, first_s - self._clock())

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it hung up in the meantime
            return
        silent = [stranger for stranger in self._strangers if stranger.inbox.needed]
        if len(self._strangers) >= MAX_STRANGERS:
            if not silent:
                peer.close()
                return
            silent[0].close()
            self._strangers.remove(silent[0])
        self._strangers.append(Connection(peer, self._clock()))

    def _disconnect_expired(self) -> None:
        now_s = self._clock()
        for connection in self._connections():
            if connection.expires_s <= now_s:
                connection.close()
        self._strangers = [stranger for stranger in self._strangers if not stranger.closed]
        if self._client is not None and self._client.closed:
            self._client = None

    def _read(self, connection: Connection) -> None:
        try:
            connection.read(self._clock())
        except RobotError as error:  # the stream is out of sync
            self._refuse(connection, error, last=True)

    def _refuse(self, connection: Connection, error: TwinloopError, *, last: bool = False) -> None:
        what, remedy = error.what[:MAX_REASON_CHARACTERS], error.remedy
        connection.answer(wire.encode("refused", what=what, remedy=remedy), self._clock(), last=last)

    def _serve_client(self, client: Connection) -> None:
        if client.wants_to_write or (message := client.inbox.take()) is None:
            return
        try:
            fields, arrays = self._perform(*message)
            answer = wire.encode("done", arrays, **fields)
        except TwinloopError as error:
            self._refuse(client, error)
        else:
            client.answer(answer, self._clock())

    def _greet_strangers(self) -> None:
        """Check the token of everyone who has shown one; after a wrong one the next has to wait."""
        for stranger in list(self._strangers):
            if self._clock() < self._next_check_s:
                return
            if stranger.closed or stranger.wants_to_write or (message := stranger.inbox.take()) is None:
                continue
            try:
                answer = self._hello(message[0])
            except RobotError as error:
                self._refuse(stranger, error, last=True)
                continue
            if self._client is not None:
                self._client.close()
            self._strangers.remove(stranger)
            self._client = stranger
            stranger.accept_requests()
            stranger.answer(wire.encode("done", **answer), self._clock())

    def _perform(self, request: Request, arrays: dict[str, Array]) -> Answer:
        kind = request["kind"]
        answers: dict[str, Callable[[Request, dict[str, Array]], Answer]] = {
            "observe": self._observe,
            "act": self._act,
            "wait": self._wait,
            "prepare": self._prepare,
            "steer": lambda request, arrays: ({}, {"action": self._session.steer()}),
            "judge": self._judge,
        }
        if kind not in answers:
            raise RobotError("unknown request", available=sorted(answers))
        return answers[kind](request, arrays)

    def _hello(self, request: Request) -> dict[str, Any]:
        if request["kind"] != "hello":
            raise RobotError("the first request must be `hello`")
        token = request.get("token")
        if not isinstance(token, str) or not hmac.compare_digest(_as_bytes(token), _as_bytes(self._token)):
            self._wrong_tokens += 1
            pause_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._wrong_tokens - 1, 16))
            self._next_check_s = self._clock() + pause_s
            raise RobotError(
                "the token is wrong or missing", remedy="set TWINLOOP_ROBOT_TOKEN to the server's token"
            )
        self._wrong_tokens = 0
        if request.get("protocol") != PROTOCOL:
            raise RobotError(
                "client and robot use different protocol versions", expected=f"version {PROTOCOL}"
            )
        if self._client is not None and self._clock() - self._client.heard_s < IDLE_S:
            raise RobotError("the robot is busy with another client", remedy="close that one first")
        return {"description": description_as_json(self._session.description)}

    def _observe(self, request: Request, arrays: dict[str, Array]) -> Answer:
        cameras = request.get("cameras", [])
        if not isinstance(cameras, list):
            raise RobotError("cameras must be a list of names")
        seen = self._session.observe(dict.fromkeys(str(name) for name in cameras))
        frames = {f"frame:{name}": frame for name, frame in seen.frames.items()}
        return {"time_s": seen.time_s}, {**seen.signals, **frames}

    def _act(self, request: Request, arrays: dict[str, Array]) -> Answer:
        if "action" not in arrays:
            raise RobotError("a command needs an action")
        sent = self._session.act(arrays["action"])
        if not self._lockstep:
            return {}, {"sent": sent}
        self._session.tick()
        # Nothing changes until the next command, so the reply includes observation and outcome: one round trip instead of three.
        fields, seen = self._observe({}, {})
        return fields | self._judge({}, {})[0], {"sent": sent} | seen

    def _wait(self, request: Request, arrays: dict[str, Array]) -> Answer:
        if not self._lockstep:
            raise RobotError("this robot runs in real time", remedy="wait on the client's side")
        for _ in range(_whole(request.get("steps"), MAX_WAIT_STEPS)):
            self._session.tick()
        return {}, {}

    def _prepare(self, request: Request, arrays: dict[str, Array]) -> Answer:
        number, values = _whole(request.get("number"), MAX_EPISODE_NUMBER), _numbers(request.get("values"))
        if values:
            self._session.prepare(number, values)
        else:
            self._session.prepare(number)
        self._due_s = time.monotonic()
        return {}, {}

    def _judge(self, request: Request, arrays: dict[str, Array]) -> Answer:
        outcome = self._session.judge(bool(request.get("over")))
        return {"success": outcome.success, "failure": outcome.failure}, {}


def _as_bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


def _numbers(values: Any) -> dict[str, float]:
    """Finite numbers by name; none where there are none."""
    if values is None:
        return {}
    fine = isinstance(values, dict) and len(values) <= MAX_VALUES
    if not fine or not all(type(v) in (int, float) and abs(v) < math.inf for v in values.values()):
        raise RobotError("the values of a scene cannot be used", expected="finite numbers by name")
    return {str(name): float(value) for name, value in values.items()}


def _whole(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise RobotError("a number in a request is out of range", expected=f"an integer from 0 to {most}")
    return value
