"""Policy servers and clients for tests: real sockets on this machine, each ended by its test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve as listen

from twinloop.episode import Camera, Schema, Signal
from twinloop.policies.interface import make_interface
from twinloop.policies.serve import Door, serve
from twinloop.testing.policies import ProportionalPolicy

SCHEMA = Schema(
    (
        Signal("observation.state", (2,), ("rad",), elements=("a.pos", "b.pos")),
        Signal("action", (2,), ("rad",), elements=("a.target", "b.target")),
    ),
    20.0,
    (Camera("front", 4, 6),),
)


class CountingPolicy(ProportionalPolicy):
    """Its chunk says with which seed the episode began and how often it was asked since."""

    def __init__(self, name: str = "counting") -> None:
        super().__init__(SCHEMA, np.ones(2), name=name)
        self.interface = make_interface(SCHEMA, ["observation.state"], name, ["front"])
        self._seed = self._asked = 0

    def reset(self, seed: int) -> None:
        self._seed, self._asked = seed, 0

    def infer(self, observation: Any) -> Any:
        self._asked += 1
        return np.array([[self._seed, self._asked]] * 3, np.float32)


class StatelessPolicy(ProportionalPolicy):
    """Proportional control in many episodes at once."""

    stateless = True

    def __init__(self) -> None:
        super().__init__(SCHEMA, np.ones(2), name="stateless")
        self.interface = make_interface(SCHEMA, ["observation.state"], "stateless", ["front"])

    def reset_batch(self, rows: Any, seeds: Any, *, real: bool) -> None:
        pass

    def infer_batch(self, observation: Any, rows: Any) -> Any:
        return np.stack(
            [self.infer({"observation.state": state[0]}) for state in observation["observation.state"]]
        )


@contextmanager
def served(policy: Any, **door: Any) -> Iterator[str]:
    """Serve a policy in a thread; gives its address."""
    ready, stop, place = threading.Event(), asyncio.Event(), {}

    def on_ready(address: str) -> None:
        place.update(address=address, loop=asyncio.get_running_loop())
        ready.set()

    options = {"on_ready": on_ready, "stop": stop}
    thread = threading.Thread(target=serve, args=(policy, Door(port=0, **door)), kwargs=options)
    thread.start()
    try:
        assert ready.wait(20)
        yield place["address"]
    finally:
        if place:
            place["loop"].call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def scripted(talk: Callable[[Any], None], **options: Any) -> Iterator[str]:
    """A WebSocket server that does with each client what `talk` says, and hangs up; gives its address."""

    def attend(connection: Any) -> None:
        try:
            talk(connection)
        except (ConnectionClosed, TimeoutError):
            return

    with listen(attend, "127.0.0.1", 0, compression=None, close_timeout=0.1, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join(20)


@contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator[dict[str, Any]]:
    """Run a server in a process of its own; gives the JSON document that it prints once it is ready."""
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, text=True, **options
    ) as server:
        try:
            lines: list[str] = []
            for line in server.stdout or ():
                if lines or line.startswith("{"):
                    lines.append(line)
                with contextlib.suppress(ValueError):
                    said = json.loads("".join(lines))
                    break
            else:
                raise AssertionError(f"the server ended with {server.wait()}")
            yield said
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def make_certificate(folder: Path, name: str) -> None:
    """Write NAME.pem and NAME.key, which say that this is localhost."""
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.pem", *names]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
