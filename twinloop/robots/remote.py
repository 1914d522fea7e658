"""Client for a robot served by another process over a socket, such as the stand-in."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from twinloop.episode import Array, Outcome
from twinloop.errors import RobotError, RobotGone, WrongUse
from twinloop.robots import wire
from twinloop.robots.protocol import ROBOTS, Description, Observation, validate_action

PROTOCOL = 1
ANSWER_TIMEOUT_S = 30.0
STATE_CHANGING = frozenset({"hello", "prepare", "wait", "act"})
"""Requests that change the robot's state, so that an observation received earlier is outdated."""

TOKEN = "TWINLOOP_ROBOT_TOKEN"
"""Environment variable with the token that a server may require."""


class RemoteRobot:
    """A robot behind a socket, and its trial supervisor, which the server provides too."""

    def __init__(self, address: str | tuple[str, int], token: str | None = None) -> None:
        self._address = address
        self._token = token if token is not None else os.environ.get(TOKEN, "")
        self._socket: socket.socket | None = None
        self._description: Description | None = None
        self._ahead: tuple[Observation, Outcome] | None = None

    @property
    def description(self) -> Description:
        """The robot's description, as of the last connection."""
        if self._description is None:
            raise RobotError("the robot is not connected yet", remedy="call connect() first")
        return self._description

    def connect(self) -> None:
        """Connect to the server and read the robot's description."""
        self._hang_up()
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_TIMEOUT_S)
        try:
            connection.connect(self._address)
            if family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            raise RobotGone(
                f"no robot answers at {self._where()} ({error.strerror or error})",
                remedy="start it, for example: twinloop standin --reality mild --socket PATH",
            ) from error
        self._socket = connection
        try:
            header, _ = self._ask("hello", protocol=PROTOCOL, token=self._token)
        except RobotError:
            self._hang_up()
            raise
        self._description = description_from_json(header["description"])

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras."""
        if self._ahead is not None and not cameras:
            return self._ahead[0]
        header, arrays = self._ask("observe", cameras=list(cameras))
        frames = {name: arrays.pop(f"frame:{name}") for name in cameras}
        return Observation(float(header["time_s"]), arrays, frames)

    def act(self, action: Array) -> Array:
        """Send a command; in lockstep one control step passes, and the reply includes the next observation and outcome."""
        header, arrays = self._ask("act", {"action": validate_action(self.description, action)})
        sent = arrays.pop("sent")
        if "time_s" in header:
            outcome = Outcome(header["success"], header["failure"])
            self._ahead = Observation(float(header["time_s"]), arrays, {}), outcome
        return sent

    def wait(self, steps: int = 1) -> None:
        """Let control steps pass without a command; only in lockstep."""
        self._ask("wait", steps=int(steps))

    def prepare(self, number: int) -> None:
        """Move robot and scene to the start of episode `number`."""
        self._ask("prepare", number=int(number))

    def steer(self) -> Array:
        """The current command of the person at the leader arm."""
        return self._ask("steer")[1]["action"]

    def judge(self, over: bool = False) -> Outcome:
        """The outcome, as the person at the robot judges it."""
        if self._ahead is not None and not over:
            return self._ahead[1]
        header, _ = self._ask("judge", over=over)
        return Outcome(header["success"], header["failure"])

    def close(self) -> None:
        """Disconnect from the robot."""
        self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = self._ahead = None

    def _where(self) -> str:
        return self._address if isinstance(self._address, str) else ":".join(map(str, self._address))

    def _ask(self, kind: str, arrays: Any = None, **fields: Any) -> tuple[dict[str, Any], dict[str, Array]]:
        if self._socket is None:
            raise RobotGone("the robot is not connected", remedy="call connect() first")
        if kind in STATE_CHANGING:
            self._ahead = None
        try:
            # A server may refuse and close the connection before it reads our request: read its reason even if sending failed.
            unsent: RobotGone | None = None
            try:
                wire.send(self._socket, kind, arrays, **fields)
            except RobotGone as error:
                unsent = error
            try:
                header, got = wire.receive(self._socket)
            except RobotGone as error:
                raise unsent or error from error
        except RobotGone:
            self._hang_up()
            raise
        if header["kind"] == "refused":
            raise RobotError(str(header.get("what")), remedy=header.get("remedy"))
        return header, got


class StandinRobot(RemoteRobot):
    """A stand-in whose process starts on connect and ends on close. Only that process reads the reality."""

    def __init__(self, reality: str, twin: str | None = None) -> None:
        self._reality, self._twin = reality, twin
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__("", token=os.urandom(16).hex())

    def connect(self) -> None:
        """Start the server unless it is running, and connect."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._start()
        super().connect()

    def close(self) -> None:
        """Disconnect and end the process."""
        super().close()
        self._end()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="twinloop-")
        self._address = str(Path(self._folder.name) / "robot.sock")
        arguments = [
            "--reality",
            self._reality,
            "--socket",
            self._address,
            "--lockstep",
            "--exit-with-parent",
        ]
        if self._twin:
            arguments += ["--twin", self._twin]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "twinloop.robots.standin", *arguments],
            env={"MUJOCO_GL": "egl", **os.environ, TOKEN: self._token},  # read by MuJoCo when it is imported
            stdin=subprocess.PIPE,  # held open: the server exits when this process does
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not Path(self._address).exists():
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
                self._end()
                what = lines[0] if lines else "the stand-in exited at startup"
                remedy = lines[1] if len(lines) > 1 else None
                raise WrongUse(
                    what.removesuffix("."), remedy=remedy.strip().removeprefix("-> ") if remedy else None
                )
            if time.monotonic() > deadline:
                self._end()
                raise RobotGone("the stand-in does not start", got=f"no socket after {ANSWER_TIMEOUT_S:g} s")
            time.sleep(0.02)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(5.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            for pipe in (process.stdin, process.stderr):
                if pipe is not None:
                    pipe.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@ROBOTS.register("standin")
def open_standin(rest: str) -> StandinRobot:
    """`standin:REALITY` or `standin:REALITY@TWIN`: a stand-in in a process of its own, in lockstep."""
    reality, _, twin = rest.partition("@")
    return StandinRobot(reality, twin or None)


@ROBOTS.register("unix")
def open_unix(rest: str) -> RemoteRobot:
    """`unix:PATH`: a robot server at a socket of this machine."""
    return RemoteRobot(rest)


@ROBOTS.register("tcp")
def open_tcp(rest: str) -> RemoteRobot:
    """`tcp:HOST:PORT`: a robot server."""
    host, _, port = rest.rpartition(":")
    if not host or not port.isdigit():
        raise WrongUse("cannot parse the address", got=rest, expected="HOST:PORT, for example 127.0.0.1:4750")
    return RemoteRobot((host, int(port)))


def description_as_json(description: Description) -> dict[str, Any]:
    """Plain values for the wire; an infinite limit is None."""
    fields = asdict(description)
    for name, part in fields["limits"].items():
        fields["limits"][name] = [None if math.isinf(number) else number for number in part]
    return fields


def description_from_json(fields: dict[str, Any]) -> Description:
    """Read what `description_as_json` wrote; a malformed description is refused with the reason."""
    try:
        limits = {
            name: [
                (-math.inf if name == "low" else math.inf) if number is None else number for number in part
            ]
            for name, part in fields["limits"].items()
        }
        return TypeAdapter(Description).validate_python(fields | {"limits": limits})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RobotError(f"the robot's description cannot be read ({where}: {first['msg']})") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise RobotError(f"the robot's description cannot be read ({error})") from error
