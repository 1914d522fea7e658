"""Client for a robot served by another process over a socket, such as the stand-in."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from twinloop.episode import Array, Outcome
from twinloop.errors import RobotError, RobotGone, TwinloopError, WrongUse
from twinloop.robots import wire
from twinloop.robots.protocol import ROBOTS, Description, Observation, validate_action

PROTOCOL = 1
START_TIMEOUT_S = 30.0
"""Longest wait for a stand-in to start."""
MAX_REASON_CHARACTERS = 400
"""Of a server's reason for a refusal."""
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
        self._lock = threading.RLock()  # a watchdog asks from a thread of its own
        self._description: Description | None = None
        self.greeting: Mapping[str, Any] = {}
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
        self._socket = self._dial()
        try:
            header, _ = self._ask("hello", protocol=PROTOCOL, token=self._token)
            self._description = description_from_json(header.get("description"))
            self.greeting = header
        except TwinloopError:
            self._hang_up()
            raise

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras."""
        if self._ahead is not None and not cameras:
            return self._ahead[0]
        return self._read_observation(*self._ask("observe", cameras=list(cameras)), cameras)

    def act(self, action: Array) -> Array:
        """Send a command; in lockstep one control step passes, and the reply includes the next observation and outcome."""
        command = validate_action(self.description, action)
        with self._lock:
            header, arrays = self._ask("act", {"action": command})
            if "time_s" in header:
                self._ahead = self._read_observation(header, arrays), _read_outcome(header)
        return _read_array(arrays, "sent", command.shape)

    def wait(self, steps: int = 1) -> None:
        """Let control steps pass without a command; only in lockstep."""
        self._ask("wait", steps=int(steps))

    def prepare(self, number: int) -> None:
        """Move robot and scene to the start of episode `number`."""
        self._ask("prepare", number=int(number))

    def place(self, number: int, values: Mapping[str, float]) -> None:
        """Move robot and scene to the start of episode `number`, of a stand-in with things where `values` ask for them."""
        self._ask("prepare", number=int(number), values=dict(values))

    def steer(self) -> Array:
        """The current command of the person at the leader arm."""
        return _read_array(self._ask("steer")[1], "action", self.description.action.shape)

    def judge(self, over: bool = False) -> Outcome:
        """The outcome, as the person at the robot judges it."""
        if self._ahead is not None and not over:
            return self._ahead[1]
        return _read_outcome(self._ask("judge", over=over)[0])

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

    def _dial(self) -> socket.socket:
        """An open connection to the server."""
        connection: socket.socket | None = None
        try:
            if isinstance(self._address, str):
                family, address = socket.AF_UNIX, self._address
            else:
                family, address = _find_host(*self._address, secret=bool(self._token))
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(wire.TIMEOUT_S)
            connection.connect(address)
            if family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, UnicodeError) as error:
            if connection is not None:
                connection.close()
            raise RobotGone(
                f"no robot answers at {self._where()} ({getattr(error, 'strerror', None) or error})",
                remedy="start it, for example: twinloop standin --reality mild --socket PATH",
            ) from error
        return connection

    def _ask(self, kind: str, arrays: Any = None, **fields: Any) -> wire.Message:
        with self._lock:
            return self._exchange(kind, arrays, fields)

    def _exchange(self, kind: str, arrays: Any, fields: Mapping[str, Any]) -> wire.Message:
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
        except RobotError:  # lost, or out of sync
            self._hang_up()
            raise
        if header["kind"] == "refused":
            remedy, gone = header.get("remedy"), header.get("gone") is True
            if gone:  # the server has lost its robot, and waits to be connected to again
                self._hang_up()
            raise (RobotGone if gone else RobotError)(
                _printable(header.get("what") or "the robot refuses"),
                remedy=_printable(remedy) if remedy else None,
            )
        return header, got

    def _read_observation(
        self, header: dict[str, Any], arrays: dict[str, Array], cameras: tuple[str, ...] = ()
    ) -> Observation:
        """What a server sent, in the shapes that its description declares."""
        description = self.description
        time_s: Any = header.get("time_s")
        if type(time_s) not in (int, float) or not abs(time_s) < math.inf:
            raise _wrong_answer("the time of an observation", got=repr(time_s), expected="seconds")
        signals = {
            signal.name: _read_array(arrays, signal.name, signal.shape) for signal in description.signals
        }
        frames = {}
        for name in cameras:
            declared = [camera for camera in description.cameras if camera.name == name]
            shape = (declared[0].height, declared[0].width, 3) if declared else ()
            frames[name] = _read_array(arrays, f"frame:{name}", shape)
            if frames[name].dtype != np.uint8:
                raise _wrong_answer(f"a frame of camera {name}", got=frames[name].dtype, expected="uint8")
        return Observation(float(time_s), signals, frames)


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

    def replicate(self) -> StandinRobot:
        """The same stand-in in a process of its own, not yet started."""
        return StandinRobot(self._reality, self._twin)

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
        deadline = time.monotonic() + START_TIMEOUT_S
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
                raise RobotGone("the stand-in does not start", got=f"no socket after {START_TIMEOUT_S:g} s")
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
    if not host or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise WrongUse("cannot parse the address", got=rest, expected="HOST:PORT, for example 127.0.0.1:4750")
    return RemoteRobot((host.strip("[]"), int(port)))


def description_as_json(description: Description) -> dict[str, Any]:
    """Plain values for the wire; an infinite limit is None."""
    fields = asdict(description)
    for name, part in fields["limits"].items():
        fields["limits"][name] = [None if math.isinf(number) else number for number in part]
    return fields


def description_from_json(fields: object) -> Description:
    """Read what `description_as_json` wrote; a malformed description is refused with the reason."""
    try:
        if not isinstance(fields, dict):
            raise TypeError(f"{type(fields).__name__} instead of an object")
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
        raise RobotError(
            _printable(f"the robot's description cannot be read ({where}: {first['msg']})")
        ) from error
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise RobotError(_printable(f"the robot's description cannot be read ({error})")) from error


def _find_host(host: str, port: int, secret: bool) -> tuple[socket.AddressFamily, Any]:
    """The address behind a host's name. What is `secret` only goes to this machine, since it is sent in clear."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    if secret and not ipaddress.ip_address(address[0]).is_loopback:
        raise WrongUse(
            f"the token in {TOKEN} is not sent to another machine in clear",
            got=f"tcp:{host}:{port}",
            expected="an address of this machine, such as tcp:127.0.0.1:4750",
            remedy=f"an ssh tunnel: ssh -N -L {port}:127.0.0.1:{port} {host}, then --robot tcp:127.0.0.1:{port}",
        )
    return family, address


def _read_array(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if name not in arrays or arrays[name].shape != shape:
        got = f"shape {arrays[name].shape}" if name in arrays else "none"
        raise _wrong_answer(name, got=got, expected=f"shape {shape}")
    return arrays[name]


def _read_outcome(header: Mapping[str, Any]) -> Outcome:
    success, failure = header.get("success"), header.get("failure")
    if not (success is None or isinstance(success, bool)) or not (
        failure is None or isinstance(failure, str)
    ):
        raise _wrong_answer("an outcome", got=f"{success!r}, {failure!r}", expected="success and failure")
    return Outcome(success, failure)


def _wrong_answer(what: str, *, got: object, expected: str) -> RobotError:
    return RobotError(
        f"the robot's answer does not fit its description: {what}",
        got=got,
        expected=expected,
        remedy="check that client and server are of the same version",
    )


def _printable(text: object) -> str:
    """Text of another machine for a terminal: one line of limited length, without control characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text)[:MAX_REASON_CHARACTERS])
    return shown.strip()
