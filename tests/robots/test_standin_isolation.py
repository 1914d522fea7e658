"""The truth about a stand-in stays in its process: only signals cross the socket."""

import ast
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from twinloop.robots import RemoteRobot

PACKAGE = Path(__file__).parent.parent.parent / "twinloop"
HIDDEN = "twinloop.robots.standin"
FRONT_DOOR = PACKAGE / "cli" / "record.py"
"""The command that runs the server in its own process; nothing else may touch the stand-in's inside."""


def outside():
    return [path for path in PACKAGE.rglob("*.py") if PACKAGE / "robots" / "standin" not in path.parents]


def test_nothing_outside_the_stand_in_imports_it():
    for path in outside():
        if path == FRONT_DOOR:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            assert not any(name.startswith(HIDDEN) for name in names), path


def test_the_front_door_opens_inside_the_serving_command_only():
    tree = ast.parse(FRONT_DOOR.read_text())
    users = [
        function.name
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HIDDEN)
    ]
    assert set(users) == {"standin", "_print_realities", "_print_effects"}, (
        "the command and what prints its lists"
    )
    top = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert not any((module or "").startswith(HIDDEN) for module in top)


def test_nothing_outside_the_stand_in_knows_where_realities_are():
    for path in outside():
        words = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
        assert not any(isinstance(word, str) and "realities" in word for word in words), path


class Tap(threading.Thread):
    """Passes every byte between a client and the server, and keeps a copy."""

    def __init__(self, server, own):
        super().__init__(daemon=True)
        self.server, self.own, self.copy = server, own, bytearray()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(own)
        self.listener.listen(1)

    def run(self):
        client, _ = self.listener.accept()
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(self.server)
        back = threading.Thread(target=self.carry, args=(server, client), daemon=True)
        back.start()
        self.carry(client, server)
        back.join()
        for end in (client, server, self.listener):
            end.close()

    def carry(self, source, sink):
        while piece := source.recv(1 << 16):
            self.copy += piece
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


def distinctive_reality():
    """A reality in which every effect that is a number has a value that does not occur by chance."""
    done = subprocess.run(
        [Path(sys.executable).with_name("twinloop"), "standin", "--list-effects", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    content = {}
    for row in json.loads(done.stdout):
        if row["block"] == "drift" or isinstance(row["default"], int):
            continue
        if row["key"] == "encoder_quantum_rad":
            continue  # a reading of one encoder step is a signal, and equal to it
        middle = row["default"] if row["default"] is not None else 0.5 * (row["low"] + row["high"])
        span = row["high"] - row["low"]
        value = float(np.clip(middle + span * rng.uniform(0.001, 0.01), row["low"], row["high"]))
        content.setdefault(row["block"], {})[row["key"]] = value
    return content


def test_no_hidden_value_or_name_crosses_the_socket(standin, reality_file, tmp_path):
    content = distinctive_reality()
    robot = standin(reality_file(yaml.safe_dump(content)))
    robot._hang_up()
    tap = Tap(robot._address, str(tmp_path / "tap.sock"))
    tap.start()
    client = RemoteRobot(str(tmp_path / "tap.sock"), token=robot._token)
    client.connect()
    client.prepare(1)
    for _ in range(40):
        client.observe()
        client.act(client.steer())
        client.judge()
    client.judge(over=True)
    client.wait(3)
    client.close()
    tap.join(10)
    said = bytes(tap.copy)
    assert len(said) > 10_000
    hidden = [(block, key, value) for block, keys in content.items() for key, value in keys.items()]
    assert len(hidden) > 80
    for block, key, value in hidden:
        for packed in (struct.pack("<d", value), struct.pack("<f", value), struct.pack(">d", value)):
            assert packed not in said, f"{block}.{key} crossed the socket as bytes"
        for digits in (repr(value), f"{value:.6g}"):
            assert digits.encode() not in said, f"{block}.{key} crossed the socket as text"
        assert key.encode() not in said, f"the name {key} crossed the socket"
    assert str(tmp_path).encode() not in said


def test_the_client_process_never_opens_the_reality(reality_file, tmp_path):
    path = reality_file("object: {mass_scale: 1.37}", name="secret_cell")
    program = f"""
import sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from twinloop.robots import connected, open_robot
robot = open_robot("standin:{path}")
with connected(robot):
    robot.act(robot.observe().signals["observation.state"])
assert any("twinloop" in name for name in opened)
assert not any("secret_cell" in name or "realities" in name for name in opened), opened
assert not any(name.startswith("{HIDDEN}") for name in sys.modules)
assert "pybullet" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_errors_of_the_server_name_no_hidden_value(standin, reality_file):
    robot = standin(reality_file("object: {mass_scale: 1.3719}"))
    for bad in ({"kind": "reveal"}, {"kind": "wait", "steps": -1}, {"kind": "observe", "cameras": ["x"]}):
        with pytest.raises(Exception, match=r".") as caught:
            robot._ask(bad.pop("kind"), **bad)
        assert "1.37" not in str(caught.value) and "mass_scale" not in str(caught.value)


def test_a_stand_in_ends_with_a_process_that_was_killed():
    code = (
        "import sys\n"
        "from twinloop.robots import open_robot\n"
        "robot = open_robot('standin:ideal')\n"
        "robot.connect()\n"
        "print(robot._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdout is not None and client.stdin is not None
    standin = int(client.stdout.readline())
    assert _alive(standin)
    client.kill()
    client.wait()
    client.stdin.close()
    client.stdout.close()
    for _ in range(300):
        if not _alive(standin):
            return
        time.sleep(0.1)
    os.kill(standin, signal.SIGKILL)
    raise AssertionError("the stand-in outlived its parent")


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
