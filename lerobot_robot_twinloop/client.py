"""Connections to a robot of Twinloop: over a socket, without Twinloop, or in this process where it is installed too."""

import ipaddress
import os
import socket
from dataclasses import dataclass, field

import numpy as np

from lerobot_robot_twinloop.bridge import PROTOCOL, TOKEN, HungUp, receive, send


@dataclass
class Observation:
    """Readings by signal, and frames by camera."""

    signals: dict[str, np.ndarray]
    frames: dict[str, np.ndarray] = field(default_factory=dict)


class SocketRobot:
    """A stand-in behind `tcp:HOST:PORT` or `unix:PATH`, as `twinloop standin` serves it."""

    def __init__(self, address: str) -> None:
        self._address, self._socket = address, None
        self.description: dict = {}

    def connect(self) -> None:
        """Connect, and read what the robot declares."""
        scheme, _, rest = self._address.partition(":")
        token = os.environ.get(TOKEN, "")
        try:
            if scheme == "unix":
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.connect(rest)
            else:
                host, _, port = rest.rpartition(":")
                _, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[
                    0
                ]
                if token and not ipaddress.ip_address(place[0]).is_loopback:
                    raise ConnectionError(
                        f"the token in {TOKEN} is not sent to another machine in clear; use an ssh tunnel"
                    )
                self._socket = socket.create_connection(place[:2], timeout=30.0)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectionError(
                f"no robot answers at {self._address} ({error}); start one, for example: "
                "twinloop standin --reality mild --twin so101_pick_place --port 4750"
            ) from error
        description = self._ask("hello", protocol=PROTOCOL, token=token)[0].get("description")
        if not isinstance(description, dict) or not {
            "action",
            "signals",
            "limits",
            "cameras",
            "rate_hz",
        } <= set(description):
            raise ConnectionError(f"what answers at {self._address} does not describe a robot")
        self.description = description

    def observe(self, cameras: list[str]) -> Observation:
        """The newest readings, with frames of these cameras."""
        arrays = self._ask("observe", cameras=cameras)[1]
        names = [signal["name"] for signal in self.description["signals"]]
        missing = {*names, *(f"frame:{name}" for name in cameras)} - set(arrays)
        if missing:
            raise ConnectionError(f"the robot's answer lacks {', '.join(sorted(missing))}")
        return Observation(
            {name: arrays[name] for name in names}, {name: arrays[f"frame:{name}"] for name in cameras}
        )

    def act(self, action: np.ndarray) -> np.ndarray:
        """Send a command; what was sent after the robot's limits."""
        return self._ask("act", {"action": np.asarray(action, np.float64)})[1]["sent"]

    def prepare(self, number: int) -> None:
        """Begin scene `number`."""
        self._ask("prepare", number=int(number))

    def steer(self) -> np.ndarray:
        """What the person at the leader arm commands."""
        return self._ask("steer")[1]["action"]

    def judge(self) -> tuple[bool | None, str | None]:
        """Whether the scene that is over was a success, and if not, why."""
        header = self._ask("judge", over=True)[0]
        return header.get("success"), header.get("failure")

    def close(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(
        self, kind: str, arrays: dict | None = None, **fields: object
    ) -> tuple[dict, dict[str, np.ndarray]]:
        if self._socket is None:
            raise ConnectionError("the robot is not connected")
        try:
            send(self._socket, kind, arrays, **fields)
            header, answer = receive(self._socket)
        except HungUp as error:
            self.close()
            raise ConnectionError(f"the connection to {self._address} was lost ({error})") from error
        if header["kind"] == "refused":
            remedy = f"; {header['remedy']}" if header.get("remedy") else ""
            raise ConnectionError(f"{header.get('what') or 'the robot refuses'}{remedy}")
        return header, answer


class LocalRobot:
    """Any robot that Twinloop's `open_robot` opens, in this process: `gym:twinloop/franka_reach-v0` is a twin."""

    def __init__(self, address: str) -> None:
        try:
            from twinloop import open_robot
            from twinloop.robots.remote import description_as_json
        except ImportError as error:
            raise ConnectionError(
                f"{address} needs Twinloop in LeRobot's environment ({error}); without it, the address of a stand-in: tcp:HOST:PORT"
            ) from error
        self._robot, self._describe = open_robot(address), description_as_json
        self.description: dict = {}

    def connect(self) -> None:
        """Connect, and read what the robot declares."""
        self._robot.connect()
        self.description = self._describe(self._robot.description)

    def observe(self, cameras: list[str]) -> Observation:
        """The newest readings, with frames of these cameras."""
        seen = self._robot.observe(tuple(cameras))
        return Observation(dict(seen.signals), dict(seen.frames))

    def act(self, action: np.ndarray) -> np.ndarray:
        """Send a command within the declared range; what was sent."""
        limits = self._robot.description.limits
        return np.asarray(self._robot.act(np.clip(action, limits.low, limits.high)))

    def prepare(self, number: int) -> None:
        """Begin scene `number`."""
        self._robot.prepare(number)

    def steer(self) -> np.ndarray:
        """What the person at the leader arm commands."""
        return np.asarray(self._robot.steer())

    def judge(self) -> tuple[bool | None, str | None]:
        """Whether the scene that is over was a success, and if not, why."""
        outcome = self._robot.judge(over=True)
        return outcome.success, outcome.failure

    def close(self) -> None:
        """Disconnect."""
        self._robot.close()


def open_client(address: str) -> SocketRobot | LocalRobot:
    """The robot at an address, not yet connected."""
    return SocketRobot(address) if address.partition(":")[0] in ("tcp", "unix") else LocalRobot(address)
