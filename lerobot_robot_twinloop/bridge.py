"""Serve a robot of LeRobot, and its leader arm, to Twinloop: `python bridge.py CONFIG.yaml --port 4751`.

This file runs in LeRobot's environment and needs nothing of Twinloop: copy it there. Written for LeRobot 0.4.4. The config is that of
`lerobot:CONFIG.yaml`; only its `robot`, `teleop`, `serial` and `rate_hz` are read here. `robot` and `teleop` have the keys of
LeRobot's own `--robot.*` and `--teleop.*` options, so that whatever `lerobot-record` can drive can be served.

Messages are those of Twinloop's robot protocol: "TWL1", the length of a JSON header, the header, the arrays that it announces. They are
bounded, and nothing is unpickled. Only this machine is listened to; TWINLOOP_ROBOT_TOKEN is asked for if it is set.
"""

import argparse
import contextlib
import hmac
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

PROTOCOL, TOKEN = 1, "TWINLOOP_ROBOT_TOKEN"
MAGIC = b"TWL1"
MAX_HEADER_BYTES, MAX_BODY_BYTES, MAX_ARRAYS = 1 << 16, 1 << 25, 64
MAX_CONFIG_BYTES = 1 << 20
TIMEOUT_S = 30.0
"""Longest wait for a whole message once it has begun."""
IDLE_S = 600.0
"""A client that has asked for nothing for this long is disconnected."""
ATTEMPTS = 3
"""How often a driver is asked before its robot counts as lost: a busy serial bus drops a packet now and then."""
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float64", "float32", "uint8", "int64")}
UNITS = {"degrees": "deg", "range_0_100": "%", "range_m100_100": "%"}


class Refused(Exception):
    """A request that cannot be granted; `gone` if the robot has to be connected again."""

    def __init__(self, what: str, remedy: str | None = None, gone: bool = False) -> None:
        super().__init__(what)
        self.what, self.remedy, self.gone = what, remedy, gone


class HungUp(Exception):
    """The other side is gone, or speaks something else."""


def send(connection: socket.socket, kind: str, arrays: dict | None = None, **fields: object) -> None:
    """Send one message."""
    arrays = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    listed = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"kind": kind, "arrays": listed, **fields}, allow_nan=False).encode()
    body = b"".join(array.astype(DTYPES[array.dtype.name], copy=False).tobytes() for array in arrays.values())
    if len(header) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise Refused(f"a message is too long: {len(header)} + {len(body)} bytes")
    connection.settimeout(TIMEOUT_S)
    try:
        connection.sendall(MAGIC + struct.pack(">I", len(header)) + header + body)
    except OSError as error:
        raise HungUp(str(error)) from error


def receive(connection: socket.socket, idle_s: float = TIMEOUT_S) -> tuple[dict, dict[str, np.ndarray]]:
    """Receive one message, which has to begin within `idle_s`: its header and arrays."""
    magic, length = struct.unpack(">4sI", _read(connection, 8, idle_s))
    if magic != MAGIC or length > MAX_HEADER_BYTES:
        raise HungUp("this is not Twinloop's protocol")
    try:
        header = json.loads(_read(connection, length, TIMEOUT_S))
        listed = [(str(name), str(dtype), tuple(shape)) for name, dtype, shape in header["arrays"]]
        sizes = [prod(shape) * DTYPES[dtype].itemsize for _, dtype, shape in listed]
        if not all(type(side) is int and side >= 0 for _, _, shape in listed for side in shape):
            raise HungUp("an array has no shape")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HungUp("the header of a message cannot be read") from error
    if not isinstance(header.get("kind"), str) or len(listed) > MAX_ARRAYS or sum(sizes) > MAX_BODY_BYTES:
        raise HungUp("a message is too long or has no kind")
    arrays = {}
    for (name, dtype, shape), size in zip(listed, sizes, strict=True):
        data = _read(connection, size, TIMEOUT_S)
        arrays[name] = np.frombuffer(data, DTYPES[dtype]).astype(dtype).reshape(shape)
    return header, arrays


def _read(connection: socket.socket, size: int, timeout_s: float) -> bytes:
    pieces, end_s = bytearray(), time.monotonic() + timeout_s
    while len(pieces) < size:
        try:
            connection.settimeout(max(1e-3, end_s - time.monotonic()))
            piece = connection.recv(min(size - len(pieces), 1 << 20))
        except OSError as error:
            raise HungUp(str(error)) from error
        if not piece:
            raise HungUp("the connection was closed")
        pieces += piece
    return bytes(pieces)


class Device:
    """A robot of LeRobot, with a leader arm if there is one."""

    def __init__(self, config: dict) -> None:
        from lerobot.robots import RobotConfig, make_robot_from_config
        from lerobot.teleoperators import TeleoperatorConfig, make_teleoperator_from_config

        load_devices()
        self.config, self.lost = config, False
        self.robot = make_robot_from_config(decode(RobotConfig, config.get("robot"), "robot"))
        leader = config.get("teleop")
        self.teleop = (
            make_teleoperator_from_config(decode(TeleoperatorConfig, leader, "teleop")) if leader else None
        )
        self.keys = list(self.robot.action_features)
        features = self.robot.observation_features
        self.cameras = {name: shape for name, shape in features.items() if isinstance(shape, tuple)}
        self.extra = [name for name in features if name not in self.cameras and name not in self.keys]
        if missing := [key for key in self.keys if key not in features]:
            raise Refused(f"the robot does not report every part of its action: {', '.join(missing)}")
        if self.teleop is not None and (
            missing := [key for key in self.keys if key not in self.teleop.action_features]
        ):
            raise Refused(f"the leader arm does not command every joint: {', '.join(missing)} missing")

    def connect(self) -> None:
        """Connect what is not connected; calibration is never begun here, since it needs a person at the arm."""
        if self.lost:  # perhaps it answers again: to disconnect would let go of the arm
            with contextlib.suppress(Exception):
                self.observe([])
                self.lost = False
        for device, kind in ((self.robot, "robot"), (self.teleop, "teleop")):
            if device is None:
                continue
            if self.lost and device.is_connected:
                hang_up(device)
            if not device.is_connected:
                open_port(device)
            if not device.is_calibrated:
                hang_up(device)
                words = " ".join(
                    f"--{kind}.{key}={value}" for key, value in self.config[kind].items() if key != "cameras"
                )
                raise Refused(f"the {kind} is not calibrated", f"lerobot-calibrate {words}")
        self.lost = False

    def disconnect(self) -> None:
        """Disconnect what is connected."""
        for device in (self.robot, self.teleop):
            if device is not None and device.is_connected:
                hang_up(device)

    def describe(self) -> dict:
        """What a client gets when it connects: the robot in LeRobot's own units, and its calibration."""
        from lerobot import __version__

        norms = self._norms()
        size, units = len(self.keys), [UNITS.get(norms.get(key, ""), "unknown") for key in self.keys]
        shared = {"shape": [size], "units": units, "elements": self.keys}
        signals = [{"name": "observation.state", **shared}]
        if self.extra:
            extra = {"shape": [len(self.extra)], "units": ["unknown"], "elements": self.extra}
            signals.append({"name": "observation.extra", **extra})
        description = {
            "robot_type": str(self.config["robot"]["type"]),
            "serial": str(self.config.get("serial") or self.robot.id or "unknown"),
            "signals": signals,
            "action": {"name": "action", **shared},
            "limits": {part: [None] * size for part in ("low", "high", "speed_per_s")},
            "rate_hz": float(self.config.get("rate_hz") or 30.0),
            "cameras": [{"name": n, "height": s[0], "width": s[1]} for n, s in self.cameras.items()],
        }
        calibration = getattr(self.robot, "calibration", None) or {}
        facts = {
            "version": __version__,
            "norms": norms,
            "spans": self._spans(norms),
            "calibration": {name: vars(one) for name, one in calibration.items()},
            "leader": self.teleop is not None,
        }
        return {"description": description, "lerobot": facts}

    def observe(self, cameras: list) -> tuple[dict, dict]:
        """The newest readings and the frames that were asked for."""
        if unknown := [name for name in cameras if name not in self.cameras]:
            raise Refused(f"the robot has no camera {unknown[0]!r}")
        time_s = time.monotonic()
        seen = attempt(self.robot.get_observation)
        arrays = {"observation.state": np.array([float(seen[key]) for key in self.keys], np.float32)}
        if self.extra:
            arrays["observation.extra"] = np.array([float(seen[key]) for key in self.extra], np.float32)
        return {"time_s": time_s}, arrays | {f"frame:{name}": np.asarray(seen[name]) for name in cameras}

    def act(self, action: np.ndarray | None) -> np.ndarray:
        """Send a command; gives it as LeRobot sent it."""
        if action is None or action.shape != (len(self.keys),) or not np.isfinite(action).all():
            raise Refused(f"a command has to be {len(self.keys)} finite numbers")
        targets = dict(zip(self.keys, action.astype(float).tolist(), strict=True))
        sent = attempt(lambda: self.robot.send_action(dict(targets))) or targets
        return np.array([float(sent.get(key, targets[key])) for key in self.keys])

    def steer(self) -> np.ndarray:
        """The command of the leader arm."""
        if self.teleop is None:
            raise Refused("there is no leader arm", "name one in the config: teleop: {type: ..., port: ...}")
        action = attempt(self.teleop.get_action)
        return np.array([float(action[key]) for key in self.keys])

    def _norms(self) -> dict[str, str]:
        """How LeRobot normalizes each motor's position, by key, where its bus says so."""
        motors = getattr(getattr(self.robot, "bus", None), "motors", {})
        norms = {f"{name}.pos": getattr(motor.norm_mode, "value", "") for name, motor in motors.items()}
        return {key: norm for key, norm in norms.items() if key in self.keys}

    def _spans(self, norms: dict[str, str]) -> dict[str, list[float]]:
        """The calibrated range of each motor, by key, in LeRobot's units."""
        spans = {"range_0_100": [0.0, 100.0], "range_m100_100": [-100.0, 100.0]}
        found = {key: spans[norm] for key, norm in norms.items() if norm in spans}
        for key, norm in norms.items():
            name = key.removesuffix(".pos")
            calibration = (getattr(self.robot, "calibration", None) or {}).get(name)
            if norm == "degrees" and calibration is not None:
                steps = getattr(self.robot.bus, "model_resolution_table", {}).get(
                    self.robot.bus.motors[name].model
                )
                if steps:
                    half = 180.0 * (calibration.range_max - calibration.range_min) / (steps - 1)
                    found[key] = [-half, half]
        return found


def attempt(call: Callable[[], object]) -> object:
    """What a driver returns; a packet that was lost on the bus is asked for again."""
    for left in range(ATTEMPTS - 1, -1, -1):
        try:
            return call()
        except OSError:  # ConnectionError and TimeoutError too
            if not left:
                raise
            time.sleep(0.01)
    raise AssertionError("unreachable")


def open_port(device: object) -> None:
    """Connect; where a motor does not answer at once, try again from the start."""
    for left in range(ATTEMPTS - 1, -1, -1):
        try:
            device.connect(calibrate=False)
            return
        except Exception:
            hang_up(device)
            if not left:
                raise


def hang_up(device: object) -> None:
    """Disconnect; where not even that is possible, close the port."""
    with contextlib.suppress(Exception):
        device.disconnect()
    with contextlib.suppress(Exception):
        if device.is_connected:
            device.bus.disconnect(disable_torque=False)


def load_devices() -> None:
    """Import every robot, teleoperator and camera that LeRobot and its plug-ins have, where their own packages are installed."""
    from lerobot.utils.import_utils import register_third_party_plugins

    for name in ("lerobot.cameras", "lerobot.robots", "lerobot.teleoperators"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
                if name == "lerobot.cameras" and module.ispkg:
                    importlib.import_module(f"{module.name}.configuration_{module.name.rpartition('.')[2]}")
    register_third_party_plugins()


def decode(kind: type, content: object, key: str) -> object:
    """LeRobot's config of a device from the keys of its command line."""
    import draccus

    if not isinstance(content, dict) or "type" not in content:
        raise Refused(f"{key} of the config needs LeRobot's type, such as {key}: {{type: so101_follower}}")
    try:
        return draccus.decode(kind, content)
    except Exception as error:  # draccus raises what the config's own class raises
        known = sorted(kind.get_known_choices())
        raise Refused(
            f"{key} of the config is not what LeRobot takes ({' '.join(str(error).split())[:300]})",
            f"types: {', '.join(known)}" if content["type"] not in known else None,
        ) from error


class Server:
    """Serves a device to one client after the other."""

    def __init__(self, device: Device, token: str) -> None:
        self.device, self.token = device, token

    def serve(self, listener: socket.socket) -> None:
        """Serve until the process ends."""
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(HungUp):
                self._attend(connection)

    def _attend(self, connection: socket.socket) -> None:
        greeted = False
        while True:
            header, arrays = receive(connection, IDLE_S if greeted else TIMEOUT_S)
            try:
                fields, answer = self._perform(header, arrays, greeted)
                greeted = True
                send(connection, "done", answer, **fields)
            except Refused as error:
                send(connection, "refused", what=error.what[:400], remedy=error.remedy, gone=error.gone)
                if not greeted or error.gone:
                    return

    def _perform(self, header: dict, arrays: dict, greeted: bool) -> tuple[dict, dict]:
        kind = header["kind"]
        if kind == "hello":
            self._admit(header)
        elif not greeted:
            raise Refused("the first request must be `hello`")
        try:
            if kind == "hello":
                self.device.connect()
                return self.device.describe(), {}
            if kind == "observe":
                cameras = header.get("cameras", [])
                return self.device.observe(
                    [str(name) for name in cameras] if isinstance(cameras, list) else []
                )
            if kind == "act":
                return {}, {"sent": self.device.act(arrays.get("action"))}
            if kind == "steer":
                return {}, {"action": self.device.steer()}
        except Refused:
            raise
        except Exception as error:  # whatever a driver raises: the client is told, the bridge goes on
            gone = kind == "hello" or isinstance(error, OSError)  # ConnectionError and TimeoutError too
            self.device.lost |= gone
            remedy = "check the robot's power and cable" if gone else None
            raise Refused(f"LeRobot says: {say(error)}", remedy, gone) from error
        raise Refused(f"a robot of LeRobot cannot {kind[:40]!r}", "a person sets scenes and judges trials")

    def _admit(self, header: dict) -> None:
        token = header.get("token")
        given = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else b""
        if not isinstance(token, str) or not hmac.compare_digest(given, self.token.encode()):
            time.sleep(0.5)
            raise Refused("the token is wrong or missing", f"set {TOKEN} to the bridge's token")
        if header.get("protocol") != PROTOCOL:
            raise Refused("client and robot use different protocol versions")


def say(error: BaseException) -> str:
    """An exception in one line, with what caused it."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return f"{text} ({say(error.__cause__)})" if error.__cause__ is not None else text


def listen(path: Path | None, port: int) -> socket.socket:
    """A listening socket: at a path that only this user can reach, or at a port of this machine."""
    if path is None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(2)
        return listener
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before, unready = os.umask(0o177), Path(f"{path}~")
    try:
        listener.bind(str(unready))
        listener.listen(2)
        unready.replace(path)
    finally:
        os.umask(before)
    return listener


def read_config(place: str) -> dict:
    """The config: a YAML file, or `-` for a line of JSON on standard input."""
    if place == "-":
        content = json.loads(sys.stdin.readline(MAX_CONFIG_BYTES))
    else:
        import yaml

        content = yaml.safe_load(Path(place).read_text())
    if not isinstance(content, dict):
        raise Refused(
            "the config is not a map", "robot: {type: so101_follower, port: /dev/ttyACM0, id: my_arm}"
        )
    return content


def main() -> int:
    """Serve until interrupted; with a config from standard input, until that ends."""
    parser = argparse.ArgumentParser(prog="bridge.py", description=__doc__.splitlines()[0])
    parser.add_argument("config", help="CONFIG.yaml, or - for JSON on standard input")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="a Unix socket")
    where.add_argument("--port", type=int, help="a port of 127.0.0.1; 0 picks one")
    options = parser.parse_args()
    device = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        device = Device(read_config(options.config))
        device.connect()
        listener = listen(options.socket, options.port or 0)
        if options.config == "-":
            threading.Thread(target=_end_with_parent, daemon=True).start()
        address = f"unix:{options.socket}" if options.socket else f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"robot": address}), flush=True)
        Server(device, os.environ.get(TOKEN, "")).serve(listener)
    except KeyboardInterrupt:
        pass
    except Refused as error:
        print(f"{error.what}.\n  -> {error.remedy}" if error.remedy else f"{error.what}.", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001  whatever a driver raises is said in a line
        print(f"{say(error)}.", file=sys.stderr)
        return 1
    finally:
        if device is not None:
            device.disconnect()
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
