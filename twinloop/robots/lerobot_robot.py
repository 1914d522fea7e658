"""A robot of LeRobot, and its leader arm, behind a bridge that runs in LeRobot's own environment."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array, Signal
from twinloop.errors import RobotError, RobotGone, WrongUse
from twinloop.robots.lerobot_config import LeRobotConfig, check_calibration, load_lerobot_config
from twinloop.robots.protocol import ROBOTS, Description, Observation, validate_action
from twinloop.robots.remote import TOKEN, RemoteRobot

PYTHON = "TWINLOOP_LEROBOT_PYTHON"
"""Environment variable with the Python of LeRobot's environment. A config never names a program that is run."""
BRIDGE = Path(__file__).parents[2] / "lerobot_robot_twinloop/bridge.py"
START_TIMEOUT_S = 180.0
"""Longest wait for LeRobot to be imported and to connect."""


class LeRobotRobot:
    """A robot of LeRobot in the twin's units: its joints in rad or m, with what LeRobot says of its calibration checked.

    Args:
        config: What the robot's file says.
        remote: The client of its bridge; `connect` starts that unless the config has its address.
    """

    def __init__(self, config: LeRobotConfig, remote: RemoteRobot) -> None:
        self._config, self._remote = config, remote
        self._description: Description | None = None

    @property
    def description(self) -> Description:
        """The robot, as its config and LeRobot describe it."""
        if self._description is None:
            raise RobotError("the robot is not connected yet", remedy="call connect() first")
        return self._description

    def connect(self) -> None:
        """Connect, and compare the config with LeRobot's units and calibration.

        Raises:
            RobotGone: The bridge or the robot does not answer.
            RobotError: The robot is not calibrated, or is not what the config says.
            WrongUse: LeRobot's environment is not known, or does not take what `robot` and `teleop` say.
        """
        self._remote.connect()
        try:
            raw, facts = self._remote.description, self._remote.greeting.get("lerobot")
            if sorted(raw.action.elements) != sorted(self._config.keys):
                raise RobotError(
                    "the joints of the config are not those of LeRobot's robot",
                    got=", ".join(self._config.keys),
                    expected=", ".join(raw.action.elements),
                    remedy="name each of them under `joints`; `key` is LeRobot's name",
                )
            check_calibration(self._config, facts)
        except BaseException:
            self._remote.close()
            raise
        self._order = np.array([raw.action.elements.index(key) for key in self._config.keys])
        self._description = _describe(self._config, raw, facts if isinstance(facts, dict) else {})

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras."""
        seen = self._remote.observe(cameras)
        state = self._config.to_twin(seen.signals["observation.state"][self._order]).astype(np.float32)
        return replace(seen, signals={**seen.signals, "observation.state": state})

    def act(self, action: Array) -> Array:
        """Send a command; returns what LeRobot sent, which its own `max_relative_target` may have shortened."""
        command = self._config.to_lerobot(validate_action(self.description, action))
        raw = np.empty_like(command)
        raw[self._order] = command
        return self._config.to_twin(self._remote.act(raw)[self._order])

    def close(self) -> None:
        """Disconnect; a bridge that this robot started ends, and LeRobot disconnects as its config says."""
        self._remote.close()


class LedRobot(LeRobotRobot):
    """A robot of LeRobot with a leader arm."""

    def steer(self) -> Array:
        """The current command of the person at the leader arm."""
        return self._config.to_twin(self._remote.steer()[self._order])


class BridgedRobot(RemoteRobot):
    """The client of a bridge that runs in LeRobot's environment; starts on connect and ends on close."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__("", token=os.urandom(16).hex())

    def connect(self) -> None:
        """Start the bridge unless it is running, and connect."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._start()
        super().connect()

    def close(self) -> None:
        """Disconnect and end the bridge."""
        super().close()
        self._end()

    def _start(self) -> None:
        python = os.environ.get(PYTHON, "")
        if not Path(python).is_file():
            raise WrongUse(
                "LeRobot's own environment is not known" if not python else f"{python} is not a file",
                expected=f"its Python in {PYTHON}",
                remedy=f"export {PYTHON}=/path/to/lerobot/.venv/bin/python, or start {BRIDGE.name} there and give its `address`",
            )
        self._folder = tempfile.TemporaryDirectory(prefix="twinloop-")
        self._address = str(Path(self._folder.name) / "robot.sock")
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [python, str(BRIDGE), "-", "--socket", self._address],
                env=inherited | {TOKEN: self._token},
                stdin=subprocess.PIPE,  # held open: the bridge exits when this process does
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._content).encode() + b"\n")
        self._process.stdin.flush()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not Path(self._address).exists():
            if self._process.poll() is not None:
                raise self._explain()
            if time.monotonic() > deadline:
                self._end()
                raise RobotGone("LeRobot does not start", got=f"no robot after {START_TIMEOUT_S:g} s")
            time.sleep(0.05)

    def _explain(self) -> WrongUse:
        """Why the bridge ended, by the last lines of what it said."""
        assert self._folder is not None
        lines = (Path(self._folder.name) / "log").read_text(errors="replace").strip().splitlines()
        self._end()
        remedy = lines.pop().strip().removeprefix("-> ") if lines and lines[-1].startswith("  -> ") else None
        what = lines[-1].strip().removesuffix(".") if lines else "the bridge exited at startup"
        return WrongUse(f"LeRobot's robot cannot be served: {what}", remedy=remedy)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _describe(config: LeRobotConfig, raw: Description, facts: dict[str, Any]) -> Description:
    names = tuple(config.joints)
    units = tuple(joint.unit for joint in config.joints.values())

    def signal(name: str, suffix: str) -> Signal:
        return Signal(name, (len(names),), units, elements=tuple(f"{joint}.{suffix}" for joint in names))

    others = (one for one in raw.signals if one.name != "observation.state")
    calibration = json.dumps(facts.get("calibration"), sort_keys=True).encode()
    return Description(
        robot_type=raw.robot_type,
        serial=config.serial,
        signals=(signal("observation.state", "pos"), *others),
        action=signal("action", "target"),
        limits=config.limits,
        rate_hz=config.rate_hz,
        cameras=raw.cameras,
        site=config.site,
        twin=config.twin,
        task=config.task,
        time_limit_s=config.time_limit_s,
        standin=config.standin,
        engine=config.engine,
        software={
            "lerobot": str(facts.get("version", "unknown"))[:40],
            "lerobot_calibration": hashlib.blake2b(calibration, digest_size=8).hexdigest(),
        },
    )


@ROBOTS.register("lerobot")
def open_lerobot(rest: str) -> LeRobotRobot:
    """`lerobot:CONFIG.yaml`: a robot of an installed LeRobot, with its leader arm if the config has one."""
    config = load_lerobot_config(rest)
    remote: RemoteRobot
    if config.address is None:
        remote = BridgedRobot(
            config.model_dump(mode="json", include={"serial", "rate_hz", "robot", "teleop"})
        )
    else:
        remote = _open_remote(config.address)
    return (LeRobotRobot if config.teleop is None else LedRobot)(config, remote)


def _open_remote(address: str) -> RemoteRobot:
    scheme, _, rest = address.partition(":")
    openers: dict[str, Callable[[str], Any]] = {name: ROBOTS.get(name) for name in ("tcp", "unix")}
    if scheme not in openers:
        raise WrongUse(
            "the address of a bridge cannot be used", got=address, expected="tcp:HOST:PORT or unix:PATH"
        )
    robot: RemoteRobot = openers[scheme](rest)
    return robot
