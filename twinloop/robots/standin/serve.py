"""The stand-in's server: one client at a time, over a local socket, in lockstep or in real time.

In lockstep, virtual time passes by one control step for every command. In real time the cell runs by the clock, with or
without commands. Error messages are fixed sentences: no reply contains hidden values.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone, TwinloopError, WrongUse
from twinloop.robots import wire
from twinloop.robots.protocol import validate_action
from twinloop.robots.remote import PROTOCOL, description_as_json
from twinloop.robots.standin.session import Session

Request = dict[str, Any]
Answer = tuple[dict[str, Any], dict[str, Array]]

MAX_WAIT_STEPS = 100_000
MAX_EPISODE_NUMBER = 10**9
CLIENT_TIMEOUT_S = 10.0
"""A client that stalls in the middle of a message is disconnected after this time."""


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


class Server:
    """Answers requests about one session."""

    def __init__(
        self, session: Session, listener: socket.socket, *, token: str = "", lockstep: bool = True
    ) -> None:
        self._session, self._listener, self._token, self._lockstep = session, listener, token, lockstep
        self._client: socket.socket | None = None
        self._greeted = False
        self._due_s = time.monotonic()

    def run(self) -> None:
        """Serve until interrupted."""
        try:
            while True:
                self.turn()
        finally:
            self._drop()

    def turn(self) -> None:
        """Wait for a message, a client or the next control step, whichever comes first."""
        wait_s = None if self._lockstep else max(0.0, self._due_s - time.monotonic())
        watched = [self._listener] + ([self._client] if self._client else [])
        ready, _, _ = select.select(watched, [], [], wait_s)
        if self._client is not None and self._client in ready:
            self._answer(self._client)
        if self._listener in ready:  # after the client, which may just have disconnected
            self._accept()
        if not self._lockstep and time.monotonic() >= self._due_s:
            self._session.tick()
            step_s = self._session.cell.dt_s
            # On a machine that cannot keep up, the cell runs slower instead of falling ever further behind.
            self._due_s = max(self._due_s + step_s, time.monotonic() - step_s)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._client is not None:
            with contextlib.suppress(TwinloopError):
                busy = "the robot is busy with another client"
                wire.send(client, "refused", what=busy, remedy="close that one first")
            client.close()
            return
        client.settimeout(CLIENT_TIMEOUT_S)
        if client.family == socket.AF_INET:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client, self._greeted = client, False

    def _answer(self, client: socket.socket) -> None:
        try:
            request, arrays = wire.receive(client)
        except RobotGone:
            self._drop()
            return
        except RobotError as error:  # the stream is out of sync: disconnect the client
            with contextlib.suppress(RobotGone):
                wire.send(client, "refused", what=error.what, remedy=error.remedy)
            self._drop()
            return
        try:
            fields, answer = self._perform(request, arrays)
            wire.send(client, "done", answer, **fields)
        except RobotGone:
            self._drop()
        except TwinloopError as error:
            with contextlib.suppress(RobotGone):
                wire.send(client, "refused", what=error.what, remedy=error.remedy)

    def _perform(self, request: Request, arrays: dict[str, Array]) -> Answer:
        kind = request["kind"]
        if kind == "hello":
            return self._hello(request), {}
        if not self._greeted:
            raise RobotError("the first request must be `hello`")
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
        if not hmac.compare_digest(str(request.get("token", "")).encode(), self._token.encode()):
            raise RobotError(
                "the token is wrong or missing", remedy="set TWINLOOP_ROBOT_TOKEN to the server's token"
            )
        if request.get("protocol") != PROTOCOL:
            raise RobotError(
                "client and robot use different protocol versions", expected=f"version {PROTOCOL}"
            )
        self._greeted = True
        return {"description": description_as_json(self._session.description)}

    def _observe(self, request: Request, arrays: dict[str, Array]) -> Answer:
        cameras = request.get("cameras", [])
        if not isinstance(cameras, list):
            raise RobotError("cameras must be a list of names")
        seen = self._session.observe([str(name) for name in cameras])
        frames = {f"frame:{name}": frame for name, frame in seen.frames.items()}
        return {"time_s": seen.time_s}, {**seen.signals, **frames}

    def _act(self, request: Request, arrays: dict[str, Array]) -> Answer:
        if "action" not in arrays:
            raise RobotError("a command needs an action")
        action = validate_action(self._session.description, arrays["action"])
        limits = self._session.description.limits
        sent = np.clip(action, limits.low, limits.high)
        self._session.act(sent)
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
        self._session.prepare(_whole(request.get("number"), MAX_EPISODE_NUMBER))
        self._due_s = time.monotonic()
        return {}, {}

    def _judge(self, request: Request, arrays: dict[str, Array]) -> Answer:
        outcome = self._session.judge(bool(request.get("over")))
        return {"success": outcome.success, "failure": outcome.failure}, {}

    def _drop(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()
            self._client = None


def _whole(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise RobotError("a number in a request is out of range", expected=f"an integer from 0 to {most}")
    return value
