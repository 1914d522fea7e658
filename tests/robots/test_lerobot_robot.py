"""What a config of a LeRobot robot says of units and calibration, and the bridge's messages, without LeRobot; tests with it are slow ones."""

import importlib.util
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml

from twinloop.errors import MapError, RobotError, WrongUse
from twinloop.robots import open_robot, wire
from twinloop.robots.lerobot_config import LeRobotConfig, check_calibration, load_lerobot_config
from twinloop.robots.lerobot_robot import PYTHON

BRIDGE = Path(__file__).parents[2] / "lerobot_robot_twinloop/bridge.py"
ARM = {
    "serial": "arm-1",
    "robot": {"type": "so101_follower", "port": "/dev/ttyACM0", "id": "arm"},
    "joints": {
        "pan": {"low": -1.5, "high": 1.5, "speed_per_s": 2.0},
        "lift": {"key": "shoulder.pos", "sign": -1, "zero": 0.25, "low": -1.0, "high": 1.0, "speed_per_s": 2.0},
        "slide": {"reads": "range_m100_100", "unit": "m", "ends": [0.3, 0.1], "low": 0.1, "high": 0.3, "speed_per_s": 1.0},
        "jaw": {"reads": "range_0_100", "ends": [-0.1, 1.6], "low": -0.1, "high": 1.6, "speed_per_s": 2.0},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def bridge():
    spec = importlib.util.spec_from_file_location("bridge", BRIDGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder, **changes):
    file = folder / "arm.yaml"
    file.write_text(yaml.safe_dump(ARM | changes, sort_keys=False))
    return file


def test_lerobots_numbers_become_positions_of_the_twin_and_back(tmp_path):
    config = load_lerobot_config(write(tmp_path))
    raw = np.array([90.0, 30.0, -100.0, 50.0])
    expected = [np.pi / 2, 0.25 - np.pi / 6, 0.3, 0.75]
    assert config.to_twin(raw) == pytest.approx(expected)
    assert config.to_lerobot(config.to_twin(raw)) == pytest.approx(raw)
    assert config.keys == ("pan.pos", "shoulder.pos", "slide.pos", "jaw.pos")


def test_lerobots_units_and_calibration_are_compared_with_the_config():
    config = LeRobotConfig.model_validate(ARM)
    norms = {"pan.pos": "degrees", "slide.pos": "range_m100_100"}
    check_calibration(
        config, {"norms": norms, "spans": {"pan.pos": [-90.0, 90.0], "slide.pos": [-100.0, 100.0]}}
    )
    check_calibration(config, None)
    with pytest.raises(
        RobotError, match="reads joint pan in another unit; got range_m100_100; expected reads: deg"
    ):
        check_calibration(config, {"norms": {"pan.pos": "range_m100_100"}})
    with pytest.raises(
        RobotError, match="joint lift are beyond its calibrated range; got -1 to 1 rad"
    ) as caught:
        check_calibration(config, {"spans": {"shoulder.pos": [-60.0, 60.0]}})
    assert "expected within -0.797 to 1.297 rad" in str(caught.value)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"robot": {"port": "/dev/ttyACM0"}}, "robot needs LeRobot's type"),
        ({"python": "/bin/sh"}, "python is not a key of a robot's config"),
        ({"joints": {"a": {"low": -1.0, "high": 1.0}}}, "joints.a.speed_per_s is missing"),
        (
            {"joints": {"a": {"reads": "range_0_100", "low": 0.0, "high": 1.0, "speed_per_s": 1.0}}},
            "a range needs `ends`",
        ),
        (
            {"joints": {"a": {"unit": "m", "low": 0.0, "high": 1.0, "speed_per_s": 1.0}}},
            "reads in deg cannot be in m",
        ),
        (
            {"joints": {"a": {"low": 1.0, "high": 0.0, "speed_per_s": 1.0}}},
            "a lower limit is above the upper one",
        ),
        ({"address": "http://arm"}, "the address of a bridge cannot be used"),
    ],
)
def test_a_config_that_is_wrong_names_the_key(tmp_path, changes, says):
    with pytest.raises((MapError, RobotError, WrongUse)) as caught:
        open_robot(f"lerobot:{write(tmp_path, **changes)}")
    assert says in str(caught.value)


def test_lerobots_environment_comes_from_the_user_never_from_a_config(tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    with pytest.raises(WrongUse, match="LeRobot's own environment is not known") as caught:
        open_robot(f"lerobot:{write(tmp_path)}").connect()
    assert f"export {PYTHON}=" in caught.value.remedy
    monkeypatch.setenv(PYTHON, str(tmp_path / "none"))
    with pytest.raises(WrongUse, match="none is not a file"):
        open_robot(f"lerobot:{write(tmp_path)}").connect()


def test_the_bridges_messages_are_those_of_the_robot_protocol(bridge):
    ours, theirs = socket.socketpair()
    arrays = {"action": np.arange(3.0), "frame:eye": np.arange(24, dtype=np.uint8).reshape(2, 4, 3)}
    with ours, theirs:
        wire.send(ours, "act", arrays, number=7)
        header, got = bridge.receive(theirs)
        assert header["kind"] == "act" and header["number"] == 7
        bridge.send(theirs, "done", got, time_s=1.5)
        header, back = wire.receive(ours)
    assert header["time_s"] == 1.5
    assert all(
        np.array_equal(back[name], array) and back[name].dtype == array.dtype
        for name, array in arrays.items()
    )


def message(header):
    return b"TWL1" + struct.pack(">I", len(header)) + header


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"TWL1\xff\xff\xff\xff",
        message(b"[" * 60_000),
        message(b'{"kind": "act", "arrays": [["a", "float64", [-1]]]}'),
        message(b'{"kind": "act", "arrays": [["a", "float64", [99999999, 999999]]]}'),
        message(b'{"kind": "act", "arrays": [["a", "object", [1]]]}'),
        message(b'{"kind": "act", "arrays": [["a", "float64", [1.5]]]}'),
        message(b'{"kind": 3, "arrays": []}'),
        message(b'{"arrays": 5}'),
        message(b"\xff\xfe"),
        b"TWL",
    ],
)
def test_the_bridge_hangs_up_on_what_is_no_message(bridge, data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(bridge.HungUp):
            bridge.receive(theirs)


def test_the_bridge_serves_the_next_client_after_one_that_was_refused(bridge):
    class NoDevice:
        """Nothing is asked of the robot by clients that are refused."""

    listener = bridge.listen(None, 0)
    server = bridge.Server(NoDevice(), "secret-token")
    threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
    for request, says in (
        ({"kind": "observe"}, "the first request must be `hello`"),
        ({"kind": "hello", "protocol": 1, "token": "guess"}, "the token is wrong or missing"),
        ({"kind": "hello", "protocol": 1, "token": "\ud800"}, "the token is wrong or missing"),
        ({"kind": "hello", "protocol": 9, "token": "secret-token"}, "different protocol versions"),
    ):
        with socket.create_connection(listener.getsockname()) as client:
            wire.send(client, request.pop("kind"), {}, **request)
            header, _ = wire.receive(client)
            assert header["kind"] == "refused" and says in header["what"]
